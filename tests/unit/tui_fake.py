"""A scripted session for the console: seven nodes, three streams, whatever telemetry a test wants.

``advance`` moves its clock by hand and is deterministic; ``python tests/unit/tui_fake.py`` opens the console on one
that moves by itself, to look at the screens without a testbed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from labconsole.agent.wire import STAT_NAMES
from labconsole.engine.events import (
    Event,
    Listener,
    NodeChanged,
    NodeState,
    Phase,
    PhaseChanged,
    TrialFinished,
    TrialStarted,
)
from labconsole.engine.inspection import Inspection
from labconsole.engine.leases import LeaseHolder
from labconsole.engine.ports import Series
from labconsole.engine.telemetry import NodeLive, StreamLive, Telemetry
from labconsole.errors import ConfigError, LabError, LeaseHeld, StoreError
from labconsole.model.inventory import Inventory
from labconsole.model.record import (
    Capture,
    Hop,
    Reason,
    Requested,
    RunRecord,
    Sequence,
    StreamRecord,
    Total,
    Verdict,
)
from labconsole.model.request import TrialRequest

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


def link(name: str, index: int, *, namespace: str = "", carrier: bool = True) -> dict[str, Any]:
    """One entry of an agent's list of links."""
    return {
        "namespace": namespace, "index": index, "name": name, "mac": "02:00:00:00:00:01", "mtu": 1500, "kind": "veth",
        "driver": "veth", "up": True, "carrier": carrier, "speed_bps": 10**9, "pause": None,
    }  # fmt: skip


def make_record(request: TrialRequest, run_id: str, *, loss: float = 0.0, status: str = "valid") -> RunRecord:
    """A whole record of a request on the lab, losing ``loss`` of stream s1 at the UUT."""
    parts = []
    hop = partial(Hop, interface="eth1")
    for number in range(1, request.sources + 1):
        pps = request.intended_pps or 700_000.0
        offered = round(pps * request.duration_s)
        lost = round(offered * loss) if number == 1 else 0
        bps = pps * 8 * (request.frame_size_bytes + 24)
        share, arrived = 1 - lost / offered, offered - lost
        parts.append(
            StreamRecord(
                name=f"s{number}", generator="afpacket", generator_version="0.1.0", delay_ns=request.delay_ns,
                burst_packets=None, intended_packets=request.intended_packets, intended_pps=request.intended_pps,
                offered_packets=offered, offered_duration_s=request.duration_s, offered_pps=pps, offered_bps=bps,
                measured_packets=offered - lost, measured_pps=pps * share, measured_bps=bps * share,
                measured_from="capture", loss_packets=lost, loss_ratio=lost / offered,
                capture=Capture(captured_packets=offered - lost, dropped_packets=0, complete=True), counters={},
                sequence=Sequence(lost_runs={"1": lost} if lost else {}, reordered_packets=0, duplicate_packets=0),
                ledger=(
                    hop(hop="generator", node=f"src{number}", packets=offered, lost_packets=None),
                    hop(hop="uut in", node="uut", interface=f"eth{number}", packets=offered, lost_packets=0),
                    hop(hop="uut out", node="uut", interface=f"eth{number + 4}", packets=arrived, lost_packets=lost),
                    hop(hop="sink", node=f"snk{number}", packets=arrived, lost_packets=0),
                ),
                unplaced_packets=0,
            )
        )  # fmt: skip
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
        run_id=run_id, started_at="2026-03-02T09:15:00.000Z", finished_at="2026-03-02T09:15:12.000Z",
        testbed="wuerzburg", testbed_fingerprint="0" * 16, emulated=True, operator="op",
        labconsole_version="0.1.0", plan=None,
        requested=Requested(
            platform=request.platform, frame_size_bytes=request.frame_size_bytes, frame_size_includes_fcs=False,
            sources=request.sources, target_bps=request.target_bps, background=request.background,
            duration_s=request.duration_s, generator="auto", observe="quiet",
        ),
        streams=tuple(parts), background=None,
        total=Total(**total, loss_ratio=total["loss_packets"] / total["offered_packets"]),
        verdict=Verdict(status=status, reasons=reasons),
    )  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """One row of the fake store."""

    run_id: str
    started_at: str
    platform: str
    frame_size_bytes: int
    sources: int
    target_bps: int | None
    background: str
    duration_s: float
    verdict: str
    offered_pps: float | None
    measured_pps: float | None
    loss_ratio: float | None
    testbed: str
    emulated: bool
    generator: str


@dataclass
class FakeStore:
    """Records in memory, newest first."""

    records: list[RunRecord] = field(default_factory=list)
    broken: bool = False
    location: str = "sqlite:///memory"

    def list(self, *, limit: int | None = None) -> list[Summary]:
        if self.broken:
            raise StoreError("the run store cannot be read")
        return [
            Summary(
                r.run_id, r.started_at, r.requested.platform, r.requested.frame_size_bytes, r.requested.sources,
                None if r.requested.target_bps == "max" else r.requested.target_bps, r.requested.background,
                r.requested.duration_s, r.verdict.status, r.total.offered_pps, r.total.measured_pps, r.total.loss_ratio,
                r.testbed, r.emulated, "afpacket",
            )
            for r in self.records[:limit]
        ]  # fmt: skip

    def get(self, run_id: str) -> RunRecord | None:
        return next((r for r in self.records if r.run_id == run_id), None)


class FakeSession:
    """Implements SessionLike. ``hold`` makes a trial wait until the test releases or aborts it."""

    def __init__(self, inventory: Inventory | None = None, *, hold: bool = False, loss: float = 0.0) -> None:
        self.inventory = inventory or make_inventory()
        self.telemetry = Telemetry()
        self.store = FakeStore()
        self.running = False
        self.requests: list[tuple[TrialRequest, int]] = []
        self.closed = self.aborted = False
        self.refusal: LabError | None = None
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

    def lease_holders(self) -> dict[str, LeaseHolder]:
        return self.holders

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def say(self, event: Event) -> None:
        """Send an event to the console, as the engine would."""
        if isinstance(event, NodeChanged):
            live = self.telemetry.nodes[event.node]
            live.state, live.message = event.state, event.message
            self.telemetry.revision += 1
        for listener in list(self._listeners):
            listener(event)

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
        self.operator = "op@console"
        self.read_only = False
        self.holders: dict[str, LeaseHolder] = {}
        self.taken_over = False
        self.looks: list[str] = []
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
            self.telemetry.add_counters(key[0], {
                "monotonic_ns": self._clock_ns, "namespaces": {"": [(live.link["index"], list(values))]},
    def lease_holders(self) -> dict[str, LeaseHolder]:
        return self.holders

            })  # fmt: skip
        for number, stream in enumerate(self.telemetry.streams.values()):
            offered = self.rate_pps * wobble
            measured = offered * (1 - self.loss if number == 0 else 1)
            stream.seconds.append((stream.seconds[-1] if stream.seconds else 0.0) + seconds)
            stream.offered_pps.append(offered)
            stream.measured_pps.append(measured)
            stream.offered_packets = (stream.offered_packets or 0) + round(offered * seconds)
            stream.measured_packets = (stream.measured_packets or 0) + round(measured * seconds)

    def begin_streams(self, request: TrialRequest) -> None:
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

    async def run(self, request: TrialRequest, repetitions: int = 1, *, take_over: bool = False) -> list[RunRecord]:
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

    async def traffic(self, request: TrialRequest) -> None:
        """What happens while frames would be sent: nothing, until released."""
        await self.release.wait()

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

    async def traffic(self, request: TrialRequest) -> None:
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

    raise SystemExit(run_console(lambda: MovingSession(loss=0.07)))
    async def inspect(self, node: str) -> Inspection:
        """What a look at an idle node finds."""
        self.looks.append(node)
        surroundings = {"load": [0.07, 0.1, 0.1], "cpus": 4, "guests": [], "sessions": [], "logins": [], "window": None}
        return Inspection(at_wall_s=0.0, facts=None, settings=None, surroundings=surroundings, holder=None)

