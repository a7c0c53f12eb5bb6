"""A GPU for tests on machines without one: tensors whose numbers exist only once `stream.run()` was called.

What is faked: the tensor, its copy in pinned memory, and PyTorch's events, by PyTorch's names. `record()` of the package is replaced.
`item()` of a tensor raises, because on a GPU it would wait. A copy that is read too early raises, too.
"""

import threading
import types

from ranklog import _cuda


class Stream:
    """Does its work in order, when told."""

    def __init__(self):
        self.work = []
        self.error = None
        self.asked = 0  # questions whether it has come to an event

    def run(self):
        while self.work:
            self.work.pop(0)()

    def fail(self, error):
        """As after an assertion on a device: each later call raises."""
        self.error = error
        self.run()

    def run_once_awaited(self):
        """In a thread, once somebody waits: asks again and again."""
        end = self.asked + 20

        def work():
            while self.asked < end:
                threading.Event().wait(0.001)
            self.run()

        threading.Thread(target=work, daemon=True).start()


class Event:
    def __init__(self, stream):
        self.stream = stream
        self.done = False
        stream.work.append(self.set)

    def set(self):
        self.done = True

    def query(self):
        self.stream.asked += 1
        if self.stream.error is not None:
            raise self.stream.error
        return self.done


class Pinned:
    is_cuda = False
    shape = ()

    def __init__(self):
        self.numbers = []  # not there yet

    def item(self):
        return self.numbers[0]

    tolist = item


class Tensor:
    is_cuda = True
    device = types.SimpleNamespace(type="cuda", index=0)
    shape = ()

    def __init__(self, number):
        self.number = number

    def item(self):
        raise AssertionError("this would wait for the GPU")

    tolist = item

    def detach(self):
        return self

    def to(self, device, non_blocking=False):
        assert device == "cpu" and non_blocking
        copy = Pinned()
        stream.work.append(lambda: copy.numbers.append(self.number))
        return copy


def record(device):
    assert device == Tensor.device.index
    return Event(stream)


stream = Stream()
_cuda.record = record
