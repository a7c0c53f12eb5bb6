"""Rows with numbers that a GPU has not computed yet.

To read such a number is to wait for the GPU, which then idles until the program starts the next kernels. So `log()` only starts a
copy of the number to pinned memory, and the row waits here. Later rows of its thread wait behind it, so their order is that of the
calls. The next call of `log()` by this thread writes the rows whose copies are there. GPUs here are CUDA's and ROCm's.

No thread of the package does it, for two reasons. The library orders the steps of each thread that logs, so the rows of another
thread would be refused or joined differently. And a question about an event by another thread breaks a capture of a CUDA graph.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from ranklog import _values
from ranklog._warn import warn_once

if TYPE_CHECKING:
    from ranklog._run import Run

# Rows of a thread. A program is at most some thousand kernels ahead of its GPU, so only a GPU that hangs has as many rows behind.
BOUND = 1024
_POLL = 0.001  # seconds between two looks. Event.synchronize() would not end by Ctrl-C or a timeout
_DEPTH = 8  # of objects in a row whose numbers are not waited for


def record(device: int) -> Any:
    """An event after all that the device's current stream has to do."""
    torch = sys.modules["torch"]
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event


# ---- Rows ----


class Late:
    """A number whose copy has begun."""

    def __init__(self, host: Any) -> None:
        self.host = host


def _on_gpu(value: Any) -> bool:
    if not _values.is_array(type(value)) or getattr(value, "is_cuda", False) is not True:
        return False
    return all(length == 1 for length in value.shape)


def _tell(error: Exception) -> None:
    warn_once(f"a number on the GPU cannot be read, and is left out: {error}")


def _started(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The row by plain values, or by `Late` ones, which can be read after the events."""
    devices = set()

    def plain(value: Any, depth: int = 0) -> Any:
        if type(value) is dict and depth < _DEPTH:
            return {str(key): plain(item, depth + 1) for key, item in value.items()}
        try:
            if not _on_gpu(value):
                return _values.plain(value)
            host = value.detach().to("cpu", non_blocking=True)  # pinned by PyTorch
            devices.add(value.device.index)
        except Exception as error:
            _tell(error)
            return None
        return Late(host)

    values = {key: plain(value) for key, value in data.items()}
    values = {key: value for key, value in values.items() if value is not None}
    try:
        return values, [record(device) for device in devices]
    except Exception as error:
        _tell(error)
        return _settled(values, arrived=False), []


def _settled(values: dict[str, Any], arrived: bool) -> dict[str, Any]:
    """The row with the numbers that have arrived, or without those that have not."""
    row = {}
    for key, value in values.items():
        if isinstance(value, dict):
            row[key] = _settled(value, arrived)
        elif not isinstance(value, Late):
            row[key] = value
        elif arrived:
            row[key] = _values.plain(value.host)
    return row


class _Row:
    """A call of log() that waits."""

    def __init__(self, values: dict[str, Any], events: list[Any], step: Optional[int], commit: Optional[bool]) -> None:
        self._values = values
        self._events = events
        self._step = step
        self._commit = commit

    def arrived(self) -> bool:
        """Also if the GPU has failed: then without its numbers."""
        try:
            while self._events:
                if not self._events[-1].query():
                    return False
                self._events.pop()
        except Exception as error:
            _tell(error)
            self.give_up()
        return True

    def give_up(self) -> None:
        self._events = []
        self._values = _settled(self._values, arrived=False)

    def log(self, run: Run) -> None:
        run._log_plain(_settled(self._values, arrived=True), self._step, self._commit)

    def step_after(self, step: int) -> int:
        """The step of the next row, if `step` was that of this one. See README.md, Steps."""
        if self._step is None:
            return step if self._commit is not None and not self._commit else step + 1
        if self._step < step:
            return step  # it will be refused
        return self._step + 1 if self._commit else self._step


# ---- The rows of a run ----


class Queue:
    """The rows of a run that wait, for each thread. False if there are none."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.RLock()
        self._rows: dict[int, deque[_Row]] = {}
        self.step = 0  # of the next row after them

    def __bool__(self) -> bool:
        return bool(self._rows)

    def log(self, data: Mapping[str, Any], step: Optional[int], commit: Optional[bool]) -> None:
        """Logs a row, or lets it wait. Waits only if the thread has too many rows here."""
        run, thread = self._run, threading.get_ident()
        values, events = _started(data)
        if self._rows:
            self._write(thread)
        if not events and thread not in self._rows:
            run._log_plain(values, step, commit)
            return
        while len(self._rows.get(thread, ())) >= BOUND:
            time.sleep(_POLL)
            self._write(thread)
        row = _Row(values, events, step, commit)
        with self._lock:
            self.step = row.step_after(run.step)
            self._rows.setdefault(thread, deque()).append(row)
            run._follow()

    def wait(self, seconds: float) -> bool:
        """Writes all rows once they have arrived, and returns whether it did so in time."""
        deadline = time.monotonic() + seconds
        while True:
            for thread in list(self._rows):
                self._write(thread)
            if not self._rows or time.monotonic() >= deadline:
                return not self._rows
            time.sleep(_POLL)

    def give_up(self) -> None:
        """Writes all rows, without the numbers that have not arrived."""
        for thread in list(self._rows):
            with self._lock:
                for row in self._rows.get(thread, ()):
                    if not row.arrived():
                        warn_once("the GPU did not compute all logged numbers in time; they are left out. See finish_timeout")
                        row.give_up()
            self._write(thread)

    def _write(self, thread: int) -> None:
        """Writes the oldest rows of a thread, as far as they have arrived."""
        arrived: list[_Row] = []
        with self._lock:
            rows = self._rows.get(thread, deque())
            while rows and rows[0].arrived():
                arrived.append(rows.popleft())
            if not rows:
                self._rows.pop(thread, None)
            self._run._follow()
        if not arrived:
            return
        if thread != threading.get_ident():
            # Not by this thread, which may have logged larger steps.
            helper = threading.Thread(target=self._log_all, args=(arrived,), name="ranklog-rows", daemon=True)
            try:
                helper.start()
                helper.join()
                return
            except RuntimeError:  # the process has too many threads, or ends
                pass
        self._log_all(arrived)

    def _log_all(self, rows: list[_Row]) -> None:
        for row in rows:
            try:
                row.log(self._run)
            except Exception as error:
                warn_once(f"a row was not logged: {error}")


_of_parents: list[Queue] = []


def after_fork_in_child(run: Run) -> None:
    """The rows are the parent's to write. They are kept, because a forked child must not free what belongs to the GPU."""
    _of_parents.append(run._late)
    run._late = Queue(run)
