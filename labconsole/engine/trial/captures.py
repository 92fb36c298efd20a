"""The captures of one trial: opened before traffic, drained while packets arrive, closed and counted afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.engine.trial.setup import Flow, TrialSettings, capture_request
from labconsole.errors import AgentError, NodeError
from labconsole.network.nic_stamps import NicStamps
from labconsole.verdict.observations import NicClockObservation, StreamObservations, TrialObservations
from labconsole.wire.capture import CaptureDied, DrainCapture, StopCapture
from labconsole.wire.changes import ApplyChanges, UndoChanges
from labconsole.wire.clocks import ReadNicClock
from labconsole.wire.message import Request

CLOCK_S = 10.0
CLOSE_S = 120.0
"""Time that a sink may take to count the rest of its capture."""


class TrialCaptures:
    """One capture at the sink of every stream. ``let_go`` requests a node to end something, and notes failures."""

    def __init__(
        self,
        seen: TrialObservations,
        flows: Sequence[Flow],
        links: dict[str, AgentLink],
        settings: TrialSettings,
        let_go: Callable[[str, Request[Any]], Awaitable[None]],
    ) -> None:
        self._seen, self._flows, self._links = seen, flows, links
        self._settings, self._let_go = settings, let_go
        self._dead: set[str] = set()

    async def start(self, stack: AsyncExitStack) -> None:
        """Open all captures; ``stack`` closes them, also after a failure."""

        async def open_one(flow: Flow, seen: StreamObservations) -> None:
            stream, node = seen.stream, seen.stream.sink.node
            by_nic = node in self._settings.nic_stamps
            if by_nic:
                token, change = f"stamps-{stream.name}", NicStamps(interface=stream.sink.interface)
                stack.push_async_callback(self._let_go, node, UndoChanges(token=token))
                try:
                    await self._links[node].ask(ApplyChanges(token=token, changes=[change]))
                except AgentError as exc:
                    if exc.code != "not_supported":
                        raise
                    text = (
                        f"{exc.message}; hosts.yaml requires it: remove capture_stamps: nic from {node}, or use a NIC "
                        "that stamps every frame"
                    )
                    raise AgentError(node, text, code=exc.code, operation=exc.operation, detail=exc.detail) from exc
                seen.nic_clock = NicClockObservation()
                await self._read_clock(seen)
            stack.push_async_callback(self._let_go, node, StopCapture(capture=stream.name))
            wish = capture_request(
                flow,
                capture=stream.name,
                generator=seen.prepared.generator if seen.prepared is not None else "",
                buffer_kib=self._settings.capture_buffer_kib,
                directory=self._settings.capture_directories.get(node),
                run_id=self._seen.run_id,
                spacing=self._settings.spacing,
                nic_stamps=by_nic,
            )
            await self._links[node].ask(wish)

        await run_concurrently(open_one(flow, seen) for flow, seen in zip(self._flows, self._seen.flows, strict=True))

    def note_death(self, node: str, event: CaptureDied) -> None:
        """Note that a capture of the trial ended by itself: once, however often its node says so."""
        own = any((flow.stream.name, flow.stream.sink.node) == (event.capture, node) for flow in self._flows)
        if own and event.capture not in self._dead:
            self._dead.add(event.capture)
            self._seen.notes.append({"node": node, "kind": "capture_died", "detail": event.message})

    async def drain(self) -> None:
        """Have the sinks count what they captured so far, so that closing is quick."""
        await run_concurrently(
            self._let_go(seen.stream.sink.node, DrainCapture(capture=seen.stream.name, sending_ns=_sending_ns(seen)))
            for seen in self._seen.flows
        )

    async def stop(self) -> None:
        """Close all captures. If one fails, the sink's counters remain, and the verdict reports it missing."""

        async def close_one(seen: StreamObservations) -> None:
            wish = StopCapture(capture=seen.stream.name, sending_ns=_sending_ns(seen))
            try:
                seen.capture = await self._links[seen.stream.sink.node].ask(wish, timeout_s=CLOSE_S)
            except NodeError as exc:
                self._seen.notes.append({"node": exc.node, "kind": "capture_failed", "detail": exc.message})
            await self._read_clock(seen)

        await run_concurrently(close_one(seen) for seen in self._seen.flows)

    async def _read_clock(self, seen: StreamObservations) -> None:
        """Read the clock of the NIC that stamps the capture, if any. A failure to read it does not end the trial."""
        if seen.nic_clock is None:
            return
        try:
            request = ReadNicClock(interface=seen.stream.sink.interface)
            seen.nic_clock.readings.append(await self._links[seen.stream.sink.node].ask(request, timeout_s=CLOCK_S))
        except NodeError as exc:
            seen.nic_clock.refused = exc.message


def _sending_ns(seen: StreamObservations) -> int | None:
    """How long the stream was sent; packets that came later than that after the first one were queued."""
    return seen.generated.elapsed_ns if seen.generated is not None else None
