"""What every hypervisor has: guests with a state and NICs, and things that it can or cannot be asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from labconsole.errors import NodeError
from labconsole.model.cpus import cpu_set

MAX_LISTED = 10
MAX_SHOWN = 60
_INTERFACE = re.compile(r"[A-Za-z0-9_.:@-]{1,15}")


class State(StrEnum):
    """A guest's state as far as it matters here."""

    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"
    CHANGING = "changing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class HypervisorGuest:
    """One guest: ``said`` is its state in the hypervisor's own words, ``ident`` what its commands call it."""

    name: str
    state: State
    said: str
    ident: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestNic:
    """One NIC of a guest. ``host_interface`` is its other end on the host, where that is an interface of Linux's."""

    mac: str | None
    host_interface: str | None = None
    model: str | None = None
    attached_to: str | None = None


class UnknownGuest(NodeError):
    """Raised when the hypervisor has no guest of that name."""

    failure = "unknown_guest"


Pinning = dict[str, str]
"""vCPU (or "all") to the CPUs that it may run on."""
Settings = dict[str, str]
"""Limits of a guest, each by the name and in the words of its hypervisor."""

Wires = dict[str, tuple[GuestNic, GuestNic]]


def as_interface(text: str) -> str | None:
    """The name of a Linux interface in a hypervisor's output; None where it is a dash or no such name."""
    return text if text not in ("-", ".", "..") and _INTERFACE.fullmatch(text) else None


def as_pid(text: str) -> int | None:
    """A process in a hypervisor's output; None where it is none."""
    said = text.strip()
    return int(said) if said.isascii() and said.isdigit() and 0 < len(said) < 11 and int(said) > 1 else None


def same_cpus(one: str, other: str) -> bool:
    """Whether two lists name the same CPUs, however they are written."""
    return one.strip() == other.strip() or (cpu_set(one) is not None and cpu_set(one) == cpu_set(other))


def listed(names: Iterable[str]) -> str:
    """Some names for a sentence."""
    ordered = sorted("".join(c for c in name[:MAX_SHOWN] if c.isprintable()) for name in names)
    more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
    return (", ".join(ordered[:MAX_LISTED]) or "none") + more
