"""The config and the summary of a run: mappings whose changes go to the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from ranklog import _values
from ranklog.errors import ConfigError, Error


def parse_config(config: Any) -> dict[str, Any]:
    """A dict from what `init(config=...)` and `config.update()` take: a mapping, argparse's or absl's flags, a YAML file."""
    if config is None:
        return {}
    if isinstance(config, (str, os.PathLike)):
        return _from_file(os.fspath(config))
    if isinstance(config, Mapping):
        return dict(config)
    if hasattr(config, "flag_values_dict"):  # absl
        return dict(config.flag_values_dict())
    if hasattr(config, "items"):
        return dict(config.items())
    try:
        return dict(vars(config))
    except TypeError:
        raise Error(f"config is {config!r}; use a dict, an argparse.Namespace, or the path of a YAML file") from None


def _from_file(path: str) -> dict[str, Any]:
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise Error(f"reading {path} needs PyYAML; run pip install pyyaml") from None
    with open(path, encoding="utf-8") as file:
        loaded = yaml.safe_load(file) or {}
    if not isinstance(loaded, dict):
        raise Error(f"{path} has no keys with values; write lines such as lr: 0.1")
    loaded.pop("wandb_version", None)
    # W&B's own files have {key: {"value": ..., "desc": ...}}.
    return {key: item["value"] if isinstance(item, dict) and "value" in item else item for key, item in loaded.items()}


class Config(MutableMapping[str, Any]):
    """`run.config`: also by attributes, `run.config.lr`."""

    _write: Callable[[dict[str, Any]], object]
    _items: dict[str, Any]

    def __init__(self, write: Callable[[dict[str, Any]], object]) -> None:
        object.__setattr__(self, "_write", write)
        object.__setattr__(self, "_items", {})

    def _merge(self, items: Mapping[str, Any], allow_val_change: bool | None) -> None:
        plain = {str(key).strip("-"): _values.plain(value, for_config=True) for key, value in items.items()}
        for key, value in plain.items():
            # `is`: a NaN does not equal itself.
            if not allow_val_change and key in self._items and not (self._items[key] == value or self._items[key] is value):
                raise ConfigError(
                    f'Attempted to change value of key "{key}" from {self._items[key]} to {value}\n'
                    "If you really want to do this, pass allow_val_change=True to config.update()"
                )
        if plain:
            self._write(plain)
        self._items.update(plain)

    def update(self, d: Any = None, allow_val_change: bool | None = None, **items: Any) -> None:  # type: ignore[override]
        self._merge({**parse_config(d), **items}, allow_val_change)

    def setdefaults(self, d: Any) -> None:
        self._merge({key: value for key, value in parse_config(d).items() if key not in self._items}, None)

    def persist(self) -> None:
        """Does nothing: each change is sent at once."""

    def as_dict(self) -> dict[str, Any]:
        return dict(self._items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._merge({key: value}, None)

    def __delitem__(self, key: str) -> None:
        raise Error(f"the config's key {key!r} cannot be removed: the run may have it already")

    def __getattr__(self, key: str) -> Any:
        try:
            return self._items[key]
        except KeyError:
            raise AttributeError(f"the config has no key {key!r}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


class Summary(MutableMapping[str, Any]):
    """`run.summary`: what was set here, and the last values that this process has logged. The later one counts."""

    _write: Callable[[dict[str, Any]], object]
    _last: Callable[[], dict[str, tuple[int, Any]]]
    _rows: Callable[[], int]
    _settle: Callable[[], None]
    _items: dict[str, tuple[int, Any]]
    _merged: tuple[int, dict[str, Any]]  # after which row, and what

    def __init__(
        self,
        write: Callable[[dict[str, Any]], object],
        last: Callable[[], dict[str, tuple[int, Any]]],
        rows: Callable[[], int],
        settle: Callable[[], None],
    ) -> None:
        """`last`: the values of rows, with the numbers of the rows. `rows`: the number of the last row. `settle` waits for them."""
        object.__setattr__(self, "_write", write)
        object.__setattr__(self, "_last", last)
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_settle", settle)
        object.__setattr__(self, "_items", {})
        object.__setattr__(self, "_merged", (-1, {}))

    def update(self, d: Any = None, **items: Any) -> None:  # type: ignore[override]
        plain = {str(key): _values.plain(value) for key, value in {**(d or {}), **items}.items()}
        if plain:
            self._write(plain)
        self.remember(plain)

    def remember(self, plain: Mapping[str, Any]) -> None:
        """Keeps values for reading."""
        number = self._rows()
        self._items.update({key: (number, value) for key, value in plain.items()})
        object.__setattr__(self, "_merged", (-1, {}))

    def _current(self) -> dict[str, Any]:
        """Merged once for each row: a reader asks for each key. Nothing changes what this returns."""
        self._settle()
        rows = self._rows()
        merged = self._merged
        if merged[0] == rows:
            return merged[1]
        current = self._last()
        for key, item in dict(self._items).items():  # a copy: another thread may log
            if key not in current or current[key][0] <= item[0]:
                current[key] = item
        values = {key: value for key, (_, value) in current.items() if value is not None}
        if self._merged is merged:
            object.__setattr__(self, "_merged", (rows, values))
        return values

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __getitem__(self, key: str) -> Any:
        return _member(self._current()[key], lambda value: self.update({key: value}))

    def __delitem__(self, key: str) -> None:
        self.update({key: None})

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"the summary has no key {key!r}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def __repr__(self) -> str:
        return repr(self._current())


def _member(value: Any, write: Callable[[dict[str, Any]], object]) -> Any:
    return Member(value, write) if isinstance(value, dict) else value


class Member(dict[str, Any]):
    """An object in the summary. A change of it goes to the run, with the whole object."""

    def __init__(self, items: dict[str, Any], write: Callable[[dict[str, Any]], object]) -> None:
        super().__init__(items)
        self._write = write

    def __getitem__(self, key: str) -> Any:
        return _member(super().__getitem__(key), lambda value: self.__setitem__(key, value))

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._write(self)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._write(self)

    def update(self, *args: Any, **items: Any) -> None:
        super().update(*args, **items)
        self._write(self)


class BeforeInit:
    """`ranklog.config` and `ranklog.summary` before `init()`."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _fail(self, *_args: Any, **_named: Any) -> Any:
        raise Error(f"You must call ranklog.init() before ranklog.{object.__getattribute__(self, '_name')}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._fail()

    __setattr__ = __getitem__ = __setitem__ = _fail
