"""Images, tables, HTML and histograms as values of a row. client/content/media.md has their limits."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from ranklog import _values
from ranklog._warn import Unsupported, warn_once

# enum ranklog_kind of ranklog/c.h
_IMAGE, _IMAGES, _TABLE, _HTML = 8, 9, 10, 11


def _module_of(value: Any) -> str:
    return type(value).__module__.split(".")[0]


def media_of(value: Any) -> Any:
    """The medium that W&B's package makes of an object of another library; None: it is none."""
    module = _module_of(value)
    if getattr(value, "__name__", "") == "matplotlib.pyplot":
        return Image(value)
    if module == "matplotlib" and (hasattr(value, "savefig") or hasattr(value, "figure")):
        return Image(value)
    if module == "PIL":
        return Image(value)
    if module == "pandas" and hasattr(value, "columns"):
        return Table(dataframe=value)
    if module == "plotly" and hasattr(value, "to_html"):
        return Html(value.to_html(include_plotlyjs="cdn"))
    return None


class Image:
    """A picture: the path of a file, a PIL image, a matplotlib figure, or an array of (height, width[, channels]).

    Tensors of torch have the channels first. Numbers are bytes from 0 to 255; floats from 0 to 1 are scaled to them.
    """

    def __init__(
        self,
        data_or_path: Any,
        mode: Optional[str] = None,
        caption: Optional[str] = None,
        grouping: Optional[int] = None,
        classes: Any = None,
        boxes: Any = None,
        masks: Any = None,
        file_type: Optional[str] = None,
    ) -> None:
        if classes or boxes or masks:
            warn_once("classes, boxes and masks of images are not supported")
        self.caption = caption
        self.png: bytes = _png_of(data_or_path, mode)

    def _field(self) -> tuple[int, list[Any]]:
        return (_IMAGE, [self.png, self.caption or ""])

    @staticmethod
    def _fields(images: Sequence[Any]) -> Any:
        if all(isinstance(image, Image) for image in images):
            return (_IMAGES, [image._field() for image in images])
        warn_once("a list of media can only have images")
        return None


def _png_of(source: Any, mode: Optional[str]) -> bytes:
    if isinstance(source, Image):
        return source.png
    if isinstance(source, bytes):
        return source
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            png = file.read()
        return png if png.startswith(b"\x89PNG") else _saved(_pil().open(source), mode)
    if getattr(source, "__name__", "") == "matplotlib.pyplot":  # the module, as in Image(plt)
        return _saved(source.gcf(), None)
    module = _module_of(source)
    if module == "matplotlib":
        figure = source if hasattr(source, "savefig") else source.figure
        return _saved(figure, None)
    if _values.is_array(source):
        return _png_of_array(source, mode)
    return _saved(source, mode)  # a PIL image


def _pil() -> Any:
    try:
        from PIL import Image as pil
    except ImportError:
        raise ImportError("images of other formats than PNG need Pillow; run pip install pillow") from None
    return pil


def _saved(image: Any, mode: Optional[str]) -> bytes:
    import io

    buffer = io.BytesIO()
    if hasattr(image, "savefig"):
        image.savefig(buffer, format="png")
    else:
        (image.convert(mode) if mode else image).save(buffer, format="png")
    return buffer.getvalue()


def _png_of_array(array: Any, mode: Optional[str]) -> bytes:
    import numpy

    is_tensor = _module_of(array) == "torch"
    array = numpy.asarray(_values.on_host(array))
    if is_tensor and array.ndim == 3:
        array = numpy.moveaxis(array, 0, -1)
    if array.ndim > 2:
        array = array.squeeze()
    if array.ndim == 3 and array.shape[-1] not in (2, 3, 4) or array.ndim not in (2, 3):
        raise ValueError(f"an image of shape {array.shape}; use (height, width[, 3 or 4])")
    if array.dtype.kind == "f" and array.size and 0 <= array.min() and array.max() <= 1:
        array = array * 255
    array = array.astype("uint8")
    if mode is not None:
        return _saved(_pil().fromarray(array), mode)
    return _encode_png(array)


def _encode_png(array: Any) -> bytes:
    """PNG of bytes of (height, width[, channels]), without Pillow. See www.w3.org/TR/png."""
    import struct
    import zlib

    height, width = array.shape[:2]
    color = {1: 0, 2: 4, 3: 2, 4: 6}[1 if array.ndim == 2 else array.shape[2]]
    rows = array.reshape(height, -1)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)  # filter 0: none

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


class Table:
    """A table: columns, and rows with a value for each column."""

    def __init__(
        self,
        columns: Optional[Sequence[Any]] = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        dtype: Any = None,
        optional: Any = True,
        allow_mixed_types: bool = False,
        log_mode: Optional[str] = "IMMUTABLE",
    ) -> None:
        frame = dataframe if dataframe is not None else data if _module_of(data) == "pandas" else None
        if frame is not None:
            columns, data = list(frame.columns), frame.values.tolist()
        self.columns = list(columns) if columns is not None else ["Input", "Output", "Expected"]
        self.data: list[list[Any]] = []
        given = data if data is not None else rows
        for row in given if given is not None else ():
            self.add_data(*row)

    def add_data(self, *data: Any) -> None:
        if len(data) != len(self.columns):
            raise ValueError(f"This table expects {len(self.columns)} columns: {self.columns}, found {len(data)}")
        self.data.append(list(data))

    def add_row(self, *row: Any) -> None:
        self.add_data(*row)

    def add_column(self, name: str, data: Sequence[Any], optional: bool = False) -> None:
        if self.data and len(data) != len(self.data):
            raise ValueError(f"Expected length {len(self.data)}, found {len(data)}")
        self.data = self.data or [[] for _ in data]
        self.columns.append(name)
        for row, value in zip(self.data, data):
            row.append(value)

    def get_column(self, name: str) -> list[Any]:
        return [row[self.columns.index(name)] for row in self.data]

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        return iter(enumerate(self.data))

    def get_dataframe(self) -> Any:
        import pandas

        return pandas.DataFrame(self.data, columns=self.columns)

    def get_index(self) -> list[int]:
        return list(range(len(self.data)))

    def __getattr__(self, name: str) -> Any:
        from ranklog._unsupported import TABLE_NAMES

        if name in TABLE_NAMES:
            return Unsupported(f"Table.{name}", TABLE_NAMES[name])
        raise AttributeError(f"a table has no attribute {name!r}")

    def _field(self) -> tuple[int, list[Any]]:
        return (_TABLE, [[str(column) for column in self.columns], [[_cell(value) for value in row] for row in self.data]])


def _cell(value: Any) -> Any:
    plain = _values.plain(value)
    if isinstance(plain, tuple):
        warn_once("media in tables are not supported")
        return None
    return plain


class Html:
    """A web page: its text, an open file, or the path of a file whose name ends in .html."""

    def __init__(self, data: Any, inject: bool = True, data_is_not_path: bool = False) -> None:
        is_path = isinstance(data, (str, os.PathLike)) and not data_is_not_path and os.fspath(data).endswith(".html")
        if is_path and os.path.isfile(data):
            with open(data, encoding="utf-8") as file:
                self.html = file.read()
        else:
            self.html = data.read() if hasattr(data, "read") else str(data)

    def _field(self) -> tuple[int, str]:
        return (_HTML, self.html)


class Histogram:
    """Counts of values in bins. `np_histogram`: what numpy.histogram() returned."""

    MAX_LENGTH = 512

    def __init__(self, sequence: Any = None, np_histogram: Any = None, num_bins: int = 64) -> None:
        if np_histogram is not None:
            counts, bins = np_histogram
            self.histogram, self.bins = list(_values.plain(list(counts))), list(_values.plain(list(bins)))
        else:
            self.histogram, self.bins = _count(sequence, num_bins)
        if len(self.histogram) > self.MAX_LENGTH:
            raise ValueError(f"The maximum length of a histogram is {self.MAX_LENGTH}")
        if len(self.histogram) + 1 != len(self.bins):
            raise ValueError("len(bins) must be len(histogram) + 1")

    def _field(self) -> dict[str, Any]:
        return {"_type": "histogram", "values": self.histogram, "bins": self.bins}


def _count(sequence: Any, bins: int) -> tuple[list[int], list[float]]:
    if _values.is_array(sequence):
        sequence = _values.on_host(sequence)
        sequence = sequence.float() if hasattr(sequence, "float") else sequence  # numpy has no bfloat16
    try:
        import numpy
    except ImportError:
        return _count_without_numpy(sequence, bins)
    array = numpy.asarray(sequence).ravel()
    if array.dtype.kind == "f":  # numpy.histogram fails with NaN and infinities
        array = array[numpy.isfinite(array)]
    counts, edges = numpy.histogram(array, bins=bins)
    return counts.tolist(), edges.tolist()


def _count_without_numpy(sequence: Any, bins: int) -> tuple[list[int], list[float]]:
    """Bins of equal width from the smallest to the largest value, as numpy.histogram() has them."""
    flat = sequence.flatten().tolist() if hasattr(sequence, "flatten") else sequence
    values = [value for value in map(float, flat) if math.isfinite(value)]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
    return counts, [low + (high - low) * i / bins for i in range(bins)] + [high]
