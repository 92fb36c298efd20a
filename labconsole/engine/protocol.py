"""The parts of the engine that the console needs, as protocols.

The console never imports the engine's session: tests drive it with a scripted one, and no measuring logic can grow
here. Everything that blocks (the store) is called through ``asyncio.to_thread``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from labconsole.contracts.ports import Series
from labconsole.engine.live.events import Listener
from labconsole.engine.live.telemetry import Telemetry
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.query import Query
from labconsole.model.record.annotations import RunNote
from labconsole.model.record.run import RunRecord
from labconsole.model.record.summary import Page, RunSummary, Sorting

if TYPE_CHECKING:
    from labconsole.contracts.experiment import Step, StepRecord
    from labconsole.engine.calibration import CalibrationOffer, OnProgress
    from labconsole.engine.check.result import CheckResult, OnResult
    from labconsole.engine.execution.execution import PlanExecution
    from labconsole.engine.execution.progress import Outcome
    from labconsole.engine.inspection import Inspection
    from labconsole.engine.leases import LeaseHolder
    from labconsole.engine.live.observed_trial import ObservedTrial
    from labconsole.model.plan.plan import Plan
    from labconsole.model.record.envelope import Envelope


class RunsStore(Protocol):
    """Saved runs. Every method blocks, and raises StoreError in one sentence."""

    @property
    def name(self) -> str:
        """The store's name in messages: a path, or a URL."""
        ...

    def list(self, *, limit: int | None = None) -> Sequence[RunSummary]:
        """Runs, newest first."""
        ...

    def page(self, *, before: int | None = None, after: int | None = None, limit: int) -> Page:
        """Runs in the order of saving, the last first: from the end, before a place, or after one."""
        ...

    def count(self) -> int:
        """Number of runs."""
        ...

    def amount(self) -> tuple[int, int]:
        """Numbers of runs and of experiments."""
        ...

    def find(
        self, query: Query, sorting: Sorting, *, after: RunSummary | None = None, skip: int = 0, limit: int
    ) -> Sequence[RunSummary]:
        """The first runs that match, in order, after a place and leaving out ``skip``."""
        ...

    def count_matching(self, query: Query) -> int:
        """Number of runs that match."""
        ...

    def position(self, query: Query, sorting: Sorting, run: RunSummary) -> int:
        """Number of matching runs before this one."""
        ...

    def get(self, run_id: str) -> RunRecord | None:
        """One whole record, or None."""
        ...

    def series(self, run_id: str) -> Series | None:
        """The time series of a run, or None if none was kept."""
        ...

    def note(self, run_id: str) -> RunNote | None:
        """The note on a run, or None."""
        ...

    def plan_note(self, plan_hash: str, testbed_fingerprint: str) -> RunNote | None:
        """The note on a plan of a testbed, or None."""
        ...

    def set_plan_note(self, plan_hash: str, testbed_fingerprint: str, text: str | None, *, author: str) -> None:
        """Set the note on a plan, or remove it."""
        ...

    def set_note(self, run_id: str, text: str | None, *, author: str) -> None:
        """Set the note on a run, or remove it."""
        ...


class SessionLike(Protocol):
    """A testbed with live telemetry on which one trial at a time runs."""

    @property
    def inventory(self) -> Inventory: ...
    @property
    def boots_s(self) -> Mapping[str, float]: ...
    @property
    def telemetry(self) -> Telemetry: ...
    @property
    def store(self) -> RunsStore: ...
    @property
    def running(self) -> bool: ...
    @property
    def operator(self) -> str: ...
    @property
    def timing_matters(self) -> bool:
        """Whether events need prompt attention: a batch of trials runs, or an answer from a node is awaited."""
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` on the event loop with every event; the result unsubscribes."""
        ...

    async def open(self) -> None:
        """Open the store, which takes longer than painting the first screen. Raises StoreError."""
        ...

    async def connect(self) -> None:
        """Connect all nodes; a node that cannot be reached causes a NodeChanged event, never an exception."""
        ...

    @property
    def read_only(self) -> bool: ...
    @property
    def envelope(self) -> Envelope | None: ...

    def check_background(self, request: DesignPoint) -> None:
        """Raises ConfigError for a background load that the request's platform cannot have; sends no request."""
        ...

    def check_now(self, request: DesignPoint) -> None:
        """Also raises ConfigError for a frame that a known interface does not carry; sends no request."""
        ...

    def check_stored(self, request: DesignPoint) -> None:
        """Raises ConfigError for a load defined by a maximum that is not stored, and StoreError. Blocking."""
        ...

    def lease_holders(self) -> dict[str, LeaseHolder]:
        """Other sessions' leases on connected nodes; sends no request."""
        ...

    def observed_trial(self) -> ObservedTrial | None:
        """Another operator's current trial as announced by its agents, or None. Sends no request."""
        ...

    async def run(self, request: DesignPoint, repetitions: int = 1, *, take_over: bool = False) -> list[RunRecord]:
        """Run trials one after the other. Raises LabError, and LeaseHeld if ``take_over`` would help."""
        ...

    async def abort(self) -> None:
        """Stop traffic and end the running trial, keeping its results so far."""
        ...

    async def close(self) -> None:
        """Release all nodes."""
        ...

    def earlier_steps(self) -> list[tuple[Step, StepRecord]]:
        """The testbed's stored experiments with their steps, the newest first. Blocking. Raises StoreError."""
        ...

    def execution(self, plan: Plan, *, salt: str = "") -> PlanExecution:
        """An execution of a plan resolved for this testbed, not begun yet; with ``salt`` it never resumes."""
        ...

    async def execute(self, execution: PlanExecution, *, take_over: bool = False) -> Outcome:
        """Take what an execution has left to take. Raises LabError, and LeaseHeld if ``take_over`` would help."""
        ...

    async def check(
        self, *, plan: Plan | None = None, fix: bool = False, on_result: OnResult | None = None
    ) -> list[CheckResult]:
        """Run the preflight check; ``on_result`` gets each result at once. Raises LabError if it cannot run now."""
        ...

    async def calibration_offer(self, points: Sequence[DesignPoint] = ()) -> CalibrationOffer:
        """Describe a calibration, with usual values or for these ``points``, and the cables to connect before.

        Raises LabError if it is not possible.
        """
        ...

    async def calibrate(self, offer: CalibrationOffer, on_progress: OnProgress) -> Envelope:
        """Calibrate, save the envelope, and judge runs against it from now on. Raises LabError, including Aborted."""
        ...

    def reconnect(self, node: str) -> bool:
        """Retry a lost node now. Returns False if it is not waiting."""
        ...

    async def inspect(self, node: str) -> Inspection:
        """Inspect a node. Raises LabError, also while a trial is under way."""
        ...

    def shell_argv(self, node: str) -> list[str]:
        """The command line that opens a shell on a node. Blocking. Raises LabError."""
        ...


SessionFactory = Callable[[], SessionLike]
