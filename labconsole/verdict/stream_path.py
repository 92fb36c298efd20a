"""The path of a stream: its counting points, and the NICs that it uses. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from labconsole.verdict.observations import StreamObservations


@dataclass(frozen=True, slots=True)
class CountingPoint:
    """The counter of a hop: ``statistic`` of an interface, in ``namespace`` of ``node``."""

    hop: str
    node: str
    namespace: str
    interface: str
    statistic: str

    @property
    def label(self) -> str:
        """The interface, with its namespace unless that is the node's own."""
        return f"{self.namespace}/{self.interface}" if self.namespace else self.interface


def counting_points(raw: StreamObservations, uut: str) -> list[CountingPoint]:
    """The stream's path from its source's NIC to its sink's."""
    stream = raw.stream
    return [
        CountingPoint("source_nic", stream.source.node, "", stream.source.interface, "tx_packets"),
        *(CountingPoint(p.hop, uut, p.namespace, p.interface, p.statistic) for p in raw.path.points),
        CountingPoint("sink_nic", stream.sink.node, "", stream.sink.interface, "rx_packets"),
    ]


def data_ports(raw: StreamObservations, uut: str) -> list[tuple[str, str]]:
    """(node, interface) of the NICs that the stream uses, in the order in which it passes them."""
    stream = raw.stream
    ends = [(uut, stream.uut_in), (uut, stream.uut_out)] if raw.path.points else []
    return [
        (stream.source.node, stream.source.interface),
        *ends,
        (stream.sink.node, stream.sink.interface),
    ]
