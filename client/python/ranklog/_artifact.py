"""Artifacts: what is added here, and the calls of a run that upload them. client/content/uploads.md has what is promised."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Optional

from ranklog import _values
from ranklog._unsupported import ARTIFACT_FACTS, ARTIFACT_NAMES
from ranklog._warn import Unsupported, warn_once

_STAGING, _STAGED, _REFUSED = 0, 1, 2
_STATES = ("staging", "staged", "refused")
_DAY = 86400


class Upload:
    """The upload of an artifact or of a file. It is staged once a copy is on the node: then it arrives, whatever is killed."""

    def __init__(self, native: Any, what: str) -> None:
        self._native = native
        self._what = what

    @property
    def state(self) -> str:
        """staging, staged or refused."""
        return _STATES[self._native.state()]

    @property
    def error(self) -> str:
        """Why it is refused."""
        return str(self._native.error())

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until it is staged or refused. Returns whether it is staged."""
        state = self._native.wait(round((_DAY if timeout is None else timeout) * 1000))
        self._tell(state)
        return bool(state == _STAGED)

    def _tell(self, state: int) -> None:
        if state == _REFUSED:
            warn_once(f"{self._what} is not uploaded: {self.error}")


def _remove(directory: str, pid: int) -> None:
    if os.getpid() == pid:  # not a forked child
        import shutil

        shutil.rmtree(directory, ignore_errors=True)


class Artifact:
    """Files and references, to be logged as a version of an artifact by `run.log_artifact()`.

    `incremental`: it adds to the files of the latest version.
    """

    def __init__(
        self,
        name: str,
        type: str,
        description: Optional[str] = None,
        metadata: Optional[dict[str, Any]] = None,
        incremental: bool = False,
        use_as: Optional[str] = None,
        **_ignored: Any,
    ) -> None:
        self.name = name
        self.type = type
        self.description = description
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.aliases: list[str] = []
        self.tags: list[str] = []
        self.incremental = incremental
        self._paths: list[str] = []
        self._references: list[str] = []
        self._directory: Optional[str] = None  # of files with names of their own: links, and new files
        self._may_change = False  # files that the program may change after log_artifact()
        self._upload: Optional[Upload] = None

    # ---- What is in it ----

    def _own(self, name: str) -> str:
        """The path for a file with that name in the artifact."""
        if self._directory is None:
            import tempfile

            self._directory = tempfile.mkdtemp(prefix="ranklog-artifact-")
            weakref.finalize(self, _remove, self._directory, os.getpid())
            self._paths.append(self._directory)
        path = os.path.normpath(os.path.join(self._directory, name))
        if os.path.commonpath([self._directory, path]) != self._directory or path == self._directory:
            raise ValueError(f"{name!r} is not a name inside the artifact")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _add(self, local_path: Any, name: Optional[str], policy: Optional[str]) -> None:
        path = os.path.abspath(os.fspath(local_path))
        if name is None:
            self._paths.append(path)
        else:
            os.symlink(path, self._own(os.fspath(name)))
        self._may_change |= policy != "immutable"

    def add_file(
        self,
        local_path: Any,
        name: Optional[str] = None,
        is_tmp: Optional[bool] = False,
        skip_cache: Optional[bool] = False,
        policy: Optional[str] = "mutable",
        overwrite: bool = False,
    ) -> None:
        """Adds a file, by default under the last part of its path. It is read by `log_artifact()`."""
        if not os.path.isfile(local_path):
            raise ValueError(f"Path is not a file: {local_path!r}")
        if name is not None and os.path.basename(local_path) == name:
            name = None
        if overwrite and name is not None and os.path.lexists(self._own(name)):
            os.remove(self._own(name))
        self._add(local_path, name, policy)

    def add_dir(
        self,
        local_path: Any,
        name: Optional[str] = None,
        skip_cache: Optional[bool] = False,
        policy: Optional[str] = "mutable",
        merge: bool = False,
    ) -> None:
        """Adds the files of a directory, by their paths in it."""
        if not os.path.isdir(local_path):
            raise ValueError(f"Path is not a directory: {local_path!r}")
        self._add(local_path, name, policy)

    def add_reference(
        self, uri: Any, name: Optional[str] = None, checksum: bool = True, max_objects: Optional[int] = None
    ) -> None:
        """Adds the URL of content that stays where it is. Its content is not read."""
        if name is not None:
            warn_once("the name of a reference is not supported; it has the last part of its URL")
        self._references.append(str(uri))

    @contextmanager
    def new_file(self, name: str, mode: str = "x", encoding: Optional[str] = None, policy: str = "mutable") -> Iterator[IO[Any]]:
        """Opens a new file of the artifact."""
        with open(self._own(name), mode, encoding=encoding if "b" in mode else encoding or "utf-8") as file:
            yield file

    def add(self, obj: Any, name: Any, overwrite: bool = False) -> None:
        """Adds a table, an image or HTML as a file."""
        field = getattr(obj, "_field", None)
        if field is None:
            warn_once(f"Artifact.add() of a {type(obj).__name__} is not supported")
            return
        import json

        kind = type(obj).__name__
        if kind == "Image":
            path, content = self._own(f"{name}.png"), obj.png
        elif kind == "Html":
            path, content = self._own(f"{name}.html"), obj.html.encode()
        else:
            columns, data = field()[1]
            path, content = self._own(f"{name}.table.json"), json.dumps({"columns": columns, "data": data}).encode()
        with open(path, "wb") as file:
            file.write(content)

    # ---- Its upload ----

    def _log(self, run: Any, aliases: Sequence[str], tags: Sequence[str]) -> None:
        native = run._log_artifact(
            _values.clean(self.name),
            _values.clean(self.type),
            None if self.description is None else _values.clean(self.description),
            [os.fsencode(path) for path in self._paths],
            [_values.text(reference) for reference in self._references],
            [_values.text(alias) for alias in aliases],
            [_values.text(tag) for tag in tags],
            _values.plain(self.metadata, for_config=True),
            self.incremental,
        )
        self._upload = Upload(native, f"the artifact {self.name}")

    @property
    def state(self) -> str:
        return "draft" if self._upload is None else self._upload.state

    def wait(self, timeout: Optional[float] = None) -> Artifact:
        """Waits until its files are copied: then they may change, and the artifact arrives, whatever is killed."""
        if self._upload is None:
            raise ValueError(f"the artifact {self.name} was not logged; use run.log_artifact()")
        self._upload.wait(timeout)
        return self

    def download(self, root: Optional[str] = None, **_ignored: Any) -> str:
        """Downloads it from the tracker by `ranklog artifacts get`. Returns the directory."""
        import subprocess

        from ranklog._programs import path_of
        from ranklog.errors import CommError

        root = root or os.path.join("artifacts", self.name.split("/")[-1])
        command = [path_of("ranklog"), "artifacts", "get", self.name, "--root", root]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise CommError(f"cannot download the artifact {self.name}: {done.stderr.strip()}")
        return root

    @property
    def is_draft(self) -> bool:
        return self._upload is None

    def __getattr__(self, name: str) -> Any:
        if name in ARTIFACT_NAMES:
            return Unsupported(f"Artifact.{name}", ARTIFACT_NAMES[name])
        if name in ARTIFACT_FACTS:
            warn_once(f"Artifact.{name} is not known here; it is always {ARTIFACT_FACTS[name]!r}")
            return ARTIFACT_FACTS[name]
        raise AttributeError(f"an artifact has no attribute {name!r}")


def of_path(path: Any, name: Optional[str], type: Optional[str], run: Any) -> Artifact:
    """The artifact that `log_artifact(path)` means."""
    text = os.fspath(path)
    base = os.path.basename(text.rstrip("/"))
    artifact = Artifact(name or f"run-{run.id}-{base}", type or "unspecified")
    if os.path.isfile(text):
        artifact.add_file(text)
    elif os.path.isdir(text):
        artifact.add_dir(text)
    elif "://" in text:
        artifact.add_reference(text)
    else:
        raise ValueError(f"path must be a file, a directory, or a URL like s3://bucket/path, not {text!r}")
    return artifact
