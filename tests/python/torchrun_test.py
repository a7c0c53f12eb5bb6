"""Ranks that the real torchrun starts, in Python: which runs they make."""

import unittest

import node
import torchrun


def setUpModule():
    node.require("torch")


class RanksTest(torchrun.TorchrunTest):
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


if __name__ == "__main__":
    unittest.main()
