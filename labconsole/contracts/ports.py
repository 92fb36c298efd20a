"""What the engine needs from outside, as protocols: links to nodes and a store. nodes/ and store/ implement them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from labconsole.measure.groups import SIDES
from labconsole.measure.statistics.bounded_means import is_loss_known
from labconsole.model.design_point import FrameSize
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Fixed, RunRecord
from labconsole.wire.message import AgentEvent, R, Request
from labconsole.wire.session import Hello

OnAgentEvent = Callable[[str, AgentEvent], None]
"""Called with the node's name and one checked event of its agent, on the event loop; must not block."""


class AgentLink(Protocol):
    """One node: an SSH session with a running agent in it.

    ``clock_offset_ns`` is the node's wall clock minus ours, known to +- ``clock_error_ns`` (half the round trip).
    ``monotonic_offset_ns`` is the node's monotonic clock minus ours, to the same bound.
    """

    name: str
    hello: Hello

    @property
    def round_trip_s(self) -> float: ...
    @property
    def clock_offset_ns(self) -> int: ...
    @property
    def monotonic_offset_ns(self) -> int: ...
    @property
    def clock_error_ns(self) -> int: ...
    @property
    def awaits_answer(self) -> bool:
        """Whether a request has no answer yet."""
        ...

    async def ask(self, request: Request[R], *, timeout_s: float = 30.0) -> R:
        """Send a request. Raises AgentError (the agent refused), NodeLost (agent or link went away, or no answer in
        time).
        """
        ...

    async def measure_clock(self) -> None:
        """Refresh round trip and clock offsets with a few pings."""
        ...

    async def close(self) -> None:
        """Close the link; the agent ends and undoes everything. Returns when it is gone, or after a bounded time."""
        ...

    async def wait_lost(self) -> str:
        """Return the reason once the link is lost without a call of close()."""
        ...


class Connect(Protocol):
    """Opens a link to one node of an inventory. Raises NodeUnreachable or CapabilityMissing with what to do."""

    async def __call__(self, name: str, inventory: Inventory, on_event: OnAgentEvent) -> AgentLink: ...


@dataclass(frozen=True, slots=True)
class Series:
    """The time series of one run: column names and equally long columns of numbers, per table."""

    tables: dict[str, dict[str, list[int | float | None]]]


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """A stored trial of a plan: its place in the plan, the run, that run's verdict with its reasons, and its losses.

    ``block``: its block, or None in a plan without blocks. ``set_up``: the set-up of the trial, which has
    ``set_up_trials`` trials. ``attempt``: its number, of at most ``attempts``. ``rate_pps``: the forwarding rate, or
    else the measured rate. ``loss_ratio``: loss anywhere, as a share of ``offered_packets``. ``uut_loss_ratio``: loss
    in the unit under test.
    """

    point: int
    repetition: int
    run_id: str
    status: str
    loss_ratio: float | None = None
    block: int | None = None
    set_up: str | None = None
    set_up_trials: int | None = None
    attempt: int | None = None
    attempts: int | None = None
    rate_pps: float | None = None
    uut_loss_ratio: float | None = None
    reason_codes: tuple[str, ...] = ()
    offered_packets: int | None = None

    @property
    def says_nothing(self) -> str | None:
        """The reason code that excludes it from all means because it says nothing of its platform, or None."""
        return next((code for code in SIDES if code in self.reason_codes), None)

    @property
    def lost_ratio(self) -> float | None:
        """The platform's loss ratio: at most what did not arrive, and at most what did not leave it.

        None if unknown: the run lost packets elsewhere and at a port that was not read, or the unit under test sent
        more than a few frames of its own. Reports use the same rule.
        """
        if self.uut_loss_ratio is None and self.says_nothing is not None:
            return None
        if self.uut_loss_ratio is not None and not self._tells(self.uut_loss_ratio):
            return None
        return min(
            (each for each in (self.loss_ratio, self.uut_loss_ratio) if each is not None and self._tells(each)),
            default=None,
        )

    def _tells(self, ratio: float) -> bool:
        if self.offered_packets is None:
            return 0 <= ratio <= 1
        return is_loss_known(round(ratio * self.offered_packets), self.offered_packets)

    @property
    def final(self) -> bool:
        """Whether no further attempt follows, because the trial counts or the last attempt was invalid as well."""
        if self.status != "invalid":
            return True
        return self.attempt is not None and self.attempts is not None and self.attempt >= self.attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMaximum:
    """The highest mean rate over a platform's points, with its target, its number of runs, and the newest of them."""

    measured_pps: float
    runs: int
    run_id: str
    target_bps: int | str


class RunSink(Protocol):
    """The store for finished runs. Blocking; the engine calls it in a thread."""

    def save(self, record: RunRecord, series: Series | None) -> None:
        """Store one run durably, or raise StoreError and store nothing."""
        ...

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> Sequence[StoredTrial]:
        """Return the trials of this plan on this testbed, in the order of points, repetitions and time.

        Without blocks: each trial with a valid or suspect run, with the newest such run. In a block or a pilot: every
        run, invalid ones too.
        """
        ...

    def fixed(self, run_ids: Collection[str]) -> dict[str, Fixed]:
        """Return what the pilot of each run's plan fixed, by run, without runs that do not record it."""
        ...

    def maximum(
        self,
        *,
        platform: str,
        testbed_fingerprint: str,
        background: str,
        frame: FrameSize,
        sources: int,
    ) -> StoredMaximum | None:
        """Return the highest mean forwarding rate over the targets of these points, of runs that enter a mean.

        It uses the newest conditions that have a run at target max. Returns None without such a run, because then the
        highest rate may not be the maximum.
        """
        ...
