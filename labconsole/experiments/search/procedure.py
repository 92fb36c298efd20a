"""One load search on a testbed: the trials that sequence.py requests, taken, judged and stored like all others.

The procedure decides in a thread of its own and waits there for each trial; the trials run on the event loop. An
invalid trial is repeated, because a search that accepts one is misled for good. The procedure makes the same requests
whenever it gets the same answers, so an interrupted search first replays its stored runs and then continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from labconsole.contracts.experiment import Bench, ExperimentStore, StepRecord
from labconsole.contracts.picture import StepPicture
from labconsole.contracts.ports import StoredTrial
from labconsole.errors import Aborted, ConfigError, MeasurementError
from labconsole.experiments.search.goals import Ended, GoalResult, LoadTrial
from labconsole.experiments.search.progress_view import SearchPicture, build_picture
from labconsole.experiments.search.sequence import (
    BACK_TO_BACK,
    Forecast,
    SearchFindings,
    forecast_search,
    rehearse,
    run_search,
)
from labconsole.model.design_point import DesignPoint
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.limits_check import check_request
from labconsole.model.plan.search import QUEUED_S, Configuration, Search, least_trial_s
from labconsole.model.record.run import METHOD, PlanRef, RunRecord
from labconsole.model.record.search import (
    SEARCH,
    GoalRecord,
    SearchRecord,
    SearchRef,
    SearchRequested,
    SearchTrial,
    StreamLatency,
)
from labconsole.verdict.reasons import each_place
from labconsole.verdict.verdict import lost_at_sink
from labconsole.wire.version import __version__


class SearchStore(ExperimentStore[SearchRecord], Protocol):
    """The store for searches and their trials. Blocking."""

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> Sequence[StoredTrial]: ...
    def get(self, run_id: str) -> RunRecord: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSearch:
    """One search to run, and its store: a step of a plan."""

    search: Search
    configuration: Configuration
    hash: str
    plan_name: str
    store: SearchStore
    seed: int = 0

    @property
    def request(self) -> DesignPoint:
        """The configuration, at no particular load."""
        return self.configuration.request

    def describe(self) -> str:
        """Return one line for people."""
        return self.configuration.describe()

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """Return the sending times of its trials on a unit that drops everything above its capacity."""
        return rehearse(self.search, line_rate_pps(self.request, inventory))

    async def take(self, bench: Bench) -> SearchRecord:
        """Run the search; return its record, which is stored.

        Raises Aborted if the bench begins no further trial, and the error of a trial that cannot be taken (NodeLost):
        then only the trials are stored, and the same search continues from them. The record contains all other errors.
        """
        started_at = utc_now()
        trials = await _Trials.of(self, bench)
        findings = SearchFindings()
        line_pps = line_rate_pps(self.request, bench.inventory)
        failure = None
        try:
            await asyncio.to_thread(
                run_search, self.search, trials, findings, line_pps=line_pps, sources=self.request.sources
            )
            failure = findings.ended_early
        except MeasurementError as exc:
            if trials.unfit is not exc:
                raise
            failure = str(exc)
        finally:
            await trials.close()
        record = _record(bench, self, findings, started_at=started_at, line_pps=line_pps, failure=failure)
        await asyncio.to_thread(self.store.save_experiment, SEARCH, record)
        return record

    def picture(self, record: StepRecord) -> StepPicture:
        """Return the trials and bounds in its record."""
        return build_picture(self.search, record) if isinstance(record, SearchRecord) else StepPicture()


def line_rate_pps(request: DesignPoint, inventory: Inventory) -> float:
    """Return the highest load of a search, per source: the line rate of the slowest stream."""
    return min(request.frame.rate_pps(stream.link_speed_bps) for stream in inventory.streams[: request.sources])


def set_load(request: DesignPoint, load_pps: float, duration_s: float) -> DesignPoint:
    """Return the request with this load per source. The generator uses whole nanoseconds between packets."""
    target_bps = request.frame.rate_bps(load_pps)
    return replace(request, target=max(1, int(target_bps)), duration_s=duration_s)


def check_search(search: Search, request: DesignPoint, inventory: Inventory) -> None:
    """Refuse a search that is impossible on this testbed, including its shortest trial at the lowest load.

    Raises ConfigError.
    """
    check_request(replace(request, target="max"), inventory)
    for goal in search.load_goals:
        least_s = least_trial_s(goal)
        if search.trial_s is not None and search.trial_s < least_s:
            raise ConfigError(
                f"is too short for {goal}: a queue of {QUEUED_S * 1e3:g} ms, which counts as forwarded, would exceed "
                f"the loss that the goal allows",
                key="trial_s",
                value=search.trial_s,
                allowed=f"{least_s:g} or more, or a goal that allows more loss",
            )
    if search.load_goals:
        # Only the trials of load goals go down to the lowest load. A preset's are never too short for a packet.
        lowest_pps = line_rate_pps(request, inventory) * search.lowest_ratio
        check_request(set_load(request, lowest_pps, search.trial_s or 1.0), inventory)


class _Trials:
    """The bench of the procedure. Its methods are called in the procedure's thread, and wait for the event loop."""

    def __init__(self, wanted: LoadSearch, bench: Bench, stored: dict[int, str]) -> None:
        self._wanted, self._bench, self._stored = wanted, bench, stored
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._line_pps = line_rate_pps(wanted.request, bench.inventory)
        self._taken: list[tuple[str, LoadTrial]] = []
        self._picture = SearchPicture(wanted.search, line_pps=self._line_pps, sources=wanted.request.sources)
        self._drawn = self._picture.now()
        self._delays: dict[str, tuple[StreamLatency, ...]] = {}
        self._task: asyncio.Task[Any] | None = None
        self._over = False
        self.unfit: MeasurementError | None = None
        """The error that ends the search, if a trial stays invalid."""

    @classmethod
    async def of(cls, wanted: LoadSearch, bench: Bench) -> _Trials:
        """Create it with the trials that an interrupted search left in the store, by their number."""
        there = await asyncio.to_thread(wanted.store.plan_runs, wanted.hash, bench.inventory.fingerprint())
        stored: dict[int, str] = {}
        for trial in there:
            stored[trial.repetition] = max(stored.get(trial.repetition, ""), trial.run_id)
        return cls(wanted, bench, stored)

    def trial(self, test: str, duration_s: float, load_pps: float) -> LoadTrial:
        request = set_load(self._wanted.request, load_pps, duration_s)
        return self._kept(test, load_pps, request, lambda: self._wait(request, load_pps))

    def burst(self, packets: int) -> LoadTrial:
        line_pps = self._line_pps
        request = set_load(self._wanted.request, line_pps, 1.0)
        burst = replace(request, duration_s=packets * request.delay_ns / 1e9)
        return self._kept(BACK_TO_BACK, packets, burst, lambda: self._wait(burst, line_pps, burst=True))

    def _kept(self, test: str, at: float, request: DesignPoint, take: Callable[[], LoadTrial]) -> LoadTrial:
        self._drawn = self._picture.now((test, at, request.duration_s), self._forecast())
        trial = take()
        self._taken.append((test, trial))
        self._picture.add(test, trial)
        return trial

    def _forecast(self) -> Forecast | None:
        """Return a forecast, but none while stored trials are replayed, because the next one is known already."""
        if self._number + 1 in self._stored:
            return None
        requested = self._wanted.search
        return forecast_search(requested, self._taken, line_pps=self._line_pps, sources=self._wanted.request.sources)

    def delays(self, run_id: str) -> Sequence[StreamLatency]:
        return self._delays.pop(run_id, ())

    async def close(self) -> None:
        """End the trial under way, so that a cancelled search leaves none behind when the testbed is released."""
        self._over = True
        if self._task is not None and not self._task.done() and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])

    def _wait(self, request: DesignPoint, load_pps: float, *, burst: bool = False) -> LoadTrial:
        return asyncio.run_coroutine_threadsafe(self._one(request, load_pps, burst), self._loop).result()

    async def _one(self, request: DesignPoint, load_pps: float, burst: bool) -> LoadTrial:
        self._task = asyncio.current_task()
        if self._over:  # cancelled while the procedure was computing: the testbed is no longer ours
            raise Aborted("the search was stopped")
        self._bench.show(self._drawn)
        self._number += 1
        record = await self._load_stored(request)
        if record is None:
            if self._bench.spent_s > self._wanted.search.within_s:
                raise Ended(f"ended after {self._wanted.search.within_s:g} s, the time limit")
            record = await self._measured(request)
        self._delays = {record.run_id: latencies(record)}
        return counted(record, request, load_pps, burst=burst)

    async def _load_stored(self, request: DesignPoint) -> RunRecord | None:
        run_id = self._stored.pop(self._number, None)
        if run_id is None:
            return None
        record = await asyncio.to_thread(self._wanted.store.get, run_id)
        requested = record.requested
        same = (requested.target_bps, requested.duration_s) == (request.target, request.duration_s)
        if record.method != METHOD or not same:
            self._stored.clear()  # later stored trials answer other requests
            return None
        return record

    async def _measured(self, request: DesignPoint) -> RunRecord:
        record = await self._bench.trial(request, self._place)
        if record.verdict.status != "invalid":
            return record
        reasons = "; ".join(reason.detail for reason in record.verdict.reasons)
        attempts = 1 if record.plan is None else record.plan.attempt
        problem = f"{attempts} trials in a row are invalid, the last" if attempts > 1 else "a trial is invalid,"
        self.unfit = MeasurementError(f"{problem} {record.run_id}: {reasons}")
        raise self.unfit

    def _place(self, *, warm_ups: int, attempt: int, attempts: int) -> PlanRef:
        wanted = self._wanted
        return PlanRef(
            name=wanted.plan_name,
            hash=wanted.hash,
            point=wanted.configuration.index,
            repetition=self._number,
            seed=wanted.seed,
            warm_ups=warm_ups,
            attempt=attempt,
            attempts=attempts,
        )


def counted(record: RunRecord, request: DesignPoint, load_pps: float, *, burst: bool = False) -> LoadTrial:
    """Return a run as a search's trial. Raises MeasurementError for one that has no counts.

    Sources that took too long for their packets did not offer the load. What they should have sent in that time counts
    as intended, or a bound would be claimed that no trial reached. A burst is judged by its rate instead.
    """
    total, each = record.total, request.intended_packets
    if total.offered_packets is None or total.measured_packets is None or each is None:
        raise MeasurementError(f"{record.run_id} has no counts to search by")
    return LoadTrial(
        run_id=record.run_id,
        load_pps=load_pps,
        duration_s=request.duration_s,
        intended_packets=each * request.sources if burst else round(each * request.sources * _stretch(record)),
        offered_packets=total.offered_packets,
        measured_packets=total.measured_packets,
        lost_outside_packets=sum(max(0, lost_at_sink(stream)) for stream in record.streams),
        offered_pps=total.offered_pps,
        source_lost_packets=total.source_lost_packets or 0,
        queued_packets=total.queued_packets,
    )


def _stretch(record: RunRecord) -> float:
    """Return the slowest source's sending time over the requested one, where the verdict finds it too long, else 1."""
    stretched = [reason for reason in record.verdict.reasons if reason.code == "duration_stretched"]
    found = [place for reason in stretched for place in each_place(reason)]
    return max((each["offered_duration_s"] / each["requested_s"] for each in found), default=1.0)


def latencies(record: RunRecord) -> tuple[StreamLatency, ...]:
    """Return the delays of the run's streams, for those that have one."""
    return tuple(
        StreamLatency(
            run_id=record.run_id,
            stream=stream.name,
            one_way_ns=stream.delay.one_way_ns,
            reason=stream.delay.reason,
            pdv_ns=stream.delay.pdv_ns,
            ipdv_ns=stream.delay.ipdv_ns,
        )
        for stream in record.streams
        if stream.delay is not None
    )


def _record(
    bench: Bench,
    wanted: LoadSearch,
    findings: SearchFindings,
    *,
    started_at: str,
    line_pps: float,
    failure: str | None,
) -> SearchRecord:
    inventory, configuration, requested = bench.inventory, wanted.configuration, wanted.request
    return SearchRecord(
        search_id=new_run_id(datetime.now(UTC)),
        started_at=started_at,
        finished_at=utc_now(),
        testbed=inventory.testbed,
        testbed_fingerprint=inventory.fingerprint(),
        emulated=inventory.emulated,
        operator=bench.operator,
        labconsole_version=__version__,
        plan=SearchRef(
            name=wanted.plan_name,
            hash=wanted.hash,
            configuration=configuration.index,
            repetition=configuration.repetition,
        ),
        requested=SearchRequested(
            platform=requested.platform,
            **requested.frame.columns(),
            sources=requested.sources,
            background=requested.background,
            generator=requested.generator,
            observe=requested.observe,
        ),
        settings=wanted.search.meaning(),
        line_rate_pps=line_pps,
        lowest_load_pps=line_pps * wanted.search.lowest_ratio,
        goals=tuple(_build_goal(result) for result in findings.goals),
        frame_loss=findings.frame_loss,
        back_to_back=findings.back_to_back,
        latency=findings.latency,
        trials=tuple(_build_trial(test, trial) for test, trial in findings.trials),
        status="done" if failure is None else "failed",
        failure=failure,
    )


def _build_goal(result: GoalResult) -> GoalRecord:
    goal = result.goal
    return GoalRecord(
        goal=goal.name,
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        trial_duration_s=goal.trial_duration_s,
        duration_sum_s=goal.duration_sum_s,
        relative_width=goal.relative_width,
        lower_bound_pps=result.lower_bound_pps,
        upper_bound_pps=result.upper_bound_pps,
        conditional_throughput_pps=result.conditional_throughput_pps,
        limited_by=result.limited_by,
        complete=result.complete,
        lower_run_ids=result.lower_run_ids,
        upper_run_ids=result.upper_run_ids,
    )


def _build_trial(test: str, trial: LoadTrial) -> SearchTrial:
    return SearchTrial(
        run_id=trial.run_id,
        for_test=test,
        load_pps=trial.load_pps,
        duration_s=trial.duration_s,
        intended_packets=trial.intended_packets,
        offered_packets=trial.offered_packets,
        measured_packets=trial.measured_packets,
        lost_outside_packets=trial.lost_outside_packets,
        offered_pps=trial.offered_pps,
        source_lost_packets=trial.source_lost_packets,
        queued_packets=trial.queued_packets,
    )
