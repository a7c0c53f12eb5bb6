"""Messages of the package on stderr: once each, and from one rank of a node."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

_told: set[str] = set()
_TRUE = {"1", "yes", "true", "on"}


def warn_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        _print(text)


def term(string: object = "", newline: bool = True, repeat: bool = True) -> None:
    """`termlog()`, `termwarn()` and `termerror()` of W&B's package."""
    text = str(string)
    if repeat:
        _print(text)
    else:
        warn_once(text)


def _print(text: str) -> None:
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

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Unsupported]:
        return iter(())


class UnsupportedCall(Unsupported):
    """A function whose result a program uses at once, such as the path of a file: it is None."""

    def __call__(self, *args: object, **named: object) -> None:  # type: ignore[override]
        super().__call__(*args, **named)
