"""The kernel's description of its own types (BTF): offsets of fields, names of enumerators, arguments of tracepoints.

Types refer to each other by number and have records of different lengths, so all records are walked once: 125 000 in 20
ms, because a record's length follows from one of its words, which has few different values. A name is then searched as
bytes. Kernel documentation: bpf/btf.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from typing import Dict, Iterator, List, NamedTuple, Optional, Set

PATH = "/sys/kernel/btf/vmlinux"
_MAGIC = 0xEB9F
_HEADER = struct.Struct("=HBBIIIII")

INTEGER, POINTER, ARRAY, STRUCTURE, UNION, ENUMERATION, FORWARD, ALIAS, VOLATILE, CONSTANT, RESTRICT = range(1, 12)
_PROTOTYPE, _TAG, _LAST = 13, 18, 19
_BEHIND = {
    INTEGER: (1, 0),
    ARRAY: (3, 0),
    STRUCTURE: (0, 3),
    UNION: (0, 3),
    ENUMERATION: (0, 2),
    _PROTOTYPE: (0, 2),
    14: (1, 0),
    15: (0, 3),
    17: (1, 0),
    19: (0, 3),
}
"""By kind: words after a record's first three, and words for each of its members."""

_ALIAS_KINDS = (ALIAS, VOLATILE, CONSTANT, RESTRICT, _TAG)


class Tracepoint(NamedTuple):
    """``number``: of the type that represents it. ``arguments``: how many a program receives."""

    number: int
    arguments: int


class _Member(NamedTuple):
    name: str
    kind: int
    offset_bits: int


class KernelTypes:
    """The types of one kernel. Raises ValueError for data that is not a BTF of this machine's byte order."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER.size:
            raise ValueError("is too short for BTF")
        magic, _, _, header, types_at, types_bytes, names_at, names_bytes = _HEADER.unpack_from(data)
        if magic != _MAGIC or header + max(types_at + types_bytes, names_at + names_bytes) > len(data):
            raise ValueError("is not BTF of this machine's byte order")
        self._records = data[header + types_at : header + types_at + types_bytes]
        self._names = data[header + names_at : header + names_at + names_bytes]
        self._words32 = array("I", self._records[: types_bytes - types_bytes % 4])
        self._starts = self._walk()

    def _walk(self) -> List[int]:
        """Return the word at which each type's record begins; number 0 is void and has none."""
        words32, starts = self._words32, [-1]
        lengths: Dict[int, int] = {}
        at, end = 0, len(words32) - 2
        while at < end:
            starts.append(at)
            about = words32[at + 1]
            if about not in lengths:
                lengths[about] = self._length(about)
            at += lengths[about]
        return starts

    @staticmethod
    def _length(about: int) -> int:
        kind, members = about >> 24 & 31, about & 0xFFFF
        if not 1 <= kind <= _LAST:
            raise ValueError("has a type of an unknown kind: %d" % kind)
        fixed, each = _BEHIND.get(kind, (0, 0))
        return 3 + fixed + members * each

    def _kind(self, number: int) -> int:
        return self._words32[self._starts[number] + 1] >> 24 & 31 if number else 0

    def _name(self, at: int) -> str:
        return self._names[at : self._names.index(b"\0", at)].decode("ascii", "replace")

    def _named(self, name: str, kind: int) -> Optional[int]:
        """Return the number of a type."""
        at = self._names.find(b"\0%s\0" % name.encode("ascii")) + 1
        if not at:
            return None
        wanted, place = struct.pack("=I", at), -1
        while True:
            place = self._records.find(wanted, place + 1)
            if place < 0:
                return None
            number = bisect_left(self._starts, place // 4, 1)
            begins = place % 4 == 0 and number < len(self._starts) and self._starts[number] == place // 4
            if begins and self._kind(number) == kind:
                return number

    def _resolve_alias(self, number: int) -> int:
        """Return the type behind an alias."""
        for _ in range(32):  # in a damaged BTF an alias may refer to itself
            if self._kind(number) not in _ALIAS_KINDS:
                break
            number = self._words32[self._starts[number] + 2]
        return number

    def _members(self, number: int) -> Iterator[_Member]:
        start = self._starts[number]
        about = self._words32[start + 1]
        for at in range(start + 3, start + 3 + 3 * (about & 0xFFFF), 3):
            name, kind, offset = self._words32[at : at + 3]
            yield _Member(self._name(name), kind, offset & 0xFFFFFF if about >> 31 else offset)

    def _member(self, number: int, name: str, around: Optional[Set[int]] = None) -> Optional[_Member]:
        """Find a member, also of unnamed structures and unions inside. ``around``: those already searched, which a
        damaged BTF may nest in themselves.
        """
        around = set() if around is None else around
        around.add(number)
        for member in self._members(number):
            if member.name == name:
                return member
            inner = self._resolve_alias(member.kind)
            if not member.name and self._kind(inner) in (STRUCTURE, UNION) and inner not in around:
                found = self._member(inner, name, around)
                if found is not None:
                    return found._replace(offset_bits=found.offset_bits + member.offset_bits)
        return None

    def offset_bytes(self, path: str) -> int:
        """Return the offset of ``structure.field.field``, each field inside the previous one. Raises LookupError."""
        structure, *fields = path.split(".")
        number, offset_bits = self._named(structure, STRUCTURE), 0
        for name in fields:
            member = None if number is None else self._member(number, name)
            if member is None:
                raise LookupError("this kernel has no %s" % path)
            number, offset_bits = self._resolve_alias(member.kind), offset_bits + member.offset_bits
        return offset_bits // 8

    def values(self, enumeration: str) -> Dict[int, str]:
        """Map number to name; empty if there is no such enumeration."""
        number = self._named(enumeration, ENUMERATION)
        if number is None:
            return {}
        start = self._starts[number]
        members = range(start + 3, start + 3 + 2 * (self._words32[start + 1] & 0xFFFF), 2)
        return {self._words32[at + 1]: self._name(self._words32[at]) for at in members}

    def tracepoint(self, name: str) -> Optional[Tracepoint]:
        """Find a tracepoint, or return None if the kernel does not have or describe it."""
        number = self._named("btf_trace_%s" % name, ALIAS)
        if number is None:
            return None
        prototype = self._words32[self._starts[self._resolve_alias(number)] + 2]
        handed = self._words32[self._starts[prototype] + 1] & 0xFFFF
        return Tracepoint(number, handed - 1)  # the first is the tracer's own
