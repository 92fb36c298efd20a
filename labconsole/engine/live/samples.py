"""The running trial as telemetry and as a time series: what each source has sent, what each sink has received so far.

Estimates until the record is there: the sender's progress and the sink's counters are read at different instants.
"""

from __future__ import annotations

import time

from labconsole.contracts.ports import Series
from labconsole.engine.live.telemetry import StreamLive, Telemetry
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.run import RunRecord
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from labconsole.wire.generator import GeneratorProgress, SentStream

MAX_SERIES_ROWS = 500_000
"""Rows of interface samples kept per run (about 100 MB in memory); what is beyond is counted, not kept."""

MAX_SINK_SAMPLES = 200_000
"""Samples of one sink's counter kept for the window of arrivals: five hours of ten a second."""

_RX_PACKETS = STAT_NAMES.index("rx_packets")


class LiveStreams:
    """Feeds one trial's progress into telemetry and collects its time series."""

    def __init__(self, telemetry: Telemetry, inventory: Inventory) -> None:
        self._telemetry, self._inventory = telemetry, inventory
        self._streams: dict[str, Stream] = {}
        self._begun: float = 0.0
        self._sink_base: dict[str, int] = {}
        self._last_rx: dict[str, tuple[int, int]] = {}
        self._sink_samples: dict[str, list[tuple[int, int]]] = {}
        self._last_sent: dict[str, tuple[int, int]] = {}
        self._sent_rate: dict[str, float] = {}
        self._stream_rows: dict[str, list[int | float | None]] = {
            "seconds": [], "stream": [], "offered_packets": [], "measured_packets": []
        }  # fmt: skip
        self._interface_rows: dict[str, list[int | float | None]] = {
            "monotonic_ns": [], "wall_ns": [], "interface": [], **{name: [] for name in STAT_NAMES}
        }  # fmt: skip
        self.interface_names: list[str] = []
        self._interface_index: dict[tuple[str, str, int], int] = {}
        self.rows_not_kept = 0

    def begin(self, stream: Stream, request: DesignPoint, generator: str, *, of_second_guest: bool = False) -> None:
        """A stream joins the trial; ``of_second_guest``: it is the second guest's."""
        if not self._streams:
            self._begun = time.monotonic()
            self._telemetry.streams.clear()
        self._streams[stream.name] = stream
        self._telemetry.streams[stream.name] = StreamLive(
            stream.name,
            str(stream.source),
            str(stream.sink),
            intended_pps=request.intended_pps,
            generator=generator,
            of_second_guest=of_second_guest,
        )
        self._telemetry.revision += 1

    def add_progress(self, node: str, event: GeneratorProgress) -> None:
        """A source says how much it has sent."""
        now_ns = event.monotonic_ns
        for entry in event.streams:
            live = self._telemetry.streams.get(entry.stream)
            stream = self._streams.get(entry.stream)
            sent_packets = entry.sent_packets
            if live is None or stream is None or stream.source.node != node or live.final or sent_packets is None:
                continue
            before = self._last_sent.get(live.name)
            if before is not None and now_ns > before[0] and sent_packets >= before[1]:
                self._sent_rate[live.name] = (sent_packets - before[1]) * 1e9 / (now_ns - before[0])
            self._last_sent[live.name] = (now_ns, sent_packets)
            live.offered_packets = sent_packets
        self._telemetry.revision += 1

    def offered_final(self, result: SentStream) -> None:
        """A source has finished: its own report replaces the estimate."""
        self._telemetry.streams[result.stream].offered_packets = result.sent_packets
        self._sent_rate[result.stream] = 0.0

    def add_counters(self, node: str, event: CountersSampled) -> None:
        """A node's counters: kept for the series; those of a sink's NIC also move the live stream."""
        self._keep(node, event)
        for stream in self._streams.values():
            if stream.sink.node != node:
                continue
            live = self._telemetry.streams[stream.name]
            interface = self._telemetry.interfaces.get((node, "", stream.sink.interface))
            if interface is None or interface.last is None or live.final:
                continue
            at_ns, received = interface.last.monotonic_ns, interface.last.values[_RX_PACKETS]
            base = self._sink_base.setdefault(stream.name, received)
            live.measured_packets = received - base
            samples = self._sink_samples.setdefault(stream.name, [])
            if len(samples) < MAX_SINK_SAMPLES:
                samples.append((at_ns, received))
            before = self._last_rx.get(stream.name)
            self._last_rx[stream.name] = (at_ns, received)
            if before is None or at_ns <= before[0] or received < before[1]:
                continue
            seconds = time.monotonic() - self._begun
            live.seconds.append(seconds)
            live.offered_pps.append(self._sent_rate.get(stream.name, 0.0))
            live.measured_pps.append((received - before[1]) * 1e9 / (at_ns - before[0]))
            row = (seconds, list(self._streams).index(stream.name), live.offered_packets, live.measured_packets)
            for column, value in zip(self._stream_rows.values(), row, strict=True):
                column.append(value)

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
        """(monotonic ns, received packets) of the sink's NIC of a stream, in order; empty where they were too many."""
        samples = self._sink_samples.get(name, [])
        return samples if len(samples) < MAX_SINK_SAMPLES else []

    def series(self) -> Series:
        """The time series collected so far."""
        return Series({"streams": self._stream_rows, "interfaces": self._interface_rows})

    def settle(self, record: RunRecord) -> None:
        """The record is there: its numbers replace the estimates."""
        for stream in (*record.streams, *(record.background.streams if record.background is not None else ())):
            live = self._telemetry.streams.get(stream.name)
            if live is not None:
                live.offered_packets, live.measured_packets = stream.offered_packets, stream.measured_packets
                live.final = True
        self._telemetry.revision += 1
