"""Ranklog for Python, with the names of W&B's package: `import ranklog as wandb`.

    import ranklog

    run = ranklog.init(project="example", config={"lr": 3e-4})
    for step in range(1000):
        run.log({"train/loss": 1 / (step + 1)})
    run.finish()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

try:
    from ranklog import _native
except ImportError as error:
    raise ImportError(
        f"{__path__[0]} has no compiled part that fits this Python ({error}); install the wheel that deploy/wheel.sh makes, "
        "or set PYTHONPATH to the folder `python` of a build tree"
    ) from error
from ranklog import _init, _unsupported, _values, errors
from ranklog._artifact import Artifact
from ranklog._config import Config, Summary
from ranklog._init import attach, finish, init, login, setup, teardown
from ranklog._media import Histogram, Html, Image, Table
from ranklog._run import AlertLevel, Run
from ranklog._settings import Settings
from ranklog.errors import CommError, Error, UsageError

__version__ = _native.version().split()[1]

__all__ = [
    "AlertLevel", "Artifact", "CommError", "Config", "Error", "Histogram", "Html", "Image", "Run", "Settings", "Summary", "Table",
    "UsageError", "alert", "attach", "config", "define_metric", "errors", "finish", "init", "log", "log_artifact", "log_code",
    "log_model", "login", "mark_preempting", "run", "run_id_for", "save", "setup", "summary", "teardown", "use_artifact",
]  # fmt: skip

if TYPE_CHECKING:
    run: Optional[Run]
    config: Config
    summary: Summary
    _current: Run
    log = _current.log
    define_metric = _current.define_metric
    alert = _current.alert
    mark_preempting = _current.mark_preempting
    log_artifact = _current.log_artifact
    use_artifact = _current.use_artifact
    log_model = _current.log_model
    log_code = _current.log_code
    save = _current.save
else:
    _init.make_current(None)


_unsupported.install()


def run_id_for(save_dir: str, experiment: str) -> str:
    """An id that is the same for each start of an experiment: the SHA-1 of "{save_dir}/{experiment}". Use it with `resume`."""
    return _native.run_id_for(_values.clean(save_dir), _values.clean(experiment))


def __getattr__(name: str) -> Any:
    if name == "Api":
        from ranklog.api import Api

        return Api
    if name == "util":
        import importlib

        return importlib.import_module("ranklog.util")
    if name == "join":
        return finish
    if name in ("termlog", "termwarn", "termerror"):
        from ranklog._warn import term

        return term
    name = {"wandb_sdk": "sdk"}.get(name, name)
    if name in _unsupported.MODULES:
        import importlib

        return importlib.import_module(f"ranklog.{name}")
    from ranklog._warn import UnsupportedCall

    if name in _unsupported.NONE:
        return UnsupportedCall(f"ranklog.{name}", _unsupported.MODULE_NAMES[name])
    if name in _unsupported.MODULE_NAMES:
        return _unsupported.absent(f"ranklog.{name}", _unsupported.MODULE_NAMES[name])
    raise AttributeError(f"module 'ranklog' has no attribute {name!r}")
