"""A scripted session for the console: seven nodes, three streams, whatever telemetry a test wants.

``advance`` moves its clock by hand and is deterministic; ``python tests/support/fake_session.py`` opens the console on one
that moves by itself, to look at the screens without a testbed.
"""

from __future__ import annotations

import asyncio
import collections.abc as abc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from labconsole.contracts.experiment import Step, StepRecord
from labconsole.contracts.ports import Series
from labconsole.engine.calibration import CalibrationOffer, OnProgress
from labconsole.engine.check.result import CheckResult, OnResult
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.inspection import Inspection
from labconsole.engine.leases import LeaseHolder
from labconsole.engine.live.events import (
    Event,
    Listener,
    NodeChanged,
    NodeState,
    Phase,
    PhaseChanged,
    TrialFinished,
    TrialStarted,
)
from labconsole.engine.live.observed_trial import ObservedTrial
from labconsole.engine.live.telemetry import NodeLive, StreamLive, Telemetry
from labconsole.engine.trial.second_guest import missing_reference
from labconsole.engine.trial.setup import check_mtu
from labconsole.errors import ConfigError, LabError, LeaseHeld, StoreError
from labconsole.model.design_point import FORWARDING_SHARES, DesignPoint, FrameSize
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.query import Query
from labconsole.model.record.annotations import RunNote, plan_key
from labconsole.model.record.envelope import Envelope
from labconsole.model.record.run import (
    CaptureCounts,
    LedgerHop,
    Reason,
    Requested,
    RunRecord,
    Sequence,
    StreamRecord,
    Total,
    Verdict,
)
from labconsole.model.record.summary import Page, RunSummary, Sorting
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from labconsole.wire.host_activity import NodeSurroundings
from labconsole.wire.links import NodeLinkState

INVENTORY: dict[str, Any] = {
    "testbed": "wuerzburg",
    "emulated": True,
    "nodes": {
        **{f"src{i}": {"address": "127.0.0.1", "roles": ["source"]} for i in (1, 2, 3)},
        "uut": {"address": "127.0.0.1", "roles": ["uut"]},
        **{f"snk{i}": {"address": "127.0.0.1", "roles": ["sink"]} for i in (1, 2, 3)},
    },
    "streams": [
        {
            "name": f"s{i}",
            "source": f"src{i}/eth1",
            "uut_in": f"eth{i}",
            "uut_out": f"eth{i + 4}",
            "sink": f"snk{i}/eth1",
            "source_ip": f"198.18.{i}.1",
            "sink_ip": f"198.19.{i}.1",
            "link_speed": "1Gbit",
        }
        for i in (1, 2, 3)
    ],
    "platforms": {
        "raw": {"driver": "raw", "forwarding": "route"},
        "bridge": {"driver": "raw", "forwarding": "bridge"},
        "container": {"driver": "container"},
    },
}


def make_inventory(**changes: Any) -> Inventory:
    """The lab of the tests, with some top-level keys replaced."""
    return Inventory.model_validate({**INVENTORY, **changes})


def link(name: str, index: int, *, namespace: str = "", carrier: bool = True) -> NodeLinkState:
    """One entry of an agent's list of links."""
    return NodeLinkState(
        namespace=namespace,
        index=index,
        name=name,
        mac="02:00:00:00:00:01",
        mtu=1500,
        kind="veth",
        driver="veth",
        up=True,
        carrier=carrier,
        speed_bps=10**9,
        pause=None,
        master=None,
    )


def make_record(request: DesignPoint, run_id: str, *, loss: float = 0.0, status: str = "valid") -> RunRecord:
    """A whole record of a request on the lab, losing ``loss`` of stream s1 at the UUT."""
    parts = []
    hop = partial(LedgerHop, interface="eth1")
    for number in range(1, request.sources + 1):
        pps = request.intended_pps or 700_000.0
        offered = round(pps * request.duration_s)
        lost = round(offered * loss) if number == 1 else 0
        bps = pps * 8 * (request.frame.bytes + 24)
        share, arrived = 1 - lost / offered, offered - lost
        parts.append(
            StreamRecord(
                name=f"s{number}",
                generator="afpacket",
                generator_version="0.1.0",
                delay_ns=request.delay_ns,
                burst_packets=None,
                intended_packets=request.intended_packets,
                intended_pps=request.intended_pps,
                offered_packets=offered,
                offered_duration_s=request.duration_s,
                offered_pps=pps,
                offered_bps=bps,
                measured_packets=offered - lost,
                measured_pps=pps * share,
                measured_bps=bps * share,
                measured_from="capture",
                loss_packets=lost,
                loss_ratio=lost / offered,
                capture=CaptureCounts(captured_packets=offered - lost, dropped_packets=0, complete=True),
                counters={},
                sequence=Sequence(lost_runs={"1": lost} if lost else {}, reordered_packets=0, duplicate_packets=0),
                ledger=(
                    hop(hop="generator", node=f"src{number}", packets=offered, lost_packets=None),
                    hop(hop="uut in", node="uut", interface=f"eth{number}", packets=offered, lost_packets=0),
                    hop(hop="uut out", node="uut", interface=f"eth{number + 4}", packets=arrived, lost_packets=lost),
                    hop(hop="sink", node=f"snk{number}", packets=arrived, lost_packets=0),
                ),
                unplaced_packets=0,
            )
        )
    total = {
        name: sum(getattr(p, name) for p in parts)
        for name in (
            "offered_packets",
            "offered_pps",
            "offered_bps",
            "measured_packets",
            "measured_pps",
            "measured_bps",
            "loss_packets",
        )
    }
    reasons = () if status == "valid" else (Reason(code="below_target", detail="s1 offered 3.1 % too little"),)
    return RunRecord(
        run_id=run_id,
        started_at="2026-03-02T09:15:00.000Z",
        finished_at="2026-03-02T09:15:12.000Z",
        testbed="wuerzburg",
        testbed_fingerprint="0" * 16,
        emulated=True,
        operator="op",
        labconsole_version="0.1.0",
        plan=None,
        requested=Requested(
            **replace(request, frame=FrameSize(request.frame.bytes), generator="auto", observe="quiet").columns()
        ),
        streams=tuple(parts),
        background=None,
        total=Total(**total, loss_ratio=total["loss_packets"] / total["offered_packets"]),
        verdict=Verdict.model_validate({"status": status, "reasons": reasons}),
    )


def summary_of_record(record: RunRecord, note: str | None = None, *, has_series: bool = False) -> RunSummary:
    """What the store's list says of a record."""
    requested, total, plan = record.requested, record.total, record.plan
    return RunSummary(
        run_id=record.run_id,
        started_at=record.started_at,
        testbed=record.testbed,
        testbed_fingerprint=record.testbed_fingerprint,
        emulated=record.emulated,
        generator="afpacket",
        platform=requested.platform,
        frame_size_bytes=requested.frame_size_bytes,
        frame_size_includes_fcs=requested.frame_size_includes_fcs,
        sources=requested.sources,
        target_bps=requested.target_bps,
        background=requested.background,
        duration_s=requested.duration_s,
        plan_name=plan.name if plan else None,
        plan_hash=plan.hash if plan else None,
        plan_point=plan.point if plan else None,
        repetition=plan.repetition if plan else None,
        verdict=record.verdict.status,
        reason_codes=tuple(reason.code for reason in record.verdict.reasons),
        offered_pps=total.offered_pps,
        offered_bps=total.offered_bps,
        measured_pps=total.measured_pps,
        measured_bps=total.measured_bps,
        loss_packets=total.loss_packets,
        loss_ratio=total.loss_ratio,
        has_series=has_series,
        note=note,
    )


@dataclass
class FakeStore:
    """Records in memory, newest first. ``broken``: nothing can be read; ``locked``: nothing can be written."""

    records: list[RunRecord] = field(default_factory=list)
    broken: bool = False
    locked: bool = False
    name: str = "sqlite:///memory"
    notes: dict[str, RunNote] = field(default_factory=dict)
    kept_series: dict[str, Series] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)

    def _check(self) -> None:
        if self.broken:
            raise StoreError("the run store cannot be read")

    def _summary(self, record: RunRecord) -> RunSummary:
        note = self.notes.get(record.run_id)
        return summary_of_record(record, note.text if note else None, has_series=record.run_id in self.kept_series)

    def list(self, *, limit: int | None = None) -> list[RunSummary]:
        self._check()
        return [self._summary(record) for record in self.records[:limit]]

    def page(self, *, before: int | None = None, after: int | None = None, limit: int) -> Page:
        self._check()
        places = list(range(len(self.records), 0, -1))  # the last of the list was saved first and has place 1
        if before is not None:
            places = [place for place in places if place < before]
        if after is not None:
            places = [place for place in places if place > after][-limit:]
        places = places[:limit]
        if not places:
            return Page([], before or 0, after or 0)
        runs = [self._summary(self.records[len(self.records) - place]) for place in places]
        return Page(runs, places[-1], places[0])

    def count(self) -> int:
        self._check()
        return len(self.records)

    def amount(self) -> tuple[int, int]:
        return self.count(), 0

    def newest_experiments(self) -> dict[str, str]:
        self._check()
        return {}

    def find(
        self, query: Query, sorting: Sorting, *, after: RunSummary | None = None, skip: int = 0, limit: int
    ) -> abc.Sequence[RunSummary]:
        newest_first = sorted(self.list(), key=lambda run: (run.started_at, run.run_id), reverse=True)
        meant = sorting.apply(query.select(newest_first))
        begin = 0 if after is None else 1 + [run.run_id for run in meant].index(after.run_id)
        return meant[begin + skip :][:limit]

    def count_matching(self, query: Query) -> int:
        return len(query.select(self.list()))

    def position(self, query: Query, sorting: Sorting, run: RunSummary) -> int:
        return [each.run_id for each in self.find(query, sorting, limit=len(self.records))].index(run.run_id)

    def get(self, run_id: str) -> RunRecord | None:
        self._check()
        if run_id in self.damaged:
            raise StoreError(f"run {run_id}: not valid JSON: Expecting value: line 1 column 1 (char 0)")
        return next((r for r in self.records if r.run_id == run_id), None)

    def series(self, run_id: str) -> Series | None:
        self._check()
        return self.kept_series.get(run_id)

    def note(self, run_id: str) -> RunNote | None:
        self._check()
        return self.notes.get(run_id)

    def plan_note(self, plan_hash: str, testbed_fingerprint: str) -> RunNote | None:
        self._check()
        return self.notes.get(plan_key(plan_hash, testbed_fingerprint))

    def set_plan_note(self, plan_hash: str, testbed_fingerprint: str, text: str | None, *, author: str) -> None:
        self.set_note(plan_key(plan_hash, testbed_fingerprint), text, author=author)

    def set_note(self, run_id: str, text: str | None, *, author: str) -> None:
        if self.locked:
            raise StoreError("runs.sqlite: cannot note the run: another process has kept it locked for 10 s")
        words = (text or "").strip()
        if words:
            self.notes[run_id] = RunNote(words, author, "2026-03-02T09:20:00.000000Z")
        else:
            self.notes.pop(run_id, None)


class FakeSession:
    """Implements SessionLike, but for what LabSession can. ``hold``: a trial waits until the test releases or aborts it."""

    def __init__(self, inventory: Inventory | None = None, *, hold: bool = False, loss: float = 0.0) -> None:
        self.inventory = inventory or make_inventory()
        self.boots_s = dict.fromkeys(self.inventory.platforms, 0.0)
        self.telemetry = Telemetry()
        self.store = FakeStore()
        self.running = False
        self.operator = "op@console"
        self.read_only = False
        self.timing_matters = False
        self.envelope: Envelope | None = None
        self.holders: dict[str, LeaseHolder] = {}
        self.observed: ObservedTrial | None = None
        self.taken_over = False
        self.looks: list[str] = []
        self.requests: list[tuple[DesignPoint, int]] = []
        self.closed = self.aborted = False
        self.refusal: LabError | None = None
        self.no_background: ConfigError | None = None
        self.maximum_stored = False
        self.loss = loss
        self.status = "valid"
        self.release = asyncio.Event()
        if not hold:
            self.release.set()
        self._listeners: list[Listener] = []
        self._clock_ns = 0
        self._totals: dict[tuple[str, str, str], list[int]] = {}
        self.rate_pps = 0.0
        for name, node in self.inventory.nodes.items():
            self.telemetry.nodes[name] = NodeLive(name, node.roles)

    def check_background(self, request: DesignPoint) -> None:
        if self.no_background is not None and request.background != "none":
            raise self.no_background

    def check_now(self, request: DesignPoint) -> None:
        self.check_background(request)
        check_mtu(request, self.inventory, self.telemetry)

    def check_stored(self, request: DesignPoint) -> None:
        if request.background in FORWARDING_SHARES and not self.maximum_stored:
            raise missing_reference(request)

    def lease_holders(self) -> dict[str, LeaseHolder]:
        return self.holders

    def observed_trial(self) -> ObservedTrial | None:
        return self.observed

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def say(self, event: Event) -> None:
        """Send an event to the console, as the engine would."""
        if isinstance(event, NodeChanged):
            self.telemetry.nodes[event.node].enter(event.state, event.message)
            self.telemetry.revision += 1
        for listener in list(self._listeners):
            listener(event)

    async def open(self) -> None:
        """There is nothing to open."""

    async def connect(self) -> None:
        for index, name in enumerate(self.inventory.nodes):
            live = self.telemetry.nodes[name]
            live.round_trip_s, live.clock_offset_ns, live.kernel = 0.0004 + index * 1e-5, 1200 * index, "6.1.0-21-amd64"
            names = [f"eth{i}" for i in ((1, 2, 3, 5, 6, 7) if name == "uut" else (1,))]
            self.telemetry.set_links(name, [link(n, i + 2) for i, n in enumerate([*names, "mgmt0"])])
            self.say(NodeChanged(node=name, state=NodeState.CONNECTED))

    def advance(self, seconds: float = 0.1) -> None:
        """Let time pass on every node: counters move by ``rate_pps`` on test interfaces, streams get a sample."""
        self._clock_ns += round(seconds * 1e9)
        wobble = 1 + 0.03 * math.sin(self._clock_ns / 7e8)
        for key, live in self.telemetry.interfaces.items():
            values = self._totals.setdefault(key, [0] * len(STAT_NAMES))
            pps = 12.0 if live.name == "mgmt0" else self.rate_pps * wobble
            packets = round(pps * seconds)
            directions = {"src": (1,), "snk": (0,)}.get(
                key[0][:3], (0,) if live.name in ("eth1", "eth2", "eth3") else (1,)
            )
            for direction in directions if live.name != "mgmt0" else (0, 1):
                values[direction] += packets
                values[direction + 2] += packets * 64
            if self.loss and key == ("uut", "", "eth5"):
                values[STAT_NAMES.index("tx_dropped")] += round(packets * self.loss)
            rows = {"": [[live.link.index, list(values)]]}
            sample = CountersSampled(
                monotonic_ns=self._clock_ns, wall_ns=self._clock_ns, namespaces=rows, missed=0, late=False
            )
            self.telemetry.add_counters(key[0], sample)
        for number, stream in enumerate(self.telemetry.streams.values()):
            offered = self.rate_pps * wobble
            measured = offered * (1 - self.loss if number == 0 else 1)
            stream.seconds.append((stream.seconds[-1] if stream.seconds else 0.0) + seconds)
            stream.offered_pps.append(offered)
            stream.measured_pps.append(measured)
            stream.offered_packets = (stream.offered_packets or 0) + round(offered * seconds)
            stream.measured_packets = (stream.measured_packets or 0) + round(measured * seconds)

    def begin_streams(self, request: DesignPoint) -> None:
        """Fresh streams, as at the start of a trial."""
        self.telemetry.streams.clear()
        for stream in self.inventory.streams[: request.sources]:
            self.telemetry.streams[stream.name] = StreamLive(
                stream.name,
                str(stream.source),
                str(stream.sink),
                intended_pps=request.intended_pps,
                generator="afpacket",
            )
        self.telemetry.revision += 1

    async def run(self, request: DesignPoint, repetitions: int = 1, *, take_over: bool = False) -> list[RunRecord]:
        self.requests.append((request, repetitions))
        self.taken_over = take_over
        if self.refusal is not None and not (take_over and isinstance(self.refusal, LeaseHeld)):
            raise self.refusal
        self.running, self.aborted = True, False
        done = []
        try:
            for repetition in range(1, repetitions + 1):
                run_id = f"20260302T0915{len(self.store.records):02d}-{request.platform}"
                self.say(TrialStarted(run_id=run_id, request=request, repetition=repetition, repetitions=repetitions))
                self.begin_streams(request)
                self.say(PhaseChanged(run_id=run_id, phase=Phase.PREPARING, expected_s=1.0))
                self.say(PhaseChanged(run_id=run_id, phase=Phase.SENDING, expected_s=request.duration_s))
                await self.traffic(request)
                record = make_record(request, run_id, loss=self.loss, status="invalid" if self.aborted else self.status)
                self.store.records.insert(0, record)
                for stream in self.telemetry.streams.values():
                    stream.final = True
                self.telemetry.revision += 1
                self.say(TrialFinished(record=record, saved=True))
                done.append(record)
                if self.aborted:
                    break
            return done
        finally:
            self.running = False

    async def traffic(self, request: DesignPoint) -> None:
        """What happens while frames would be sent: nothing, until released."""
        await self.release.wait()

    async def inspect(self, node: str) -> Inspection:
        """What a look at an idle node finds."""
        self.looks.append(node)
        said = NodeSurroundings(
            monotonic_ns=0,
            wall_ns=0,
            boot_id=None,
            pid_namespace=None,
            logins=[],
            load=[0.07, 0.1, 0.1],
            cpus=4,
            guests=[],
            sessions=[],
            window=None,
        )
        return Inspection(at_wall_s=0.0, surroundings=said)

    def earlier_steps(self) -> list[tuple[Step, StepRecord]]:
        return []

    def execution(self, plan: Plan, *, salt: str = "") -> PlanExecution:
        raise NotImplementedError

    async def execute(self, execution: PlanExecution, *, take_over: bool = False) -> Outcome:
        raise NotImplementedError

    async def check(
        self, *, plan: Plan | None = None, fix: bool = False, on_result: OnResult | None = None
    ) -> list[CheckResult]:
        raise NotImplementedError

    async def calibration_offer(self, points: abc.Sequence[DesignPoint] = ()) -> CalibrationOffer:
        raise NotImplementedError

    async def calibrate(self, offer: CalibrationOffer, on_progress: OnProgress) -> Envelope:
        raise NotImplementedError

    def reconnect(self, node: str) -> bool:
        raise NotImplementedError

    def shell_argv(self, node: str) -> list[str]:
        raise NotImplementedError

    async def abort(self) -> None:
        self.aborted = True
        self.release.set()

    async def close(self) -> None:
        self.closed = True


class MovingSession(FakeSession):
    """The same, moving by the clock: to look at."""

    async def connect(self) -> None:
        await super().connect()
        self._task = asyncio.get_running_loop().create_task(self._move())

    async def _move(self) -> None:
        while not self.closed:
            await asyncio.sleep(0.1)
            self.advance(0.1)

    async def traffic(self, request: DesignPoint) -> None:
        self.rate_pps = request.intended_pps or 700_000.0
        end_s = time.monotonic() + request.duration_s
        while time.monotonic() < end_s and not self.aborted:
            await asyncio.sleep(0.05)
        self.rate_pps = 0.0


def refuse(sentence: str) -> LabError:
    """An error as the engine raises it."""
    return ConfigError(sentence)


if __name__ == "__main__":
    from labconsole.tui.app import run_console

    def moving() -> MovingSession:
        return MovingSession(loss=0.07)

    raise SystemExit(run_console(moving))
