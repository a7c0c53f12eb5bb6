"""The loggers for Lightning, Accelerate and transformers, in real trainings with the real packages on the CPU (S50)."""

import json
import os
import sys
import unittest

import node
import torchrun


def setUpModule():
    for framework in ("lightning", "pytorch_lightning", "accelerate", "transformers"):
        node.require(framework)


class FrameworksTest(torchrun.TorchrunTest):
    def train(self, framework, *arguments, ranks=1, launched=False):
        """Trains with `ranks`, which torchrun starts if `launched`. Returns the run."""
        program = self.torchrun(ranks) if launched else [sys.executable]
        folder = self.dir / self.id()
        self.run_to_end(*program, torchrun.HERE / "framework_training.py", framework, folder, *arguments)
        (run,) = self.new_runs()
        self.assertEqual((run["state"], run["project"]), ("finished", "frameworks"))
        self.check_nothing_lost(run, ranks)
        return run

    def show(self, run):
        return json.loads(self.cli("show", "--json", run["run_id"]))

    def models(self, run):
        return [item for item in json.loads(self.cli("artifacts", "--json", run["run_id"])) if item["type"] == "model"]

    def check_lightning(self, run, ranks):
        steps = 32 // ranks
        rows = self.rows(run["run_id"])
        self.assertEqual([row["_step"] for row in rows], list(range(steps)))
        self.assertTrue(all("train/loss" in row and row["trainer/global_step"] == row["_step"] for row in rows))
        self.assertEqual([row["_step"] for row in rows if "val/loss" in row], [steps // 2 - 1, steps - 1])
        self.assertEqual((rows[-1]["test/loss"], rows[-1]["step"]), (0.5, 1))
        shown = self.show(run)
        self.assertEqual((shown["config"]["lr"], shown["name"]), (0.1, "line"))
        self.assertEqual([item["name"] for item in self.models(run)], [f"model-{run['run_id']}"])
        if ranks == 2:
            self.assertEqual([(row["rank_min/rank_is"], row["rank_max/rank_is"]) for row in rows], [(0, 1)] * steps)
        return shown["config"]

    def test_lightning(self):
        self.assertTrue(self.check_lightning(self.train("lightning"), 1)["early"])

    def test_pytorch_lightning(self):
        self.check_lightning(self.train("pytorch_lightning"), 1)

    def test_ranks_that_lightning_starts(self):
        config = self.check_lightning(self.train("lightning", "2", "late", ranks=2), 2)
        self.assertEqual((config["world_size"], config.get("early")), (2, None))

    def test_run_that_is_used_before_lightning_starts_the_ranks(self):
        self.assertTrue(self.check_lightning(self.train("lightning", "2", ranks=2), 2)["early"])

    def test_lightning_under_torchrun(self):
        config = self.check_lightning(self.train("lightning", "2", ranks=2, launched=True), 2)
        self.assertEqual(config["world_size"], 2)

    def test_accelerate(self):
        run = self.train("accelerate", ranks=2, launched=True)
        rows = self.rows(run["run_id"])
        self.assertEqual([row["_step"] for row in rows], list(range(4)))
        self.assertEqual([(row["rank_is"], row["rank_max/rank_is"]) for row in rows], [(0, 1)] * 4)
        self.assertTrue(all(row["train/loss"] > 0 for row in rows))
        self.assertEqual(self.show(run)["config"]["lr"], 0.1)

    def test_transformers(self):
        run = self.train("transformers", ranks=2, launched=True)
        rows = self.rows(run["run_id"])
        self.assertEqual([row["_step"] for row in rows], [1, 2, 3, 4])
        self.assertTrue(all(row["train/loss"] > 0 and row["train/global_step"] == row["_step"] for row in rows))
        self.assertGreater(rows[-1]["eval/loss"], 0)
        shown = self.show(run)
        self.assertEqual((shown["config"]["hidden_size"], shown["config"]["max_steps"]), (8, 4))
        self.assertGreater(shown["summary"]["train_runtime"], 0)
        self.assertEqual([item["name"] for item in self.models(run)], [f"model-{run['run_id']}"] * 2)

    def test_history_is_a_data_frame(self):
        node.require("pandas")
        os.environ["PATH"] = f"{node.BIN}:{os.environ['PATH']}"
        from ranklog.api import Api

        run = self.train("accelerate")
        frame = Api(state_dir=self.dir / "state").run(run["run_id"]).history(keys=["train/loss"])
        self.assertEqual((list(frame.columns), list(frame["_step"])), (["_step", "train/loss"], list(range(8))))


if __name__ == "__main__":
    unittest.main()
