"""One attempt of guests in a ring: limits, the command for each, the UUT's counters at both ends of a window."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from labconsole.engine.crew_measurement import run_cancellable
from labconsole.errors import GuestLacks
from labconsole.experiments.flow.base import FlowMeasurement, FlowObservation
from labconsole.experiments.flow.live_view import SendingWatch
from labconsole.experiments.flow.ring import LEAD_S, LONGER_S, RingGuest, RingWindow
from labconsole.platforms.base.guest_shell import DONE, WAITS
from labconsole.verdict.observations import Snapshot, parse_snapshot
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import ReadCounters
from labconsole.wire.guests import TOGETHER_S, AskedGuests, AskGuests, GuestLine

BEGUN_BYTES = 20_000
"""Bytes that a guest must have sent to count as started."""

LOOK_S, MOST_LOOKS_S = 0.05, 20.0
ANSWER_S = 60.0
_RX = STAT_NAMES.index("rx_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RingObservation(FlowObservation):
    """The observations of one attempt."""

    guests: tuple[RingGuest, ...]
    window: RingWindow


class RingMeasurement(FlowMeasurement):
    """One attempt with a running crew."""

    async def take(self) -> RingObservation:
        """Apply limits, run the window, attest the guests afterwards.

        Raises GuestLacks if the platform cannot do this, NodeError, and Aborted when it is stopped.
        """
        crew = self._crew
        guests = self._guests()
        window = await self._run_window(guests, {crew.uut: [crew.stream.uut_out]}, (), lambda: self._send(guests))
        return RingObservation(
            attempt=self._attempt,
            ports=tuple((crew.uut.name, guest.host_interface) for guest in guests),
            guests=tuple(guests),
            window=window,
        )

    def _guests(self) -> list[RingGuest]:
        crew, platform = self._crew, self._point.platform
        if not crew.crew.own_stacks:
            raise GuestLacks(f"guests of platform {platform} share the UUT's own network stack, so they make no ring")
        known = [self._known(member) for member in crew.members]
        found = []
        for each, after in zip(known, [*known[1:], known[0]], strict=True):
            interface = self._standing[each["name"]].host_interface
            if interface is None:
                raise GuestLacks(f"guest {each['name']} of platform {platform} has no interface on the UUT")
            found.append(RingGuest(**each, to=after["name"], next_address=after["address"], host_interface=interface))
        return found

    async def _send(self, guests: Sequence[RingGuest]) -> RingWindow:
        uut, duration_s = self._crew.uut, self._factors.duration_s
        lines = [GuestLine(guest=guest.name, line=guest.line(duration_s)) for guest in guests]
        timeout_s = duration_s + LONGER_S + ANSWER_S
        text = f"{len(guests)} guests send to each other for {duration_s:g} s"
        limiters = await self._limiters(guests)
        watch = SendingWatch(await self._indices(guests, limiters), limiters=limiters, passed=bool(limiters))
        request = AskGuests(asked=lines, until=DONE, timeout_s=timeout_s, waits=WAITS)

        async def work() -> tuple[AskedGuests, tuple[Snapshot | None, Snapshot | None]]:
            begun = await self._snapshot()
            sending = asyncio.ensure_future(uut.ask(request, timeout_s=timeout_s + TOGETHER_S + 30))
            counting = asyncio.ensure_future(self._count(guests, begun, duration_s, watch))
            try:
                await asyncio.wait((sending, counting), return_when=asyncio.FIRST_COMPLETED)
                if not counting.done():
                    counting.cancel()  # all reported their end before there was a window
                answered = await sending
                counted = (await asyncio.gather(counting, return_exceptions=True))[0]
            finally:
                sending.cancel()
                counting.cancel()
            if isinstance(counted, asyncio.CancelledError):
                return answered, (None, None)
            if isinstance(counted, BaseException):
                raise counted
            return answered, counted

        with self._show_progress(text, guests, watch):
            answered, (before, after) = await run_cancellable(self._bench.stage, work())
        if before is not None and after is not None:
            self._seen.before, self._seen.after = {uut.name: before}, {uut.name: after}
        limiters = await self._limiters(guests)
        return RingWindow(answered=answered, before=before, after=after, limiters=limiters)

    async def _count(
        self, guests: Sequence[RingGuest], begun: Snapshot, duration_s: float, watch: SendingWatch
    ) -> tuple[Snapshot | None, Snapshot | None]:
        """Counters at both ends of the window, which begins a while after every guest has started. Both are None if a
        guest did not start, or started so late that the first guest would end within the window.
        """
        first_s: float | None = None
        for _ in range(round(MOST_LOOKS_S / LOOK_S)):
            now = await self._snapshot()
            sent = [_sent(guest, begun, now) >= BEGUN_BYTES for guest in guests]
            if first_s is None and any(sent):
                first_s = time.monotonic()
            if all(sent):
                break
            await asyncio.sleep(LOOK_S)
        else:
            return None, None
        if first_s is not None and time.monotonic() - first_s > LONGER_S - 2 * LEAD_S:
            return None, None
        await asyncio.sleep(LEAD_S)
        before = await self._snapshot()
        _mark(watch, before, guests, "the window begins")
        await asyncio.sleep(duration_s)
        after = await self._snapshot()
        _mark(watch, after, guests, "it ends")
        return before, after

    async def _snapshot(self) -> Snapshot:
        return parse_snapshot(await self._crew.uut.ask(ReadCounters()))


def _sent(guest: RingGuest, before: Snapshot, after: Snapshot) -> int:
    key = ("", guest.host_interface)
    return after[key].values[_RX] - before[key].values[_RX] if key in before and key in after else 0


def _mark(watch: SendingWatch, side: Snapshot, guests: Sequence[RingGuest], label: str) -> None:
    if (sample := side.get(("", guests[0].host_interface))) is not None:
        watch.mark(sample.monotonic_ns, label)
