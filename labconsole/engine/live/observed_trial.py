"""Another operator's trial as announced by its agents, and its streams by this session's own counters.

The unit under test gets no request for it: the lease of a source says who measures, and packets are counted at the NICs
of sources and sinks, which every session samples anyway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from labconsole.contracts.ports import AgentLink
from labconsole.engine.live.events import Phase
from labconsole.engine.live.telemetry import StreamLive, Telemetry, follow
from labconsole.measure.counts import CounterSample, EndCounts, StreamAlignment
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Endpoint, Inventory, Stream
from labconsole.verdict.observations import CountingPoint
from labconsole.wire.codec import STAT_NAMES

_RX_PACKETS, _TX_PACKETS = STAT_NAMES.index("rx_packets"), STAT_NAMES.index("tx_packets")
STRAY_PACKETS = 10.0
BEFORE_TRAFFIC = (Phase.PREPARING, Phase.LEARNING, Phase.ARMING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTrial:
    """A holder's current trial, as announced. Times are UTC by this machine's clock.

    ``operator``: user@host. ``since``, ``until``: start and expected end of the lease. ``block`` counts from 1 to
    ``set_ups``; it is 0 for the pilot, or None outside blocks. ``phase`` is None if it is unknown here. Texts are the
    holder's: display them as plain text only.
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
    guest_words: str | None = None
    """Description of a trial of an experiment with guests, which sends no streams; None for every other trial."""


class ObservedStreams:
    """Feeds the streams of another operator's trial into telemetry, from regular samples.

    Both ends use their own clocks, converted to the console's and aligned at one instant. Packets are counted from the
    beginning of the trial; a trial that was joined later has rates only.
    """

    def __init__(self, telemetry: Telemetry, inventory: Inventory, links: Mapping[str, AgentLink]) -> None:
        self._telemetry, self._inventory, self._links = telemetry, inventory, links
        self._run_id: str | None = None
        self._whole = False
        self._alignments: dict[str, StreamAlignment] = {}
        self._sent_before: dict[str, int] = {}
        self._base: dict[str, EndCounts] = {}
        self._last: dict[str, EndCounts] = {}
        self._idle_ns: dict[str, int] = {}

    def follow(self, trial: ObservedTrial | None) -> None:
        """Start fresh streams for a new trial; without one, keep those of the last."""
        if trial is None or trial.guest_words is not None:
            self._run_id = None
        elif trial.run_id != self._run_id:
            self._begin(trial)

    def _begin(self, trial: ObservedTrial) -> None:
        self._run_id, self._whole = trial.run_id, trial.phase in BEFORE_TRAFFIC
        for known in (self._sent_before, self._base, self._last, self._idle_ns):
            known.clear()
        self._telemetry.streams.clear()
        streams = self._inventory.streams[: trial.request.sources]
        self._alignments = {stream.name: StreamAlignment() for stream in streams}
        for stream in streams:
            self._telemetry.streams[stream.name] = StreamLive(
                stream.name,
                str(stream.source),
                str(stream.sink),
                intended_pps=trial.request.intended_pps,
                hops=follow(_ends(stream), self._telemetry, {end.node: self._offset_ns(end) for end in _both(stream)}),
            )
        self._telemetry.revision += 1

    def forget(self) -> None:
        """Stop following, because a trial of our own uses the streams now."""
        self._run_id = None

    def add_counters(self, node: str) -> None:
        """Move the streams on that have their source's or sink's NIC at this node."""
        if self._run_id is None:
            return
        for stream in self._inventory.streams:
            alignment = self._alignments.get(stream.name)
            if alignment is None or stream.name not in self._telemetry.streams:
                continue
            if stream.source.node == node and (sample := self._sample(stream.source)) is not None:
                at_ns, sent = sample[0], sample[1].values[_TX_PACKETS]
                if stream.name not in self._sent_before:
                    self._sent_before[stream.name] = sent
                    alignment.begin(at_ns)
                alignment.sent(at_ns, sent - self._sent_before[stream.name])
            if stream.sink.node == node and (sample := self._sample(stream.sink)) is not None:
                alignment.received(sample[0], sample[1].values[_RX_PACKETS])
            for now in alignment.ready():
                self._show(stream.name, now)

    def _show(self, name: str, now: EndCounts) -> None:
        live, base = self._telemetry.streams[name], self._base.setdefault(name, now)
        before, self._last[name] = self._last.get(name), now
        if self._whole and now.sent is not None:
            live.offered_packets = round(now.sent)
            live.measured_packets = now.received - base.received
            if now.sent <= _stray_packets(live.intended_pps):
                self._idle_ns[name] = now.at_ns
        if before is None or now.received < before.received:
            return
        per_s = 1e9 / (now.at_ns - before.at_ns)
        sent = math.nan if now.sent is None or before.sent is None else now.sent - before.sent
        live.seconds.append((now.at_ns - self._idle_ns.get(name, base.at_ns)) / 1e9)
        missing = math.nan if now.sent is None or base.sent is None else now.sent - base.sent
        if not live.missing_packets:
            live.missing_packets.append(0.0)
        live.missing_packets.append(missing - (now.received - base.received))
        live.offered_pps.append(sent * per_s)
        live.measured_pps.append((now.received - before.received) * per_s)

    def _offset_ns(self, end: Endpoint) -> int:
        link = self._links.get(end.node)
        return link.monotonic_offset_ns if link is not None else 0

    def _sample(self, end: Endpoint) -> tuple[int, CounterSample] | None:
        """The newest sample of a NIC, and its time by the console's clock."""
        live = self._telemetry.interfaces.get((end.node, "", end.interface))
        if live is None or live.last is None:
            return None
        return live.last.monotonic_ns - self._offset_ns(end), live.last


def _stray_packets(intended_pps: float | None) -> float:
    """Packets that a NIC may send before the stream, such as address queries and neighbour announcements.

    For a slow stream, at most what it sends in a twentieth of a second.
    """
    return STRAY_PACKETS if intended_pps is None else min(STRAY_PACKETS, intended_pps / 20)


def _both(stream: Stream) -> tuple[Endpoint, Endpoint]:
    return stream.source, stream.sink


def _ends(stream: Stream) -> list[CountingPoint]:
    """The counting points known without a request to the unit under test."""
    return [
        CountingPoint("source_nic", stream.source.node, "", stream.source.interface, "tx_packets"),
        CountingPoint("sink_nic", stream.sink.node, "", stream.sink.interface, "rx_packets"),
    ]
