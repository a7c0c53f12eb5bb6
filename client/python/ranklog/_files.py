"""Files of a run: artifacts, saved files, and code. A part of Run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

from ranklog import _values
from ranklog._artifact import Artifact, Upload, of_path
from ranklog._facts import Facts
from ranklog._warn import warn_once

_POLICIES = {"now": 0, "end": 1, "live": 2}
_CODE = (b".py", b"requirements.txt", b"Dockerfile")
# How long log_artifact() waits for the copies of files that the program may change. W&B's package copies them in add_file().
_COPY_PATIENCE = 10.0


class Files(Facts):
    _uploads: list[Any]  # artifacts whose files are being copied
    _directory: Optional[str]
    _files_dir: Optional[str]

    def log_artifact(
        self,
        artifact_or_path: Any,
        name: Optional[str] = None,
        type: Optional[str] = None,
        aliases: Optional[Sequence[str]] = None,
        tags: Optional[Sequence[str]] = None,
    ) -> Artifact:
        """Logs a version of an artifact. Waits until its files are copied on this node, at most 10 s; see README.md, Artifacts."""
        artifact = artifact_or_path
        if not isinstance(artifact, Artifact):
            artifact = of_path(artifact_or_path, name, type, self)
        aliases = [aliases] if isinstance(aliases, str) else aliases
        artifact._log(self, aliases or artifact.aliases, tags or artifact.tags)
        # The artifact removes its own directory once it is dropped.
        self._uploads = [upload for upload in self._uploads if upload.state == "staging"] + [artifact]
        if artifact._may_change:
            artifact.wait(_COPY_PATIENCE)
        elif artifact.state == "refused":
            artifact.wait(0)
        return artifact

    def log_model(self, path: Any, name: Optional[str] = None, aliases: Optional[Sequence[str]] = None) -> Artifact:
        return self.log_artifact(path, name=name, type="model", aliases=aliases)

    def use_artifact(
        self,
        artifact_or_name: Any,
        type: Optional[str] = None,
        aliases: Optional[Sequence[str]] = None,
        use_as: Optional[str] = None,
    ) -> Artifact:
        """Records that the run uses an artifact: [[ENTITY/]PROJECT/]NAME[:ALIAS]. `.download()` gets its files."""
        if isinstance(artifact_or_name, Artifact):
            artifact = artifact_or_name
            if artifact._upload is None:
                self.log_artifact(artifact, aliases=aliases)
        else:
            artifact = Artifact(str(artifact_or_name), type or "")
        upload = Upload(self._use_artifact(_values.text(artifact.name)), f"the use of {artifact.name}")
        if upload.state == "refused":
            upload.wait(0)
        return artifact

    def save(
        self,
        glob_str: Any = None,
        base_path: Any = None,
        policy: str = "live",
        glob: bool = True,
    ) -> list[str]:
        """Uploads files to the files of the run: as they are now, at the end, or whenever they have changed ("live")."""
        if glob_str is None:
            warn_once("save() without a path does nothing")
            return []
        if policy not in _POLICIES:
            raise ValueError('Only "live", "end" and "now" policies are currently supported.')
        import glob as globbing

        pattern = os.fsdecode(glob_str)
        path = os.path.abspath(pattern)
        if base_path is not None:
            base = os.path.abspath(os.fsdecode(base_path))
        elif os.path.isabs(pattern):
            base = os.path.dirname(os.path.dirname(path))
        else:
            base = os.getcwd()
        found = globbing.glob(path) if glob else [path]
        # "end" and "live" files may be made later.
        if not found and policy != "now" and not globbing.has_magic(path):
            found = [path]
        files = [file for file in found if not os.path.isdir(file)]
        if not files:
            warn_once(f"save() found no file for {pattern}")
        for file in files:
            name = os.path.relpath(file, base)
            if name.startswith(".."):
                name = os.path.basename(file)
            self._save_one(file, name, policy)
        return files

    def _save_one(self, file: str, name: str, policy: str) -> None:
        native = self._save(os.fsencode(file), os.fsencode(name), _POLICIES[policy])
        upload = Upload(native, f"the file {file}")
        if upload.state == "refused":
            upload.wait(0)

    def log_code(
        self,
        root: Optional[str] = ".",
        name: Optional[str] = None,
        include_fn: Optional[Callable[..., bool]] = None,
        exclude_fn: Optional[Callable[..., bool]] = None,
    ) -> Optional[Upload]:
        """Logs the Python sources below `root`, requirements.txt and Dockerfile as the code of the run."""
        if include_fn is not None or exclude_fn is not None:
            warn_once("include_fn and exclude_fn of log_code() are not supported; it logs the Python sources")
        name = None if name is None else _values.clean(name)
        upload = Upload(self._log_code(os.fsencode(root or "."), name, list(_CODE)), f"the code below {root}")
        if upload.state == "refused":
            upload.wait(0)
        return upload

    def _save_program(self) -> None:
        """For init(save_code=True): the script, by the first rank of each run."""
        program = self._setting("program") or ""
        is_first = self._setting("rank") in (None, "0") or self._setting("log_strategy") == "all"
        if is_first and program.endswith(".py") and os.path.isfile(program):
            self._save_one(program, f"code/{os.path.basename(program)}", "now")

    @property
    def dir(self) -> str:
        """A directory whose files are uploaded when the run ends. It is made at the first use."""
        if self._files_dir is None:
            root = self._directory or os.environ.get("WANDB_DIR") or "."
            folder = f"run-{time.strftime('%Y%m%d_%H%M%S')}-{self.id}"
            self._files_dir = os.path.abspath(os.path.join(root, "wandb", folder, "files"))
            os.makedirs(self._files_dir, exist_ok=True)
        return self._files_dir

    @property
    def sync_dir(self) -> str:
        return os.path.dirname(self.dir)

    def _save_dir(self) -> None:
        if self._files_dir is None:
            return
        for folder, _, names in os.walk(self._files_dir):
            for name in names:
                path = os.path.join(folder, name)
                self._save_one(path, os.path.relpath(path, self._files_dir), "now")
