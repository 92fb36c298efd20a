"""One .tar.gz of files with a manifest of their hashes, and how differences from it are reported."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

from labconsole.errors import StoreError
from labconsole.store.records import parse_json

# -- differences -------------------------------------------------------------------------------------------------------
# Differences, reported one by one up to a limit: a crafted bundle may have any number of them.

Tell = Callable[[str], None]
"""Called with each difference, as a sentence that begins with its place."""

MAX_DIFFERENCES = 500
"""The number of differences reported one by one; the rest are only counted."""

MAX_SENTENCE_CHARACTERS = 2000


class Differences:
    """Counts differences and reports the first ``MAX_DIFFERENCES`` of them. Call it with a sentence, as a ``Tell``."""

    def __init__(self, tell: Tell) -> None:
        self.count = 0
        self._tell = tell

    def __call__(self, sentence: str) -> None:
        self.count += 1
        if self.count <= MAX_DIFFERENCES:
            self._tell(cut(sentence))

    def end(self) -> None:
        """Report how many more there are."""
        if self.count > MAX_DIFFERENCES:
            self._tell(f"{self.count - MAX_DIFFERENCES} more differences are not listed")


def cut(sentence: str) -> str:
    """A sentence, shortened to a readable length."""
    return sentence if len(sentence) <= MAX_SENTENCE_CHARACTERS else sentence[: MAX_SENTENCE_CHARACTERS - 1] + "…"


# -- archive -----------------------------------------------------------------------------------------------------------
# One .tar.gz of files with a manifest of their hashes.
#
# The same files always give the same bytes, and an archive is read as untrusted input.
#
# Unpacking accepts only plain files below one directory, bounded in number and size, and writes only to a directory
# that the reader chose. Python's own tar filters bound neither. Names from a manifest are opened only through
# ``Unpacked``, which knows the files that the archive contained: a name in a manifest is text, not a path.

TOP = "labconsole-bundle"
MANIFEST = "manifest.json"
BUNDLE_FORMAT = 1
"""Incremented when an older program would misread a newer archive."""

MAX_FILES = 250_000
MAX_MANIFEST_BYTES = 40 << 20
"""An entry of a manifest has 150 bytes."""

MAX_HEADER_BYTES = 1 << 16
"""The limit for everything that a tar archive states about one file."""

MAX_UNPACKED_BYTES = 16 << 30
MAX_RATIO = 200
"""Unpacked bytes per packed byte. Records compress to a thirtieth; only zeros compress to a thousandth."""

SMALL_BYTES = 64 << 20
"""An archive may always unpack to this size, however small it is."""

_PIECE_BYTES = 1 << 18
_MAX_NAME_CHARACTERS = 255
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,200}){0,3}")


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The contents of an archive.

    ``differences``: sentences on how it differs from its manifest. ``names``: its files.
    """

    manifest: dict[str, Any]
    directory: Path
    names: frozenset[str]
    differences: tuple[str, ...]

    def path(self, name: str) -> Path | None:
        """The path of a file of the archive, or None if the archive does not contain it."""
        return self.directory / name if name in self.names else None

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """A file's content, or None if the archive does not contain it. Raises StoreError if it is longer."""
        path = self.path(name)
        if path is None:
            return None
        if path.stat().st_size > max_bytes:
            raise StoreError(f"{name}: has {path.stat().st_size} bytes; allowed: {max_bytes}")
        return path.read_bytes()

    def describe(self, problem: Exception) -> str:
        """An error about a file of the archive, with the archive's own names."""
        return str(problem).replace(f"{self.directory}/", "")


def hash_file(path: Path) -> dict[str, Any]:
    """A file's entry in the manifest."""
    with path.open("rb") as stream:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def pack(out: Path, directory: Path, about: Mapping[str, Any], *, modified_s: int) -> None:
    """Write all files of a directory, the manifest first. ``modified_s``: modification time, Unix time."""
    names = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    files = {name: hash_file(directory / name) for name in names}
    manifest = json.dumps({"format": BUNDLE_FORMAT, **about, "files": files}, indent=1, sort_keys=True).encode()
    with (
        out.open("xb") as raw,
        # A name or a date would make every archive different.
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, MANIFEST, len(manifest), io.BytesIO(manifest), modified_s)
        for name in names:
            with (directory / name).open("rb") as stream:
                _add(archive, name, files[name]["bytes"], stream, modified_s)


def _add(archive: tarfile.TarFile, name: str, size: int, content: BinaryIO, modified_s: int) -> None:
    member = tarfile.TarInfo(f"{TOP}/{name}")
    member.size, member.mtime, member.mode = size, modified_s, 0o644
    archive.addfile(member, content)


def unpack(path: Path, directory: Path) -> Unpacked:
    """Unpack an archive into an empty directory and compare it with its manifest.

    Raises StoreError if the file is no such archive, or if it demands more than its files need.
    """
    try:
        with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) as packed:
            limit = min(MAX_UNPACKED_BYTES, max(SMALL_BYTES, MAX_RATIO * path.stat().st_size))
            stream = _Bounded(packed, limit)
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                return _unpack(archive, stream, path, directory)
    except OSError as exc:
        # gzip reports a file of another type with an OSError that has no number.
        description = exc.strerror if exc.errno is not None else f"is not a bundle: {exc}"
        raise StoreError(f"{path}: {description}") from exc
    except (tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError) as exc:
        raise StoreError(f"{path}: is not a bundle, or is damaged: {exc}") from exc


def _unpack(archive: tarfile.TarFile, raw: _Bounded, path: Path, directory: Path) -> Unpacked:
    manifest: dict[str, Any] | None = None
    found: set[str] = set()
    differences: list[str] = []
    tell = Differences(differences.append)
    for name, member in _members(archive, raw, path):
        stream = archive.extractfile(member)
        assert stream is not None
        if manifest is None:
            if name != MANIFEST:
                raise StoreError(f"{path}: is not a bundle: it does not begin with {MANIFEST}")
            if member.size > MAX_MANIFEST_BYTES:
                raise StoreError(f"{path}: its {MANIFEST} has more than {MAX_MANIFEST_BYTES} bytes")
            manifest = _manifest(b"".join(_pieces(stream)), path)
            continue
        if name in found:
            raise StoreError(f"{path}: contains {name} twice")
        found.add(name)
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        content_hash = hashlib.sha256()
        with target.open("xb") as copy:
            for piece in _pieces(stream):
                content_hash.update(piece)
                copy.write(piece)
        listed = manifest["files"].get(name)
        if listed is None:
            tell(f"{name}: is not in the manifest")
        elif listed != {"bytes": member.size, "sha256": content_hash.hexdigest()}:
            tell(f"{name}: differs from the file that the manifest describes")
    if manifest is None:
        raise StoreError(f"{path}: is not a bundle: it is empty")
    for name in sorted(manifest["files"].keys() - found):
        tell(f"{name[:_MAX_NAME_CHARACTERS]}: is missing")
    tell.end()
    return Unpacked(manifest, directory, frozenset(found), tuple(differences))


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_PIECE_BYTES):
        yield piece


def _members(archive: tarfile.TarFile, raw: _Bounded, path: Path) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """Yield the plain files below TOP by name. Any other member makes the whole archive invalid."""
    number = 0
    while (member := raw.read_header(archive.next)) is not None:
        archive.members = []  # type: ignore[attr-defined] # tarfile would keep what every header says
        if archive.pax_headers:  # tarfile collects them, and copies them to every file
            raise StoreError(f"{path}: has a header about all its files; a bundle has none")
        number += 1
        if number > MAX_FILES + 1:
            raise StoreError(f"{path}: contains more than {MAX_FILES} files")
        top, _, name = member.name.partition("/")
        if top != TOP or not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARACTERS:
            raise StoreError(f"{path}: holds {member.name[:200]!r}, which is not a valid name in a bundle")
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.sparse is not None:
            raise StoreError(f"{path}: {name} is not a regular file")
        yield name, member


def _manifest(content: bytes, path: Path) -> dict[str, Any]:
    data: Any = parse_json(content, f"{path}: its {MANIFEST}", max_bytes=MAX_MANIFEST_BYTES)
    if not isinstance(data, dict):
        raise StoreError(f"{path}: its {MANIFEST} is not a JSON object")
    version = data.get("format")
    if type(version) is not int or version < 1:
        raise StoreError(f"{path}: its {MANIFEST} has no format")
    if version > BUNDLE_FORMAT:
        raise StoreError(
            f"{path}: is a bundle of format {version}; this version of labconsole reads up to {BUNDLE_FORMAT}"
        )
    if not isinstance(data.get("files"), dict):
        raise StoreError(f"{path}: its {MANIFEST} lists no files")
    return data


class _Bounded(io.RawIOBase):
    """A stream that raises an error beyond ``limit``, because tarfile trusts the sizes that headers claim.

    A header may take ``MAX_HEADER_BYTES``, from which tarfile builds objects. Content is read in pieces and not kept.
    """

    def __init__(self, inner: BinaryIO | gzip.GzipFile, limit: int) -> None:
        self._inner, self._limit = inner, limit
        self._header_left: int | None = MAX_HEADER_BYTES  # tarfile.open() reads the first one

    def read_header(self, read_next: Callable[[], tarfile.TarInfo | None]) -> tarfile.TarInfo | None:
        """The next header, read from here by ``read_next``; bounded until that returns."""
        self._header_left = MAX_HEADER_BYTES
        member = read_next()
        self._header_left = None
        return member

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._inner.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            raise ValueError("only from the beginning")
        self._check(offset)
        return self._inner.seek(offset)

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = self._limit - self.tell() + 1
        if self._header_left is not None:
            self._header_left -= size
            if self._header_left < 0:
                raise ValueError(f"a header has more than {MAX_HEADER_BYTES} bytes")
        if size > MAX_MANIFEST_BYTES:
            raise ValueError(f"{size} bytes are claimed at once")
        self._check(self.tell() + size)
        return self._inner.read(size)

    def _check(self, position: int) -> None:
        if position > self._limit + tarfile.RECORDSIZE:
            raise ValueError(f"it decompresses to more than {self._limit} bytes")
