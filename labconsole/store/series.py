"""Time series of one run as the bytes of one numpy .npz file: a member per column, named table/column.

A column is int64 (uint64 if necessary), or float64 with NaN for "not known". An integer column with gaps keeps its
integers and marks the gaps in a second member, table/column?, because nanoseconds since 1970 fit no float.

All files from elsewhere are read by the same rule: only what ``pack_series`` writes, a column at a time, and bounded in
the number of values. The sizes that the file states are compared with what follows, never allocated.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.contracts.ports import Series
from labconsole.errors import StoreError

if TYPE_CHECKING:
    import numpy as np

_NAME = re.compile(r"[A-Za-z0-9_.:@ -]{1,128}")
_GAPS = "?"
MAX_SERIES_VALUES = 32 << 20
"""For one run: all counters of the interfaces as often as a run keeps them (engine/live/samples.py), and every gap."""

MAX_SERIES_BYTES = 8 * MAX_SERIES_VALUES
"""For one file, as if nothing in it were compressed."""

MAX_COLUMNS = 4096
_CHUNK_BYTES = 1 << 20
_LONGEST_HEADER_BYTES = (1 << 16) + 10
"""For numpy's version 1: ten bytes, of which two state the length of the rest."""

_PACKED_AS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_CENTRAL_ENTRY = b"PK\x01\x02"
"""The first bytes of every entry in a zip file's directory."""


def pack_series(run_id: str, series: Series) -> bytes:
    """The series as the bytes of an .npz file, equal for equal series. Raises StoreError."""
    import numpy as np

    arrays = _to_arrays(run_id, series)
    packed = io.BytesIO()
    # np.savez_compressed(file, **arrays) would take a column called "file" for its own argument.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: a real date would make every archive different
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
    return packed.getvalue()


def read_file(path: Path, run_id: str) -> bytes:
    """The bytes of a series file. Raises StoreError naming the run and the file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"run {run_id}: its time series {path} is not a regular file")
        if status.st_size > MAX_SERIES_BYTES:
            raise StoreError(f"run {run_id}: its time series {path} has more than {MAX_SERIES_BYTES} bytes")
        with path.open("rb") as stream:
            return stream.read(status.st_size)  # reserves memory for the whole requested size at once
    except FileNotFoundError as exc:
        raise StoreError(f"run {run_id}: its time series {path} is missing") from exc
    except OSError as exc:
        raise StoreError(f"run {run_id}: its time series {path} cannot be read: {exc}") from exc


_UNREADABLE = (
    OSError,
    ValueError,
    OverflowError,
    EOFError,
    RuntimeError,
    MemoryError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)
"""Exceptions of zipfile and numpy for a damaged file; RuntimeError for a member that needs a password."""


def unpack_series(content: bytes, run_id: str, where: str) -> Series:
    """Unpack series. Raises StoreError naming the run and ``where``, the origin of the bytes."""
    gaps: dict[str, np.ndarray[Any, Any]] = {}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, array in _columns(content, run_id, where):
        (gaps if name.endswith(_GAPS) else arrays)[name.removesuffix(_GAPS)] = array
    tables: dict[str, dict[str, list[int | float | None]]] = {}
    for name in list(arrays):
        table, _, column = name.partition("/")
        tables.setdefault(table, {})[column] = _to_list(arrays.pop(name), gaps.pop(name, None))
    return Series(tables)


def check_series(content: bytes, run_id: str, where: str) -> None:
    """Raise StoreError if ``unpack_series`` would. Keeps at most one column at a time."""
    for _ in _columns(content, run_id, where):
        pass


def _columns(content: bytes, run_id: str, where: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the members by name without .npy, each one-dimensional, of 8-byte numbers or, for gaps, of booleans."""
    try:
        if content.count(_CENTRAL_ENTRY) > MAX_COLUMNS:
            raise ValueError(f"it has more than {MAX_COLUMNS} columns")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            values_left = MAX_SERIES_VALUES
            for member in archive.infolist():
                array = _read_column(archive, member, values_left)
                values_left -= len(array)
                name = member.filename.removesuffix(".npy")
                kinds = "b" if name.endswith(_GAPS) else "iuf"
                if "/" not in name or array.dtype.kind not in kinds:
                    raise ValueError(f"it contains {name!r}, which is not a column of numbers")
                yield name, array
    except _UNREADABLE as exc:
        raise StoreError(f"run {run_id}: its time series {where} cannot be read: {exc}") from exc


def _read_column(archive: zipfile.ZipFile, member: zipfile.ZipInfo, values_left: int) -> np.ndarray[Any, Any]:
    import numpy as np

    content = _read_member(archive, member, 8 * values_left + _LONGEST_HEADER_BYTES)
    header = io.BytesIO(content[:_LONGEST_HEADER_BYTES])
    try:
        np.lib.format.read_magic(header)
        shape, _, dtype = np.lib.format.read_array_header_1_0(header)
    except Exception as exc:  # numpy parses it as Python, by more than one parser, and documents no exceptions
        raise ValueError(f"{member.filename!r} has an invalid header") from exc
    if len(shape) != 1 or (dtype.kind, dtype.itemsize) not in (("i", 8), ("u", 8), ("f", 8), ("b", 1)):
        raise ValueError(f"{member.filename!r} is not a column of numbers of 8 bytes")
    if shape[0] < 0 or shape[0] * dtype.itemsize != len(content) - header.tell():
        raise ValueError(f"{member.filename!r} is not as long as its header says")
    if shape[0] > values_left:
        raise _too_many_values()
    return np.frombuffer(content, dtype=dtype, offset=header.tell()) if shape[0] else np.empty(0, dtype=dtype)


def _too_many_values() -> ValueError:
    return ValueError(f"it holds more than {MAX_SERIES_VALUES} values")


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit_bytes: int) -> bytearray:
    """The bytes of a member, unpacked in pieces up to the size that the directory states; a longer one is refused."""
    stated_bytes = member.file_size
    if member.compress_type not in _PACKED_AS:
        raise ValueError(f"{member.filename!r} is compressed by a method that no time series uses")
    if stated_bytes > limit_bytes:
        raise _too_many_values()
    member.file_size = stated_bytes + 1  # zipfile silently cuts off what exceeds the stated size
    content = bytearray()
    with archive.open(member) as stream:
        while piece := stream.read(min(_CHUNK_BYTES, stated_bytes + 1 - len(content))):
            content += piece
            if len(content) > stated_bytes:
                raise ValueError(f"{member.filename!r} decompresses to more than the {stated_bytes} bytes it states")
    return content


def _to_arrays(run_id: str, series: Series) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for table, columns in series.tables.items():
        if len({len(values) for values in columns.values()}) > 1:
            raise StoreError(f"run {run_id}: the columns of time series {table!r} differ in length")
        for column, values in columns.items():
            if not _NAME.fullmatch(table) or not _NAME.fullmatch(column):
                raise StoreError(f"run {run_id}: {table!r}/{column!r} cannot name a time series")
            name = f"{table}/{column}"
            try:
                plain = np.asarray(values)
                if plain.dtype.kind in "iu":  # integers without gaps, the usual case, at a tenth of the time
                    arrays[name] = plain.astype(np.uint64 if plain.dtype.kind == "u" else np.int64, copy=False)
                    continue
                if any(isinstance(value, float) for value in values):
                    arrays[name] = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
                    continue
                gaps = [value is None for value in values]
                arrays[name] = _integers([0 if value is None else int(value) for value in values])
                if any(gaps):
                    arrays[name + _GAPS] = np.array(gaps, dtype=np.bool_)
            except (ValueError, TypeError, OverflowError) as exc:
                raise StoreError(f"run {run_id}: time series {name} does not hold numbers: {exc}") from exc
    return arrays


def _integers(values: list[int]) -> np.ndarray[Any, Any]:
    import numpy as np

    unsigned = bool(values) and max(values) > np.iinfo(np.int64).max
    return np.array(values, dtype=np.uint64 if unsigned else np.int64)


def _to_list(array: np.ndarray[Any, Any], gaps: np.ndarray[Any, Any] | None) -> list[int | float | None]:
    values: list[int | float | None] = array.tolist()
    if gaps is not None and len(gaps) == len(values):
        return [None if gap else value for value, gap in zip(values, gaps.tolist(), strict=True)]
    if array.dtype.kind == "f":
        # NaN is the only float that differs from itself.
        return [None if value != value else value for value in values]
    return values
