"""How ranks of torchrun end, in Python: no row is lost, and the run has the reason."""

import os
import signal
import sys
import unittest

import node
import torchrun


def setUpModule():
    node.require("torch")


class EndsTest(torchrun.TorchrunTest):
    def check_end(self, how, rank=0):
        output = self.train(2, "ends", how, rank, code=1)
        (run,) = self.new_runs()
        self.check_steps(run, 2, 20)
        return run, output

    def test_uncaught_exception_fails_the_run(self):
        run, output = self.check_end("exception")
        self.assertEqual((run["state"], run["exit_code"]), ("failed", 1))
        self.assertIn("the loss is NaN", output)

    def test_exit_code_is_that_of_the_run(self):
        run, _ = self.check_end("exit")
        self.assertEqual((run["state"], run["exit_code"]), ("failed", 3))

    def test_os_exit_loses_nothing(self):
        run, _ = self.check_end("os_exit")
        # Before Linux 6.15, the daemon may not learn the code.
        self.assertIn(run["state"], ("failed", "crashed"))
        self.assertIn("without Finish()", run["reason"])

    def test_kill_loses_nothing(self):
        run, _ = self.check_end("kill")
        self.assertEqual(run["state"], "crashed")
        self.assertIn("killed by signal 9", run["reason"])

    def test_killed_secondary_rank_loses_nothing(self):
        run, _ = self.check_end("kill", rank=1)
        self.assertEqual(run["state"], "crashed")

    def test_ctrl_c_ends_the_run_with_130(self):
        process = self.start(sys.executable, torchrun.HERE / "torch_rank.py", "waits")
        self.wait_for("logged", process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=torchrun.TIMEOUT)
        self.assertEqual(process.returncode, -signal.SIGINT)
        (run,) = self.new_runs()
        self.assertEqual((run["state"], run["exit_code"]), ("failed", 130))
        self.check_steps(run, 1, 20)

    def test_ctrl_c_under_torchrun_loses_nothing(self):
        process = self.start(*self.torchrun(2), torchrun.HERE / "torch_rank.py", "waits")
        self.wait_for("logged", process, times=2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
        process.communicate(timeout=torchrun.TIMEOUT)
        (run,) = self.new_runs()
        self.assertIn(run["state"], ("failed", "crashed"))
        self.check_steps(run, 2, 20)


if __name__ == "__main__":
    unittest.main()
