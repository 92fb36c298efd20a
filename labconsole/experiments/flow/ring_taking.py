"""One attempt of guests in a ring: limits, the line to all, the UUT's counters at both ends of a window."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import CopyState, PictureGuest, StepPicture
from labconsole.engine.crew_taking import changed_since, held, program_seen, swapped_pages, unless_stopped
from labconsole.engine.trial.window import Readings
from labconsole.errors import MeasurementError
from labconsole.experiments.flow.limiters import TOKEN, limit_of, queue_name, read_limiters
from labconsole.experiments.flow.ring import LEAD_S, LONGER_S, RingGuest, RingWindow
from labconsole.experiments.flow.script import PROGRAM
from labconsole.experiments.flow.window import silent_guests
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.plan.flows import FlowFactors, FlowPoint
from labconsole.model.record.crew_trial import ProgramSeen
from labconsole.model.record.run import SetUp
from labconsole.platforms.base.inside import DONE, WAITS
from labconsole.verdict.changes import Port
from labconsole.verdict.observed import Snapshot, TrialObservations, parse_snapshot
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import ReadCounters
from labconsole.wire.guests import TOGETHER_S, AskedGuests, AskGuests, GuestLine

BEGUN_BYTES = 20_000
"""So much each guest has sent when it is taken to have begun."""

LOOK_S, MOST_LOOKS_S = 0.05, 20.0
ANSWER_S = 60.0
_RX = STAT_NAMES.index("rx_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RingTrialSeen:
    """What one attempt saw. ``guest_problems``: a sentence for each guest that is not as it was set up."""

    observations: TrialObservations
    set_up: SetUp
    ports: tuple[Port, ...]
    guests: tuple[RingGuest, ...]
    window: RingWindow
    swapped_pages: int | None
    program: ProgramSeen
    guest_problems: tuple[str, ...]


class RingTaking:
    """One attempt, on a crew that stands."""

    def __init__(self, point: FlowPoint, factors: FlowFactors, bench: Bench, crew: StandingCrew) -> None:
        self._point, self._factors, self._bench, self._crew = point, factors, bench, crew
        self._seen = TrialObservations(run_id=new_run_id(datetime.now(UTC)), started_at=utc_now())

    async def take(self) -> RingTrialSeen:
        """From the limits to the guests' attestation.

        Raises MeasurementError where the platform cannot be asked this, NodeError, and Aborted when it is stopped.
        """
        crew = self._crew
        set_up = crew.begin_trial()
        guests = self._guests()
        limits = [
            limit_of(guest.host_interface, number, rate_bps)
            for number, guest in enumerate(guests, 1)
            if (rate_bps := self._point.limit_of(number - 1)) is not None
        ]
        readings = Readings(
            self._seen,
            {crew.uut.name: crew.uut},
            {crew.uut.name: [crew.stream.uut_out]},
            self._bench.stage.guest_processes,
            {crew.uut.name: [member.pid for member in crew.crew.members if member.pid is not None]},
        )
        program = await program_seen(crew, PROGRAM, [guest.name for guest in guests])
        before = await swapped_pages(crew.uut)
        async with held(crew.uut, list(limits), TOKEN):
            await readings.open()
            window = await self._send(guests)
            await readings.close()
        after = await swapped_pages(crew.uut)
        problems = [f"{guest}: {why}" for guest, why in silent_guests(window.answered)]
        if not problems:
            problems += await changed_since(crew)
        return RingTrialSeen(
            observations=self._seen,
            set_up=set_up,
            ports=tuple((crew.uut.name, guest.host_interface) for guest in guests),
            guests=tuple(guests),
            window=window,
            swapped_pages=None if before is None or after is None else after - before,
            program=program,
            guest_problems=tuple(problems),
        )

    def _guests(self) -> list[RingGuest]:
        crew, platform = self._crew, self._point.platform
        if not crew.crew.own_stacks:
            raise MeasurementError(f"guests of platform {platform} share the UUT's own network stack: no ring is there")
        standing = {member.name: member for member in crew.crew.members}
        addresses = [(standing[member.name].address or member.address).partition("/")[0] for member in crew.members]
        found = []
        for number, member in enumerate(crew.members):
            after = (number + 1) % len(crew.members)
            interface = standing[member.name].host_interface
            if interface is None:
                raise MeasurementError(f"guest {member.name} of platform {platform} has no interface on the UUT")
            found.append(
                RingGuest(
                    name=member.name,
                    to=crew.members[after].name,
                    address=addresses[number],
                    next_address=addresses[after],
                    mac=(standing[member.name].mac or member.mac).lower(),
                    host_interface=interface,
                )
            )
        return found

    async def _send(self, guests: Sequence[RingGuest]) -> RingWindow:
        uut, duration_s = self._crew.uut, self._factors.duration_s
        lines = [GuestLine(guest=guest.name, line=guest.line(duration_s)) for guest in guests]
        timeout_s = duration_s + LONGER_S + ANSWER_S
        words = f"{len(guests)} guests send to each other for {duration_s:g} s"
        shown = tuple(PictureGuest(name=guest.name, state=CopyState.WORKS) for guest in guests)
        self._bench.show(StepPicture(found=(words,), guests=shown))
        asked = AskGuests(asked=lines, until=DONE, timeout_s=timeout_s, waits=WAITS)

        async def work() -> tuple[AskedGuests, tuple[Snapshot | None, Snapshot | None]]:
            begun = await self._snapshot()
            asking = asyncio.ensure_future(uut.ask(asked, timeout_s=timeout_s + TOGETHER_S + 30))
            counting = asyncio.ensure_future(self._count(guests, begun, duration_s))
            try:
                await asyncio.wait((asking, counting), return_when=asyncio.FIRST_COMPLETED)
                if not counting.done():
                    counting.cancel()  # all said that they had ended, before there was a window
                answered = await asking
                counted = (await asyncio.gather(counting, return_exceptions=True))[0]
            finally:
                asking.cancel()
                counting.cancel()
            if isinstance(counted, asyncio.CancelledError):
                return answered, (None, None)
            if isinstance(counted, BaseException):
                raise counted
            return answered, counted

        answered, (before, after) = await unless_stopped(self._bench.stage, work())
        if before is not None and after is not None:
            self._seen.before, self._seen.after = {uut.name: before}, {uut.name: after}
        queues = {
            guest.name: queue_name(number)
            for number, guest in enumerate(guests, 1)
            if self._point.limit_of(number - 1) is not None
        }
        return RingWindow(answered=answered, before=before, after=after, limiters=await read_limiters(uut, queues))

    async def _count(
        self, guests: Sequence[RingGuest], begun: Snapshot, duration_s: float
    ) -> tuple[Snapshot | None, Snapshot | None]:
        """Counters at both ends of the window, which begins a while after every guest has; None: one did not."""
        for _ in range(round(MOST_LOOKS_S / LOOK_S)):
            now = await self._snapshot()
            if all(_sent(guest, begun, now) >= BEGUN_BYTES for guest in guests):
                break
            await asyncio.sleep(LOOK_S)
        else:
            return None, None
        await asyncio.sleep(LEAD_S)
        before = await self._snapshot()
        await asyncio.sleep(duration_s)
        return before, await self._snapshot()

    async def _snapshot(self) -> Snapshot:
        return parse_snapshot(await self._crew.uut.ask(ReadCounters()))


def _sent(guest: RingGuest, before: Snapshot, after: Snapshot) -> int:
    key = ("", guest.host_interface)
    return after[key].values[_RX] - before[key].values[_RX] if key in before and key in after else 0
