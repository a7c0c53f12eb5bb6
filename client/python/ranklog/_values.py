"""What a value of Python, numpy or torch becomes in a row, in the config or in the summary."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from typing import Any

from ranklog._warn import Unsupported

# How src/row.c makes a number of a value of a foreign type.
_RICH, _FLOAT, _INTEGER, _FLAG, _ITEM, _TENSOR = range(6)
# W&B's limits: a longer array becomes a histogram with this number of bins.
_LIST_LENGTH = 32


def kind_of(cls: type) -> int:
    """How values of a type become scalars. Called once for a type."""
    names = {(base.__module__, base.__name__) for base in cls.__mro__}
    if ("numpy", "floating") in names:
        return _FLOAT
    if ("numpy", "integer") in names:
        return _INTEGER
    if ("numpy", "bool_") in names or ("numpy", "bool") in names:
        return _FLAG
    if is_array(cls):
        return _TENSOR if hasattr(cls, "is_cuda") else _ITEM
    return _RICH


def is_array(value: Any) -> bool:
    """Whether it is an array, a tensor, or the class of one."""
    return hasattr(value, "item") and hasattr(value, "tolist") and hasattr(value, "shape")


def on_host(array: Any) -> Any:
    """A tensor's values in memory of the CPU, without gradients."""
    for method in ("detach", "cpu"):
        if hasattr(array, method):
            array = getattr(array, method)()
    return array


def _size(array: Any) -> int:
    size = 1
    for length in array.shape:
        size *= int(length)
    return size


def _from_array(array: Any, for_config: bool) -> Any:
    array = on_host(array)
    size = _size(array)
    if size == 1:
        item = array.item()
        return float(item) if is_array(type(item)) else plain(item, for_config)  # a longdouble stays one
    if size <= _LIST_LENGTH:
        return plain(array.tolist(), for_config)
    if for_config:
        return str(array)
    from ranklog._media import Histogram

    return plain(Histogram(array, num_bins=_LIST_LENGTH))


def plain(value: Any, for_config: bool = False) -> Any:
    """The value by None, bool, int, float, str, list and dict, and tuples for media (src/fields.c). Never raises."""
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum):
        return value
    try:
        return _plain(value, for_config)
    except Exception:  # a class of the user may do anything, and a list may contain itself: the training goes on
        return f"<{type(value).__name__}>"


def _plain(value: Any, for_config: bool) -> Any:
    if isinstance(value, Unsupported):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(item, for_config) for key, item in value.items()}
    # The class is asked: a mock object has all attributes.
    if hasattr(type(value), "_field"):
        return str(value) if for_config else value._field()
    if isinstance(value, (list, tuple)) and not for_config and value and all(hasattr(type(item), "_field") for item in value):
        return type(value[0])._fields(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, Unsupported) for item in value):
        return None
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(item, for_config) for item in value]
    if isinstance(value, enum.Enum):
        return value.name
    if is_array(type(value)):
        return _from_array(value, for_config)
    if hasattr(type(value), "numpy") and hasattr(type(value), "shape"):  # a tensor of TensorFlow
        return _from_array(value.numpy(), for_config)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if type(value).__module__ == "datetime" and hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses

        return plain(dataclasses.asdict(value), for_config)
    if not for_config:
        from ranklog._media import media_of

        medium = media_of(value)
        if medium is not None:
            return medium._field()
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return str(value)


def clean(value: Any) -> str:
    """A text without what UTF-8 lacks."""
    return str(value).encode("utf-8", "replace").decode()


def text(value: Any) -> bytes:
    """A path or a text for a C string."""
    return os.fsencode(value) if isinstance(value, os.PathLike) else str(value).encode("utf-8", "replace")
