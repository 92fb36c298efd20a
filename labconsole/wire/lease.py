"""Holding a node: who has it, until when, and losing it to another session."""

from __future__ import annotations

from typing import Annotated, Optional

from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import S64, Count, Name, Rule, Sentence, Word, bad, between, whole

MAX_LEFT_S = 1e9
MAX_NUMBER = 10**9

Seconds = Annotated[float, Rule(between(0, MAX_LEFT_S))]
Number = Annotated[int, Rule(whole(0, MAX_NUMBER))]
FromOne = Annotated[int, Rule(whole(1, MAX_NUMBER))]
Rate = Annotated[int, Rule(whole(1, S64 - 1))]


class TrialTold(Message):
    """What a holder tells of its trial. ``target_bps`` None: max; ``block`` of ``set_ups``: of a plan in blocks.

    ``words`` describe a trial of an experiment with guests, which has no load, and no other trial.
    """

    run_id: Name
    platform: Name
    frame_bytes: FromOne
    includes_fcs: bool
    sources: FromOne
    target_bps: Optional[Rate]
    background: Name
    duration_s: Seconds
    generator: Name
    observe: Name
    repetition: FromOne
    repetitions: FromOne
    plan: Optional[Name]
    block: Optional[Number]
    set_ups: Optional[Number]
    phase: Name
    words: Optional[Sentence] = None

    def check_fields(self) -> None:
        """A block is one of so many set-ups."""
        if self.block is not None and self.set_ups is None:
            raise bad("block", "is told without set_ups")


class TrialNow(TrialTold):
    """The trial that a holder takes now; times by the node's clock. ``phase_until_wall_ns`` None: not known."""

    since_wall_ns: Count
    phase_since_wall_ns: Count
    phase_until_wall_ns: Optional[Count]


class StatedHolder(Message):
    """Who holds a lease, as far as the holder says."""

    owner: Optional[Sentence]
    purpose: Optional[Sentence]
    observe: Optional[Name]
    quiet: Optional[bool]
    since_wall_ns: Optional[Count]
    until_wall_ns: Optional[Count]
    trial: Optional[TrialNow] = None


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
    left_s: Optional[Seconds] = None
    take_over: Optional[bool] = None


class LeaseState(Message):
    """Who holds this node, if anybody does."""

    holder: Optional[StatedNodeHolder]


class ReadLease(Request[LeaseState], op="lease.read", watches=True):
    """Ask who holds this node."""


class WatchLease(Request[Done], op="lease.watch", watches=True):
    """On: send a ``lease`` event now and whenever another session's lease changes.

    Within that session's counted window this agent takes no samples and sends no ``counters`` and ``links``.
    """

    on: bool


class TellTrial(Request[Done], op="lease.tell"):
    """Tell others, beside the lease, which trial runs and in which phase: ``left_s`` is how long that will last.

    Null: none runs. Error ``no_lease`` if this session does not hold the node.
    """

    trial: Optional[TrialTold] = None
    left_s: Optional[Seconds] = None


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
