"""Makes two offline runs, with the SDK of this Python, also an older one.

sdk_offline_runs.py DIRECTORY
"""

import os
import pathlib
import sys
import time

import wandb
from PIL import Image

# The setting of newer and of older versions.
os.environ |= {"WANDB_X_STATS_SAMPLING_INTERVAL": "0.2", "WANDB__STATS_SAMPLE_RATE_SECONDS": "0.2", "WANDB_DISABLE_GIT": "true"}


def start(home, run_id, **init):
    return wandb.init(project="sync", entity="fake-team", id=run_id, mode="offline", dir=str(home), **init)


def rows(home):
    run = start(home, "rows", name="rows", notes="why", tags=["a", "b"], group="g", job_type="train", config={"lr": 0.1, "opt": {"name": "adam"}})
    for i in range(50):
        run.log({"loss": 1 / (i + 1), "train": {"acc": i / 3, "more": {"x": i}}, "flag": i % 2 == 0, "list": [1, i], "text": f"t {i}", "big": 2**60 + i})
    run.log({"nan": float("nan"), "inf": float("-inf"), "none": None})
    run.config.update({"late": {"a": [1, 2]}})
    run.summary["best"] = 5
    run.summary["nested"] = {"a": {"b": 1}}
    run.finish()


def rich(home):
    run = start(home, "rich")
    run.define_metric("epoch")
    run.define_metric("val/*", step_metric="epoch", summary="min")
    run.define_metric("best", summary="max,mean", hidden=True)
    run.define_metric("train.acc", summary="last")
    run.define_metric("hidden_summary", summary="none")
    print("hello\nprogress 1", end="\rprogress 2\n")
    print("an error", file=sys.stderr)
    for i in range(5):
        run.log({"epoch": i, "val/loss": 5 - i, "best": i, "train": {"acc": i}, "hidden_summary": i})
        time.sleep(0.2)
    run.log({"histogram": wandb.Histogram(np_histogram=([1, 2, 3], [0, 1, 2, 3])), "image": wandb.Image(Image.new("RGB", (4, 4)), caption="c")})
    run.log({"table": wandb.Table(columns=["a"], data=[[1]])})
    run.alert("title", "text", level=wandb.AlertLevel.WARN, wait_duration=30)
    saved = home / "saved.txt"
    saved.write_text("saved\n")
    run.save(str(saved), base_path=str(home))
    data = home / "data.bin"
    data.write_bytes(b"x" * 1000)
    artifact = wandb.Artifact("data", type="dataset", metadata={"rows": 1}, description="what it is")
    artifact.add_file(str(data))
    run.log_artifact(artifact, aliases=["best"])
    run.finish(exit_code=3)


rows(pathlib.Path(sys.argv[1]))
rich(pathlib.Path(sys.argv[1]))
