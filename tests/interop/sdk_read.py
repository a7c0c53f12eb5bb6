"""Prints a run as the official SDK reads it back: its history, an array of rows, its config and its summary."""

import json
import sys

import wandb

run = wandb.Api().run(f"fake-team/interop/{sys.argv[1]}")
print(
    json.dumps(
        {
            "history": list(run.scan_history(page_size=40, use_cache=False)),
            "config": run.config,
            "summary": run.summary_metrics,
        }
    )
)
