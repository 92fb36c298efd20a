"""What keeps a node's clock, and how far that program says the clock may be off."""

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
    """``error_ns``: how far the node's wall clock may be from its reference, as the program says. ``reference``: what
    it follows, in the program's words: equal ones are one clock. ``is_reference``: that is this very clock.
    """

    error_ns: Annotated[int, Rule(whole(0, MOST_ERROR_NS))]
    reference: Name
    is_reference: bool


class ReadClockKeeper(Request[KeptClock], op="clock.keeper"):
    """Ask the program that keeps the clock (``chrony``, ``ptp4l``) how far it may be off: starts chronyc or pmc."""

    keeper: Annotated[str, Rule(_keeper)]


class NicClock(Message):
    """A NIC's clock: what it shows, how far that is ahead of the node's wall clock, by how much this may be wrong."""

    at_ns: Signed
    ahead_ns: Signed
    error_ns: Count


class ReadNicClock(Request[NicClock], op="clock.nic"):
    """Ask what the clock of a port's NIC shows."""

    interface: Word
