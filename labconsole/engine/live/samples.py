"""The running trial as telemetry and as a time series: packets sent by each source and received by each sink so far.

Both use the nodes' own clocks, converted to the console's, because the arrival time of a report says nothing about the
traffic. The numbers are estimates until the record exists: the offset of a clock is known to half a round trip, and
packets are on their way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from labconsole.contracts.ports import Series
from labconsole.engine.live.telemetry import LiveDelays, StreamLive, Telemetry, follow
from labconsole.measure.counts import EndCounts, StreamAlignment
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.run import RunRecord
from labconsole.verdict.observations import CountingPoint
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from labconsole.wire.generator import GeneratorProgress, SentStream

MAX_SERIES_ROWS = 500_000
"""Rows of interface samples kept per run (about 100 MB in memory), and of both ends of each stream: 13 hours at
ten per second; further rows are only counted."""

MAX_SINK_SAMPLES = 200_000
"""Samples of one sink's counter kept for the window of arrivals: five hours at ten per second."""

_RX_PACKETS = STAT_NAMES.index("rx_packets")


class LiveStreams:
    """Feeds one trial's progress into telemetry and collects its time series.

    ``offsets_ns``: each node's monotonic clock minus the console's. They stay fixed during the trial, because a better
    estimate within it would cause a jump.
    """

    def __init__(self, telemetry: Telemetry, inventory: Inventory, offsets_ns: Mapping[str, int]) -> None:
        self._telemetry, self._inventory, self._offsets_ns = telemetry, inventory, offsets_ns
        self._streams: dict[str, Stream] = {}
        self._alignments: dict[str, StreamAlignment] = {}
        self._begun_ns = 0
        self._base: dict[str, EndCounts] = {}
        self._last: dict[str, EndCounts] = {}
        self._rows_of: Counter[str] = Counter()
        self._sink_samples: dict[str, list[tuple[int, int]]] = {}
        self._stream_rows: dict[str, list[int | float | None]] = {
            "seconds": [],
            "stream": [],
            "offered_packets": [],
            "measured_packets": [],
            "sink_monotonic_ns": [],
        }
        self._interface_rows: dict[str, list[int | float | None]] = {
            "monotonic_ns": [],
            "wall_ns": [],
            "interface": [],
            **{name: [] for name in STAT_NAMES},
        }
        self.interface_names: list[str] = []
        self._interface_index: dict[tuple[str, str, int], int] = {}
        self.rows_not_kept = 0

    def begin(
        self,
        stream: Stream,
        request: DesignPoint,
        generator: str,
        places: Sequence[CountingPoint] = (),
        *,
        of_second_guest: bool = False,
    ) -> None:
        """Add a stream, counted at these ``places``; ``of_second_guest``: it is the second guest's."""
        if not self._streams:
            self._telemetry.streams.clear()
        self._streams[stream.name] = stream
        self._alignments[stream.name] = StreamAlignment()
        self._telemetry.streams[stream.name] = StreamLive(
            stream.name,
            str(stream.source),
            str(stream.sink),
            intended_pps=request.intended_pps,
            generator=generator,
            of_second_guest=of_second_guest,
            hops=follow(places, self._telemetry, self._offsets_ns),
        )
        self._take_sample(stream)
        self._telemetry.revision += 1

    def begin_sending(self, at_ns: int) -> None:
        """Note the time when all sources begin, by the console's monotonic clock."""
        self._begun_ns = at_ns
        for alignment in self._alignments.values():
            alignment.begin(at_ns)

    def add_progress(self, node: str, event: GeneratorProgress) -> None:
        """Take a source's report of its packets sent so far."""
        for entry in event.streams:
            stream = self._streams.get(entry.stream)
            if stream is None or stream.source.node != node or entry.sent_packets is None:
                continue
            alignment, offset_ns = self._alignments[stream.name], self._offsets_ns[node]
            # The sender's own stamp belongs to its last frame; if that has not moved, nothing was sent until the
            # report.
            counted_ns = event.monotonic_ns if entry.monotonic_ns is None else entry.monotonic_ns
            if not alignment.sent(counted_ns - offset_ns, entry.sent_packets):
                alignment.sent(event.monotonic_ns - offset_ns, entry.sent_packets)
            self._show(stream)
        self._telemetry.revision += 1

    def finished(self, node: str, results: Iterable[SentStream]) -> None:
        """Take the final report of a source as the last of its counts."""
        for result in results:
            stream = self._streams.get(result.stream)
            if stream is None or stream.source.node != node:
                continue
            if result.sent_packets is not None and result.stopped_monotonic_ns is not None:
                self._alignments[stream.name].end(
                    result.stopped_monotonic_ns - self._offsets_ns[node], result.sent_packets
                )
            self._show(stream)

    def add_counters(self, node: str, event: CountersSampled) -> None:
        """Keep a node's counters for the series; those of a sink's NIC also update the live stream."""
        self._keep(node, event)
        for stream in self._streams.values():
            if stream.sink.node == node:
                self._take_sample(stream)
                self._show(stream)

    def add_times(self, name: str, delays: LiveDelays | None) -> None:
        """Set the delays of a stream's packets so far, as timed by the sink's kernel."""
        live = self._telemetry.streams.get(name)
        if live is not None and not live.final:
            live.delays = delays
            self._telemetry.revision += 1

    def _take_sample(self, stream: Stream) -> None:
        node = stream.sink.node
        interface = self._telemetry.interfaces.get((node, "", stream.sink.interface))
        if interface is None or interface.last is None or self._telemetry.streams[stream.name].final:
            return
        at_ns, received = interface.last.monotonic_ns, interface.last.values[_RX_PACKETS]
        samples = self._sink_samples.setdefault(stream.name, [])
        if len(samples) < MAX_SINK_SAMPLES:
            samples.append((at_ns, received))
        self._alignments[stream.name].received(at_ns - self._offsets_ns[node], received)

    def _show(self, stream: Stream) -> None:
        """Move the live stream on to the last instant at which both ends are known, and keep its rows."""
        live = self._telemetry.streams[stream.name]
        for now in self._alignments[stream.name].ready():
            base = self._base.setdefault(stream.name, now)
            before, self._last[stream.name] = self._last.get(stream.name), now
            seconds = (now.at_ns - self._begun_ns) / 1e9
            offered = None if now.sent is None or base.sent is None else round(now.sent - base.sent)
            measured = now.received - base.received
            row = (
                seconds,
                list(self._streams).index(stream.name),
                offered,
                measured,
                now.at_ns + self._offsets_ns[stream.sink.node],
            )
            if self._rows_of[stream.name] < MAX_SERIES_ROWS:
                self._rows_of[stream.name] += 1
                for column, value in zip(self._stream_rows.values(), row, strict=True):
                    column.append(value)
            else:
                self.rows_not_kept += 1
            if live.final:
                continue
            live.offered_packets, live.measured_packets = offered, measured
            if before is None or now.received < before.received:
                continue
            per_s = 1e9 / (now.at_ns - before.at_ns)
            live.seconds.append(seconds)
            sent = math.nan if now.sent is None or before.sent is None else now.sent - before.sent
            if not live.missing_packets:
                live.missing_packets.append(math.nan if base.sent is None else 0.0)
            live.missing_packets.append(math.nan if offered is None else offered - measured)
            live.offered_pps.append(sent * per_s)
            live.measured_pps.append((now.received - before.received) * per_s)

    def _keep(self, node: str, event: CountersSampled) -> None:
        rows = self._interface_rows
        for namespace, entries in event.namespaces.items():
            for index, values in entries:
                if len(rows["interface"]) >= MAX_SERIES_ROWS:
                    self.rows_not_kept += 1
                    continue
                key = (node, namespace, index)
                if key not in self._interface_index:
                    name = self._telemetry.interface_name(node, namespace, index)
                    if name is None:
                        continue
                    self._interface_index[key] = len(self.interface_names)
                    self.interface_names.append(f"{node}/{namespace + '/' if namespace else ''}{name}")
                rows["monotonic_ns"].append(event.monotonic_ns)
                rows["wall_ns"].append(event.wall_ns)
                rows["interface"].append(self._interface_index[key])
                for position, name in enumerate(STAT_NAMES):
                    rows[name].append(values[position] if position < len(values) else None)

    def sink_samples(self, name: str) -> list[tuple[int, int]]:
        """(monotonic ns, received packets) of the sink's NIC of a stream, in order; empty if there were too many."""
        samples = self._sink_samples.get(name, [])
        return samples if len(samples) < MAX_SINK_SAMPLES else []

    def series(self) -> Series:
        """The time series collected so far."""
        return Series({"streams": self._stream_rows, "interfaces": self._interface_rows})

    def settle(self, record: RunRecord) -> None:
        """Replace the estimates by the numbers of the record."""
        for stream in (*record.streams, *(record.background.streams if record.background is not None else ())):
            live = self._telemetry.streams.get(stream.name)
            if live is not None:
                live.offered_packets, live.measured_packets = stream.offered_packets, stream.measured_packets
                live.final = True
        self._telemetry.revision += 1
