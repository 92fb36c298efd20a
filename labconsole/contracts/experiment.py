"""What a kind of experiment fills in so that a plan can ask for it beside its grid, or instead of it.

A step is one experiment of that kind: a load search, say. It asks a bench for its trials, one after the other, each
perhaps in view of those before. Pause, stop, warm-up and retries are the bench's, so every kind has them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from labconsole.contracts.crew import USUAL, CrewMember, CrewOffer, HowMade, HypervisorWord, StandingCrew
from labconsole.contracts.picture import StepPicture
from labconsole.contracts.ports import AgentLink
from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.record.environment import Environment
from labconsole.model.record.kind import R, RecordKind
from labconsole.model.record.run import PlanRef, RunRecord, Status
from labconsole.model.record.summary import RunFilter
from labconsole.wire.counters import CountersSampled
from labconsole.wire.marks import TimeMark
from labconsole.wire.queues import RatesTaken
from labconsole.wire.settings import NodeSettings


class StepRecord(Protocol):
    """What a step came to, as it is stored. ``failure``: why it did not come to its end."""

    @property
    def started_at(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def failure(self) -> str | None: ...


class ExperimentStore(Protocol[R]):
    """Where the records of a kind are kept. Blocking."""

    def save_experiment(self, kind: RecordKind[R], record: R) -> None: ...
    def experiments(self, kind: RecordKind[R], where: RunFilter, *, status: str | None = None) -> Sequence[R]: ...


class TrialPlace(Protocol):
    """Where in a step a trial belongs."""

    def __call__(self, *, warm_ups: int, attempt: int, attempts: int) -> PlanRef: ...


class Stage(Protocol):
    """The crew of guests that stands on the UUT, and the timekeeper outside (engine/crew_stage.py)."""

    on_mark: Callable[[TimeMark], None] | None
    """Is told of every mark that the timekeeper sees, as it comes."""

    on_counters: Callable[[CountersSampled], None] | None
    """Is told of every sample of the UUT's counters, as it comes."""

    on_rates: Callable[[RatesTaken], None] | None
    """Is told when guests that share a link by weights have others, as the UUT's kernel has them."""

    @property
    def inventory(self) -> Inventory: ...
    async def guest_cpus(self, platform: str) -> Sequence[int]:
        """The processors of the UUT that this platform's guests are spread over, in their order.

        Raises NodeError when it does not say.
        """
        ...

    @property
    def guest_processes(self) -> Sequence[str]:
        """What the processes of guests are called, as regular expressions."""
        ...

    @property
    def uut(self) -> AgentLink:
        """The UUT, before anything stands on it. Raises NodeUnreachable."""
        ...

    @property
    def timekeeper(self) -> AgentLink:
        """The node outside. Raises NodeUnreachable."""
        ...

    @property
    def source(self) -> AgentLink:
        """The node outside that sends. Raises NodeUnreachable."""
        ...

    async def refuse_memory(self, platform: str, members: Sequence[CrewMember]) -> None:
        """Raises TooLittleMemory where these guests are given more memory together than there is."""
        ...

    def refuse(self, platform: str, members: Sequence[CrewMember]) -> None:
        """Refuse a crew that this testbed cannot have. Raises ConfigError; asks nobody."""
        ...

    def offer(self, platform: str, members: Sequence[CrewMember]) -> CrewOffer:
        """What these guests start from and are given. Raises ConfigError for what refuse() refuses; asks nobody."""
        ...

    async def hypervisor_memory(self, platform: str, members: Sequence[CrewMember]) -> HypervisorWord | None:
        """What the platform's hypervisor itself says of its memory and of these guests. None: it has no word of its
        own. Raises NodeError.
        """
        ...

    async def stand(
        self, platform: str, members: Sequence[CrewMember], turn: Hashable, how: HowMade = USUAL
    ) -> StandingCrew:
        """The crew of these members; the one that stands when it was asked for with the same ``turn``.

        Raises NodeError when it cannot be made; then nothing of it is left.
        """
        ...

    def environment(
        self, nodes: Iterable[AgentLink], settings: Mapping[str, NodeSettings | None] | None = None
    ) -> Environment:
        """Facts and clocks of the nodes that had a part in a trial, for its record. ``settings``: how they were set as
        it began, by name, where that was read.
        """
        ...

    async def wait_stopping(self) -> None:
        """Return once whatever runs is to be stopped."""
        ...

    async def leave(self) -> None:
        """End the guests that stand, at the end of a plan."""
        ...

    async def restore(self) -> None:
        """End the guests that stand: the next are set up anew."""
        ...


class Bench(Protocol):
    """The testbed, held for a step.

    ``spent_s``: time spent on the step, also before a lost node had it taken again, with the wait for that node; pauses
    not counted.
    """

    @property
    def inventory(self) -> Inventory: ...
    @property
    def operator(self) -> str: ...
    @property
    def spent_s(self) -> float: ...

    async def trial(self, request: DesignPoint, place: TrialPlace) -> RunRecord:
        """Take one trial, again while it comes out invalid, as the plan says; the last attempt's record.

        Raises Aborted when no further trial is to be begun, LabError when it cannot be taken.
        """
        ...

    @property
    def stage(self) -> Stage:
        """Where crews of guests stand."""
        ...

    async def begin(self) -> None:
        """Before a trial that is none of ``trial``'s: waits while the plan is paused, and tells others for how long.

        Raises Aborted when no further trial is to be begun.
        """
        ...

    async def over(self, status: Status, *, again: str = "") -> None:
        """After such a trial, whose verdict is ``status``: the testbed settles. ``again``: why it is taken again, after
        the pause that the plan has for that; empty: it is not.
        """
        ...

    def show(self, picture: StepPicture) -> None:
        """Let whoever watches see how far the step has come: before each trial, and when something is found."""
        ...


class Step(Protocol):
    """One experiment that a plan asks for."""

    @property
    def request(self) -> DesignPoint:
        """What has to stand for it, at no particular load."""
        ...

    @property
    def hash(self) -> str:
        """What it means: its record, and what an interrupted one stored, are found again by this."""
        ...

    def describe(self) -> str:
        """One line for people."""
        ...

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """The traffic of every trial that it takes on a unit that behaves; a noisy one needs more."""
        ...

    async def take(self, bench: Bench) -> StepRecord:
        """Carry it out, going on from what an interrupted one stored; returns its record, which is stored.

        Raises Aborted when the bench begins no further trial, and what a trial raises that cannot be taken.
        """
        ...

    def picture(self, record: StepRecord) -> StepPicture:
        """The same of one that was carried out, out of its record."""
        ...


class Experiment(Protocol):
    """A kind of experiment."""

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[Step]:
        """All that a plan, resolved for its testbed, asks for of this kind; ``only`` where these points of it are. A
        ``salt`` makes steps that mean something else than any before: nothing resumes them.
        """
        ...

    def stored(self, steps: Sequence[Any], testbed_fingerprint: str) -> Mapping[str, StepRecord]:
        """Of all of a plan's steps of this kind, by their hashes, the records of those that need not be taken again.

        Blocking: asks once.
        """
        ...

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[Step, StepRecord]]:
        """All that is stored of a testbed, each with the step that it is of, the newest first. Blocking."""
        ...

    def refuse(self, steps: Sequence[Any], plan: Plan, inventory: Inventory, stage: Stage) -> Mapping[str, ConfigError]:
        """Before anything is touched: which of a plan's steps of this kind this testbed cannot be asked, by their
        hashes, and why. Raises ConfigError where that is all of them.
        """
        ...
