"""Captures all packets at the sink's NIC while guests send or forward, by flow and time bin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from labconsole.contracts.crew import StandingCrew
from labconsole.errors import NodeError, NodeLost
from labconsole.model.inventory import Inventory
from labconsole.packets.flows import MAX_BINS
from labconsole.wire.capture import CaptureResult, StartCapture, StopCapture

SNAP_BYTES = 64
CLOSE_S = 300.0
"""Time that a sink may take to count the rest of its capture."""


@dataclass(slots=True, kw_only=True)
class SinkCapture:
    """One capture. If ``found`` is None after ``close``, ``failure`` says why."""

    crew: StandingCrew
    name: str
    found: CaptureResult | None = None
    failure: str = ""
    closed: bool = False

    async def close(self) -> None:
        """Close the capture and have it counted. Raises NodeLost."""
        self.closed = True
        try:
            self.found = await self.crew.timekeeper.ask(StopCapture(capture=self.name), timeout_s=CLOSE_S)
        except NodeLost:
            raise
        except NodeError as exc:
            self.failure = exc.message


@asynccontextmanager
async def captured_at_sink(
    crew: StandingCrew, inventory: Inventory, name: str, *, expected_packets: int, bin_s: float, bins: int
) -> AsyncIterator[SinkCapture]:
    """Capture without a filter, to see other senders too, until the context ends. Raises NodeError."""
    sink = crew.timekeeper
    capture = SinkCapture(crew=crew, name=name)
    start = StartCapture(
        capture=name,
        interface=crew.stream.sink.interface,
        filter="",
        snap_bytes=SNAP_BYTES,
        buffer_kib=inventory.defaults.capture_buffer_kib,
        directory=inventory.nodes[sink.name].capture_dir,
        expected_packets=expected_packets,
        flow_bin_ns=round(bin_s * 1e9),
        flow_bins=min(MAX_BINS, bins),
    )
    try:
        await sink.ask(start)
        yield capture
    finally:
        if not capture.closed:
            with suppress(NodeError):
                await sink.ask(StopCapture(capture=name), timeout_s=CLOSE_S)
