"""Does the platform forward yet? Proved with frames that come out at each sink, never with a sleep.

These are RFC 2544's learning frames too (section 23 b): after them, bridges and neighbours know the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from labconsole.engine.driver import Prepared
from labconsole.engine.observations import parse_snapshot
from labconsole.engine.ports import AgentLink
from labconsole.engine.trial import UDP_SOURCE_PORT, sink_port
from labconsole.errors import NodeError
from labconsole.model.inventory import Inventory, Stream

LEARNING_FRAMES = 10
LEARNING_DELAY_NS = 1_000_000
ROUND_S = 0.1


async def wait_forwarding(
    inventory: Inventory, links: dict[str, AgentLink], prepared: Prepared, streams: Sequence[Stream], *, generator: str
) -> float:
    """Send a few frames per stream until every sink has received some; returns the seconds that took.

    Raises NodeError naming the stream whose frames never came through. The caller bounds the time.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    missing = list(streams)
    while missing:
        before = {stream.name: await _received(links, stream) for stream in missing}
        for node in dict.fromkeys(stream.source.node for stream in missing):
            await _send_few(inventory, links[node], prepared, [s for s in missing if s.source.node == node], generator)
        deadline = loop.time() + ROUND_S
        while missing and loop.time() < deadline:
            missing = [s for s in missing if await _received(links, s) <= before[s.name]]
            if missing:
                await asyncio.sleep(0.01)
        if missing and loop.time() - begun > 15:
            names = ", ".join(s.name for s in missing)
            raise NodeError(
                inventory.uut,
                f"no test frame of stream {names} came through to its sink in {loop.time() - begun:.0f} s: "
                "check cabling, the stream's interfaces in hosts.yaml and the UUT's firewall",
                operation="learning",
            )
    return loop.time() - begun


async def _received(links: dict[str, AgentLink], stream: Stream) -> int:
    snapshot = parse_snapshot(await links[stream.sink.node].request("counters.read", timeout_s=10))
    sample = snapshot.get(("", stream.sink.interface))
    if sample is None:
        raise NodeError(stream.sink.node, f"interface {stream.sink.interface} has gone", operation="learning")
    return sample.values[0]


async def _send_few(
    inventory: Inventory, link: AgentLink, prepared: Prepared, streams: Sequence[Stream], generator: str
) -> None:
    specs: list[dict[str, Any]] = [
        {
            "stream": stream.name,
            "interface": stream.source.interface,
            "generator": generator,
            "destination_mac": prepared.paths[stream.name].destination_mac,
            "source_mac": None,
            "source_ip": stream.source_ip,
            "sink_ip": stream.sink_ip,
            "udp_source_port": UDP_SOURCE_PORT,
            "udp_sink_port": sink_port(inventory.streams.index(stream)),
            "pkt_size_bytes": 60,
            "delay_ns": LEARNING_DELAY_NS,
            "count": LEARNING_FRAMES,
            "duration_s": 2.0,
            "max_count": LEARNING_FRAMES,
            "cpus": None,
        }
        for stream in streams
    ]
    await link.request("generator.prepare", {"streams": specs})
    try:
        await link.request("generator.start", {"at_monotonic_ns": None, "progress_interval_s": 1.0})
        await link.request("generator.wait", {}, timeout_s=10)
    finally:
        await link.request("generator.close", {})
