"""What a kind of experiment fills in so that a plan can ask for it beside its grid, or instead of it.

A step is one experiment of that kind: a load search, say. It asks a bench for its trials, one after the other, each
perhaps in view of those before. Pause, stop, warm-up and retries are the bench's, so every kind has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from labconsole.contracts.picture import StepPicture
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import PlanRef, RunRecord


class StepRecord(Protocol):
    """What a step came to, as it is stored. ``failure``: why it did not come to its end."""

    @property
    def started_at(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def failure(self) -> str | None: ...


class TrialPlace(Protocol):
    """Where in a step a trial belongs."""

    def __call__(self, *, warm_ups: int, attempt: int, attempts: int) -> PlanRef: ...


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

    def stored(self, hashes: Sequence[str], testbed_fingerprint: str) -> Mapping[str, StepRecord]:
        """Of steps with these hashes the records, where one that came to its end is stored. Blocking: asks once."""
        ...

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[Step, StepRecord]]:
        """All that is stored of a testbed, each with the step that it is of, the newest first. Blocking."""
        ...

    def refuse(self, plan: Plan, inventory: Inventory) -> None:
        """Refuse before anything is touched what this testbed cannot be asked. Raises ConfigError."""
        ...
