"""A testbed that is a script, for tests of load searches: its trials end at once, or never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from labconsole.contracts.ports import StoredTrial
from labconsole.errors import NodeLost, StoreError
from labconsole.experiments.search.execution import SearchOutcome, make_searches
from labconsole.experiments.search.procedure import Wanted
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.plan.search import Configuration, Search, search_hash
from labconsole.model.record.run import RunRecord
from labconsole.model.record.search import SearchRecord
from support.fake_session import make_inventory, make_record

REQUEST = DesignPoint(platform="raw", frame=FrameSize(1000), sources=1, target="max", duration_s=1.0)
QUICK = Search(goals=("ndr",), trial_s=1.0, duration_sum_s=1.0, width_ratio=0.05)
CAPACITY_PPS = 30_000


def wanted(search: Search = QUICK, *, index: int = 0, **more: Any) -> Wanted:
    configuration = Configuration(index, 1, replace(REQUEST, frame=FrameSize(1000 + index)))
    return Wanted(
        search=search, configuration=configuration, hash=search_hash(search, configuration), plan_name="t", **more
    )


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

    def save_search(self, record: SearchRecord) -> None:
        self.searches.append(record)

    def finished_search(self, search_hash: str, testbed_fingerprint: str) -> SearchRecord | None:
        return next((each for each in self.searches if each.plan.hash == search_hash and each.status == "done"), None)


class Script:
    """A session whose trials end at once, or never; ``told`` says what happened in which order."""

    operator = "o@h"

    def __init__(self, store: Store | None = None, *, endless: bool = False) -> None:
        self.inventory, self.stopping = make_inventory(), False
        self.boots_s = dict.fromkeys(self.inventory.platforms, 0.0)
        self.endless, self.told, self.store = endless, [], store or Store()  # type: ignore[var-annotated]
        self.begun = asyncio.Event()
        self.before: Callable[[int], str | None] = lambda number: None
        """Given how many trials were taken, what happens instead: invalid, lost, stop."""
        self.taken = 0

    def settings(self, *, drain_s: float | None = None) -> None:
        return None

    async def settle(self, seconds: float) -> None:
        return

    async def renew_lease(self, left_s: float | None) -> None:
        return

    def nodes_of(self, request: DesignPoint) -> list[str]:
        return ["uut"]

    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None:
        self.told.append("connected again")

    @asynccontextmanager
    async def batch(self, request: DesignPoint, **_: Any) -> AsyncIterator[Any]:
        try:
            yield self.take
        finally:
            self.told.append("given back")

    async def take(self, request: DesignPoint, place: Any, *_: Any) -> RunRecord:
        try:
            self.begun.set()
            if self.endless:
                await asyncio.Event().wait()
            self.taken += 1
            what = self.before(self.taken)
            if what == "lost":
                raise NodeLost("uut", "gone")
            self.stopping = what == "stop"
            sent = request.intended_packets or 0
            passed = min(sent, round(CAPACITY_PPS * request.duration_s))
            record = make_record(
                request,
                f"20261121T000000Z-{len(self.store.runs):06x}",
                status="invalid" if what == "invalid" else "valid",
            )
            counts = {"offered_packets": sent, "measured_packets": passed, "loss_packets": sent - passed}
            record = record.model_copy(
                update={"plan": place, "total": record.total.model_copy(update={**counts, "offered_pps": 1e9})}
            )
            self.store.runs.append(record)
            return record
        finally:
            await asyncio.sleep(0)  # a generator is closed: that takes a turn of the loop or more
            self.told.append("trial ended")


def make(session: Script, *todo: Wanted) -> SearchOutcome:
    async def work() -> SearchOutcome:
        bench: Any = session
        return await make_searches(
            todo or (wanted(),), bench, SearchOutcome(), purpose="test", on_trial=lambda record: None
        )

    return asyncio.run(work())


EVERYTHING = Search.model_validate(
    {
        "goals": ("ndr", "frame-loss", "back-to-back", "latency"), "trial_s": 1.0, "duration_sum_s": 1.0,
        "width_ratio": 0.05, "frame_loss": {"trial_s": 0.5}, "back_to_back": {"trial_s": 1.0, "repetitions": 2},
        "latency": {"trial_s": 0.5, "repetitions": 1},
    }
)  # fmt: skip
