"""A logger for Lightning (packages `lightning` and `pytorch_lightning`), with the arguments of its WandbLogger:

    trainer = Trainer(logger=RanklogLogger(project="gpt"), devices=8, strategy="ddp")

Every rank logs, so that the run has statistics over the ranks. Which runs the tracker shows is the log strategy's
decision.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import secrets
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

import torch.distributed

import ranklog

if TYPE_CHECKING:
    from lightning.pytorch.loggers.logger import Logger
    from lightning.pytorch.utilities import rank_zero_only
elif "lightning" in sys.modules or ("pytorch_lightning" not in sys.modules and importlib.util.find_spec("lightning")):
    from lightning.pytorch.loggers.logger import Logger
    from lightning.pytorch.utilities import rank_zero_only
else:
    from pytorch_lightning.loggers.logger import Logger
    from pytorch_lightning.utilities import rank_zero_only

# By these variables libranklog finds rank and run id. Without them, Lightning starts the ranks, or there is only one.
_LAUNCHERS = ("RANK", "RANKLOG_RANK", "SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
# The run ids of the script's loggers in the order of their construction, for the ranks that Lightning starts.
_IDS = "RANKLOG_LIGHTNING_IDS"
_loggers = 0


def _launched() -> bool:
    return any(name in os.environ for name in _LAUNCHERS)


def _agreed_id() -> Optional[str]:
    """The run id for ranks that Lightning starts: rank 0 makes it before it starts the others, which run the same script.
    None: the library finds one."""
    global _loggers
    _loggers += 1
    if _launched() or os.environ.get("RANKLOG_RUN_ID") or os.environ.get("WANDB_RUN_ID"):
        return None
    ids = os.environ.get(_IDS, "").split()
    if len(ids) < _loggers:
        if "MASTER_ADDR" in os.environ or "LOCAL_RANK" in os.environ:
            return None  # several nodes: the address and the port of the job give the id
        ids.append(secrets.token_hex(4))
        os.environ[_IDS] = " ".join(ids)
    return ids[_loggers - 1]


@contextlib.contextmanager
def _rank_of_lightning() -> Iterator[None]:
    """Lightning gives the ranks that it starts no RANK, and none of them has a launcher in common with rank 0. The library
    takes ranks with RANK and WORLD_SIZE alone for ranks of one job. Lightning and torch should not see these variables."""
    local_rank, world_size = os.environ.get("LOCAL_RANK"), os.environ.get("WORLD_SIZE")
    if _launched():
        own = {}
    elif torch.distributed.is_available() and torch.distributed.is_initialized():
        own = {"RANK": str(torch.distributed.get_rank()), "WORLD_SIZE": str(torch.distributed.get_world_size())}
    elif local_rank and world_size and os.environ.get("NODE_RANK", "0") == "0":  # before the training
        own = {"RANK": local_rank, "WORLD_SIZE": world_size}
    else:
        own = {}
    former = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class RanklogLogger(Logger):
    """`version` and `id` both name the run; a run that exists already continues. `log_model`: also log the best
    checkpoint as an artifact, at the end (True) or whenever one is saved ("all"). Others go to `ranklog.init`."""

    def __init__(
        self,
        name: Optional[str] = None,
        save_dir: Union[str, os.PathLike[str]] = ".",
        version: Optional[str] = None,
        offline: bool = False,
        dir: Union[str, os.PathLike[str], None] = None,
        id: Optional[str] = None,
        project: Optional[str] = None,
        log_model: Union[bool, str] = False,
        experiment: Any = None,
        prefix: str = "",
        **init: Any,
    ) -> None:
        super().__init__()
        environment = os.environ.get("RANKLOG_PROJECT") or os.environ.get("WANDB_PROJECT")
        self._save_dir = os.fspath(dir or save_dir)
        self._init: dict[str, Any] = {"project": project or environment or "lightning_logs", "name": name, "dir": self._save_dir}
        given = version or id
        self._init["id"] = given or _agreed_id()
        if given:
            self._init["resume"] = "allow"
        if offline:
            self._init["mode"] = "offline"
        self._init.update(init)
        self._log_model = log_model
        self._checkpoints: Any = None
        self._logged_checkpoint = ""
        self._prefix = prefix
        self._run = experiment
        self._last_step = 0

    def __getstate__(self) -> dict[str, Any]:
        # A spawned rank opens its own part of the run.
        return {**self.__dict__, "_run": None}

    @property
    def experiment(self) -> Any:
        """The run of this rank, on every rank."""
        if self._run is None:
            with _rank_of_lightning():
                self._run = ranklog.run or ranklog.init(**self._init)
            self._run.define_metric("trainer/global_step")
            self._run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
        return self._run

    @property
    def name(self) -> str:
        """The project, as WandbLogger's."""
        return str(self._init["project"])

    @property
    def version(self) -> str:
        return str(self._init["id"] or self.experiment.id)

    @property
    def save_dir(self) -> str:
        return self._save_dir

    def log_hyperparams(self, params: Union[Mapping[str, Any], Namespace, None], *args: Any, **kwargs: Any) -> None:
        params = vars(params) if isinstance(params, Namespace) else dict(params or {})
        self.experiment.config.update(params, allow_val_change=True)

    def log_metrics(self, metrics: Mapping[str, float], step: Optional[int] = None) -> None:
        row = {f"{self._prefix}-{key}" if self._prefix else key: value for key, value in metrics.items()}
        if step is None:
            self.experiment.log(row)
            return
        # The module may log a `step` of its own, such as the epoch. The steps of a run do not go back.
        row["trainer/global_step" if step >= self._last_step else "step"] = step
        self._last_step = max(self._last_step, int(step))
        self.experiment.log(row, step=self._last_step)

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        self._checkpoints = checkpoint_callback
        if self._log_model == "all":
            self._log_checkpoint(checkpoint_callback.last_model_path or checkpoint_callback.best_model_path)

    def finalize(self, status: str) -> None:
        # The run goes on, such as for a test after the training. It ends with the process, or by `experiment.finish()`.
        if self._log_model is True and status == "success" and self._checkpoints is not None:
            self._log_checkpoint(self._checkpoints.best_model_path)

    def _log_checkpoint(self, path: str) -> None:
        if not path or path == self._logged_checkpoint or rank_zero_only.rank != 0:
            return
        self._logged_checkpoint = path
        score = self._checkpoints.current_score
        metadata = {} if score is None else {"score": float(score)}
        artifact = ranklog.Artifact(f"model-{self.experiment.id}", type="model", metadata=metadata)
        (artifact.add_dir if pathlib.Path(path).is_dir() else artifact.add_file)(path)
        self.experiment.log_artifact(artifact, aliases=["latest"])
