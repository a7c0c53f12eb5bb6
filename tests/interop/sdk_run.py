"""Logs a run with the official SDK: the rows, config and definitions of deliver_run.cc."""

import sys

import wandb

run_id, rows = sys.argv[1], int(sys.argv[2])
run = wandb.init(
    project="interop",
    entity="fake-team",
    id=run_id,
    name="twin",
    group="twins",
    job_type="train",
    tags=["a", "b"],
    notes="two of a kind",
    config={"flag": True, "large": 2**53 + 1, "lr": 0.001, "layers": 4, "opt": {"name": "adam", "betas": [0.9, 0.95]}},
    settings=wandb.Settings(console="off", x_disable_stats=True, x_disable_meta=True, disable_git=True),
)
run.define_metric("global_step")
run.define_metric("train/*", step_metric="global_step")
run.define_metric("val/loss", summary="min,last")
for i in range(rows):
    row = {"train/loss": 1.0 / (i + 1), "lr": 1e-3, "global_step": float(2 * i)}
    if i % 10 == 0:
        row["val/loss"] = 2.0 - i / 100 if i != 20 else float("nan")
    if i == 30:
        row["note"] = 'half "way" \\ there\n'
    if i == 31:
        row |= {"flag": True, "large": 2**53 + 1, "least": -(2**63), "null": None, "_custom": 1}
    if i in (32, 33):
        row["nested"] = {"a": {"b": True, "nan": float("nan")}, "list": [1, 2.5, "x", None]} if i == 32 else {"c": 2}
    if i == 35:
        run.define_metric("lr", summary="max")  # also for earlier rows
    if i == 40:
        del row["global_step"]  # the SDK adds the last value
    if i == 43:
        row["global_step"] = "a text"  # not a step
    if i == 44:
        del row["global_step"]
    run.log(row, step=3 * i)
    if i == 10:
        run.summary["train/loss"] = 7  # until the next row
run.summary["best"] = 0.25
run.finish()
