"""Settings of a run: those of Ranklog (client/settings.md), by these names or by W&B's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Optional

from ranklog._warn import warn_once

# W&B's name: ours.
_RENAMED = {
    "run_name": "name",
    "run_group": "group",
    "run_job_type": "job_type",
    "run_notes": "notes",
    "run_tags": "tags",
    "silent": "quiet",
    "root_dir": "dir",
    "id": "run_id",
}
# W&B's switches that turn off settings of ours, also with an underscore instead of x_.
_SWITCHES = {
    "disable_meta": ("metadata",),
    "disable_stats": ("system_metrics",),
    "disable_machine_info": ("metadata", "system_metrics"),
}
# W&B's settings of its own service, and those that change nothing for us.
_WITHOUT_MEANING = {"start_method", "init_timeout", "symlink", "service_wait", "save_requirements", "label", "primary", "strict", "timeout"}
# The settings of ours that are lists, and those that are seconds here and milliseconds in the library.
_LISTS = {"tags", "rank_statistics", "destinations"}
_SECONDS = {"flush_interval", "finish_timeout", "delivery_timeout"}
_OURS = _LISTS | _SECONDS | {
    "project", "entity", "run_id", "name", "handle", "group", "job_type", "notes", "resume", "program", "host", "log_strategy",
    "run_name_pattern", "destination_settings", "credentials", "disabled", "rank", "local_rank", "world_size", "local_world_size",
    "node_rank", "node", "address", "state_dir", "spool_dir", "spool_bytes", "start_daemon", "daemon", "metadata", "system_metrics",
    "quiet",
}  # fmt: skip
# Those that this package handles itself.
_OF_PYTHON = {"mode", "dir", "base_url", "api_key", "fork_from", "reinit", "save_code", "console", "disable_code"}
_MODES = {"online", "offline", "disabled", "shared", "run", "dryrun"}
_RESUMES = {"allow", "must", "never", "auto"}


class Settings:
    """Settings for `init()` and `setup()`. An attribute that is None is not set.

    Settings(log_strategy="all", finish_timeout=30)
    """

    def __init__(self, **settings: Any) -> None:
        for name, value in settings.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, _RENAMED.get(name, name), value)

    def __getattr__(self, name: str) -> Any:  # called only for what is not set
        if name.startswith("__"):
            raise AttributeError(name)
        renamed = _RENAMED.get(name, name)
        return self.__dict__.get(renamed)

    def update(self, other: Settings | Mapping[str, Any] | None) -> None:
        if other is None:
            return
        items = other.__dict__ if isinstance(other, Settings) else other
        for name, value in items.items():
            if value is not None:
                setattr(self, name, value)

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in sorted(self.__dict__.items()))})"


def check(settings: Settings) -> None:
    """Raises for what W&B's package refuses, too."""
    from ranklog.errors import UsageError

    if settings.mode is not None and settings.mode not in _MODES:
        raise UsageError(f"mode is {settings.mode!r}; use online, offline or disabled")
    if settings.resume not in (None, True, False) and settings.resume not in _RESUMES:
        raise UsageError(f"resume is {settings.resume!r}; use allow, must, never or auto")


def _program() -> Optional[str]:
    """The script, which the library would take for the interpreter."""
    script = sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else None
    return os.path.abspath(script) if script and os.path.exists(script) else None


def _own_daemon() -> Optional[str]:
    """The daemon inside the wheel."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "ranklogd")
    return path if os.access(path, os.X_OK) else None


def to_native(settings: Settings) -> list[tuple[str, Optional[str]]]:
    """The settings as the library takes them: names and texts, on top of those of the environment."""
    native: list[tuple[str, Optional[str]]] = []

    def is_set(*variables: str) -> bool:
        return any(os.environ.get(variable) for variable in variables)

    mode = {"dryrun": "offline", "run": "online"}.get(settings.mode, settings.mode)
    if mode == "disabled":
        native.append(("disabled", "true"))
    elif mode is not None:
        native.append(("disabled", "false"))
        if not is_set("RANKLOG_DESTINATIONS"):
            native.append(("destinations", None))
            if mode == "offline":
                native.append(("destinations", "offline"))
    if settings.dir is not None:
        native.append(("destination_settings.offline.dir", os.fspath(settings.dir)))
    if settings.base_url:
        native.append(("destination_settings.wandb.base_url", str(settings.base_url)))
    if settings.fork_from:
        native.append(("destination_settings.wandb.fork_from", str(settings.fork_from)))
    if settings.api_key:
        native.append(("credentials.WANDB_API_KEY", str(settings.api_key)))
    program = _program()
    if program and not settings.program and not is_set("RANKLOG_PROGRAM", "WANDB_PROGRAM"):
        native.append(("program", program))
    daemon = _own_daemon()
    if daemon and not settings.daemon and not is_set("RANKLOG_DAEMON"):
        native.append(("daemon", daemon))
    for name, value in settings.__dict__.items():
        if value is None or name in _OF_PYTHON:
            continue
        if name in _OURS:
            native += _pairs(name, value)
            continue
        short = name[2:] if name.startswith("x_") else name.lstrip("_")
        if short in _SWITCHES:
            native += [(ours, "false") for ours in _SWITCHES[short] if value]
        elif short not in _WITHOUT_MEANING:
            warn_once(f"the setting {name} has no effect")
    return native


def _pairs(name: str, value: Any) -> list[tuple[str, Optional[str]]]:
    if name == "resume" and value in (True, False):  # as W&B's
        return [(name, "auto" if value else None)]
    if isinstance(value, Mapping):
        return [pair for key, item in value.items() for pair in _pairs(f"{name}.{key}", item)]
    if name in _LISTS:
        items = [value] if isinstance(value, str) else list(value)
        return [(name, None), *((name, str(item)) for item in items)]
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if name in _SECONDS:
        seconds = value.total_seconds() if hasattr(value, "total_seconds") else float(value)
        return [(name, str(round(seconds * 1000)))]
    return [(name, str(value))]


def resolved(native: list[tuple[str, str]]) -> Settings:
    """The settings that the library returns. Numbers and switches are texts."""
    settings = Settings()
    for name, value in native:
        if name in _LISTS:
            setattr(settings, name, [*(getattr(settings, name) or []), value])
        elif "." not in name:  # not a member of a map, which may be a secret
            setattr(settings, name, value)
    return settings
