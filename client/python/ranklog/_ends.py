"""How a process ends its runs.

The library knows the exit code of exit(), also after `sys.exit(3)`, and the daemon sees SIGKILL and os._exit(). So this file
waits until the rows are durable, and leaves the code to the library. It knows two ends that exit() does not: Ctrl-C, after which
Python kills itself by a signal, and the end of a child of `multiprocessing`, which is os._exit().
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from typing import Any, Optional

from ranklog import _cuda, _init

_installed = False
_child = 0  # the process whose end as a child of multiprocessing is handled
_exit_code: Optional[int] = None


def code_of(error: Optional[BaseException]) -> int:
    """The exit code of a process that ends by this exception."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        return error.code if isinstance(error.code, int) else 1
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _at_exit() -> None:
    # Python's own handler would not stop the wait. With the default action, Ctrl-C ends the process, and the daemon takes the rows.
    waits = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if waits:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    runs = _init.live_runs()
    # One deadline for all, so that many runs without a daemon do not hold the process for long.
    deadline = time.monotonic() + max((run._finish_timeout() for run in runs), default=0) / 1000
    for run in runs:
        if _exit_code is not None:
            run._finish_within(_exit_code, max(0, round((deadline - time.monotonic()) * 1000)))
        else:
            run._leave(deadline)
    if waits:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _at_child_exit() -> None:
    for run in _init.live_runs():
        run.finish(code_of(sys.exc_info()[1]))


def _after_fork_in_child() -> None:
    # Rows that wait are the parent's to write.
    for run in _init.all_runs():
        run._pending.clear()
        _cuda.after_fork_in_child(run)
        if not run._finished:
            run._slow = False


def install() -> None:
    """Called by each `init()`."""
    global _installed, _child
    multiprocessing = sys.modules.get("multiprocessing.process")
    if _child != os.getpid() and multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing import util

        _child = os.getpid()
        util.Finalize(None, _at_child_exit, exitpriority=0)
    if _installed:
        return
    _installed = True
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_after_fork_in_child)
    former = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        global _exit_code
        _exit_code = code_of(error)
        former(kind, error, traceback)

    sys.excepthook = hook
