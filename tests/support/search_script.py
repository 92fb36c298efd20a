"""A testbed that is a script, for tests of load searches: its trials end at once, or never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from labconsole.contracts.ports import Series, StoredTrial
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome, StepProgress
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.trial.setup import TrialRequest
from labconsole.errors import MeasurementError, NodeLost, StoreError
from labconsole.experiments.search.steps import LoadSearches
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import Search
from labconsole.model.plan.writer import plan_from_requests
from labconsole.model.record.kind import RecordKind
from labconsole.model.record.run import Fixed, RunRecord
from labconsole.model.record.search import SearchRecord
from labconsole.model.record.summary import RunFilter
from support.fake_session import make_inventory, make_record
from support.no_crews import NoCrews

REQUEST = DesignPoint(platform="raw", frame=FrameSize(1000), sources=1, target="max", duration_s=1.0)
QUICK = Search(goals=("ndr",), trial_s=10.0, duration_sum_s=10.0, width_ratio=0.05)
CAPACITY_PPS = 30_000


def searching(search: Search = QUICK, *, searches: int = 1, **more: Any) -> Plan:
    """A plan that searches at so many frame sizes, and has no grid unless it is given one."""
    listed = [(replace(REQUEST, frame=FrameSize(1000 + index)), 1) for index in range(searches)]
    plan = plan_from_requests("t", listed, make_inventory())
    usual: dict[str, Any] = {"grid": False, "settle_s": 0.0, "drain_s": 0.0, "order": "as-listed"}
    return replace(plan, search=search, **{**usual, **more})


class Store:
    """Keeps runs by place and searches, as the real one answers."""

    def __init__(self) -> None:
        self.runs: list[RunRecord] = []
        self.searches: list[SearchRecord] = []

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> list[StoredTrial]:
        return [
            StoredTrial(run.plan.point, run.plan.repetition, run.run_id, run.verdict.status, None)
            for run in self.runs
            if run.plan is not None and run.plan.hash == plan_hash and run.verdict.status != "invalid"
        ]

    def get(self, run_id: str) -> RunRecord:
        for run in self.runs:
            if run.run_id == run_id:
                return run
        raise StoreError(f"there is no run {run_id}")

    def save(self, record: RunRecord, series: Series | None) -> None:
        self.runs.append(record)

    def fixed(self, run_ids: Iterable[str]) -> dict[str, Fixed]:
        return {}

    def save_experiment(self, kind: RecordKind[SearchRecord], record: SearchRecord) -> None:
        self.searches.append(record)

    def experiments(
        self, kind: RecordKind[SearchRecord], where: RunFilter, *, status: str | None = None
    ) -> list[SearchRecord]:
        hashes = where.plan_hash or ()
        return [each for each in reversed(self.searches) if each.plan.hash in hashes and each.status == status]


class Script:
    """A session whose trials end at once, or never; ``told`` says what happened in which order."""

    operator = "o@h"

    def __init__(self, store: Store | None = None, *, endless: bool = False) -> None:
        self.inventory, self.stopping = make_inventory(), False
        self.stage: Any = NoCrews()
        self.aborted = asyncio.Event()
        self.boots_s = dict.fromkeys(self.inventory.platforms, 0.0)
        self.endless, self.store = endless, store or Store()
        self.told: list[str] = []
        self.experiments = (LoadSearches(self.store),)
        self.warmed: list[DesignPoint] = []
        self.asked: list[DesignPoint] = []
        self.settled: list[float] = []
        self.purposes: list[str] = []
        self.begun = asyncio.Event()
        self.before: Callable[[int], str | None] = lambda number: None
        """Given how many trials were taken, what happens instead: invalid, lost, refused, uncounted, stop."""
        self.taken = 0

    def settings(self, plan: Plan | None = None) -> None:
        return None

    async def settle(self, seconds: float) -> None:
        self.settled.append(seconds)

    async def wait_stopping(self) -> None:
        await self.aborted.wait()

    async def abort(self) -> None:
        self.stopping = True
        self.aborted.set()

    def check_now(self, request: DesignPoint) -> None:
        pass

    def announce_guest_trial(self, request: object, description: str, plan: str | None) -> None:
        return

    async def renew_lease(self, left_s: float | None) -> None:
        return

    def nodes_of(self, request: DesignPoint) -> list[str]:
        return ["uut"]

    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None:
        self.told.append("connected again")

    @asynccontextmanager
    async def batch(self, request: DesignPoint, *, purpose: str, **_: Any) -> AsyncIterator[Any]:
        self.purposes.append(purpose)
        try:
            yield self.take
        finally:
            self.told.append("given back")

    async def take(self, order: TrialRequest) -> RunRecord:
        request, place = order.request, order.plan
        assert place is not None
        if not order.keep:
            self.warmed.append(request)
            return make_record(request, "warm-up")
        self.asked.append(request)
        try:
            self.begun.set()
            if self.endless:
                await asyncio.Event().wait()
            self.taken += 1
            what = self.before(self.taken)
            if what == "lost":
                raise NodeLost("uut", "gone")
            if what == "refused":
                raise MeasurementError("the guest does not boot")
            self.stopping = self.stopping or what == "stop"
            sent = request.intended_packets or 0
            passed = min(sent, round(CAPACITY_PPS * request.duration_s))
            record = make_record(
                request,
                f"20261121T000000Z-{len(self.store.runs):06x}",
                status="invalid" if what == "invalid" else "valid",
            )
            counts: dict[str, Any] = {
                "offered_packets": sent,
                "measured_packets": passed,
                "loss_packets": sent - passed,
            }
            if what == "uncounted":
                counts["measured_packets"] = None
            record = record.model_copy(
                update={"plan": place, "total": record.total.model_copy(update={**counts, "offered_pps": 1e9})}
            )
            self.store.runs.append(record)
            return record
        finally:
            await asyncio.sleep(0)  # a generator is closed: that takes a turn of the loop or more
            self.told.append("trial ended")


async def carry_out(
    session: Script, plan: Plan, on_step: Callable[[StepProgress], None] = lambda progress: None
) -> Outcome:
    bench: Any = session
    return (await PlanRunner([PlanExecution(plan, bench, on_step=on_step)], bench).run())[0]


def make(session: Script, plan: Plan | None = None) -> Outcome:
    return asyncio.run(asyncio.wait_for(carry_out(session, plan or searching()), 30))


def made(session: Script, plan: Plan | None = None) -> list[SearchRecord]:
    return [record for record in make(session, plan).steps.made if isinstance(record, SearchRecord)]


EVERYTHING = Search.model_validate(
    {
        "goals": ("ndr", "frame-loss", "back-to-back", "latency"),
        "trial_s": 10.0,
        "duration_sum_s": 10.0,
        "width_ratio": 0.05,
        "frame_loss": {"trial_s": 0.5},
        "back_to_back": {"trial_s": 1.0, "repetitions": 2},
        "latency": {"trial_s": 0.5, "repetitions": 1},
    }
)
