"""The wiring of a testbed's streams, from its nodes' reports of their interfaces."""

from __future__ import annotations

from labconsole.contracts.driver import StreamWiring
from labconsole.engine.live.telemetry import Telemetry
from labconsole.errors import ConfigError, NodeError
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory, Stream

ETHERNET_HEADER_BYTES = 14
"""An interface's MTU counts the frame's payload only; the frame size includes this header."""


def find_wiring(stream: Stream, inventory: Inventory, telemetry: Telemetry) -> StreamWiring:
    """A stream with the MAC addresses of its interfaces. Raises ConfigError for a missing interface."""
    uut, place = inventory.uut, inventory.streams.index(stream)

    def mac(key: str, node: str, interface: str) -> str:
        live = telemetry.interfaces.get((node, "", interface))
        if live is None:
            there = ", ".join(sorted(k[2] for k in telemetry.interfaces if k[0] == node and not k[1]))
            location = ("streams", place, key)
            raise inventory.complaint(location, f"{node} has no such interface", interface, there)
        if not live.link.mac:
            raise NodeError(node, f"interface {interface} has no MAC address: it is not an Ethernet interface")
        return live.link.mac

    mac("source", stream.source.node, stream.source.interface)
    return StreamWiring(
        name=stream.name,
        uut_in=stream.uut_in,
        uut_in_mac=mac("uut_in", uut, stream.uut_in),
        uut_out=stream.uut_out,
        uut_out_mac=mac("uut_out", uut, stream.uut_out),
        sink_mac=mac("sink", stream.sink.node, stream.sink.interface),
        source_ip=stream.source_ip,
        sink_ip=stream.sink_ip,
    )


def check_mtu(request: DesignPoint, inventory: Inventory, telemetry: Telemetry) -> None:
    """Refuse a frame that an interface on its path would not carry. Raises ConfigError."""
    for stream in inventory.streams[: request.sources]:
        ends = [
            (stream.source.node, stream.source.interface),
            (inventory.uut, stream.uut_in),
            (inventory.uut, stream.uut_out),
            (stream.sink.node, stream.sink.interface),
        ]
        for node, interface in ends:
            live = telemetry.interfaces.get((node, "", interface))
            mtu = live.link.mtu if live is not None else None
            if mtu is not None and request.frame.pkt_size_bytes - ETHERNET_HEADER_BYTES > mtu:
                fcs = request.frame.bytes - request.frame.pkt_size_bytes
                raise ConfigError(
                    f"is above what {node}/{interface} carries (MTU {mtu})",
                    key="frame_size",
                    value=request.frame.bytes,
                    allowed=f"at most {mtu + ETHERNET_HEADER_BYTES + fcs}",
                )
