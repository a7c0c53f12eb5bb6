"""What W&B's package has and this one has not. client/python/unsupported.md is the page for users.

Each name has what to do instead, or nothing. Using one warns once and does nothing. Absent classes and modules can be imported,
subclassed and asked for by isinstance().
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional, cast

from ranklog._warn import Unsupported

# Functions that return None, because a program uses the result at once.
NONE = ("restore", "use_model")

MODULE_NAMES: dict[str, str] = {
    "Audio": "save the file by run.save()",
    "Video": "save the file by run.save()",
    "Object3D": "save the file by run.save()",
    "Molecule": "save the file by run.save()",
    "Plotly": "log an Image or Html",
    "Graph": "",
    "Classes": "",
    "EvalTable": "log a Table",
    "JoinedTable": "log a Table",
    "ArtifactTTL": "",
    "box3d": "",
    "plot_table": "log a Table",
    "sweep": "",
    "agent": "",
    "controller": "",
    "launch": "",
    "tensorboard": "log the values by run.log()",
    "gym": "",
    "restore": "ranklog artifacts get",
    "use_model": "use_artifact(name).download()",
    "api": "use Api()",
    "env": "",
    "agents": "",
    "catboost": "",
    "lightgbm": "log the values by run.log()",
    "xgboost": "log the values by run.log()",
    "sacred": "",
    "tensorflow": "",
    "pin_config_keys": "",
    "termsetup": "",
    "trigger": "",
    "visualize": "",
    "watch": "log a Histogram of the gradients",
    "unwatch": "",
    "jupyter": "",
    "link_model": "",
    "require": "",
}

RUN_METHODS: dict[str, str] = {
    "watch": "log a Histogram of the gradients",
    "unwatch": "",
    "restore": "ranklog artifacts get",
    "link_artifact": "",
    "link_model": "",
    "use_model": "ranklog artifacts get",
    "upsert_artifact": "use log_artifact(), with incremental=True",
    "finish_artifact": "",
    "display": "",
    "to_html": "",
    "status": "",
    "pin_config_keys": "",
    "get_project_url": "",
    "get_sweep_url": "",
    "write_logs": "",
}

ARTIFACT_NAMES: dict[str, str] = {
    **dict.fromkeys(("manifest",), ""),
    **dict.fromkeys(("get", "get_entry", "get_path", "file", "files", "checkout", "verify", "json_encode"), "use download()"),
    **dict.fromkeys(("delete", "link", "unlink", "logged_by", "used_by", "remove", "save", "finalize", "new_draft"), ""),
    **dict.fromkeys(("get_added_local_path_name",), ""),
}

# Facts that only the tracker knows.
ARTIFACT_FACTS: dict[str, object] = {
    **dict.fromkeys(("version", "id", "digest", "digest_algorithm", "qualified_name", "collection", "commit_hash", "url", "ttl")),
    **dict.fromkeys(("entity", "project", "created_at", "updated_at", "linked_at", "history_step", "distributed_id", "use_as")),
    **dict.fromkeys(("source_artifact", "source_collection", "source_entity", "source_name", "source_project")),
    **dict.fromkeys(("source_qualified_name", "source_version")),
    **{"size": 0, "file_count": 0, "is_link": False, "linked_artifacts": ()},
}

TABLE_NAMES: dict[str, str] = dict.fromkeys(("cast", "add_computed_columns", "set_pk", "set_fk", "index_ref"), "")

# Submodules of W&B's package, whose own submodules can be imported, too.
MODULES = ("apis", "catboost", "data_types", "integration", "keras", "lightgbm", "plot", "sdk", "sklearn", "xgboost")
_PREFIXES = tuple(f"ranklog.{name}" for name in MODULES)


class _ClassType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith(("from_", "make_")):  # other ways to make an object
            return cls
        raise AttributeError(f"{cls.__name__} has no attribute {name!r}")


class Absent(Unsupported, metaclass=_ClassType):
    """The base of classes that are not here. Its objects are left out of rows."""

    _name = ""
    _instead = ""

    def __init__(self, *_args: object, **_named: object) -> None:
        Unsupported.__call__(self)


@functools.lru_cache(maxsize=None)  # one class for a name, for isinstance()
def absent_class(name: str, instead: str = "") -> type[Absent]:
    return cast("type[Absent]", _ClassType(name.split(".")[-1], (Absent,), {"_name": name, "_instead": instead}))


def absent(name: str, instead: str = "") -> Any:
    return absent_class(name, instead) if name.split(".")[-1][:1].isupper() else Unsupported(name, instead)


class _Module(ModuleType):
    """Has what `ranklog` has by the same name, such as `sdk.wandb_run.Run`. The rest does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        import ranklog

        if name[:1].isupper() and (name in ranklog.__all__ or name in MODULE_NAMES):
            return getattr(ranklog, name)
        if self.__name__.startswith("ranklog.sdk") and name.islower():
            return importlib.import_module(f"{self.__name__}.{name}")
        return absent(f"{self.__name__}.{name}")

    def __call__(self, *_args: object, **_named: object) -> Unsupported:
        return Unsupported(self.__name__)()


class _Finder:
    """The last finder of imports, so a file of the package comes first."""

    @staticmethod
    def find_spec(name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        if name in _PREFIXES or name.startswith(tuple(f"{prefix}." for prefix in _PREFIXES)):
            return importlib.util.spec_from_loader(name, _Loader(), is_package=True)  # type: ignore[arg-type,unused-ignore]
        return None


class _Loader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        pass


def install() -> None:
    sys.meta_path.append(_Finder)
