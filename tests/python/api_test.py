"""ranklog.Api(): the runs of this node."""

import os
import unittest

import node

os.environ["PATH"] = f"{node.BIN}:{os.environ['PATH']}"
import ranklog  # noqa: E402  # its programs are those of the build
from ranklog.api import ApiError  # noqa: E402

LOGS = """
import ranklog
for name, code in (("first", 0), ("second", 3)):
    about = {"group": "g", "job_type": "train", "tags": ["a", "b"], "notes": "n"}
    run = ranklog.init(project="api", name=name, config={"lr": 0.5, "deep": {"x": [1]}}, **about)
    for step in range(10):
        run.log({"loss": 1 / (step + 1), **({"acc": step} if step % 2 else {})})
    run.summary["best"] = 0.25
    run.finish(code)
ranklog.init(project="other").log({"nan": float("nan")})
"""


class Api(node.NodeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().python(LOGS)
        cls.api = ranklog.Api(state_dir=cls.dir / "state")

    def test_lists_runs_by_project_and_state(self):
        self.assertEqual([run.name for run in self.api.runs("api")], ["second", "first"])
        self.assertEqual([run.name for run in self.api.runs("team/api", state="failed")], ["second"])
        self.assertEqual([run.project for run in self.api.runs()], ["other", "api", "api"])
        self.assertEqual(self.api.runs(project="none"), [])

    def test_run_has_its_content(self):
        run = self.api.run("api/first")
        self.assertEqual((run.name, run.project, run.state, run.group), ("first", "api", "finished", "g"))
        self.assertEqual((run.job_type, run.tags, run.notes, run.url), ("train", ["a", "b"], "n", None))
        self.assertEqual((run.config["lr"], run.config["deep"]), (0.5, {"x": [1]}))
        self.assertEqual((run.summary["best"], run.summary["loss"]), (0.25, 0.1))
        self.assertEqual(self.api.run(run.id).id, run.id)
        self.assertEqual(self.api.runs("api")[1].config["lr"], 0.5)

    def test_history(self):
        run = self.api.run("first")
        rows = run.history(pandas=False)
        self.assertEqual([row["_step"] for row in rows], list(range(10)))
        self.assertEqual(run.history(keys=["acc"], pandas=False)[0], {"_step": 1, "acc": 1})
        self.assertEqual([row["_step"] for row in run.history(samples=5, pandas=False)], [0, 2, 4, 6, 8])
        self.assertEqual(next(run.scan_history(keys=["loss", "acc"])), {"loss": 0.5, "acc": 1})
        self.assertEqual(list(run.scan_history(keys=["loss", "none"])), [])
        self.assertEqual(len(list(run.scan_history())), 10)
        value = self.api.run("other/latest").history(keys=["nan"], pandas=False)[0]["nan"]
        self.assertNotEqual(value, value)

    def test_errors_say_what_failed(self):
        with self.assertRaisesRegex(ApiError, "no run is called 'nosuch'"):
            self.api.run("nosuch")
        with self.assertRaisesRegex(ApiError, "--state-dir"):
            ranklog.Api(state_dir=self.dir / "nowhere").runs()


if __name__ == "__main__":
    unittest.main()
