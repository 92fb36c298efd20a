"""Guests in a ring, each sending to the next over one TCP connection: their commands, results, and one attempt."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from labconsole.engine.crew_measurement import run_cancellable
from labconsole.errors import GuestLacks
from labconsole.experiments.flow.base import FlowMeasurement, FlowObservation
from labconsole.experiments.flow.live_view import SendingWatch
from labconsole.experiments.flow.record import LimiterRecord, RingGuestRecord
from labconsole.experiments.flow.script import OUTPUT_BYTES, SenderAnswer, read_answer, silent_guests
from labconsole.model.record.run import Reason
from labconsole.platforms.base.guest_shell import DONE, WAITS, build_simultaneous_line
from labconsole.verdict.observations import Snapshot, parse_snapshot
from labconsole.verdict.reasons import reason
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import ReadCounters
from labconsole.wire.guests import TOGETHER_S, AskedGuests, AskGuests, GuestLine

# -- commands and results ----------------------------------------------------------------------------------------------
# No packet leaves the unit under test, so no clock and no capture outside of it can see one. Bytes are those that its
# interfaces to the guests counted, in a window by its own clock.

PORT = 5002
LEAD_S = 1.0
"""Time between the first bytes of all guests and the window: connections start slowly."""

LONGER_S = 6.0
"""Time for which all guests send beyond the window, which begins only once they are seen to send."""

LISTEN_S, LINGER_S = 1.0, 2.0
GIVEN_UP_S = 5.0
"""Excess over the sending time after which iperf is killed. Without a connection it tries for minutes, whatever its
options.
"""

BYTES_ERROR = 0.05
"""Largest relative difference between the bytes out of the guests and into them. A full interface drops what TCP sends
again. A segment larger than a frame has one header, and a limiter splits it into frames of 1514 bytes with 66 of
headers each.
"""


def ring_busy_s(duration_s: float) -> float:
    """Time for which guests listen, send and wait for the last sender, for a window of this duration."""
    return LISTEN_S + duration_s + LONGER_S + LINGER_S


_RX, _TX = STAT_NAMES.index("rx_bytes"), STAT_NAMES.index("tx_bytes")
_SAID = re.compile(r",(\d{1,18}),(\d{1,15})\|?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RingGuest:
    """One guest. ``to``: name of the next; ``next_address``: where that one listens."""

    name: str
    to: str
    address: str
    next_address: str
    mac: str
    host_interface: str

    def line(self, duration_s: float) -> str:
        """Command that listens, waits until all others do, and sends for this window. The server ends after the last
        guest has sent.
        """
        sends_s = duration_s + LONGER_S
        work = f"iperf -c {self.next_address} -p {PORT} -t {sends_s:g} -y C"
        work = f"busybox timeout -s KILL {math.ceil(sends_s + GIVEN_UP_S)} {work}"
        said = f"o=$({{ {work}; echo \" ST $?\"; }} 2>&1 | tail -c {OUTPUT_BYTES} | tr '\\n' '|')"
        sends = f'{said}; sleep {LINGER_S:g}; printf "%s\\n" "LCFLOW $o"'
        serves = f"iperf -s -p {PORT} -B {self.address} </dev/null >/dev/null 2>&1 & s=$!; sleep {LISTEN_S:g}"
        return f"{serves}; {build_simultaneous_line([sends])}; kill $s 2>/dev/null; wait $s 2>/dev/null"


@dataclass(frozen=True, slots=True, kw_only=True)
class RingWindow:
    """One window. ``before`` and ``after``: the UUT's counters at its ends, or None if there was no window."""

    answered: AskedGuests
    before: Snapshot | None
    after: Snapshot | None
    limiters: Mapping[str, LimiterRecord]

    @property
    def silent(self) -> tuple[tuple[str, str], ...]:
        """Guests that did not report that they had sent all, and why."""
        return tuple(silent_guests(self.answered))

    def window_s(self, guests: Sequence[RingGuest]) -> float | None:
        """Length of the window by the UUT's clock, or None if there was none."""
        ends = [self._of(side, guests[0]) for side in (self.before, self.after)] if guests else [None]
        if None in ends:
            return None
        first, last = ends
        assert first is not None and last is not None
        return (last[0] - first[0]) / 1e9

    def counted(self, guest: RingGuest) -> tuple[int, int] | None:
        """Bytes out of a guest, and bytes into it, or None if not counted."""
        before, after = (self._of(side, guest) for side in (self.before, self.after))
        return None if before is None or after is None else (after[1] - before[1], after[2] - before[2])

    @staticmethod
    def _of(side: Snapshot | None, guest: RingGuest) -> tuple[int, int, int] | None:
        sample = None if side is None else side.get(("", guest.host_interface))
        return None if sample is None else (sample.monotonic_ns, sample.values[_RX], sample.values[_TX])


def build_ring(guests: Sequence[RingGuest], window: RingWindow) -> tuple[RingGuestRecord, ...]:
    """Build the record of each guest with its bytes and rates."""
    took_s = window.window_s(guests)
    said = {each.guest: each for each in window.answered.guests}
    found = []
    for guest in guests:
        console = said.get(guest.name)
        answer = SenderAnswer() if console is None or console.printed is None else read_answer(console.printed)
        counted = window.counted(guest)
        found.append(
            RingGuestRecord(
                guest=guest.name,
                to=guest.to,
                address=guest.address,
                mac=guest.mac,
                host_interface=guest.host_interface,
                out_bytes=None if counted is None else counted[0],
                in_bytes=None if counted is None else counted[1],
                out_bps=None if counted is None or not took_s else counted[0] * 8 / took_s,
                said_bps=_reported_bps(answer),
                limiter=window.limiters.get(guest.name),
                exit_status=answer.exit_status,
                output=answer.output,
            )
        )
    return tuple(found)


def _reported_bps(answer: SenderAnswer) -> float | None:
    """Payload rate that iperf reports, by its guest's clock."""
    found = _SAID.search(answer.output)
    return None if found is None else float(found[2])


def reported_bytes(output: str) -> int | None:
    """Payload bytes that iperf reports for all that it sent."""
    found = _SAID.search(output)
    return None if found is None else int(found[1])


def ring_reasons(ring: Sequence[RingGuestRecord], window_s: float | None) -> Iterator[Reason]:
    """Reasons derived from a ring's record alone, so that anyone can judge it again."""
    broken = False
    for each in ring:
        pair, why = f"{each.guest} → {each.to}", f": {each.output}" if each.output else ""
        if each.exit_status is None:
            yield reason("guests_missing", f"{pair}: {each.guest} did not say how sending ended", guest=each.guest)
        elif each.exit_status != 0 or (window_s is not None and each.said_bps is None):
            yield reason("generator_failed", f"{pair}: iperf ended with {each.exit_status}{why}", guest=each.guest)
        elif each.out_bytes == 0:
            yield reason("no_packets", f"{pair}: nothing came out of {each.guest} in the window", guest=each.guest)
        else:
            continue
        broken = True
    if ring and window_s is None and not broken:
        yield reason(
            "not_measured", "not all guests were seen to send together, so that there is no window to count in"
        )
    out, into = ([getattr(each, name) for each in ring] for name in ("out_bytes", "in_bytes"))
    if ring and None not in out and None not in into and abs(sum(out) - sum(into)) > BYTES_ERROR * sum(out):
        detail = f"{sum(out)} bytes came out of the guests, and {sum(into)} went into them"
        yield reason("witnesses_disagree", detail)


# -- one attempt -------------------------------------------------------------------------------------------------------
# One attempt of guests in a ring: limits, the command for each, the UUT's counters at both ends of a window.

BEGUN_BYTES = 20_000
"""Bytes that a guest must have sent to count as started."""

LOOK_S, MOST_LOOKS_S = 0.05, 20.0
ANSWER_S = 60.0


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
