"""The program that keeps a node's clock, and its own estimate of the clock's error."""

from __future__ import annotations

from typing import Annotated, Any

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Count, Name, Rule, Signed, Word, bad, whole

KEEPERS = ("chrony", "ptp4l")
MOST_ERROR_NS = 10**15


def _keeper(value: Any, where: str) -> str:
    if value not in KEEPERS:
        raise bad(where, "is not one of %s" % ", ".join(KEEPERS))
    return str(value)


class KeptClock(Message):
    """``error_ns``: the program's bound on the error of the node's wall clock against its reference. ``reference``:
    what the clock follows, as the program names it; equal names mean one clock. ``is_reference``: this is that very
    clock.
    """

    error_ns: Annotated[int, Rule(whole(0, MOST_ERROR_NS))]
    reference: Name
    is_reference: bool


class ReadClockKeeper(Request[KeptClock], op="clock.keeper"):
    """Ask the program that keeps the clock (``chrony``, ``ptp4l``) for its error bound; starts chronyc or pmc."""

    keeper: Annotated[str, Rule(_keeper)]


class NicClock(Message):
    """A NIC's clock: its reading, its lead over the node's wall clock, and the uncertainty of that lead."""

    at_ns: Signed
    ahead_ns: Signed
    error_ns: Count


class ReadNicClock(Request[NicClock], op="clock.nic"):
    """Request a reading of the clock of a port's NIC."""

    interface: Word
