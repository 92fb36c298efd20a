"""Common parts of hypervisors: guests with a state and NICs, and their capabilities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from labconsole.errors import NodeError
from labconsole.model.cpus import cpu_set

MAX_LISTED = 10
MAX_SHOWN = 60
MAX_LINE = 4000
_INTERFACE = re.compile(r"[A-Za-z0-9_.:@-]{1,15}")


class State(StrEnum):
    """The relevant part of a guest's state."""

    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"
    CHANGING = "changing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class HypervisorGuest:
    """One guest: ``said`` is its state in the hypervisor's own terms, ``ident`` its name in commands."""

    name: str
    state: State
    said: str
    ident: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestNic:
    """One NIC of a guest. ``host_interface`` is its other end on the host, if that is a Linux interface."""

    mac: str | None
    host_interface: str | None = None
    model: str | None = None
    attached_to: str | None = None


class UnknownLine(ValueError):
    """Raised with a line of a tool's output in no known format."""


def table(text: str, header: re.Pattern[str], row: re.Pattern[str]) -> tuple[re.Match[str], list[re.Match[str]]]:
    """The titles and the rows of a tool's table, without blank lines and rulers. Raises UnknownLine."""
    matched: list[re.Match[str]] = []
    for line in text.replace("\r", "").split("\n"):
        if line.strip(" \t-"):
            found = (row if matched else header).fullmatch(line) if len(line) <= MAX_LINE else None
            if found is None:
                raise UnknownLine(line)
            matched.append(found)
    if not matched:
        raise UnknownLine(text)
    return matched[0], matched[1:]


class TableRow(Protocol):
    """One row of a tool's table of guests. ``ident``: the number that the tool gives the guest; not all have one."""

    @property
    def name(self) -> str: ...

    @property
    def ident(self) -> str: ...


R = TypeVar("R", bound=TableRow)


def ambiguity(rows: Sequence[R], name: str, ident: str) -> str | None:
    """Why these rows do not identify the guest of a name, or None if they do. ``ident``: the title of the numbers."""
    own = [row for row in rows if row.name == name]
    if len(own) > 1:
        return f"{len(own)} rows have the name {name}: {ident} {' and '.join(row.ident for row in own)}"
    if own and len(shared := [row.name for row in rows if row.ident == own[0].ident != ""]) > 1:
        return f"{ident} {own[0].ident} is in {len(shared)} rows: {format_names(shared)}"
    return None


def disambiguate(rows: Iterable[R]) -> dict[str, R]:
    """Rows by name. Rows of one name have their numbers in the key."""
    found: dict[str, list[R]] = {}
    for row in rows:
        found.setdefault(row.name, []).append(row)
    return {name if len(same) == 1 else f"{name} ({row.ident})": row for name, same in found.items() for row in same}


class UnknownGuest(NodeError):
    """Raised when the hypervisor has no guest of that name."""

    failure = "unknown_guest"


Pinning = dict[str, str]
"""Allowed CPUs by vCPU (or "all")."""
Settings = dict[str, str]
"""Limits of a guest, with names and values of its hypervisor."""

Wires = dict[str, tuple[GuestNic, GuestNic]]


def parse_interface(text: str) -> str | None:
    """A Linux interface's name in a hypervisor's output, or None for a dash or an invalid name."""
    return text if text not in ("-", ".", "..") and _INTERFACE.fullmatch(text) else None


def parse_pid(text: str) -> int | None:
    """A process id in a hypervisor's output, or None."""
    said = text.strip()
    return int(said) if said.isascii() and said.isdigit() and 0 < len(said) < 11 and int(said) > 1 else None


def same_cpus(one: str, other: str) -> bool:
    """Whether two lists name the same CPUs, in any notation."""
    return one.strip() == other.strip() or (cpu_set(one) is not None and cpu_set(one) == cpu_set(other))


def format_output(line: str) -> str:
    """A line of a tool's output for a sentence, short and printable."""
    printable = "".join(c for c in " ".join(line.split()) if c.isprintable())
    return repr(printable if len(printable) <= MAX_SHOWN * 2 else f"{printable[: MAX_SHOWN * 2]}…")


def format_names(names: Iterable[str]) -> str:
    """A limited number of names for a sentence."""
    ordered = sorted("".join(c for c in name[:MAX_SHOWN] if c.isprintable()) for name in names)
    more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
    return (", ".join(ordered[:MAX_LISTED]) or "none") + more
