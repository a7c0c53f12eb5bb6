"""A tracker for Accelerate:

    tracker = RanklogTracker("gpt")
    accelerator = Accelerator(log_with=tracker)
    accelerator.init_trackers("gpt", config={"lr": 3e-4})

accelerator.log() calls it in the main process only. tracker.log() logs in the process that calls it: with that in each
process, the run has statistics over the ranks.
"""

from __future__ import annotations

from typing import Any, Optional

from accelerate.tracking import GeneralTracker

import ranklog


class RanklogTracker(GeneralTracker):
    """The arguments go to `ranklog.init`. Accelerate does not pass the project on to a tracker that a program makes."""

    name = "ranklog"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, project: Optional[str] = None, **init: Any) -> None:
        super().__init__()
        self._init = {"project": project, **init}
        self._run: Any = None

    @property
    def tracker(self) -> Any:
        """The run. It starts with its first use, when Accelerate has set up the ranks."""
        if self._run is None:
            self._run = ranklog.run or ranklog.init(**self._init)
        return self._run

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.tracker.config.update(values, allow_val_change=True)

    def log(self, values: dict[str, Any], step: Optional[int] = None, **kwargs: Any) -> None:
        """`kwargs`: those of `run.log`, from `log_kwargs={"ranklog": ...}`."""
        self.tracker.log(values, step=step, **kwargs)

    def log_images(self, values: dict[str, Any], step: Optional[int] = None, **kwargs: Any) -> None:
        """Logs lists of images. `kwargs`: those of `ranklog.Image`."""
        row = {key: [ranklog.Image(image, **kwargs) for image in images] for key, images in values.items()}
        self.tracker.log(row, step=step)

    def finish(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None
