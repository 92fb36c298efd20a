"""The few commands of bpf(2) that the agent needs, why a kernel refuses a program, and its functions by address."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import resource
import struct
import sys
from bisect import bisect_right
from typing import Iterable, Iterator, List, Optional

from labconsole.wire.codec import WireError

# -- load errors -------------------------------------------------------------------------------------------------------
# Why a kernel refuses a program, as one of three codes.

LOCKDOWN = "/sys/kernel/security/lockdown"


def build_load_error(exc: OSError) -> WireError:
    """Build the reply to a request whose program the kernel refused."""
    said = {"errno": exc.errno}
    if exc.errno in (errno.EPERM, errno.EINVAL, errno.EACCES) and _locked_down():
        return WireError("locked_down", "the kernel is locked down and accepts no such program", said)
    if exc.errno == errno.EPERM:
        return WireError(
            "no_permission", "programs in the kernel are for root in the first user namespace: %s" % exc.strerror, said
        )
    return WireError("not_supported", "the kernel refuses the program: %s" % exc.strerror, said)


def _locked_down() -> bool:
    try:
        with open(LOCKDOWN, encoding="ascii") as source:
            return "[confidentiality]" in source.read()
    except OSError:
        return False


# -- symbols -----------------------------------------------------------------------------------------------------------
# Kernel functions by address (/proc/kallsyms).
#
# The lines begin with addresses of one width, so that sorted lines are sorted addresses: sorting 120 000 of them and
# looking a few up takes 60 ms, parsing each one three times as long.

PATH = "/proc/kallsyms"
_FUNCTION = re.compile(rb"[0-9a-f]{16} [tTwW] \S")
_PART = re.compile(r"\.(?:constprop|isra|part|cold|llvm)\b.*")


class Symbols:
    """Names of functions, or none if the kernel hides its addresses."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines: List[bytes] = sorted(line for line in lines if _FUNCTION.match(line))
        self._hidden = not self._lines or self._lines[-1].startswith(b"0" * 16)

    def function(self, address: int) -> Optional[str]:
        """Return the name without the suffix that a compiler adds."""
        place = bisect_right(self._lines, b"%016x~" % address) - 1
        if self._hidden or place < 0:
            return None
        return _PART.sub("", self._lines[place].split()[2].decode("ascii", "replace"))


def read_symbols() -> Symbols:
    """Read the symbols of the running kernel. Raises OSError."""
    with open(PATH, "rb") as source:
        return Symbols(source.read().splitlines())


# -- programs, maps and attachments ------------------------------------------------------------------------------------
# The few commands of bpf(2) that the agent needs, by ctypes: programs, maps and attachments, each a descriptor.
#
# Nothing has a name in the file system. When the process ends, however it ends, its descriptors are closed, and the
# kernel removes their objects.

_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
"""Numbers of the system call by machine: libc has no function for it."""

_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _, _MAP_NEXT, _PROGRAM_LOAD = range(6)
_INFORMATION, _TRACEPOINT_OPEN, _LINK_CREATE = 15, 17, 28

HASH, ARRAY, HASH_BY_PROCESSOR, ARRAY_BY_PROCESSOR = 1, 2, 5, 6
SOCKET_FILTER, XDP, RAW_TRACEPOINT, TRACING = 1, 6, 17, 26
_TRACED_TRACEPOINT, _AT_XDP = 23, 37
_XDP_GENERIC, _XDP_NATIVE = 2, 4

_LICENCE = b"Dual BSD/GPL"
"""Licence of the loaded instructions, which the helper that reads kernel memory requires."""

_ATTRIBUTE_BYTES = 144
_LOG_BYTES = 1 << 18

_syscall = ctypes.CDLL(None, use_errno=True).syscall


def _bpf(command: int, attributes: bytes) -> int:
    number = _NUMBERS.get(platform.machine())
    if number is None or struct.calcsize("P") != 8:
        raise OSError(errno.ENOSYS, "the system call number of bpf(2) on %s is not known" % platform.machine())
    data = ctypes.create_string_buffer(attributes, _ATTRIBUTE_BYTES)
    result = int(_syscall(number, command, data, _ATTRIBUTE_BYTES))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _charged(command: int, attributes: bytes) -> int:
    """Run a command that takes memory. Before 5.11 that is locked memory, whose low limit is raised meanwhile."""
    try:
        return _bpf(command, attributes)
    except PermissionError as exc:
        before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        try:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except ValueError:
            raise exc from None  # a user who may not raise a limit may not load a program either
        try:
            return _bpf(command, attributes)
        finally:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def possible_processors() -> int:
    """Return the highest possible number of processors: a per-processor value has a part for each of them."""
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as source:
        return 1 + max(int(number) for number in re.findall(r"\d+", source.read()))


class Map:
    """A table that programs and the agent share. Raises OSError, as everything here does.

    ``memory_bytes``: size of its keys and values in the kernel, which keeps a few bytes more for each.
    """

    def __init__(self, kind: int, key_bytes: int, value_bytes: int, entries: int, name: str) -> None:
        parts = possible_processors() if kind in (HASH_BY_PROCESSOR, ARRAY_BY_PROCESSOR) else 1
        if parts > 1 and value_bytes % 8:
            raise ValueError("a value by processor is a multiple of 8 bytes")
        self._key_bytes, self._value_bytes, self._parts = key_bytes, value_bytes, parts
        attributes = struct.pack("=7I16s", kind, key_bytes, value_bytes, entries, 0, 0, 0, name.encode("ascii"))
        self.descriptor = _charged(_MAP_CREATE, attributes)
        self.memory_bytes = (value_bytes * parts + key_bytes) * entries

    def set(self, key: bytes, value: bytes) -> None:
        """Set a value that is not per processor."""
        self._at(_MAP_UPDATE, key, ctypes.create_string_buffer(value, len(value)))

    def get(self, key: bytes) -> List[bytes]:
        """Return the values of a key, by processor. Raises KeyError."""
        value = ctypes.create_string_buffer(self._value_bytes * self._parts)
        try:
            self._at(_MAP_LOOKUP, key, value)
        except FileNotFoundError:
            raise KeyError(key) from None
        size, data = self._value_bytes, value.raw
        return [data[at : at + size] for at in range(0, len(data), size)]

    def listed(self) -> Iterator[bytes]:
        """Yield all keys; keys added meanwhile may be among them."""
        key: Optional[bytes] = None
        while True:
            following = ctypes.create_string_buffer(self._key_bytes)
            try:
                self._at(_MAP_NEXT, key, following)
            except FileNotFoundError:
                return
            key = following.raw
            yield key

    def _at(self, command: int, key: Optional[bytes], value: "ctypes.Array[ctypes.c_char]") -> None:
        buffer = None if key is None else ctypes.create_string_buffer(key, len(key))
        key_at = 0 if buffer is None else ctypes.addressof(buffer)
        _bpf(command, struct.pack("=IIQQQ", self.descriptor, 0, key_at, ctypes.addressof(value), 0))

    def close(self) -> None:
        """Release the map; it is deleted once no program uses it."""
        os.close(self.descriptor)


def load_program(kind: int, code: bytes, name: str, traced: int = 0) -> int:
    """Load a program and return its descriptor. ``traced``: the number of the tracepoint's type, for TRACING."""
    buffer = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(_LICENCE)
    log = ctypes.create_string_buffer(_LOG_BYTES)

    def load(log_bytes: int) -> int:
        log_at = ctypes.addressof(log) if log_bytes else 0
        head = (kind, len(code) // 8, ctypes.addressof(buffer), ctypes.addressof(licence), min(log_bytes, 1), log_bytes)
        rest = (log_at, 0, 0, name.encode("ascii"), 0, _TRACED_TRACEPOINT if kind == TRACING else 0)
        return _charged(_PROGRAM_LOAD, struct.pack("=IIQQIIQII16sII", *head, *rest) + struct.pack("=36xI", traced))

    try:
        return load(0)
    except OSError as exc:
        if exc.errno not in (errno.EINVAL, errno.EACCES):
            raise
        first = exc
    try:
        return load(_LOG_BYTES)  # again, with the verifier's log
    except OSError:
        said = log.value.decode("ascii", "replace").strip().splitlines()
        reason = ": %s" % said[-1] if said else ""
        raise OSError(first.errno, "%s%s" % (first.strerror, reason)) from None


def attach_tracepoint(program: int, name: str = "") -> int:
    """Attach a program to a raw tracepoint and return the descriptor. ``name`` is needed if the program has none."""
    buffer = ctypes.create_string_buffer(name.encode("ascii"))
    return _bpf(_TRACEPOINT_OPEN, struct.pack("=QI", ctypes.addressof(buffer) if name else 0, program))


def attach_xdp(program: int, interface_index: int, *, native: bool) -> int:
    """Attach a program to an interface of the calling thread's namespace (Linux 5.9); return the descriptor."""
    mode = _XDP_NATIVE if native else _XDP_GENERIC
    return _bpf(_LINK_CREATE, struct.pack("=4I", program, interface_index, _AT_XDP, mode))


def missed_runs(program: int) -> int:
    """Return how often a program was skipped because it was already running on that processor, or 0 if not counted."""
    info = ctypes.create_string_buffer(256)
    _bpf(_INFORMATION, struct.pack("=IIQ", program, len(info), ctypes.addressof(info)))
    return int.from_bytes(info.raw[208:216], sys.byteorder)


def find_nonzero_words(value: bytes, piece_length: int) -> List[int]:
    """Return which 64-bit words of a map's value are not 0. Most of them are, and adjacent ones are examined as one
    piece.
    """
    found: List[int] = []
    piece_bytes = 8 * piece_length
    empty = bytes(piece_bytes)
    for start in range(0, len(value), piece_bytes):
        piece = value[start : start + piece_bytes]
        if piece != empty:
            counts = memoryview(piece).cast("Q")
            found += [start // 8 + place for place in range(len(counts)) if counts[place]]
    return found
