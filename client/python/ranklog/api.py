"""The runs of this node, as the command `ranklog` tells them. It needs no tracker and no network:

for run in ranklog.Api().runs("gpt", state="finished"):
    print(run.name, run.summary["loss"], run.history(keys=["loss"]))
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union

from ranklog._programs import path_of


class ApiError(RuntimeError):
    """The command failed, such as for a run that does not exist. The message is the command's."""


class Api:
    """`state_dir`: the daemon's state directory; default: where the command finds it."""

    def __init__(self, state_dir: Union[str, os.PathLike[str], None] = None) -> None:
        self._options = [] if state_dir is None else ["--state-dir", os.fspath(state_dir)]

    def runs(self, path: Optional[str] = None, *, project: Optional[str] = None, state: Optional[str] = None) -> list[StoredRun]:
        """Newest first. `path` is a project or `entity/project`; `state` is `running`, `finished`, `failed` or `crashed`."""
        project = project or (path.rsplit("/", 1)[-1] if path else None)
        chosen = [f"--project={project}"] if project else []
        chosen += [f"--state={state}"] if state else []
        return [StoredRun(self, facts) for facts in json.loads(self._output("runs", "--json", *chosen))]

    def run(self, path: str) -> StoredRun:
        """`path` is an id, a name or `latest`, after `project/` or `entity/project/` if several projects have it."""
        *project, run = path.rsplit("/", 2)
        chosen = [f"--project={project[-1]}"] if project else []
        return StoredRun(self, json.loads(self._output("show", "--json", *chosen, "--", run)))

    def _start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        line = [path_of("ranklog"), command, *self._options, *arguments]
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, encoding="utf-8")
        except OSError as error:
            raise ApiError(f"cannot start `ranklog`: {error.strerror}; add its folder to PATH") from None

    def _output(self, command: str, *arguments: str) -> str:
        process = self._start(command, *arguments)
        output, errors = process.communicate()
        if process.returncode != 0:
            raise ApiError(errors.strip() or f"`ranklog {command}` ended with exit code {process.returncode}")
        return output

    def _lines(self, command: str, *arguments: str) -> Iterator[str]:
        process = self._start(command, *arguments)
        try:
            assert process.stdout is not None and process.stderr is not None
            yield from process.stdout
            errors = process.stderr.read()
            if process.wait() != 0:
                raise ApiError(errors.strip())
        finally:
            process.kill()  # the caller may have read enough
            process.communicate()


class StoredRun:
    """A run in the store of this node. `facts` has all fields that `ranklog runs --json` prints."""

    def __init__(self, api: Api, facts: dict[str, Any]) -> None:
        self._api = api
        self.facts = facts
        self.id: str = facts["run_id"]
        self.name: str = facts["name"] or facts["run_id"]
        self.project: str = facts["project"]
        self.entity: str = facts["entity"]
        self.group: str = facts["group"]
        self.job_type: str = facts["job_type"]
        self.state: str = facts["state"]
        self.tags: list[str] = facts["tags"]
        self.notes: str = facts["notes"]

    def __repr__(self) -> str:
        return f"<run {self.project}/{self.id} ({self.state})>"

    @property
    def url(self) -> Optional[str]:
        """The run's page at its tracker, if it has one."""
        return next((place["url"] for place in self.facts["destinations"] if place["url"]), None)

    @property
    def config(self) -> dict[str, Any]:
        return dict(self._content["config"])

    @property
    def summary(self) -> dict[str, Any]:
        return dict(self._content["summary"])

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self._content["metadata"])

    @functools.cached_property
    def _content(self) -> dict[str, Any]:
        if "config" in self.facts:
            return self.facts
        return dict(json.loads(self._api._output("show", "--json", f"--project={self.project}", "--", self.id)))

    def _rows(self) -> Iterator[dict[str, Any]]:
        return map(json.loads, self._api._lines("export", f"--project={self.project}", "--", self.id))

    def scan_history(self, keys: Optional[Sequence[str]] = None) -> Iterator[dict[str, Any]]:
        """Reads the rows one after the other: all of them, or with `keys` those that have all of these, cut down to them."""
        for row in self._rows():
            if keys is None:
                yield row
            elif all(key in row for key in keys):
                yield {key: row[key] for key in keys}

    def history(self, keys: Optional[Sequence[str]] = None, samples: Optional[int] = None, pandas: bool = True) -> Any:
        """All rows, or with `keys` those that have one of these, with their `_step`. `samples`: at most so many, evenly
        spaced. A pandas.DataFrame if pandas is installed, else a list of dictionaries."""
        rows: list[dict[str, Any]] = list(self._rows())
        if keys is not None:
            wanted = ["_step", *(key for key in keys if key != "_step")]
            rows = [{key: row[key] for key in wanted if key in row} for row in rows if any(key in row for key in keys)]
        if samples is not None and len(rows) > samples:
            rows = [rows[i * len(rows) // samples] for i in range(samples)]
        if pandas:
            try:
                import pandas as pd
            except ModuleNotFoundError:
                return rows
            return pd.DataFrame(rows)
        return rows
