"""Prove with marked frames that the UUT is bypassed: the frames reach the sinks while the UUT's NICs count nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labconsole.contracts.driver import Prepared, StreamPath
from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.engine.trial.forwarding_proof import send_few
from labconsole.engine.trial.setup import SNAP_BYTES, stream_filter
from labconsole.errors import MeasurementError
from labconsole.measure.counts import counter_difference
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.envelope import BypassProof
from labconsole.verdict.observations import Snapshot, parse_snapshot
from labconsole.wire.capture import StartCapture, StopCapture
from labconsole.wire.counters import ReadCounters

PROOF_FRAMES = 50
ARRIVED_RATIO = 0.9
"""A switch may lose the first frames while it learns an address."""

STANDING_RATIO = 0.1
"""A NIC that no stream uses may receive a switch's own frames (spanning tree, discovery), but only a few."""


def cabling(inventory: Inventory, streams: Sequence[Stream]) -> list[str]:
    """The connections that bypass the UUT for these streams, one sentence for the operator per stream."""
    return [
        f"connect {s.source} straight to {s.sink}, taking the cables out of {inventory.uut}/{s.uut_in} and "
        f"{inventory.uut}/{s.uut_out} (or patch both into one switch, without the UUT)"
        for s in streams
    ]


async def prove_bypass(
    inventory: Inventory,
    links: Mapping[str, AgentLink],
    streams: Sequence[Stream],
    *,
    macs: Mapping[str, str],
    generator: str,
    buffer_kib: int,
) -> tuple[BypassProof, ...]:
    """Send marked frames over every stream; ``macs`` are those of the sinks' NICs, by stream.

    Raises MeasurementError naming the stream, where its frames went and what to connect.
    """
    prepared = Prepared(paths={s.name: StreamPath(destination_mac=macs[s.name], points=()) for s in streams})
    counted: dict[str, int] = {}

    async def listen(stream: Stream) -> None:
        await links[stream.sink.node].ask(
            StartCapture(
                capture=f"proof-{stream.name}",
                interface=stream.sink.interface,
                filter=stream_filter(stream, inventory.streams.index(stream)),
                snap_bytes=SNAP_BYTES,
                buffer_kib=buffer_kib,
                directory=inventory.nodes[stream.sink.node].capture_dir,
                expected_packets=PROOF_FRAMES,
            )
        )

    async def count(stream: Stream) -> None:
        result = await links[stream.sink.node].ask(StopCapture(capture=f"proof-{stream.name}"))
        counted[stream.name] = result.analysis.packets

    await run_concurrently(listen(stream) for stream in streams)
    try:
        before = await _uut(inventory, links)
        for node in dict.fromkeys(stream.source.node for stream in streams):
            mine = [s for s in streams if s.source.node == node]
            await send_few(inventory, links[node], prepared, mine, generator, frames=PROOF_FRAMES)
    finally:
        await run_concurrently(count(stream) for stream in streams)
    after = await _uut(inventory, links)
    proofs = tuple(_proof(inventory.uut, stream, counted[stream.name], before, after) for stream in streams)
    for stream, proof in zip(streams, proofs, strict=True):
        _refuse_unless_bypassed(inventory, stream, proof)
    return proofs


async def _uut(inventory: Inventory, links: Mapping[str, AgentLink]) -> Snapshot:
    return parse_snapshot(await links[inventory.uut].ask(ReadCounters(), timeout_s=10))


def _proof(uut: str, stream: Stream, captured: int, before: Snapshot, after: Snapshot) -> BypassProof:
    """The result for one stream. Raises MeasurementError if the UUT's NICs cannot be read: unknown is not 0."""
    received = transmitted = 0
    for interface in (stream.uut_in, stream.uut_out):
        first, last = before.get(("", interface)), after.get(("", interface))
        if first is None or last is None:
            raise MeasurementError(
                f"whether the unit under test is bypassed for stream {stream.name} is unknown: {uut} has no "
                f"{interface} with readable counters"
            )
        received += counter_difference(first.values[0], last.values[0], name=f"{interface} rx_packets")
        transmitted += counter_difference(first.values[1], last.values[1], name=f"{interface} tx_packets")
    return BypassProof(
        stream=stream.name,
        sent_packets=PROOF_FRAMES,
        captured_packets=captured,
        uut_rx_packets=received,
        uut_tx_packets=transmitted,
    )


def _refuse_unless_bypassed(inventory: Inventory, stream: Stream, proof: BypassProof) -> None:
    seen = max(proof.uut_rx_packets, proof.uut_tx_packets)
    what: list[Any] = []
    if proof.captured_packets < ARRIVED_RATIO * proof.sent_packets:
        what.append(f"{proof.captured_packets} of {proof.sent_packets} marked frames arrived at {stream.sink}")
    if seen > STANDING_RATIO * proof.sent_packets:
        what.append(f"the data NICs of {inventory.uut} counted {seen} packets in the meantime")
    if what:
        raise MeasurementError(
            f"the unit under test is not bypassed for stream {stream.name}: {' and '.join(what)}; "
            + cabling(inventory, [stream])[0]
        )
