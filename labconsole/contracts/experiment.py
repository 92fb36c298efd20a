"""The interface of a kind of experiment that a plan can request in addition to its grid, or instead of it.

A step is one experiment of that kind, for example a load search. It requests its trials from a bench one after the
other, and each request may depend on earlier results. The bench handles pause, stop, warm-up and retries, so every kind
has them.
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
from labconsole.model.record.kind import R, RecordKind
from labconsole.model.record.run import Environment, PlanRef, RunRecord, Status
from labconsole.model.record.summary import RunFilter
from labconsole.wire.counters import CountersSampled
from labconsole.wire.marks import TimeMark
from labconsole.wire.queues import RatesTaken
from labconsole.wire.settings import NodeSettings


class StepRecord(Protocol):
    """The stored result of a step. ``failure``: why it did not finish."""

    @property
    def started_at(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def failure(self) -> str | None: ...


class ExperimentStore(Protocol[R]):
    """The store for records of one kind. Blocking."""

    def save_experiment(self, kind: RecordKind[R], record: R) -> None: ...
    def experiments(self, kind: RecordKind[R], where: RunFilter, *, status: str | None = None) -> Sequence[R]: ...


class TrialPlace(Protocol):
    """The position of a trial in its step."""

    def __call__(self, *, warm_ups: int, attempt: int, attempts: int) -> PlanRef: ...


class Stage(Protocol):
    """The crew of guests that runs on the UUT, and the timekeeper outside (engine/crew_stage.py)."""

    on_mark: Callable[[TimeMark], None] | None
    """Called for every mark the timekeeper sees."""

    on_counters: Callable[[CountersSampled], None] | None
    """Called for every sample of the UUT's counters."""

    on_rates: Callable[[RatesTaken], None] | None
    """Called when the UUT's kernel has new weights for guests that share a link."""

    @property
    def inventory(self) -> Inventory: ...
    async def guest_cpus(self, platform: str) -> Sequence[int]:
        """Return the processors of the UUT that this platform's guests are spread over, in their order.

        Raises NodeError if the UUT does not report them.
        """
        ...

    @property
    def guest_processes(self) -> Sequence[str]:
        """Return the process names of guests, as regular expressions."""
        ...

    @property
    def uut(self) -> AgentLink:
        """The UUT, before any guest runs on it. Raises NodeUnreachable."""
        ...

    @property
    def timekeeper(self) -> AgentLink:
        """The node outside that takes the time. Raises NodeUnreachable."""
        ...

    @property
    def source(self) -> AgentLink:
        """The node outside that sends. Raises NodeUnreachable."""
        ...

    async def refuse_memory(self, platform: str, members: Sequence[CrewMember]) -> None:
        """Raise TooLittleMemory if these guests together are given more memory than there is."""
        ...

    def refuse(self, platform: str, members: Sequence[CrewMember]) -> None:
        """Refuse a crew that this testbed cannot have. Raises ConfigError; asks no node."""
        ...

    def offer(self, platform: str, members: Sequence[CrewMember]) -> CrewOffer:
        """Return what these guests start from and are given. Raises ConfigError like refuse(); asks no node."""
        ...

    async def hypervisor_memory(self, platform: str, members: Sequence[CrewMember]) -> HypervisorWord | None:
        """Return the hypervisor's own report of its memory and of these guests, or None if it has none.

        Raises NodeError.
        """
        ...

    async def stand(
        self, platform: str, members: Sequence[CrewMember], turn: Hashable, how: HowMade = USUAL
    ) -> StandingCrew:
        """Return a crew of these members, which may be the running one if it was requested with the same ``turn``.

        Raises NodeError if it cannot be made; then nothing of it is left.
        """
        ...

    def environment(
        self, nodes: Iterable[AgentLink], settings: Mapping[str, NodeSettings | None] | None = None
    ) -> Environment:
        """Return facts and clocks of the nodes that took part in a trial, for its record.

        ``settings``: the nodes' settings when the trial began, by name, where they were read.
        """
        ...

    async def wait_stopping(self) -> None:
        """Return once the operator wants to stop what is running."""
        ...

    async def leave(self) -> None:
        """End the running guests, at the end of a plan."""
        ...

    async def restore(self) -> None:
        """End the running guests, so that the next ones are set up afresh."""
        ...


class Bench(Protocol):
    """The testbed, reserved for a step.

    ``spent_s``: time spent on the step, without pauses. It includes time before a lost node made the step start over,
    and the wait for that node.
    """

    @property
    def inventory(self) -> Inventory: ...
    @property
    def operator(self) -> str: ...
    @property
    def spent_s(self) -> float: ...

    async def trial(self, request: DesignPoint, place: TrialPlace) -> RunRecord:
        """Take one trial and repeat it while it is invalid, as the plan allows; return the last attempt's record.

        Raises Aborted if no further trial may begin, and LabError if the trial cannot be taken.
        """
        ...

    @property
    def stage(self) -> Stage:
        """The stage on which crews of guests run."""
        ...

    async def begin(self) -> None:
        """Begin a trial that does not use ``trial``: wait while the plan is paused, and report how long.

        Raises Aborted if no further trial may begin.
        """
        ...

    async def over(self, status: Status, *, again: str = "") -> None:
        """End such a trial, whose verdict is ``status``, and let the testbed settle.

        ``again``: why the trial is repeated, after the plan's pause for that, or empty if it is not.
        """
        ...

    def show(self, picture: StepPicture) -> None:
        """Publish the progress of the step: before each trial, and when a result is found."""
        ...


class Step(Protocol):
    """One experiment of a plan."""

    @property
    def request(self) -> DesignPoint:
        """The design point that must be set up for it, at no particular load."""
        ...

    @property
    def hash(self) -> str:
        """The hash of its meaning, by which its record and the trials of an interrupted step are found again."""
        ...

    def describe(self) -> str:
        """Return one line for people."""
        ...

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """Return the sending time of every trial on a well-behaved unit; a noisy unit needs more."""
        ...

    async def take(self, bench: Bench) -> StepRecord:
        """Run the step, continuing from what an interrupted one stored; return its record, which is stored.

        Raises Aborted if the bench begins no further trial, and the error of a trial that cannot be taken.
        """
        ...

    def picture(self, record: StepRecord) -> StepPicture:
        """Return the picture of a finished step from its record."""
        ...


class Experiment(Protocol):
    """A kind of experiment."""

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[Step]:
        """Return all steps of this kind in a plan that is resolved for its testbed, or ``only`` those at these points.

        A ``salt`` changes the meaning of the steps, so that no stored step counts as theirs.
        """
        ...

    def stored(self, steps: Sequence[Any], testbed_fingerprint: str) -> Mapping[str, StepRecord]:
        """Return records of a plan's steps of this kind that need not be repeated, by hash.

        Blocking: one query for all steps.
        """
        ...

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[Step, StepRecord]]:
        """Return everything stored of a testbed, each record with its step, the newest first. Blocking."""
        ...

    def refuse(self, steps: Sequence[Any], plan: Plan, inventory: Inventory, stage: Stage) -> Mapping[str, ConfigError]:
        """Return the steps of this kind that this testbed cannot run, by hash, with the reason. Changes nothing.

        Raises ConfigError if it can run none of them.
        """
        ...
