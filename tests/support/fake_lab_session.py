"""A scripted session on which plans run, checks answer and nodes can be looked at.

Trials end when the test says so (``FakeSession.release``); ``verdicts`` says how, in order, then all come out valid.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from labconsole.contracts.experiment import Step, StepRecord
from labconsole.contracts.ports import StoredTrial
from labconsole.engine.calibration import (
    CalibrationOffer,
    CalibrationProgress,
    OnProgress,
    calibration_offer,
    calibration_request,
)
from labconsole.engine.check.result import CheckResult, CheckStatus, OnResult
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.inspection import Inspection
from labconsole.engine.leases import LeaseHolder
from labconsole.engine.live.events import Phase, PhaseChanged, TrialFinished, TrialStarted
from labconsole.engine.trial.setup import TrialRequest
from labconsole.errors import Aborted, LabError, LeaseHeld, MeasurementError, NodeUnreachable
from labconsole.experiments.search.steps import LoadSearches
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.plan import Plan
from labconsole.model.record.envelope import Envelope
from labconsole.model.record.kind import RecordKind
from labconsole.model.record.run import Fixed, RunRecord, SetUp
from labconsole.model.record.search import SearchRecord
from labconsole.model.record.summary import RunFilter
from labconsole.wire.counters import StartCounters
from labconsole.wire.execution import Execute
from labconsole.wire.facts import NodeFacts
from labconsole.wire.host_activity import NodeSurroundings
from labconsole.wire.lease import StatedNodeHolder
from labconsole.wire.links import ReadLinks
from labconsole.wire.message import Request
from labconsole.wire.settings import NodeSettings
from support.asking import partly
from support.envelopes import envelope, point
from support.fake_session import FakeSession, FakeStore, make_record
from support.no_crews import NoCrews


class LabStore(FakeStore):
    """Knows which trials of a plan it holds, and searches."""

    def __init__(self) -> None:
        super().__init__()
        self.searches: list[SearchRecord] = []

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> list[StoredTrial]:
        self._check_readable()
        newest: dict[tuple[int, int], StoredTrial] = {}
        blocked: list[StoredTrial] = []
        for record in reversed(self.records):
            ref, status = record.plan, record.verdict.status
            if ref is None or ref.hash != plan_hash:
                continue
            trial = StoredTrial(ref.point, ref.repetition, record.run_id, status)
            if ref.block is not None:
                held = record.set_up.id if record.set_up is not None else None
                blocked.append(
                    replace(
                        trial,
                        block=ref.block,
                        set_up=held,
                        set_up_trials=ref.set_up_trials,
                        attempt=ref.attempt,
                        attempts=ref.attempts,
                        loss_ratio=record.total.loss_ratio,
                        rate_pps=record.total.measured_pps,
                    )
                )
            elif status != "invalid":
                newest[ref.point, ref.repetition] = trial
        return [*newest.values(), *blocked]

    def fixed(self, run_ids: Iterable[str]) -> dict[str, Fixed]:
        runs = {run_id: self.get(run_id) for run_id in run_ids}
        plans = {run_id: run.plan for run_id, run in runs.items() if run is not None}
        return {run_id: plan.fixed for run_id, plan in plans.items() if plan is not None and plan.fixed is not None}

    def save_experiment(self, kind: RecordKind[SearchRecord], record: SearchRecord) -> None:
        self.searches.append(record)

    def experiments(
        self, kind: RecordKind[SearchRecord], where: RunFilter, *, status: str | None = None
    ) -> list[SearchRecord]:
        self._check_readable()
        hashes = where.plan_hash
        return [
            each
            for each in reversed(self.searches)
            if (hashes is None or each.plan.hash in hashes) and status in (None, each.status)
        ]

    def maximum(self, **_: Any) -> None:
        """What a forwarding load is a share of: nothing of that is stored."""
        return None

    def _check_readable(self) -> None:
        self.list(limit=1)


def result(check: str, node: str | None, status: str, evidence: str, **more: Any) -> CheckResult:
    return CheckResult(
        id=check, node=node, title=check.replace("-", " "), status=CheckStatus(status), evidence=evidence, **more
    )


RESULTS = [
    result("agent", "src1", "pass", "the agent answers, round trip 0.41 ms", took_s=0.02),
    result("pktgen", "src1", "warn", "pktgen is not loaded", hint="modprobe pktgen on src1", fixable=True, took_s=0.01),
    result("agent", "uut", "pass", "the agent answers, round trip 0.44 ms", took_s=0.02),
    result(
        "mtu",
        "uut",
        "fail",
        "eth5 carries 1400 bytes, the plan sends frames of 1500",
        hint="ip link set eth5 mtu 1500",
        took_s=0.01,
    ),
    result("tcpdump", "snk1", "skipped", "snk1 is not connected"),
    result("disk", None, "pass", "12.1 GB free where captures go, 0.4 GB needed"),
]


EVE = LeaseHolder(
    owner="eve@desk",
    purpose="raw, 64 B",
    since=datetime.fromtimestamp(1_772_442_000, UTC),
    until=None,
    observe=None,
    quiet=False,
    own=False,
)
"""Somebody else who holds a node."""


class LabSession(FakeSession):
    """FakeSession with everything that Plans, Check and Nodes need."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.store: LabStore = LabStore()
        self.verdicts: list[str] = []
        self.capacity_pps = math.inf
        """What the unit under test forwards of a stream."""
        self.results = list(RESULTS)
        self.checks: list[tuple[Plan | None, bool]] = []
        self.check_step: Callable[[], Any] | None = None
        self.reconnected: list[str] = []
        self.shell_refusal: LabError | None = None
        self.held: LeaseHeld | None = None
        self.set_ups = 0
        self.rewired = True
        self.calibrated = 0
        self.calibration_steps = ["checking whether the UUT is bypassed", "64 B, 1 source at max each"]
        self.calibration_step: Callable[[], Any] | None = None
        store: Any = self.store
        self.experiments = (LoadSearches(store),)
        self.stage: Any = NoCrews()
        self._stop = asyncio.Event()

    async def connect(self) -> None:
        await super().connect()
        for name, live in self.telemetry.nodes.items():
            live.clock_error_ns = 150_000
            live.history.tried_to_connect(self.inventory.nodes[name].address, "ok", 0.212)
            asked: tuple[tuple[Request[Any], str], ...] = (
                (ReadLinks(), "ok"),
                (StartCounters(interval_s=0.1), "ok"),
                (Execute(argv=["ethtool", "-a", "eth1"], timeout_s=5), "exit status 75"),
            )
            for request, outcome in asked:
                live.history.end(live.history.begin(request), outcome, 0.0042)
            for command in live.history.commands:
                command.at_wall_s = 1_772_442_880.0

    # What an execution needs

    def earlier_steps(self) -> list[tuple[Step, StepRecord]]:
        return [each for kind in self.experiments for each in kind.earlier(self.inventory.fingerprint())]

    def execution(self, plan: Plan, *, salt: str = "") -> PlanExecution:
        session: Any = self
        return PlanExecution(plan, session, salt=salt)

    async def execute(self, execution: PlanExecution, *, take_over: bool = False) -> Outcome:
        session: Any = self
        return (await PlanRunner([execution], session, take_over=take_over).run())[0]

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def settings(self, plan: Plan | None = None) -> Any:
        return None

    def announce_guest_trial(self, request: object, description: str, plan: str | None) -> None:
        return

    async def renew_lease(self, left_s: float | None) -> None:
        return

    def nodes_of(self, request: DesignPoint) -> list[str]:
        return list(self.inventory.nodes)

    @asynccontextmanager
    async def batch(
        self, request: DesignPoint, *, take_over: bool = False, **_: object
    ) -> AsyncIterator[Callable[..., Any]]:
        if self.held is not None and not take_over:
            raise self.held
        self._stop.clear()
        self.running, self.aborted = True, False
        try:
            yield self._take
        finally:
            self.running = False

    async def _take(self, order: TrialRequest) -> RunRecord:
        request, ref = order.request, order.plan
        assert ref is not None
        run_id = f"20260302T0915{len(self.store.records):02d}-{request.platform}"
        self.say(
            TrialStarted(run_id=run_id, request=request, repetition=order.repetition, repetitions=order.repetitions)
        )
        self.begin_streams(request)
        self.say(PhaseChanged(run_id=run_id, phase=Phase.SENDING, expected_s=request.duration_s))
        await self.traffic(request)
        status = "invalid" if self.aborted else self.verdicts.pop(0) if self.verdicts else "valid"
        self.set_ups += order.anew
        made: dict[str, Any] = {"plan": ref, "role": order.role}
        if ref is not None and ref.block is not None:
            stood = SetUp(id=f"set-up-{self.set_ups}", started_at="2026-03-02T09:15:00.000Z", setup_s=0.5, trial=1)
            made["set_up"] = stood
        loss = max(0.0, 1 - self.capacity_pps / (request.intended_pps or math.inf))
        record = make_record(request, run_id, status=status, loss=loss).model_copy(update=made)
        self.store.records.insert(0, record)
        self.say(TrialFinished(record=record, saved=True))
        return record

    async def settle(self, seconds: float) -> None:
        await asyncio.sleep(0)

    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None:
        return

    async def wait_stopping(self) -> None:
        await self._stop.wait()

    async def abort(self) -> None:
        self._stop.set()
        await super().abort()

    # Checks and nodes

    async def check(
        self, *, plan: Plan | None = None, fix: bool = False, on_result: OnResult | None = None
    ) -> list[CheckResult]:
        if self.refusal is not None:
            raise self.refusal
        self.checks.append((plan, fix))
        self._stop.clear()
        self.running = True
        try:
            for each in self.results:
                if self.check_step is not None:
                    await self.check_step()
                if self.stopping:
                    break
                if on_result is not None:
                    on_result(each)
        finally:
            self.running = False
        return self.results

    async def calibration_offer(self, points: Sequence[DesignPoint] = ()) -> CalibrationOffer:
        wanted = calibration_request(self.inventory, points=points)
        return calibration_offer(self.inventory, wanted, rewired=self.rewired)

    async def calibrate(self, offer: CalibrationOffer, on_progress: OnProgress) -> Envelope:
        self.calibrated += 1
        self._stop.clear()
        self.running = True
        try:
            for trial, words in enumerate(self.calibration_steps):
                on_progress(CalibrationProgress(trial=trial, expected=3, elapsed_s=1.0, left_s=90.0, doing=words))
                if self.calibration_step is not None:
                    await self.calibration_step()
                if self.stopping:
                    raise Aborted("the calibration was stopped by the operator")
        finally:
            self.running = False
        self.envelope = envelope(point(), point(1500, capture=(60_000.0, 66_000.0)))
        return self.envelope

    def reconnect(self, node: str) -> bool:
        self.reconnected.append(node)
        return self.telemetry.nodes[node].retry_at_s is not None

    async def inspect(self, node: str) -> Inspection:
        self.looks.append(node)
        if self.running:
            raise MeasurementError("a trial is running, and reading from a node would disturb it")
        nic = {
            "driver": "igb",
            "driver_version": "6.1",
            "firmware": "3.25",
            "mac": "02:00:00:00:00:01",
            "mtu": 1500,
            "up": True,
            "speed_mbps": 1000,
            "duplex": "full",
            "pause": {"autoneg": True, "rx": True, "tx": False},
            "offloads": {"tso": True, "gso": True, "gro": False, "lro": None},
            "rings": {"rx": 256, "tx": 256},
            "queues": {"combined": 4},
        }
        return Inspection(
            at_wall_s=1_772_442_890.0,
            facts=partly(
                NodeFacts,
                {
                    "hostname": node,
                    "kernel": "6.1.0-21-amd64",
                    "cpus": 8,
                    "cpu_model": "Xeon E3-1230",
                    "python": None,
                    "memory_bytes": 16_000_000_000,
                    "os": "Debian GNU/Linux 12",
                    "uptime_s": 93_784.0,
                    "tcpdump": "4.99.3",
                    "pktgen": "2.75",
                    "governors": {"performance": 8},
                },
            ),
            settings=partly(
                NodeSettings,
                {
                    "interfaces": {"eth1": nic, "eth5": {**nic, "pause": None, "speed_mbps": None}},
                },
            ),
            surroundings=partly(
                NodeSurroundings,
                {
                    "logins": [],
                    "load": [0.2, 0.1, 0.0],
                    "cpus": 8,
                    "guests": [{"name": "deb12", "pid": 4242}],
                    "sessions": [],
                    "window": {
                        "elapsed_s": 12.0,
                        "cpu": {"busy_ratio": 0.31},
                        "processes": [{"pid": 77, "name": "cc1plus", "whose": "other", "cpu_s": 3.1}],
                    },
                },
            ),
            holder=partly(
                StatedNodeHolder,
                {
                    "owner": "eve@desk",
                    "purpose": "raw, 64 B",
                    "since_wall_ns": 1_772_442_000_000_000_000,
                    "own": False,
                    "until_wall_ns": None,
                    "observe": None,
                    "quiet": False,
                },
            ),
        )

    def shell_argv(self, node: str) -> list[str]:
        if self.shell_refusal is not None:
            raise self.shell_refusal
        if node == "uut":
            raise NodeUnreachable(node, "the SSH configuration cannot be used", operation="connect")
        return ["ssh", "-p", "2201", "--", self.inventory.nodes[node].address]
