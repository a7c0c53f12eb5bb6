"""Ranks that the real torchrun starts, in Python: their rows and their ends are those of the C++ library."""

import os
import signal
import sys
import unittest

import node
import torchrun


def setUpModule():
    node.require("torch")


class RanksFixture(torchrun.TorchrunTest):
    def train(self, ranks, case, *arguments, options=(), code=0, **environment):
        command = self.torchrun(ranks, *options)
        return self.run_to_end(*command, torchrun.HERE / "torch_rank.py", case, *arguments, code=code, **environment)

    def check_steps(self, run, ranks, steps):
        """Each rank's rows are all there, in their order, with the values that it logged."""
        rows = self.rows_of_ranks(run)
        for rank in range(ranks):
            own = [row for row in rows if row["rank"] == rank]
            self.assertEqual([row["step"] for row in own], list(range(steps)), f"rank {rank}")
            self.assertEqual([row["values"]["loss"] for row in own], [1000.0 * rank + step for step in range(steps)])
        self.check_nothing_lost(run, ranks)


class RanksTest(RanksFixture):
    def test_three_ranks_make_one_run_with_statistics(self):
        self.train(3, "train")
        (run,) = self.new_runs()
        self.assertEqual((run["state"], run["rows"], [rank["rows"] for rank in run["ranks"]]), ("finished", 20, [20] * 3))
        for step, row in enumerate(self.rows(run["run_id"])):
            self.assertEqual((row["_step"], row["rank_is"], row["rank_mean/rank_is"], row["rank_max/rank_is"]), (step, 0, 1, 2))
            self.assertLessEqual(row["rank_min/train/loss"], row["train/loss"])
            self.assertNotIn("rank_mean/same", row)

    def test_each_rank_has_a_run_with_strategy_all(self):
        self.train(2, "train", RANKLOG_LOG_STRATEGY="all")
        runs = sorted(self.new_runs(2), key=lambda run: run["name"])
        self.assertEqual([run["name"] for run in runs], ["rank-0", "rank-1"])
        self.assertEqual({run["group"] for run in runs}, {runs[0]["group"]})
        for rank, run in enumerate(runs):
            self.assertEqual([row["rank_is"] for row in self.rows(run["run_id"])], [rank] * 20)

    def test_restarted_ranks_continue_the_run(self):
        self.train(2, "restarted", options=("--max_restarts", "1"))
        (run,) = self.new_runs()
        self.assertEqual((run["state"], run["rows"], run["last_step"]), ("finished", 40, 39))
        self.check_steps(run, 2, 40)


class EndsTest(RanksFixture):
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
