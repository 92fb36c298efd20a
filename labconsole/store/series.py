"""Time series of one run as the bytes of one numpy .npz file: a member per column, named table/column.

A column is int64 (uint64 when it must), or float64 with NaN for "not known". An integer column with gaps keeps its
integers and says where the gaps are in a second member, table/column?, because nanoseconds since 1970 fit no float.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.contracts.ports import Series
from labconsole.errors import StoreError

if TYPE_CHECKING:
    import numpy as np

_NAME = re.compile(r"[A-Za-z0-9_.:@ -]{1,128}")
_GAPS = "?"
MAX_SERIES_BYTES = 512 << 20
"""Unpacked, of one run: sixty million samples. A file of some kilobytes can unpack to any size."""


def pack_series(run_id: str, series: Series) -> bytes:
    """The series as the bytes of an .npz file, the same for the same series. Raises StoreError."""
    import numpy as np

    arrays = _to_arrays(run_id, series)
    packed = io.BytesIO()
    # np.savez_compressed(file, **arrays) would take a column called "file" for its own argument.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # of 1980: a date would make every archive another
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
    return packed.getvalue()


def read_file(path: Path, run_id: str) -> bytes:
    """The bytes of a series file. Raises StoreError naming the run and the file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_SERIES_BYTES + 1)
    except FileNotFoundError as exc:
        raise StoreError(f"run {run_id}: its time series {path} is missing") from exc
    except OSError as exc:
        raise StoreError(f"run {run_id}: its time series {path} cannot be read: {exc}") from exc
    if len(content) > MAX_SERIES_BYTES:
        raise StoreError(f"run {run_id}: its time series {path} has more than {MAX_SERIES_BYTES} bytes")
    return content


def unpack_series(content: bytes, run_id: str, where: str) -> Series:
    """Packed series. Raises StoreError naming the run and ``where`` the bytes are from."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > MAX_SERIES_BYTES:
                raise ValueError(f"it decompresses to more than {MAX_SERIES_BYTES} bytes")
            arrays = {member.filename.removesuffix(".npy"): _member(archive, member) for member in members}
    except (OSError, ValueError, EOFError, RuntimeError, MemoryError, zlib.error, zipfile.BadZipFile) as exc:
        # RuntimeError: a member that wants a password, or is packed in a way that Python does not know
        raise StoreError(f"run {run_id}: its time series {where} cannot be read: {exc}") from exc
    tables: dict[str, dict[str, list[int | float | None]]] = {}
    for name, array in arrays.items():
        if name.endswith(_GAPS):
            continue
        table, slash, column = name.partition("/")
        if not slash or array.ndim != 1 or array.dtype.kind not in "iuf":
            raise StoreError(
                f"run {run_id}: its time series {where} contains {name!r}, which is not a column of numbers"
            )
        tables.setdefault(table, {})[column] = _to_list(array, arrays.get(name + _GAPS))
    return Series(tables)


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """One column. Its header is believed only as far as there are bytes: numpy would set the room aside first."""
    import numpy as np

    content = io.BytesIO(archive.read(member))
    try:
        np.lib.format.read_magic(content)
        shape, _, dtype = np.lib.format.read_array_header_1_0(content)
    except (SyntaxError, TypeError, IndexError, KeyError, AttributeError) as exc:
        raise ValueError(f"{member.filename!r} has an invalid header") from exc
    if len(shape) != 1 or dtype.kind not in "iufb" or dtype.itemsize > 8:
        raise ValueError(f"{member.filename!r} is not a column of numbers")
    if shape[0] < 0 or shape[0] * dtype.itemsize != len(content.getbuffer()) - content.tell():
        raise ValueError(f"{member.filename!r} is not as long as its header says")
    return np.frombuffer(content.getbuffer()[content.tell() :], dtype=dtype)


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
                    arrays[name] = plain
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
