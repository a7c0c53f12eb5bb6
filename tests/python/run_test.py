"""init(), config, summary, files, and the functions of the module."""

import json
import unittest

import node


class Runs(node.NodeTest):
    def test_init_with_the_arguments_of_wandb(self):
        self.python("""
            import ranklog as wandb
            run = wandb.init("team", project="llm", id="init-1", name="first", group="g", job_type="train", tags=["a", "b"], notes="n",
                             config={"lr": 3e-4, "model": {"layers": 12}}, dir=".", reinit=True, resume="allow", save_code=False,
                             settings=wandb.Settings(log_strategy="all", run_tags=("b", "c"), run_name="other"))
            assert (run.id, run.name, run.project, run.entity, run.group, run.job_type) == ("init-1", "first", "llm", "team", "g", "train")
            assert run.settings.log_strategy == "all" and run.settings.tags == ["a", "b"], run.settings
            assert run.tags == ("a", "b") and run.notes == "n" and run.path == "team/llm/init-1", (run.tags, run.path)
            assert run.url is None and not run.resumed and run.step == 0 and not run.disabled
            run.log({"a": 1})
            run.finish()
        """)
        run = self.latest_in("finished")
        self.assertEqual((run["run_id"], run["project"], run["group"], run["strategy"]), ("init-1-0", "llm", "g", "all"))  # of rank 0
        self.assertEqual((run["config"]["lr"], run["config"]["model"]), (3e-4, {"layers": 12}))

    def test_metadata_is_that_of_the_script(self):
        self.python("import ranklog\nranklog.init().log({'a': 1})", "--lr", "1")
        metadata = self.latest_in("finished")["metadata"]
        self.assertEqual((metadata["program"], metadata["args"]), (str(self.dir / "train.py"), ["--lr", "1"]))

    def test_strategy_by_variable(self):
        self.python("import ranklog\nranklog.init()\nranklog.log({'a': 1})", env={"RANKLOG_LOG_STRATEGY": "node"})
        self.assertEqual(self.latest_in("finished")["strategy"], "node")

    def test_wrong_arguments_raise_as_at_wandb(self):
        self.python("""
            import ranklog
            for wrong in (dict(resume="bogus"), dict(mode="bogus"), dict(config=5)):
                try:
                    ranklog.init(**wrong)
                except ranklog.Error:
                    ranklog.teardown()
                else:
                    raise SystemExit(f"{wrong} was accepted")
        """)

    def test_a_wrong_config_opens_no_run(self):
        (self.dir / "list.yaml").write_text("[1, 2]")
        self.python("""
            import ranklog
            for wrong in ("nofile.yaml", "list.yaml", [1]):
                try:
                    ranklog.init(project="first", config=wrong)
                except (ranklog.Error, OSError):
                    pass
                else:
                    raise SystemExit(f"{wrong} was accepted")
            run = ranklog.init(project="second")
            assert run.project == "second" and ranklog.run is run
        """)

    def test_unknown_settings_are_told_and_do_not_stop(self):
        printed = self.python("""
            import ranklog
            run = ranklog.init(settings={"x_unknown": 1, "log_strategy": "some", "start_method": "fork"})
            run.log({"a": 1})
        """)
        self.assertIn("the setting x_unknown has no effect", printed)
        self.assertIn("the setting log_strategy is unknown, or its value cannot be used", printed)
        self.assertEqual(self.rows(), [{"_step": 0, "a": 1}])

    def test_config(self):
        self.python("""
            import argparse
            import ranklog
            run = ranklog.init(config={"lr": 1, "seed": 2, "hidden": 3}, config_exclude_keys=["hidden"])
            config = ranklog.config
            assert config is run.config and config.lr == config["lr"] == config.get("lr") == 1 and "hidden" not in config
            config.update(argparse.Namespace(batch=4, layers=[1, 2]))
            config.epochs = 5
            config["nested"] = {"a": (1, 2)}
            config.setdefaults({"lr": 9, "extra": 6})
            config.update({"lr": 1})
            for change in (lambda: config.update({"lr": 2}), lambda: setattr(config, "lr", 2), lambda: config.__setitem__("lr", 2)):
                try:
                    change()
                except ranklog.errors.ConfigError:
                    pass
                else:
                    raise SystemExit("the change was accepted")
            config.update({"lr": 7}, allow_val_change=True)
            assert config.as_dict() == dict(config) and len(config) == 7
            try:
                config.absent
            except AttributeError:
                pass
            else:
                raise SystemExit("no AttributeError")
        """)
        config = self.latest_in("finished")["config"]
        expected = {"lr": 7, "seed": 2, "batch": 4, "layers": [1, 2], "epochs": 5, "nested": {"a": [1, 2]}, "extra": 6}
        self.assertEqual({key: config[key] for key in expected}, expected)
        self.assertNotIn("hidden", config)

    def test_summary(self):
        self.python("""
            import ranklog
            run = ranklog.init()
            run.log({"loss": 3})
            run.summary["best"] = 1.5
            run.summary.update({"loss": 2, "nested": {"a": 1}})
            ranklog.summary.done = True
            assert ranklog.summary["best"] == 1.5 and ranklog.summary.get("absent") is None
        """)
        summary = self.latest_in("finished")["summary"]
        self.assertEqual({key: summary[key] for key in ("best", "loss", "nested", "done")}, {"best": 1.5, "loss": 2, "nested": {"a": 1}, "done": True})

    def test_summary_reads_what_was_logged(self):
        self.python("""
            import ranklog
            run = ranklog.init()
            assert dict(run.summary) == {}
            for i in range(3):
                run.log({"loss": 0.5 + i, "count": i, "flag": True, "text": f"t{i}", "none": None})
                run.log({"other": 2**60, "loss": 10.5 + i})
            run.log({"list": [1, 2], "count": 7})
            expected = {"loss": 12.5, "count": 7, "flag": True, "text": "t2", "other": 2**60, "list": [1, 2]}
            assert dict(run.summary) == expected, run.summary
            assert isinstance(run.summary["count"], int) and run.summary.flag is True
            run.summary["loss"] = 1
            assert run.summary["loss"] == 1 and "none" not in run.summary and run.summary.get("none") is None
            run.log({"loss": 3})
            assert run.summary["loss"] == 3
            for i in range(100):
                run.log({f"key{i}": i})
            assert run.summary["key99"] == 99
        """)

    def test_summary_while_another_thread_logs(self):
        self.python("""
            import sys, threading
            import ranklog
            sys.setswitchinterval(1e-5)
            run = ranklog.init()
            ends = threading.Event()
            def log():
                for i in range(20_000):
                    run.summary.remember({f"key{i}": [i]})
                ends.set()
            thread = threading.Thread(target=log)
            thread.start()
            while not ends.is_set():
                list(run.summary)
            thread.join()
            class Counts:
                count = 0
                def __call__(self):
                    self.count += 1
                    return last()
            last, counts = run._last, Counts()
            object.__setattr__(run.summary, "_last", counts)
            assert len(dict(run.summary)) == 20_000 and counts.count <= 1, counts.count
        """)

    def test_summary_sends_changes_of_its_objects(self):
        self.python("""
            import ranklog
            run = ranklog.init()
            run.summary["a"] = {"b": {"x": 1}, "d": 3}
            run.summary["a"]["c"] = 2
            run.summary["a"]["b"]["y"] = 4
            del run.summary["a"]["d"]
            assert run.summary["a"] == {"b": {"x": 1, "y": 4}, "c": 2}
        """)
        self.assertEqual(self.latest_in("finished")["summary"]["a"], {"b": {"x": 1, "y": 4}, "c": 2})

    def test_after_finish(self):
        self.python("""
            import ranklog
            run = ranklog.init(mode="online")
            assert not run.offline
            run.summary["a"] = 1
            run.finish(2**40)
            for call in (lambda: run.summary.update({"a": 2}), lambda: run.config.update({"a": 2})):
                try:
                    call()
                except ranklog.UsageError:
                    pass
                else:
                    raise SystemExit("a change after finish()")
            assert run.summary["a"] == 1 and "a" not in run.config
        """, env={"RANKLOG_DESTINATIONS": ""})  # fmt: skip
        self.latest_in("failed")

    def test_texts_that_are_not_utf8(self):
        self.python(r"""
            import ranklog
            run = ranklog.init(name="\ud800", tags=["\ud800"], config={"\ud800": "\ud800"})
            run.define_metric("\ud800", step_metric="\ud801")
            run.alert("\ud800", "\ud800")
            ranklog.Artifact("a\ud800", "t")
            run.log_artifact(ranklog.Artifact("a", "t\ud800", description="\ud800"))
            ranklog.run_id_for("\ud800", "")
        """)
        self.latest_in("finished")

    def test_define_metric(self):
        self.python("""
            import ranklog
            run = ranklog.init()
            ranklog.define_metric("epoch", hidden=True)
            run.define_metric("val/*", step_metric="epoch", summary="min,max")
            for value in (3, 1, 2):
                run.log({"epoch": value, "val/loss": value})
        """)
        self.assertEqual(self.latest_in("finished")["summary"]["val/loss"], {"min": 1, "max": 3})

    def test_context_manager(self):
        self.python("""
            import ranklog
            with ranklog.init(project="one") as run:
                run.log({"a": 1})
            assert ranklog.run is None
            with ranklog.init(project="two") as run:
                run.log({"a": 2})
                raise ValueError("stop")
        """, code=1)  # fmt: skip
        run = self.latest_in("failed")
        self.assertEqual((run["project"], run["exit_code"]), ("two", 1))

    def test_functions_of_the_module(self):
        self.python("""
            import ranklog
            from ranklog import log
            for call in (lambda: ranklog.log({"a": 1}), lambda: ranklog.config.lr, lambda: ranklog.save("x")):
                try:
                    call()
                except ranklog.Error:
                    pass
                else:
                    raise SystemExit("no Error before init()")
            assert ranklog.run is None
            run = ranklog.init()
            assert ranklog.run is run
            log({"a": 1})
            ranklog.log({"a": 2})
            ranklog.alert("title", "text", level=ranklog.AlertLevel.WARN)
            ranklog.finish()
            assert ranklog.run is None
            try:
                run.log({"a": 3})
            except ranklog.UsageError:
                pass
            else:
                raise SystemExit("log() after finish()")
            ranklog.finish()
        """)
        self.assertEqual(self.rows(), [{"_step": 0, "a": 1}, {"_step": 1, "a": 2}])

    def test_init_again(self):
        self.python("""
            import ranklog
            first = ranklog.init(project="first")
            assert ranklog.init(project="ignored", config={"a": 1}) is first and first.config.a == 1
            second = ranklog.init(project="second", reinit="create_new")
            assert second is not first and ranklog.run is second
            first.log({"a": 1})
            second.log({"a": 2})
            third = ranklog.init(project="third", reinit=True)
            assert ranklog.run is third
            for run in (first, second):
                try:
                    run.log({"a": 3})
                except ranklog.UsageError:
                    pass
                else:
                    raise SystemExit("an earlier run was not finished")
            third.finish()
        """)
        states = {run["project"]: run["state"] for run in self.runs()}
        self.assertEqual((states["first"], states["second"]), ("finished", "finished"))
        self.assertNotIn("ignored", states)

    def test_disabled(self):
        before = len(self.runs())
        self.python("""
            import ranklog
            run = ranklog.init(mode="disabled")
            assert run.disabled
            run.log({"a": 1})
            run.log({"a": 1}, commit=False)
            run.config.lr = 1
            run.finish()
        """)
        self.assertEqual(len(self.runs()), before)

    def test_files_and_artifacts(self):
        (self.dir / "data" / "sub").mkdir(parents=True)
        (self.dir / "data" / "a.txt").write_text("a")
        (self.dir / "data" / "sub" / "b.txt").write_text("b")
        self.python("""
            import os
            import ranklog
            run = ranklog.init(dir=".", save_code=True)
            artifact = ranklog.Artifact("model", "model", description="d", metadata={"accuracy": 0.5})
            artifact.add_file("data/a.txt")
            artifact.add_file("data/a.txt", name="renamed/c.txt")
            artifact.add_dir("data/sub", name="inner")
            artifact.add_reference("s3://bucket/key")
            with artifact.new_file("made.txt") as file:
                file.write("made")
            assert artifact.state == "draft"
            assert run.log_artifact(artifact, aliases=["best"]).wait().state == "staged"
            os.remove("data/a.txt")
            run.log_model("data/sub", name="weights")
            assert run.save("data/sub/*.txt", policy="now") == [os.path.abspath("data/sub/b.txt")]
            with open(os.path.join(run.dir, "in-dir.txt"), "w") as file:
                file.write("x")
            run.log_code(".").wait()
            try:
                artifact.new_file("../outside").__enter__()
            except ValueError:
                pass
            else:
                raise SystemExit("a name outside the artifact")
        """)
        self.latest_in("finished")
        found = {item["name"]: item for item in json.loads(self.cli("artifacts", "latest", "--json"))}
        self.assertEqual(sorted(file["path"] for file in found["model"]["files"]), ["a.txt", "inner/b.txt", "key", "made.txt", "renamed/c.txt"])
        self.assertEqual(found["model"]["aliases"], ["best"])
        self.assertEqual(found["weights"]["type"], "model")
        self.assertLessEqual({"data/sub/b.txt", "in-dir.txt", "code/train.py"}, set(found))
        self.assertEqual([item["type"] for name, item in found.items() if name.startswith("source-")], ["code"])

    def test_refused_upload_is_told_and_does_not_stop(self):
        printed = self.python("""
            import ranklog
            run = ranklog.init()
            assert run.log_artifact(ranklog.Artifact("a/b", "model")).state == "refused"
            run.log({"a": 1})
        """)
        self.assertIn("the artifact a/b is not uploaded", printed)

    def test_what_is_not_here_warns_once(self):
        printed = self.python("""
            import ranklog as wandb
            run = wandb.init()
            for _ in range(3):
                wandb.watch(None)
                run.watch(None)
                run.log({"video": wandb.Video("a.mp4"), "a": 1})
            wandb.plot.line_series(xs=[], ys=[])
            try:
                wandb.no_such_name
            except AttributeError:
                pass
            else:
                raise SystemExit("no AttributeError")
        """)
        for name in ("ranklog.watch", "run.watch", "ranklog.Video", "ranklog.plot.line_series"):
            self.assertEqual(printed.count(f"{name} is not supported"), 1, printed)
        self.assertEqual(self.rows(), [{"_step": step, "a": 1} for step in range(3)])

    def test_names_that_do_nothing_do_not_raise(self):
        printed = self.python("""
            import ranklog as wandb
            import ranklog.keras
            import ranklog.integration.lightning.fabric
            from ranklog.data_types import Image, Video
            from ranklog.integration.keras import WandbMetricsLogger
            from ranklog.sdk.data_types.image import Image as SameImage
            from ranklog.sdk.wandb_run import Run
            from ranklog.xgboost import wandb_callback
            assert Image is SameImage is wandb.Image and Run is wandb.Run and wandb.sdk.wandb_run.Run is Run
            run = wandb.init()
            class Clip(wandb.Video):
                def __init__(self):
                    super().__init__("a.mp4", fps=4)
            assert isinstance(Clip(), (wandb.Image, wandb.Video)) and not isinstance(1, wandb.Video) and issubclass(Clip, Video)
            run.log({"clip": Clip(), "clips": [wandb.Video("b.mp4")], "points": wandb.Object3D.from_file("c"), "a": 1})
            WandbMetricsLogger()
            wandb_callback()
            wandb.plot.line(None)
            assert wandb.restore("x") is run.restore("x") is wandb.use_model("x") is None
            artifact = wandb.Artifact("m", "model")
            assert not artifact.size > 3 and artifact.url is None and artifact.created_at is None and artifact.is_draft
            for name in ("api", "env", "EvalTable", "JoinedTable", "lightgbm", "wandb_sdk", "data_types"):
                getattr(wandb, name)
            assert (run.starting_step, run.sweep_url, run.project_url, run.config_static) == (0, None, None, run.config)
            run.config.persist()
            table = wandb.Table(columns=["a"], data=[[1], [2]])
            table.cast("a", int)
            assert table.get_index() == [0, 1]
            issubclass(wandb.errors.AuthenticationError, wandb.errors.CommError) and wandb.errors.UnsupportedError
            wandb.termwarn("told")
            try:
                import ranklog.no_such_module
            except ImportError:
                pass
            else:
                raise SystemExit("no ImportError")
            wandb.join()
            assert wandb.run is None
        """)
        for name in ("ranklog.Video", "ranklog.integration.keras.WandbMetricsLogger", "ranklog.xgboost.wandb_callback", "ranklog.restore", "Table.cast"):
            self.assertEqual(printed.count(f"{name} is not supported"), 1, printed)
        self.assertIn("ranklog: told", printed)
        self.assertEqual(self.rows(), [{"_step": 0, "a": 1}])


if __name__ == "__main__":
    unittest.main()
