"""The trial of another operator, as its agents tell it, and its streams as this session's own counters see them.

The unit under test is asked nothing for it: who measures is told by the lease of a source, and packets are counted at
the NICs of sources and sinks, which every session samples anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from labconsole.engine.live.events import Phase
from labconsole.engine.live.telemetry import InterfaceLive, StreamLive, Telemetry
from labconsole.measure.counts import CounterSample
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Endpoint, Inventory
from labconsole.wire.codec import STAT_NAMES

_RX_PACKETS, _TX_PACKETS = STAT_NAMES.index("rx_packets"), STAT_NAMES.index("tx_packets")
BEFORE_TRAFFIC = (Phase.PREPARING, Phase.LEARNING, Phase.ARMING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTrial:
    """What a holder says of the trial it takes now. Times are UTC by this machine's clock.

    ``operator``: user@host. ``since``: it holds the testbed from then on, and ``until`` about then. ``block`` of
    ``set_ups`` from 1, 0 is the pilot's, None: of no block. ``phase`` None: one that we do not know.
    Texts are the holder's: to be shown as text only.
    """

    run_id: str
    operator: str
    purpose: str
    request: DesignPoint
    repetition: int
    repetitions: int
    plan: str | None
    block: int | None
    set_ups: int | None
    phase: Phase | None
    started: datetime | None
    phase_started: datetime | None
    phase_until: datetime | None
    since: datetime | None
    until: datetime | None


class ObservedStreams:
    """Feeds the streams of another operator's trial into telemetry, from samples that are there anyway.

    Packets are counted from the trial's begin; one that was met in the middle has rates only.
    """

    def __init__(self, telemetry: Telemetry, inventory: Inventory) -> None:
        self._telemetry, self._inventory = telemetry, inventory
        self._run_id: str | None = None
        self._whole = False
        self._bases: dict[Endpoint, int] = {}
        self._rates: dict[str, float] = {}
        self._begun: dict[str, int] = {}

    def follow(self, trial: ObservedTrial | None) -> None:
        """Another trial begins fresh streams; without one, those of the last stay as they were."""
        if trial is None or trial.run_id == self._run_id:
            return
        self._run_id, self._whole = trial.run_id, trial.phase in BEFORE_TRAFFIC
        self._bases.clear()
        self._rates.clear()
        self._begun.clear()
        self._telemetry.streams.clear()
        for stream in self._inventory.streams[: trial.request.sources]:
            self._telemetry.streams[stream.name] = StreamLive(
                stream.name, str(stream.source), str(stream.sink), intended_pps=trial.request.intended_pps
            )
        self._telemetry.revision += 1

    def forget(self) -> None:
        """A trial of our own has the streams now."""
        self._run_id = None

    def add_counters(self, node: str) -> None:
        """A node's samples have come: those of a source's NIC and of a sink's move the stream between them."""
        if self._run_id is None:
            return
        for stream in self._inventory.streams:
            live = self._telemetry.streams.get(stream.name)
            if live is None:
                continue
            if stream.source.node == node:
                live.offered_packets = self._since_begin(stream.source, _TX_PACKETS)
                rate = self._interface(stream.source)
                self._rates[stream.name] = (rate.rate("tx_packets") if rate is not None else None) or 0.0
            sink = self._interface(stream.sink) if stream.sink.node == node else None
            if sink is None or sink.last is None:
                continue
            live.measured_packets = self._since_begin(stream.sink, _RX_PACKETS)
            measured_pps = sink.rate("rx_packets")
            if measured_pps is None:
                continue
            live.seconds.append(self._seconds(stream.name, sink.last))
            live.offered_pps.append(self._rates.get(stream.name, 0.0))
            live.measured_pps.append(measured_pps)

    def _interface(self, end: Endpoint) -> InterfaceLive | None:
        return self._telemetry.interfaces.get((end.node, "", end.interface))

    def _since_begin(self, end: Endpoint, position: int) -> int | None:
        live = self._interface(end)
        if not self._whole or live is None or live.last is None:
            return None
        now = live.last.values[position]
        return now - self._bases.setdefault(end, now)

    def _seconds(self, name: str, sample: CounterSample) -> float:
        """Since the first sample of the stream, by the sink's clock."""
        begun = self._begun.setdefault(name, sample.monotonic_ns)
        return (sample.monotonic_ns - begun) / 1e9
