"""Classes and modules of W&B's package that are not here: they can be imported, subclassed and asked for by isinstance()."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional, cast

from ranklog._warn import Unsupported

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

        from ranklog._unsupported import MODULE_NAMES

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
