"""Prints a run's history as the official SDK reads it back: a JSON array of rows."""

import json
import sys

import wandb

run = wandb.Api().run(f"fake-team/interop/{sys.argv[1]}")
print(json.dumps(list(run.scan_history(page_size=40, use_cache=False))))
