"""Numbers on a GPU: log() does not wait for them. By a fake GPU (fake_gpu.py), and by a real one where there is one."""

import pathlib
import subprocess
import sys
import textwrap
import unittest

import node

HERE = pathlib.Path(__file__).parent
# A program that waits for this stream in log() would wait forever: it runs only when told.
PRELUDE = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import os, threading
import ranklog
from ranklog import _cuda
from fake_gpu import Tensor, stream
"""


class CudaTest(node.NodeTest):
    def train(self, script, *arguments, **named):
        return self.python(PRELUDE + textwrap.dedent(script), *arguments, **named)

    def test_log_returns_while_the_gpu_works(self):
        self.train("""
            run = ranklog.init()
            run.log({"a": 0})
            run.log({"loss": Tensor(1.5), "a": 1, "in": {"one": Tensor(2), "two": 2}})
            run.log({"a": 2})
            run.log({"text": "x", "list": [1]})
            assert (run.stats["rows_logged"], run.step) == (1, 4)
            stream.run()
            run.log({"a": 4})
            assert run.stats["rows_logged"] == 5 and not run._slow
        """)
        self.assertEqual(self.rows(), [
            {"_step": 0, "a": 0}, {"_step": 1, "loss": 1.5, "a": 1, "in": {"one": 2, "two": 2}}, {"_step": 2, "a": 2},
            {"_step": 3, "text": "x", "list": [1]}, {"_step": 4, "a": 4}])  # fmt: skip

    def test_rows_are_those_of_numbers_on_the_cpu(self):
        script = """
            import random
            choose = random.Random(7)
            on_gpu = sys.argv[1] == "gpu"
            run = ranklog.init()
            for i in range(400):
                number = choose.random() < 0.4
                row = {f"m{choose.randrange(4)}": i}
                if number:
                    row["loss"] = Tensor(i) if on_gpu else i
                kind = choose.randrange(5)
                step = run.step + choose.choice((-1, 0, 1, 3)) if kind in (1, 2) else None
                run.log(row, step=step, commit={0: None, 1: None, 2: True, 3: False, 4: None}[kind])
                if choose.random() < 0.1:
                    stream.run()
                if choose.random() < 0.05:
                    stream.run()
                    assert run.flush()
                print(run.step)
            stream.run()
            run.finish()
        """
        steps = self.train(script, "cpu", env={"RANKLOG_QUIET": "1"})
        rows = self.rows()
        self.assertGreater(len(rows), 200)
        self.assertEqual(self.train(script, "gpu", env={"RANKLOG_QUIET": "1"}), steps)
        self.assertEqual(self.rows(), rows)

    def test_flush_waits_for_the_gpu(self):
        self.train("""
            run = ranklog.init()
            run.log({"loss": Tensor(1)}, commit=False)
            assert not run.flush(0.05)
            stream.run_once_awaited()
            assert run.flush() and run.stats["rows_durable"] == 1
            os._exit(0)
        """)
        self.assertEqual(self.rows(), [{"_step": 0, "loss": 1}])

    def test_ends_wait_for_the_gpu(self):
        for end, code, state in (("run.finish()", 0, "finished"), ("with run: pass", 0, "finished"), ("", 0, "finished"),
                                 ("raise SystemExit(3)", 3, "failed"), ("1 / 0", 1, "failed")):  # fmt: skip
            with self.subTest(end):
                self.train(f"""
                    run = ranklog.init()
                    run.log({{"loss": Tensor(1)}})
                    run.log({{"a": 2}})
                    stream.run_once_awaited()
                    {end}
                """, code=code)  # fmt: skip
                self.assertEqual(self.latest_in(state)["exit_code"], code)
                self.assertEqual(self.rows(), [{"_step": 0, "loss": 1}, {"_step": 1, "a": 2}])

    def test_summary_waits_for_the_gpu(self):
        self.train("""
            run = ranklog.init()
            run.log({"loss": Tensor(1), "best": 5})
            stream.run_once_awaited()
            assert run.summary["loss"] == 1
            run.log({"loss": Tensor(2), "best": 6})
            stream.run_once_awaited()
            run.summary["best"] = 1
            assert run.summary == {"loss": 2, "best": 1}, run.summary
        """)

    def test_log_waits_for_the_oldest_of_too_many_rows(self):
        self.train("""
            run = ranklog.init()
            for i in range(_cuda.BOUND):
                run.log({"loss": Tensor(i)})
            assert run.stats["rows_logged"] == 0
            copy, event, *later = stream.work
            stream.work = [copy, event]
            stream.run_once_awaited()
            run.log({"loss": 5000})
            assert run.stats["rows_logged"] == 1
            stream.work = later
            stream.run()
            run.finish()
        """)
        rows = self.rows()
        self.assertEqual([row["loss"] for row in rows], [*range(1024), 5000])
        self.assertEqual([row["_step"] for row in rows], list(range(1025)))

    def test_a_forked_child_leaves_the_rows_to_its_parent(self):
        self.train("""
            run = ranklog.init()
            run.log({"loss": Tensor(1)}, step=0)
            run.log({"a": 1}, step=1)
            child = os.fork()
            if child == 0:
                run.log({"child": Tensor(2)}, step=2)
                stream.run()
                os._exit(0 if run.flush() and run.stats["rows_logged"] == 1 else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert run.stats["rows_logged"] == 0
            stream.run()
            run.log({"a": 3}, step=3)
            run.finish()
        """)
        self.assertEqual(self.rows(), [{"_step": 0, "loss": 1}, {"_step": 1, "a": 1}, {"_step": 2, "child": 2}, {"_step": 3, "a": 3}])

    def test_each_thread_has_steps_of_its_own(self):
        self.train("""
            run = ranklog.init()
            def validate():
                run.log({"loss": Tensor(5)}, step=0)
                run.log({"accuracy": Tensor(6)}, step=1)
                run.log({"b": 7}, step=2)
            run.log({"a": Tensor(0)}, step=0)
            run.log({"a": 100}, step=100)
            thread = threading.Thread(target=validate)
            thread.start()
            thread.join()
            stream.run()
            run.finish()
            assert run.stats["rows_logged"] == 5, run.stats
        """)
        self.assertEqual(self.rows(), [
            {"_step": 0, "a": 0, "loss": 5}, {"_step": 1, "accuracy": 6}, {"_step": 2, "b": 7}, {"_step": 100, "a": 100}])  # fmt: skip

    def test_a_gpu_that_fails_costs_its_numbers_alone(self):
        printed = self.train("""
            run = ranklog.init()
            run.log({"loss": Tensor(1), "a": 1})
            run.log({"loss": Tensor(2), "a": 2})
            stream.fail(RuntimeError("device-side assert"))
            run.flush()
            run.log({"loss": Tensor(3), "a": 3})
        """)
        self.assertEqual(printed.count("device-side assert"), 1, printed)
        self.assertEqual(self.rows(), [{"_step": i, "a": i + 1} for i in range(3)])

    def test_a_copy_that_fails_costs_its_number_alone(self):
        printed = self.train("""
            class Lost(Tensor):
                def to(self, device, non_blocking=False):
                    raise RuntimeError("out of memory")
            run = ranklog.init()
            run.log({"lost": Lost(1), "loss": Tensor(1), "a": 1})
            stream.run()
        """)
        self.assertIn("out of memory", printed)
        self.assertEqual(self.rows(), [{"_step": 0, "a": 1, "loss": 1}])

    def test_a_gpu_that_hangs_does_not_hold_the_end(self):
        printed = self.train("""
            run = ranklog.init(settings=ranklog.Settings(finish_timeout=0.1))
            run.log({"loss": Tensor(1)})
            stream.run()
            run.log({"loss": Tensor(2), "a": 2})
            run.log({"a": 3})
        """)
        self.assertIn("in time", printed)
        self.latest_in("finished")
        self.assertEqual(self.rows(), [{"_step": 0, "loss": 1}, {"_step": 1, "a": 2}, {"_step": 2, "a": 3}])

    def test_ctrl_c_ends_the_wait_of_finish(self):
        printed = self.train("""
            import signal
            run = ranklog.init()
            run.log({"loss": Tensor(1), "a": 1})
            stream.run = lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            stream.run_once_awaited()
            try:
                run.finish()
            except KeyboardInterrupt:
                print("interrupted", ranklog.run)
        """)
        self.assertIn("interrupted None", printed)
        self.latest_in("finished")
        self.assertEqual(self.rows(), [{"_step": 0, "a": 1}])


def has_gpu():
    """In a process of its own: a forked child could not use the GPU after it."""
    asked = [sys.executable, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"]
    return subprocess.run(asked, check=False, capture_output=True).returncode == 0


# Also skipped with CI=true: no machine of CI has a GPU.
@unittest.skipUnless(has_gpu(), "PyTorch finds no GPU")
class RealGpuTest(node.NodeTest):
    def test_log_returns_while_the_gpu_works(self):
        self.python("""
            import os
            import ranklog, torch
            device = torch.device("cuda", torch.cuda.device_count() - 1)
            torch.cuda.set_device(device)
            one = torch.ones((), device=device)
            run = ranklog.init()
            def log(step):
                loss = one * 2
                run.log({"loss": loss, "int": loss.long() * 2**40, "flag": loss > 1, "half": loss.bfloat16(), "one": loss[None], "in": {"x": loss}}, step)
                loss.mul_(100)  # later than the row
            log(0)  # kernels are loaded and memory is pinned at the first use, which may wait
            assert run.flush()
            busy = torch.cuda.Event()
            torch.cuda._sleep(4_000_000_000)  # about two seconds
            busy.record()
            log(1)
            run.log({"a": 2}, step=2)
            assert not busy.query() and run.stats["rows_logged"] == 1, "log() waited"
            child = os.fork()
            if child == 0:
                run.log({"child": 1}, step=3)
                os._exit(0 if run.flush() else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert run.flush(60) and busy.query()

            run.log({"loss": one * 3}, step=4)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # the row waits meanwhile
                two = one + one
            graph.replay()
            run.log({"two": two}, step=4)
            run.finish()
        """)
        numbers = {"loss": 2, "int": 2**41, "flag": True, "half": 2, "one": 2, "in": {"x": 2}}
        self.assertEqual(self.rows(), [
            {"_step": 0, **numbers}, {"_step": 1, **numbers}, {"_step": 2, "a": 2}, {"_step": 3, "child": 1},
            {"_step": 4, "loss": 3, "two": 2}])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
