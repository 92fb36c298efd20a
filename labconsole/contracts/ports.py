"""What the engine needs from the outside, as protocols: links to nodes, a store. nodes/ and store/ provide them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from labconsole.measure.groups import SIDES
from labconsole.measure.statistics.loss_interval import is_loss_known
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
        """Whether something was asked that is not answered yet."""
        ...

    async def ask(self, request: Request[R], *, timeout_s: float = 30.0) -> R:
        """Ask the agent. Raises AgentError (it refused), NodeLost (it or the link went away, or no answer in time)."""
        ...

    async def measure_clock(self) -> None:
        """Refresh round trip and clock offsets with a few pings."""
        ...

    async def close(self) -> None:
        """Close; the agent ends and undoes everything. Returns when it is gone or after a bound."""
        ...

    async def wait_lost(self) -> str:
        """Return the reason once the link is lost without close() having been called."""
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

    ``block`` None: of a plan without blocks, where it counts as done. ``set_up``: the setting-up it was taken in, which
    holds ``set_up_trials``. ``attempt`` of at most ``attempts``. ``rate_pps``: that it was forwarded at, else measured.
    ``loss_ratio``: of the ``offered_packets``, wherever it was lost; ``uut_loss_ratio``: by the unit under test.
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
        """The reason by which it says nothing of its platform and enters no mean; None: it does."""
        return next((code for code in SIDES if code in self.reason_codes), None)

    @property
    def lost_ratio(self) -> float | None:
        """What the platform lost of what was offered: not more than came to nobody, nor than did not leave it.

        None where it is not known: of a run that lost packets elsewhere and at a port that was not read, and where the
        unit under test sent more than a few frames of its own, as in reports.
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
        """Whether no further attempt follows: it stands, or the last attempt stayed invalid."""
        if self.status != "invalid":
            return True
        return self.attempt is not None and self.attempts is not None and self.attempt >= self.attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMaximum:
    """The highest mean rate over a platform's points: of how many runs, at which target, and the newest of them."""

    measured_pps: float
    runs: int
    run_id: str
    target_bps: int | str


class RunSink(Protocol):
    """Where finished runs go. Blocking; the engine calls it in a thread."""

    def save(self, record: RunRecord, series: Series | None) -> None:
        """Store one run durably, or raise StoreError and store nothing."""
        ...

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> Sequence[StoredTrial]:
        """The trials of this plan on this testbed, in the order of points, repetitions and time.

        Without a block: each that has a valid or suspect run, with the newest such run. In a block or a pilot: every
        run, invalid ones too.
        """
        ...

    def fixed(self, run_ids: Collection[str]) -> dict[str, Fixed]:
        """What these runs say that their plan's pilot fixed for them; without those that say nothing of it."""
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
        """The highest mean forwarding rate over the targets of these points, of runs that enter a mean.

        Of the newest conditions that have a run at target max. None without such a run: then nobody knows whether it is
        the maximum.
        """
        ...
