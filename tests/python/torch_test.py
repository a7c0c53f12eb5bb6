"""Values of torch, and data loaders whose workers are processes."""

import json
import math
import sys
import unittest

import node
from torchrun import HERE, TorchrunTest


def setUpModule():
    node.require("torch")


class TorchTest(TorchrunTest):
    def log(self, *arguments):
        self.run_to_end(sys.executable, HERE / "torch_rank.py", *arguments)
        (run,) = self.new_runs()
        self.check_nothing_lost(run, ranks=1)
        self.assertEqual(run["state"], "finished")
        return run

    def test_tensors_are_numbers(self):
        run = self.log("values")
        rows = self.rows(run["run_id"])
        self.assertEqual([rows[0][key] for key in ("float", "parameter", "half")], [0.25, 1.0, 1.5])
        self.assertEqual([rows[1][key] for key in ("int", "flag", "one")], [7, True, 3.5])
        self.assertIs(rows[1]["flag"], True)
        self.assertIsInstance(rows[1]["int"], int)
        self.assertTrue(math.isnan(rows[1]["nan"]))
        self.assertEqual((rows[2]["nested"], rows[2]["list"]), ({"loss": 2.0}, [1, 2, 3]))
        shown = json.loads(self.cli("show", "--json", run["run_id"]))
        self.assertEqual((shown["config"]["lr"], shown["summary"]["best"]), (0.5, 0.25))

    def check_loader(self, method, logs):
        rows = self.rows_of_ranks(self.log("loader", method, logs))
        self.assertEqual([row["step"] for row in rows if "loss" in row["values"]], list(range(17)))
        read = [key for row in rows for key in row["values"] if key.startswith("read/")]
        self.assertEqual(sorted(read), sorted([f"read/{i}" for i in range(32)] * 2) if logs == "logs" else [])

    def test_forked_workers_of_a_data_loader_leave_the_run_alone(self):
        self.check_loader("fork", "silent")

    def test_forked_workers_of_a_data_loader_log(self):
        self.check_loader("fork", "logs")

    def test_spawned_workers_of_a_data_loader_log(self):
        self.check_loader("spawn", "logs")


if __name__ == "__main__":
    unittest.main()
