"""A run: what `init()` returns."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from ranklog import _cuda, _native, _values
from ranklog._config import Config, Summary
from ranklog._files import Files
from ranklog._warn import Unsupported, UnsupportedCall, warn_once
from ranklog.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta

_native.set_kind_of(_values.kind_of)

_MAX_CODE = 2**31 - 1
_ALERT_LEVELS = {"INFO": 0, "WARN": 1, "ERROR": 2}


class AlertLevel:
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def _until(deadline: float) -> int:
    """Milliseconds."""
    return max(0, round((deadline - time.monotonic()) * 1000))


class Metric:
    """What `define_metric()` returns, for the `step_metric` of others."""

    def __init__(self, name: str) -> None:
        self.name = name


class Run(Files):
    """One process's part of a run. `log()` is in src/row.c; rows that it cannot write come to `_log_slowly()`."""

    refused_settings: list[str]

    def __init__(self, settings: list[tuple[str, Optional[str]]], directory: Optional[str] = None) -> None:
        super().__init__(settings)
        self._pid = os.getpid()
        self._directory = directory
        self._files_dir = None
        self._uploads = []
        self._pending: dict[str, Any] = {}  # of log(..., commit=False), for the next row
        self._late = _cuda.Queue(self)
        self._finished = False
        self._has_console = bool(os.environ.get("RANKLOG_CONSOLE"))  # `ranklog exec` logs it
        self._on_finish: Any = None  # called with the run
        self._start_time = time.time()
        self._resolved = self._settings()
        self.config = Config(self._update_config)
        self.summary = Summary(self._update_summary, self._last, lambda: self._rows, self._wait_for_gpu)
        for name in self.refused_settings:
            warn_once(f"the setting {name} is unknown, or its value cannot be used")

    # ---- Rows ----

    def _log_slowly(self, data: Mapping[str, Any], step: Optional[int], commit: Optional[bool]) -> None:
        """Rows with media, lists or objects, and all of the rules about `commit`. See README.md, Steps."""
        self._raise_if_finished("log")
        if not isinstance(data, Mapping):
            raise TypeError("`log` must be passed a dictionary")
        if any(not isinstance(key, str) for key in data):
            raise TypeError("Key values passed to `log` must be strings.")
        self._late.log(data, step, commit)

    def _log_plain(self, row: dict[str, Any], step: Optional[int], commit: Optional[bool]) -> None:
        now = self._logged_step
        if step is None and commit is not None and not commit:
            if self._given:  # the row of this step is still open
                self._write(row, now)
            else:
                self._pending.update(row)
                self._follow()
            return
        if step is not None and step < now:
            self._log(row, step)  # refused, as a whole; the library tells it
            return
        if self._pending:
            pending, self._pending = self._pending, {}
            self._follow()
            if step is None or step == now:
                row = {**pending, **row}
            else:
                self._write(pending, None)
        self._write(row, step)
        if commit and step is not None:
            self._log({}, None)  # closes the step

    def _write(self, row: dict[str, Any], step: Optional[int]) -> None:
        if self._log(row, step):
            self.summary.remember({key: value for key, value in row.items() if not isinstance(value, tuple)})

    def _follow(self) -> None:
        """Sets whether all rows come to `_log_slowly()`."""
        self._slow = self._finished or bool(self._pending) or bool(self._late)

    _logged_step = _native.Run.step

    @property
    def step(self) -> int:
        """The step of the next row without one."""
        return max(self._logged_step, self._late.step) if self._late else self._logged_step

    def _wait_for_gpu(self) -> None:
        if self._late:
            self._late.wait(math.inf)

    def _update_config(self, items: dict[str, Any]) -> None:
        self._raise_if_finished("config.update")
        self._config(items)

    def _update_summary(self, items: dict[str, Any]) -> None:
        self._raise_if_finished("summary.update")
        self._wait_for_gpu()  # rows before it must not replace it
        self._summary(items)

    @property
    def config_static(self) -> Config:
        return self.config

    def _raise_if_finished(self, call: str) -> None:
        if self._finished:
            raise UsageError(f"Run ({self.id}) is finished. The call to `{call}` will be ignored.")

    # ---- Its end ----

    def _commit_pending(self) -> None:
        if self._pending and not self._finished:
            self._log_slowly({}, None, None)

    def _before_end(self) -> None:
        """What the library does not know of: rows that wait here, and prints that Python has in its buffers."""
        if self._pid == os.getpid():
            self._commit_pending()
            self._save_dir()
            if self._has_console:
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(Exception):  # it may be None, closed, or a program's own
                        stream.flush()

    def _end_rows(self, timeout_ms: int) -> int:
        """Waits for the GPU, and at the end of the time no more. Returns what is left of the time."""
        if not self._late:
            return timeout_ms
        limit = (self._finish_timeout() if timeout_ms < 0 else timeout_ms) / 1000
        deadline = time.monotonic() + limit
        try:
            self._late.wait(limit)
        finally:
            self._late.give_up()
        return _until(deadline)

    def finish(self, exit_code: Optional[int] = None, quiet: Optional[bool] = None) -> None:
        """Ends this process's part of the run, and waits until its rows are durable on this node."""
        self._finish_within(exit_code, -1)

    def _finish_within(self, exit_code: Optional[int], timeout_ms: int) -> None:
        """`timeout_ms`: -1 for the setting."""
        code = max(-_MAX_CODE - 1, min(_MAX_CODE, int(exit_code or 0)))
        if self._finished:
            return
        left = 0
        try:  # Ctrl-C ends each wait, and the run has ended all the same
            left = self._end_rows(timeout_ms)
        finally:
            self._before_end()
            self._finished = self._slow = True
            try:
                self._finish(code, left)
            finally:
                self._uploads = []
                if self._on_finish is not None:
                    self._on_finish(self)

    def _finish_timeout(self) -> int:
        return int(self._setting("finish_timeout") or 10_000)

    def _leave(self, deadline: float) -> None:
        """Like finish(), with the exit code of the process, which exits now. Waits until `deadline` of time.monotonic()."""
        self._end_rows(_until(deadline))
        self._before_end()
        self._finished = self._slow = True
        if self._flush(_until(deadline)) == 0:
            self._summary({})  # any call writes the facts about the process, which are gathered by now
            self._flush(_until(deadline))
        self._release()

    def flush(self, timeout: float = 10.0) -> bool:
        """Waits until all rows so far are durable on this node. Returns whether they are."""
        deadline = time.monotonic() + timeout
        if self._late and not self._late.wait(timeout):
            return False
        self._commit_pending()
        return self._flush(_until(deadline)) == 0

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        from ranklog._ends import code_of

        self.finish(code_of(value))

    def __reduce__(self) -> Any:
        from ranklog._init import attach

        return attach, (self._handle(),)

    def __repr__(self) -> str:
        return f"<ranklog.Run {self.id} of project {self.project}>"

    # ---- Content ----

    def define_metric(
        self,
        name: str,
        step_metric: Any = None,
        step_sync: Optional[bool] = None,
        hidden: Optional[bool] = None,
        summary: Union[str, Sequence[str], None] = None,
        goal: Optional[str] = None,
        overwrite: Optional[bool] = None,
    ) -> Metric:
        """Defines the x axis and the summary of a metric, or of all with a prefix (`train/*`)."""
        words = summary.split(",") if isinstance(summary, str) else list(summary or ())
        step = getattr(step_metric, "name", step_metric) or ""
        done = self._define_metric(
            _values.clean(name),
            _values.clean(step),
            tuple(word.strip().encode() for word in words if word.strip()),
            goal,
            bool(step) if step_sync is None else step_sync,
            bool(hidden),
        )
        if not done:
            warn_once(f"define_metric({name!r}) was not accepted: {self._last_error()}")
        return Metric(name)

    def alert(
        self, title: str, text: str = "", level: Any = None, wait_duration: Union[int, float, timedelta, None] = None
    ) -> None:
        """Sends a message to the people who watch the run."""
        seconds: Any = getattr(wait_duration, "total_seconds", lambda: wait_duration)()
        number = _ALERT_LEVELS.get(str(getattr(level, "value", level or "INFO")).upper())
        if number is None:
            raise ValueError(f"level is {level!r}; use INFO, WARN or ERROR")
        if not self._alert(_values.clean(title), _values.clean(text), number, 60_000 if seconds is None else round(seconds * 1000)):
            warn_once(f"the alert {title!r} was not accepted: {self._last_error()}")

    def mark_preempting(self) -> None:
        """The job is about to be preempted: if it then ends with an error, the run counts as preempted."""
        self._mark_preempting()

    # ---- Not here ----

    def __getattr__(self, name: str) -> Any:
        from ranklog._unsupported import NONE, RUN_METHODS

        if name in RUN_METHODS:
            return (UnsupportedCall if name in NONE else Unsupported)(f"run.{name}", RUN_METHODS[name])
        raise AttributeError(f"a run has no attribute {name!r}")
