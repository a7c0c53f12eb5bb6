"""Prints runs as the official SDK reads them back, by id: their history, config, summary and more.

    sdk_read.py ENTITY/PROJECT RUN_ID...
"""

import json
import sys

import wandb

api = wandb.Api()
runs = {}
for run_id in sys.argv[2:]:
    run = api.run(f"{sys.argv[1]}/{run_id}")
    runs[run_id] = {
        "history": list(run.scan_history(page_size=20, use_cache=False)),
        "config": run.config,
        "summary": run.summary_metrics,
        "state": run.state,
        "name": run.name,
        "tags": run.tags,
        "notes": run.notes,
        "group": run.group,
        "files": sorted(file.name for file in run.files()),
        "events": run.history(stream="events", pandas=False, samples=1 << 20),
    }
print(json.dumps(runs))
