"""`ranklogd` and `ranklog` of the wheel, for its console scripts."""

from __future__ import annotations

import os
import sys


def path_of(program: str) -> str:
    """The wheel's own program, else the one in PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", program)
    if os.access(own, os.X_OK):
        return own
    import shutil

    return shutil.which(program) or program


def _exec(program: str) -> None:
    try:
        os.execv(path_of(program), [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{program}: cannot start {path_of(program)}: {error.strerror}")


def ranklog() -> None:
    _exec("ranklog")


def ranklogd() -> None:
    _exec("ranklogd")
