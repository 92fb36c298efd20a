"""Holding a node: who has it, until when, and losing it to another session."""

from __future__ import annotations

from typing import Annotated, Optional

from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Count, Name, Rule, Sentence, Word, between

MAX_LEFT_S = 1e9


class StatedHolder(Message):
    """Who holds a lease, as far as the holder says."""

    owner: Optional[Sentence]
    purpose: Optional[Sentence]
    observe: Optional[Name]
    quiet: Optional[bool]
    since_wall_ns: Optional[Count]
    until_wall_ns: Optional[Count]


class StatedNodeHolder(StatedHolder):
    """Who holds this node; ``own``: this session."""

    own: bool


class LeaseGranted(Message):
    """``taken_from``: the former holder."""

    since_wall_ns: Count
    taken_from: Optional[StatedHolder]


class TakeLease(Request[LeaseGranted], op="lease.take"):
    """Hold this node; if the holder asks again, renew the lease's text.

    ``left_s``: the time still needed; ``observe``: shown to others. Errors ``lease_held`` with the holder as detail,
    ``lease_stuck`` if a take-over does not succeed.
    """

    owner: Word
    purpose: Word
    observe: Optional[Word] = None
    left_s: Optional[Annotated[float, Rule(between(0, MAX_LEFT_S))]] = None
    take_over: Optional[bool] = None


class LeaseState(Message):
    """Who holds this node, if anybody does."""

    holder: Optional[StatedNodeHolder]


class ReadLease(Request[LeaseState], op="lease.read"):
    """Ask who holds this node."""


class WatchLease(Request[Done], op="lease.watch"):
    """On: send a ``lease`` event now and whenever another session's lease changes.

    Within that session's counted window this agent takes no samples and sends no ``counters`` and ``links``.
    """

    on: bool


class ReleaseLease(Request[Done], op="lease.release"):
    """Give this node back."""


class LeaseChanged(AgentEvent, kind="lease"):
    """Who else holds this node, and whether that session is counting now."""

    holder: Optional[StatedHolder]
    quiet: bool


class LeaseLost(AgentEvent, kind="lease_lost"):
    """Another session took this session's lease over."""

    by: Sentence
    purpose: Sentence
