"""Messages of the package on stderr: once each, and from one rank of a node."""

from __future__ import annotations

import os
import sys

_told: set[str] = set()
_TRUE = {"1", "yes", "true", "on"}


def warn_once(text: str) -> None:
    if text in _told:
        return
    _told.add(text)
    quiet = os.environ.get("RANKLOG_QUIET") or os.environ.get("WANDB_SILENT") or ""
    if quiet.lower() in _TRUE or os.environ.get("LOCAL_RANK", "0") not in ("", "0"):
        return
    print(f"ranklog: {text}", file=sys.stderr, flush=True)


class Unsupported:
    """Stands for a function, class or module of W&B's package that is not here. It does nothing, and warns once."""

    def __init__(self, name: str, instead: str = "") -> None:
        self._name = name
        self._instead = instead

    def __call__(self, *_args: object, **_named: object) -> Unsupported:
        warn_once(f"{self._name} is not supported, and does nothing" + (f"; {self._instead}" if self._instead else ""))
        return self

    def __getattr__(self, name: str) -> Unsupported:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unsupported(f"{self._name}.{name}", self._instead)

    def __repr__(self) -> str:
        return f"<{self._name}, which is not supported>"

    def __bool__(self) -> bool:
        return False
