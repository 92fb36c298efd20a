"""The lease of a node: who has it, until when, and losing it to another session."""

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
    """A lease holder's description of its trial. ``target_bps`` is None for max. ``block`` of ``set_ups``: for plans in
    blocks.

    ``words`` describe a trial of an experiment with guests, which has no load; other trials have none.
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
        """Check that the block is at most the number of set-ups."""
        if self.block is not None and self.set_ups is None:
            raise bad("block", "is given without set_ups")


class TrialNow(TrialTold):
    """The current trial of a lease holder; times by the node's clock. ``phase_until_wall_ns`` is None if not known."""

    since_wall_ns: Count
    phase_since_wall_ns: Count
    phase_until_wall_ns: Optional[Count]


class StatedHolder(Message):
    """The owner of a lease, as stated by the owner."""

    owner: Optional[Sentence]
    purpose: Optional[Sentence]
    observe: Optional[Name]
    quiet: Optional[bool]
    since_wall_ns: Optional[Count]
    until_wall_ns: Optional[Count]
    trial: Optional[TrialNow] = None


class StatedNodeHolder(StatedHolder):
    """The owner of this node's lease; ``own``: this session."""

    own: bool


class LeaseGranted(Message):
    """``taken_from``: the former holder."""

    since_wall_ns: Count
    taken_from: Optional[StatedHolder]


class TakeLease(Request[LeaseGranted], op="lease.take"):
    """Lease this node; a second request by the holder renews the lease's text.

    ``left_s``: the time still needed. ``observe``: shown to others. Errors: ``lease_held`` with the holder as detail,
    or ``lease_stuck`` if a take-over does not succeed.
    """

    owner: Word
    purpose: Word
    observe: Optional[Word] = None
    left_s: Optional[Seconds] = None
    take_over: Optional[bool] = None


class LeaseState(Message):
    """The holder of this node's lease, if any."""

    holder: Optional[StatedNodeHolder]


class ReadLease(Request[LeaseState], op="lease.read", watches=True):
    """Request the holder of this node's lease."""


class WatchLease(Request[Done], op="lease.watch", watches=True):
    """On: send a ``lease`` event now and at each change of another session's lease.

    Within that session's counted window this agent takes no samples and sends no ``counters`` and ``links``.
    """

    on: bool


class TellTrial(Request[Done], op="lease.tell"):
    """Publish, next to the lease, which trial runs and in which phase; ``left_s`` is how long the phase will last.

    Null: no trial runs. Error ``no_lease`` if this session does not have the node's lease.
    """

    trial: Optional[TrialTold] = None
    left_s: Optional[Seconds] = None


class ReleaseLease(Request[Done], op="lease.release"):
    """Release this node's lease."""


class LeaseChanged(AgentEvent, kind="lease"):
    """Another session's lease of this node, and whether that session is counting now."""

    holder: Optional[StatedHolder]
    quiet: bool


class LeaseLost(AgentEvent, kind="lease_lost"):
    """Another session took over this session's lease."""

    by: Sentence
    purpose: Sentence
