"""Facts about a run: its settings as the library resolved them, and what the daemon has told. A part of Run."""

from __future__ import annotations

from typing import Any, Optional

from ranklog import _native
from ranklog._settings import Settings, resolved
from ranklog._warn import warn_once


def _cannot_change(name: str) -> None:
    warn_once(f"run.{name} cannot change after init(); pass it to init()")


class Facts(_native.Run):
    _resolved: list[tuple[str, str]]
    _start_time: float

    def _setting(self, name: str) -> Optional[str]:
        return next((value for key, value in self._resolved if key == name), None)

    @property
    def settings(self) -> Settings:
        """A copy of the settings as they were resolved."""
        return resolved(self._resolved)

    @property
    def id(self) -> str:
        return self._id() or self._setting("run_id") or ""

    @property
    def name(self) -> str:
        return self._setting("name") or self.id

    @name.setter
    def name(self, value: Any) -> None:
        _cannot_change("name")

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(value for key, value in self._resolved if key == "tags" and value)

    @tags.setter
    def tags(self, value: Any) -> None:
        _cannot_change("tags")

    @property
    def notes(self) -> Optional[str]:
        return self._setting("notes")

    @notes.setter
    def notes(self, value: Any) -> None:
        _cannot_change("notes")

    @property
    def project(self) -> Optional[str]:
        return self._setting("project")

    @property
    def entity(self) -> Optional[str]:
        return self._setting("entity")

    @property
    def group(self) -> Optional[str]:
        return self._setting("group")

    @property
    def job_type(self) -> Optional[str]:
        return self._setting("job_type")

    @property
    def sweep_id(self) -> None:
        return None

    @property
    def url(self) -> Optional[str]:
        """The run's page, once the daemon knows it."""
        return self._url() or None

    @property
    def project_url(self) -> Optional[str]:
        url = self.url
        return url.rsplit("/runs/", 1)[0] if url else None

    @property
    def sweep_url(self) -> None:
        return None

    @property
    def starting_step(self) -> int:
        """Always 0: only the daemon knows the steps of an earlier run."""
        return 0

    def get_url(self) -> Optional[str]:
        return self.url

    def project_name(self) -> Optional[str]:
        return self.project

    @property
    def path(self) -> str:
        return "/".join(part for part in (self.entity, self.project, self.id) if part)

    @property
    def start_time(self) -> float:
        return self._start_time

    @property
    def disabled(self) -> bool:
        return self._setting("disabled") == "true"

    @property
    def offline(self) -> bool:
        destinations = [value for key, value in self._resolved if key == "destinations"]
        return bool(destinations) and "wandb" not in destinations and not self.url

    @property
    def resumed(self) -> bool:
        """Always False: only the daemon knows it. See unsupported.md."""
        if self._setting("resume"):
            warn_once("run.resumed is not known here; it is always False")
        return False

    @property
    def stop_requested(self) -> bool:
        """Whether a person has asked on the run's page that it stops."""
        return self._stop_requested()

    @property
    def stats(self) -> dict[str, Any]:
        """Counters of this process, and `last_error`. See ranklog/run.h."""
        return {**self._stats(), "last_error": self._last_error()}

    def handle(self) -> str:
        """A text by which another process of this node writes to this run: `ranklog.attach(handle)`."""
        return self._handle()
