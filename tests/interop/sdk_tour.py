"""The official SDK, unmodified, uses the whole fake server: what it logs is held, and what it reads back is what it logged.

    sdk_tour.py FAKE_WANDB
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

PATH = "fake-team/interop"


def tour(home):
    import wandb

    def start(run_id=None, **init):
        settings = {"x_file_stream_transmit_interval": 1, "x_stats_sampling_interval": 0.2, "disable_git": True}
        shared = {key: init.pop(key) for key in ("x_label", "x_primary") if key in init}
        return wandb.init(
            project="interop", entity="fake-team", id=run_id, settings=wandb.Settings(**settings, **shared), **init
        )

    def artifact(run, name, *files, **log):
        made = wandb.Artifact(name, type="dataset", metadata={"rows": 1})
        for file in files:
            made.add_file(str(file))
        run.log_artifact(made, **log)
        return made.wait().version

    hello, other = home / "hello.txt", home / "other.txt"
    hello.write_text("hello\n")
    other.write_text("other\n")

    run = start("tour", name="tour", tags=["a"], notes="n", config={"lr": 1})
    print("to the terminal")
    for i in range(5):
        run.log({"loss": i})
    assert artifact(run, "data", hello, aliases=["best"]) == "v0"
    run.alert("title", "text", level=wandb.AlertLevel.WARN)
    run.save(str(other), base_path=str(home))
    run.log({"table": wandb.Table(columns=["a"], data=[[1]])})
    run.config.update({"lr": 2}, allow_val_change=True)
    run.finish()

    run = start("tour", resume="must")
    assert (run.starting_step, run.config["lr"]) == (6, 2), run.starting_step
    found = run.use_artifact("data:best").download(root=str(home / "download"))
    assert (pathlib.Path(found) / "hello.txt").read_text() == "hello\n"
    assert artifact(run, "data", hello, other) == "v1"
    run.log({"loss": 9})
    run.finish()

    run = start(resume_from="tour?_step=2")
    run.log({"loss": 7})
    time.sleep(1)  # some samples of system metrics
    run.finish()
    run = start("fork", fork_from="tour?_step=2")
    run.log({"loss": 7})
    run.finish()

    for label in ("first", "second"):
        run = start("shared", mode="shared", x_label=label, x_primary=label == "first")
        run.log({"loss": 1})
        run.finish()

    run = start("offline", mode="offline")
    run.log({"loss": 7})
    directory = pathlib.Path(run.dir).parent
    run.finish()
    subprocess.run([sys.executable, "-m", "wandb", "sync", str(directory)], check=True)

    api = wandb.Api()
    run = api.run(f"{PATH}/tour")
    assert [row["loss"] for row in run.scan_history()] == [0, 1, 2, 7]
    assert [row["loss"] for row in run.history(pandas=False)] == [0, 1, 2, 7]
    assert [row["loss"] for row in run.history(keys=["loss"], pandas=False)] == [0, 1, 2, 7]
    assert (run.config, run.tags, run.notes, run.state) == ({"lr": 2}, ["a"], "n", "finished")
    assert run.summary["loss"] == 7
    assert "system.cpu" in run.system_metrics
    assert any("system.cpu" in row for row in run.history(stream="events", pandas=False))
    assert run.metadata["os"]
    assert run.file("other.txt").download(root=str(home / "file")).read() == "other\n"
    assert {"config.yaml", "requirements.txt", "wandb-summary.json"} <= {file.name for file in run.files()}
    assert [a.name for a in run.logged_artifacts()] == ["data:v0", "run-tour-table:v0", "data:v1"]
    assert [a.name for a in run.used_artifacts()] == ["data:v0"]
    assert api.artifact(f"{PATH}/data:best").version == "v0"
    run.tags.append("b")
    run.update()
    assert api.run(f"{PATH}/tour").tags == ["a", "b"]
    assert [row["loss"] for row in api.run(f"{PATH}/offline").scan_history()] == [7]
    assert len(api.runs(PATH)) == 4


def main():
    server = subprocess.Popen(
        [sys.argv[1], "0", "EXPAND_DEFINED_METRIC_GLOBS", "MARK_RUN_FILES_UPLOADED"], stdout=subprocess.PIPE, text=True
    )
    try:
        url = server.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as home:
            for name in [name for name in os.environ if name.startswith("WANDB")]:
                del os.environ[name]
            os.environ |= {"HOME": home, "WANDB_DIR": home, "WANDB_BASE_URL": url, "WANDB_SILENT": "true"}
            os.environ |= {"WANDB_API_KEY": "0123456789" * 4, "NO_PROXY": "127.0.0.1"}
            tour(pathlib.Path(home))
        dump = json.load(urllib.request.urlopen(url + "/dump"))
    finally:
        server.kill()
        server.wait()
    runs = dump["runs"]
    assert dump["errors"] == [], dump["errors"]
    assert [alert["title"] for alert in runs["tour"]["alerts"]] == ["title"]
    assert runs["tour"]["used_artifacts"] == ["data"]
    assert len(runs["shared"]["history"]) == 2
    assert "branch_point" in runs["fork"]["config"]["_wandb"]["value"]
    assert all(run["complete"] for run in runs.values())


main()
