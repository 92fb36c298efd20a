"""Does the platform forward yet? Proved by frames that arrive at each sink, never by a sleep.

They also serve as RFC 2544's learning frames (section 23 b): afterwards, bridges and neighbour tables know the path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labconsole.contracts.driver import Prepared
from labconsole.contracts.ports import AgentLink
from labconsole.engine.trial.setup import UDP_SOURCE_PORT, sink_port
from labconsole.errors import Aborted, NodeError
from labconsole.model.design_point import MIN_PKT_SIZE_BYTES
from labconsole.model.generator import generator_options
from labconsole.model.generator_names import BUILT_IN
from labconsole.model.inventory import Inventory, Stream
from labconsole.verdict.observations import parse_snapshot
from labconsole.wire.counters import ReadCounters
from labconsole.wire.generator import CloseGenerator, PrepareGenerator, StartGenerator, WaitForGenerator
from labconsole.wire.stream_spec import StreamSpec

LEARNING_FRAMES = 10
LEARNING_DELAY_NS = 1_000_000
ROUND_S = 0.1
LIMIT_S = 15.0
STEADY_S = 1.0
"""Longest wait for the sinks' counters to become steady: where other traffic arrives they never are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingProof:
    """The effort until the platform forwarded. Recorded, because these packets crossed the UUT too."""

    duration_s: float
    sent_packets: int
    received_packets: int

    def to_json(self) -> dict[str, Any]:
        """The proof as plain data."""
        return {
            "duration_s": self.duration_s,
            "sent_packets": self.sent_packets,
            "received_packets": self.received_packets,
        }


async def wait_forwarding(
    inventory: Inventory,
    links: dict[str, AgentLink],
    prepared: Prepared,
    streams: Sequence[Stream],
    *,
    generator: str,
    stopping: Callable[[], bool],
    apart: bool = False,
) -> ForwardingProof:
    """Send a few frames per stream until every sink has received some.

    ``apart``: use other UDP ports than the streams', so that witnesses that count already do not count these frames.

    Raises NodeError naming the streams whose frames never came through, and Aborted once ``stopping`` returns True.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    first = await _received(links, streams)
    missing, sent_packets = list(streams), 0
    while missing:
        if stopping():
            raise Aborted("aborted by the operator before anything was measured")
        for node in dict.fromkeys(stream.source.node for stream in missing):
            mine = [s for s in missing if s.source.node == node]
            sent_packets += await send_few(inventory, links[node], prepared, mine, generator, apart=apart)
        now = await _received(links, missing)
        deadline = loop.time() + ROUND_S
        while any(now[s.name] <= first[s.name] for s in missing) and loop.time() < deadline:
            await asyncio.sleep(0.01)
            now = await _received(links, missing)
        missing = [s for s in missing if now[s.name] <= first[s.name]]
        if missing and loop.time() - begun > LIMIT_S:
            names = ", ".join(s.name for s in missing)
            raise NodeError(
                inventory.uut,
                f"no test frame of stream {names} reached its sink in {loop.time() - begun:.0f} s: "
                "check cabling, the stream's interfaces in hosts.yaml and the UUT's firewall",
                operation="learning",
            )
    last = await _read_steady_counters(links, streams, stopping)
    received = sum(last[s.name] - first[s.name] for s in streams)
    return ForwardingProof(duration_s=loop.time() - begun, sent_packets=sent_packets, received_packets=received)


async def _read_steady_counters(
    links: dict[str, AgentLink], streams: Sequence[Stream], stopping: Callable[[], bool]
) -> dict[str, int]:
    """The sinks' counters, once two readings in a row agree, or after STEADY_S."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + STEADY_S
    before = await _received(links, streams)
    while True:
        await asyncio.sleep(0.01)
        now = await _received(links, streams)
        if now == before or stopping() or loop.time() > deadline:
            return now
        before = now


async def _received(links: dict[str, AgentLink], streams: Sequence[Stream]) -> dict[str, int]:
    """Packets received by each stream's sink NIC."""
    counts: dict[str, int] = {}
    for node in dict.fromkeys(stream.sink.node for stream in streams):
        snapshot = parse_snapshot(await links[node].ask(ReadCounters(), timeout_s=10))
        for stream in streams:
            if stream.sink.node != node:
                continue
            sample = snapshot.get(("", stream.sink.interface))
            if sample is None:
                raise NodeError(node, f"interface {stream.sink.interface} has disappeared", operation="learning")
            counts[stream.name] = sample.values[0]
    return counts


async def send_few(
    inventory: Inventory,
    link: AgentLink,
    prepared: Prepared,
    streams: Sequence[Stream],
    generator: str,
    *,
    frames: int = LEARNING_FRAMES,
    apart: bool = False,
) -> int:
    """Send a few frames of each of these streams, all of one source; return how many were sent.

    If a plug-in's generator failed, raises NodeError with its message, so that cabling is not blamed.
    """
    first = len(inventory.streams) if apart else 0
    specs = [
        StreamSpec(
            stream=stream.name,
            interface=stream.source.interface,
            generator=generator,
            destination_mac=prepared.paths[stream.name].destination_mac,
            source_ip=stream.source_ip,
            sink_ip=stream.sink_ip,
            udp_source_port=UDP_SOURCE_PORT,
            udp_sink_port=sink_port(first + inventory.streams.index(stream)),
            pkt_size_bytes=MIN_PKT_SIZE_BYTES,
            delay_ns=LEARNING_DELAY_NS,
            count=frames,
            duration_s=2.0,
            max_count=frames,
            options=generator_options(generator, inventory.generators),
        )
        for stream in streams
    ]
    await link.ask(PrepareGenerator(streams=specs))
    try:
        await link.ask(StartGenerator(progress_interval_s=1.0))
        results = (await link.ask(WaitForGenerator(), timeout_s=10)).streams
    finally:
        await link.ask(CloseGenerator())
    failed = next((result.error_text for result in results if result.error_text), None)
    if failed is not None and generator not in BUILT_IN:
        raise NodeError(streams[0].source.node, failed, operation="learning")
    return sum(result.sent_packets or 0 for result in results)
