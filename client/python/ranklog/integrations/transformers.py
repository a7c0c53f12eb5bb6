"""A callback for the trainer of transformers:

    Trainer(model, args, callbacks=[RanklogCallback(project="gpt")])

with `report_to="none"` in the arguments, so that W&B's own callback does not run as well. Metrics have the names that
W&B's callback gives them. Every rank logs; which runs the tracker shows is the log strategy's decision.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Optional

from transformers import TrainerCallback

import ranklog

# Logged once, at the end: these go to the summary.
_TOTALS = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss", "total_flos")


def _renamed(logs: dict[str, Any]) -> dict[str, Any]:
    """`eval_loss` becomes `eval/loss`, and `loss` becomes `train/loss`."""
    row = {}
    for key, value in logs.items():
        kind = next((kind for kind in ("eval", "test") if key.startswith(kind + "_")), None)
        row[f"{kind}/{key[len(kind) + 1 :]}" if kind else f"train/{key}"] = value
    return row


class RanklogCallback(TrainerCallback):
    """`log_model="checkpoint"`: each saved checkpoint becomes a version of the artifact `model-RUN_ID`. Other arguments go
    to `ranklog.init`. The run ends with the process, or by `ranklog.finish()`."""

    def __init__(self, log_model: Optional[str] = None, **init: Any) -> None:
        if log_model not in (None, "checkpoint"):
            raise ValueError(f"log_model is {log_model!r}; use 'checkpoint', or leave it out")
        self._log_model = log_model
        self._init = init
        self._run: Any = None

    def _open(self, args: Any, state: Any, model: Any) -> Any:
        if self._run is not None:
            return self._run
        name = state.trial_name or args.run_name
        environment = os.environ.get("RANKLOG_PROJECT") or os.environ.get("WANDB_PROJECT")
        defaults = {"project": environment or "huggingface", "name": name if name != args.output_dir else None}
        if state.trial_name:
            defaults["group"] = args.run_name
        self._run = ranklog.run or ranklog.init(**{**defaults, **self._init})
        config: Any = getattr(model, "config", None)
        config = config.to_dict() if hasattr(config, "to_dict") else dict(config or {})
        self._run.config.update({**config, **args.to_dict()}, allow_val_change=True)
        if hasattr(model, "num_parameters"):
            self._run.config.update({"model/num_parameters": model.num_parameters()}, allow_val_change=True)
        self._run.define_metric("train/global_step")
        self._run.define_metric("*", step_metric="train/global_step", step_sync=True)
        return self._run

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if state.is_hyper_param_search and self._run is not None:
            self._run.finish()  # each trial is a run
            self._run = None
        self._open(args, state, model)

    def on_log(self, args: Any, state: Any, control: Any, model: Any = None, logs: Any = None, **kwargs: Any) -> None:
        run = self._open(args, state, model)
        row = {}
        for key, value in (logs or {}).items():
            if key in _TOTALS:
                run.summary[key] = value
            else:
                row[key] = value
        run.log({**_renamed(row), "train/global_step": state.global_step}, step=state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._log_model != "checkpoint" or self._run is None or not state.is_world_process_zero:
            return
        artifact = ranklog.Artifact(f"model-{self._run.id}", type="model", metadata={"step": state.global_step})
        artifact.add_dir(str(pathlib.Path(args.output_dir) / f"checkpoint-{state.global_step}"))
        self._run.log_artifact(artifact, aliases=["latest", f"step-{state.global_step}"])
