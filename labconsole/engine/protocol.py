"""What the console needs of the engine, as protocols.

The console never imports the engine's session: tests drive it with a scripted one, and nothing here can grow measuring
logic. Everything that blocks (the store) is called through ``asyncio.to_thread``.
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
from labconsole.model.record.note import RunNote
from labconsole.model.record.run import RunRecord
from labconsole.model.record.summary import Page, RunSummary
from labconsole.model.sorting import Sorting

if TYPE_CHECKING:
    from labconsole.contracts.experiment import Step, StepRecord
    from labconsole.engine.calibration.calibration import OnProgress
    from labconsole.engine.calibration.offer import CalibrationOffer
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
        """What messages call it: a path, or a URL."""
        ...

    def list(self, *, limit: int | None = None) -> Sequence[RunSummary]:
        """Newest first."""
        ...

    def page(self, *, before: int | None = None, after: int | None = None, limit: int) -> Page:
        """Runs in the order of saving, the last first: from the end, before a place, or after one."""
        ...

    def count(self) -> int:
        """How many there are."""
        ...

    def amount(self) -> tuple[int, int]:
        """How many runs and how many experiments there are."""
        ...

    def find(
        self, query: Query, sorting: Sorting, *, after: RunSummary | None = None, skip: int = 0, limit: int
    ) -> Sequence[RunSummary]:
        """The first runs that are meant, in order, after a place and leaving out ``skip``."""
        ...

    def count_matching(self, query: Query) -> int:
        """How many are meant."""
        ...

    def position(self, query: Query, sorting: Sorting, run: RunSummary) -> int:
        """How many of those that are meant come before this one."""
        ...

    def get(self, run_id: str) -> RunRecord | None:
        """One whole record."""
        ...

    def series(self, run_id: str) -> Series | None:
        """The time series of a run, None when none were kept."""
        ...

    def note(self, run_id: str) -> RunNote | None:
        """What somebody wrote on a run."""
        ...

    def plan_note(self, plan_hash: str, testbed_fingerprint: str) -> RunNote | None:
        """What somebody wrote on a plan of a testbed."""
        ...

    def set_plan_note(self, plan_hash: str, testbed_fingerprint: str, text: str | None, *, author: str) -> None:
        """Write it, or remove it."""
        ...

    def set_note(self, run_id: str, text: str | None, *, author: str) -> None:
        """Write it, or remove it."""
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
        """Whether anything hangs on being heard at once: a batch of trials, or an answer of a node's."""
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` on the event loop with every event; the result unsubscribes."""
        ...

    async def open(self) -> None:
        """Open the store, which takes longer than the first picture. Raises StoreError."""
        ...

    async def connect(self) -> None:
        """Connect all nodes; a node that cannot be reached is a NodeChanged event, never an exception."""
        ...

    @property
    def read_only(self) -> bool: ...
    @property
    def envelope(self) -> Envelope | None: ...

    def check_background(self, request: DesignPoint) -> None:
        """Raises ConfigError for a background load that the request's platform cannot have; asks nobody."""
        ...

    def check_now(self, request: DesignPoint) -> None:
        """The same, and for a frame that an interface does not carry, as far as the nodes are known; asks nobody."""
        ...

    def check_stored(self, request: DesignPoint) -> None:
        """Raises ConfigError for a load that is a share of what is not stored, StoreError. Blocking."""
        ...

    def lease_holders(self) -> dict[str, LeaseHolder]:
        """Who else holds which of the connected nodes now; asks nobody."""
        ...

    def observed_trial(self) -> ObservedTrial | None:
        """The trial that another operator takes now, as its agents tell; None when none is told of. Asks nobody."""
        ...

    async def run(self, request: DesignPoint, repetitions: int = 1, *, take_over: bool = False) -> list[RunRecord]:
        """Run trials one after the other. Raises LabError, LeaseHeld where ``take_over`` would help."""
        ...

    async def abort(self) -> None:
        """Stop traffic and end the running trial, keeping what was measured."""
        ...

    async def close(self) -> None:
        """Let go of all nodes."""
        ...

    def earlier_steps(self) -> list[tuple[Step, StepRecord]]:
        """Experiments stored of this testbed with what they are of, the newest first. Blocking. Raises StoreError."""
        ...

    def execution(self, plan: Plan, *, salt: str = "") -> PlanExecution:
        """An execution of a plan that is resolved for this testbed, not begun yet; ``salt``: nothing resumes it."""
        ...

    async def execute(self, execution: PlanExecution, *, take_over: bool = False) -> Outcome:
        """Take what an execution has left to take. Raises LabError, LeaseHeld where ``take_over`` would help."""
        ...

    async def check(
        self, *, plan: Plan | None = None, fix: bool = False, on_result: OnResult | None = None
    ) -> list[CheckResult]:
        """Preflight, told result by result. Raises LabError when it cannot be done now."""
        ...

    async def calibration_offer(self, points: Sequence[DesignPoint] = ()) -> CalibrationOffer:
        """What a calibration would be of, what is usual or what these ``points`` need, and what has to be connected
        before. Raises LabError when it cannot be.
        """
        ...

    async def calibrate(self, offer: CalibrationOffer, on_progress: OnProgress) -> Envelope:
        """Take it, save it, and hold runs against it from now on. Raises LabError, of which Aborted."""
        ...

    def reconnect(self, node: str) -> bool:
        """Try a lost node again now. False when it is not being waited for."""
        ...

    async def inspect(self, node: str) -> Inspection:
        """Look at a node. Raises LabError; never while a trial is under way."""
        ...

    def shell_argv(self, node: str) -> list[str]:
        """The command line that opens a shell on a node. Blocking. Raises LabError."""
        ...


SessionFactory = Callable[[], SessionLike]
