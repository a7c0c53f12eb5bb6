"""`init()`, and the current run that the functions of the module act on."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Optional, Union

from ranklog import _settings
from ranklog._config import BeforeInit, parse_config
from ranklog._run import Run
from ranklog._settings import Settings
from ranklog._warn import warn_once
from ranklog.errors import Error

_runs: list[Run] = []  # not finished, of this process and of those that it is forked from
_setup = Settings()  # of setup() and login()


def all_runs() -> list[Run]:
    return list(_runs)


def live_runs() -> list[Run]:
    """The runs that this process has opened, and not finished."""
    return [run for run in _runs if run._pid == os.getpid()]


# ---- The current run ----

_FUNCTIONS = (
    "log", "define_metric", "alert", "log_artifact", "use_artifact", "save", "log_code", "log_model", "mark_preempting",
)  # fmt: skip


def _function(name: str) -> Any:
    """The module's function `name`, for programs that imported it before `init()`."""

    def call(*args: Any, **named: Any) -> Any:
        current = sys.modules["ranklog"].run
        if current is None:
            raise Error(f"You must call ranklog.init() before ranklog.{name}()")
        return getattr(current, name)(*args, **named)

    call.__name__ = call.__qualname__ = name
    return call


_before_init = {
    "run": None,
    "config": BeforeInit("config"),
    "summary": BeforeInit("summary"),
    **{name: _function(name) for name in _FUNCTIONS},
}


def make_current(run: Optional[Run]) -> None:
    """Binds the module's names to the run: ranklog.log is run.log itself, so it costs no more."""
    names = dict(_before_init)
    if run is not None:
        names.update(run=run, config=run.config, summary=run.summary, log=run.log)
    vars(sys.modules["ranklog"]).update(names)


def _forget(run: Run) -> None:
    if run in _runs:
        _runs.remove(run)
    if sys.modules["ranklog"].run is run:
        make_current(_runs[-1] if _runs else None)


def _open(settings: Settings) -> Run:
    from ranklog import _ends

    run = Run(_settings.to_native(settings), directory=settings.dir)
    run._on_finish = _forget
    _runs.append(run)
    _ends.install()
    return run


# ---- The functions ----


def init(
    entity: Optional[str] = None,
    project: Optional[str] = None,
    dir: Union[str, os.PathLike[str], None] = None,
    id: Optional[str] = None,
    name: Optional[str] = None,
    notes: Optional[str] = None,
    tags: Optional[Sequence[str]] = None,
    config: Any = None,
    config_exclude_keys: Optional[Sequence[str]] = None,
    config_include_keys: Optional[Sequence[str]] = None,
    allow_val_change: Optional[bool] = None,
    group: Optional[str] = None,
    job_type: Optional[str] = None,
    mode: Optional[str] = None,
    force: Optional[bool] = None,
    reinit: Union[bool, str, None] = None,
    resume: Union[bool, str, None] = None,
    resume_from: Optional[str] = None,
    fork_from: Optional[str] = None,
    save_code: Optional[bool] = None,
    tensorboard: Optional[bool] = None,
    sync_tensorboard: Optional[bool] = None,
    monitor_gym: Optional[bool] = None,
    settings: Union[Settings, dict[str, Any], None] = None,
    anonymous: Any = None,
) -> Run:
    """Opens a run within some milliseconds, with or without a daemon, a network or a tracker.

    The arguments are those of wandb.init(). Without `id`, the launcher decides which run the process belongs to.
    """
    given = Settings()
    given.update(_setup)
    given.update(settings)
    given.update(
        dict(entity=entity, project=project, dir=dir, id=id, name=name, notes=notes, tags=tags, group=group, job_type=job_type,
             mode=mode, resume=resume, fork_from=fork_from, save_code=save_code, reinit=reinit)
    )  # fmt: skip
    _settings.check(given)
    # Before anything is opened or finished: a mistake in it raises.
    items = parse_config(config)
    defaults = parse_config("config-defaults.yaml") if os.path.exists("config-defaults.yaml") else {}
    if resume_from is not None:
        warn_once("resume_from is not supported, because rows that were delivered stay; use fork_from")
    if tensorboard or sync_tensorboard:
        warn_once("sync_tensorboard is not supported; log the values by run.log()")
    if monitor_gym:
        warn_once("monitor_gym is not supported")

    if given.reinit in (None, "default") and "ipykernel" in sys.modules:  # as at W&B, since a cell is run again and again
        given.reinit = "finish_previous"
    live = live_runs()
    if live and given.reinit in (True, "finish_previous"):
        for run in live:
            run.finish()
    elif live and given.reinit != "create_new":
        if given.resume == "must":
            raise Error("Cannot resume a run while another run is active; finish it, or use reinit='create_new'")
        warn_once("init() was called while a run is open, and returns that run; use reinit='create_new' for another one")
        live[-1].config.update(items, allow_val_change=True)
        return live[-1]

    run = _open(given)
    if config_include_keys is not None:
        items = {key: value for key, value in items.items() if key in config_include_keys}
    for key in config_exclude_keys or ():
        items.pop(key, None)
    run.config.update(defaults)
    run.config.update(items, allow_val_change=True)
    if given.save_code:
        run._save_program()
    if given.console not in (None, "auto", "off"):
        run._has_console = run._capture_console()
    make_current(run)
    return run


def attach(handle: str) -> Run:
    """Joins the run of another process of this node by its `run.handle()`. See client/launch/processes.md."""
    for run in all_runs():
        if run._handle() == handle:  # this process's own, or its parent's over a fork
            return run
    settings = Settings(handle=handle)
    settings.update(_setup)
    run = _open(settings)
    if sys.modules["ranklog"].run is None:
        make_current(run)
    return run


def finish(exit_code: Optional[int] = None, quiet: Optional[bool] = None) -> None:
    """Finishes the current run."""
    current = sys.modules["ranklog"].run
    if current is not None:
        current.finish(exit_code)


def setup(settings: Union[Settings, dict[str, Any], None] = None) -> Settings:
    """Sets settings for the `init()` of this process and of its forked children. W&B starts its service here; ours is the daemon."""
    _setup.update(settings)
    return _setup


def teardown(exit_code: Optional[int] = None) -> None:
    """Finishes all runs of this process."""
    for run in live_runs():
        run.finish(exit_code)


def login(
    anonymous: Any = None,
    key: Optional[str] = None,
    relogin: Optional[bool] = None,
    host: Optional[str] = None,
    force: Optional[bool] = None,
    timeout: Optional[int] = None,
    verify: bool = False,
    referrer: Optional[str] = None,
) -> bool:
    """Sets the key and the server for the runs of this process. `ranklog login` stores a key for all processes."""
    _setup.update({"api_key": key, "base_url": host})
    return bool(key or os.environ.get("WANDB_API_KEY"))
