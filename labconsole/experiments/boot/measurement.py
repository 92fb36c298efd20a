"""One boot trial: files cold or hot, all start commands at once, one mark per guest, memory once the UUT is quiet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from labconsole.contracts.crew import BootMark, CrewMember, Ground, HowMade, HypervisorWord, StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import CopyState, PictureGuest, StepPicture
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_measurement import DID_NOT_COME, find_attestation_drift, run_cancellable
from labconsole.engine.trial.window import Readings
from labconsole.errors import AgentError, MeasurementError, NodeError, NodeLost
from labconsole.experiments.boot.derived_values import (
    GuestsMemory,
    MemoryReading,
    guests_booted,
    memory_used,
    read_guest_memory,
    read_memory,
)
from labconsole.experiments.boot.disk_images import DiskImages, sum_cached_pages
from labconsole.experiments.boot.plan import BootPoint
from labconsole.experiments.boot.record import (
    CachedFiles,
    ClockRelation,
    GuestBootRecord,
    IdleSwitches,
    MemoryUse,
    QuietTime,
)
from labconsole.measure.external_timing import MarkFinder, MarkResult, Marks, MarkSender, Nonce, find_marks
from labconsole.measure.processor_time import count_switches
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.record.kind import TimekeeperRecord
from labconsole.model.record.run import Attestation, Environment, SetUp
from labconsole.platforms.base.guest_shell import nonces
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import interrupted_note
from labconsole.wire.execution import Execute
from labconsole.wire.marks import SeenMarks, StartMarks, StopMarks, TimeMark
from labconsole.wire.session import Ping

# -- live view ---------------------------------------------------------------------------------------------------------
# The live view of guests that are being started. Pure.


def guests_starting(names: Sequence[str], found: Mapping[str, Marks]) -> tuple[PictureGuest, ...]:
    """Return the guests by the marks received so far. A guest's start-up time is known only when the trial is over."""
    return _guests((name, found.get(name, Marks()).start_request_ns, None) for name in names)


def guests_started(guests: Iterable[GuestBootRecord]) -> tuple[PictureGuest, ...]:
    """Return the guests of a finished trial."""
    return _guests((each.guest, each.mark_ns, each.mark_s) for each in guests)


def _guests(marks: Iterable[tuple[str, int | None, float | None]]) -> tuple[PictureGuest, ...]:
    seen = list(marks)
    first_ns = min((mark_ns for _, mark_ns, _ in seen if mark_ns is not None), default=0)
    return tuple(
        PictureGuest(
            name=name,
            state=CopyState.STARTS if mark_ns is None else CopyState.STANDS,
            begun_s=None if mark_ns is None else (mark_ns - first_ns) / 1e9,
            seconds=seconds,
        )
        for name, mark_ns, seconds in seen
    )


# -- idle switches -----------------------------------------------------------------------------------------------------
# The context switches of the UUT's kernel while it is idle (Quétier et al., section 5.2.1).

SETTLE_S = 2.0
"""Time for earlier work to finish: files are written back, a discarded guest is taken apart."""

_ASK_S = 10.0


async def measure_idle(uut: AgentLink, quiet_s: float) -> QuietTime | None:
    """Wait, and return the kernel's switches in that time without the first SETTLE_S, or None if it does not report
    them.

    Raises NodeError.
    """
    await asyncio.sleep(SETTLE_S)
    before, begun_ns = await _read(uut)
    await asyncio.sleep(quiet_s - SETTLE_S)
    after, ended_ns = await _read(uut)
    return quiet_time(before, after, ended_ns - begun_ns)


async def _read(uut: AgentLink) -> tuple[str, int]:
    """Return the kernel's count, and then its monotonic clock. The clock is read after the count at both ends."""
    said = await uut.ask(Execute(argv=["grep", "ctxt", "/proc/stat"], timeout_s=_ASK_S), timeout_s=_ASK_S + 10)
    return said.stdout, (await uut.ask(Ping())).monotonic_ns


def quiet_time(before: str, after: str, took_ns: int) -> QuietTime | None:
    """Return the quiet time between two readings of /proc/stat. Pure."""
    switches = count_switches(before, after)
    if switches is None or took_ns <= 0:
        return None
    return QuietTime(took_ns=took_ns, switches=switches, switches_per_s=switches / (took_ns / 1e9))


# -- the trial ---------------------------------------------------------------------------------------------------------

MARKS = "marks"
CLOSE_NS, COMPARING_S = 100_000, 0.2
"""Comparing two machines' clocks ends at this error (ns), or after this time (s)."""

QUIET_S = 5.0
"""The quiet time after the last guest is up, after which memory is read; and the quiet time before the start."""

DROPS = 3
"""How often to drop the files: the kernel may keep a page that it was about to look at."""

SHOWN_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class BootObservation:
    """The observations of one boot trial.

    ``set_up``: None if not all guests started. ``missing``: the reasons, as sentences. ``timekeeper``: None if nothing
    was observed.
    """

    observations: TrialObservations
    set_up: SetUp | None
    clocks: ClockRelation | None
    guests: tuple[GuestBootRecord, ...]
    file_system: str | None
    files: tuple[CachedFiles, ...] | None
    memory: MemoryUse | None
    idle: IdleSwitches | None
    swapped_pages: int | None
    timekeeper: TimekeeperRecord | None
    missing: tuple[str, ...]
    attestation: Attestation
    environment: Environment


class BootMeasurement:
    """One attempt at a boot trial."""

    def __init__(
        self, point: BootPoint, limit_s: float, members: Sequence[CrewMember], bench: Bench, turn: str
    ) -> None:
        self._point, self._limit_s, self._members, self._bench, self._turn = point, limit_s, members, bench, turn
        self._stage = bench.stage
        self._offer = self._stage.offer(point.platform, members)
        self._seen = TrialObservations(run_id=new_run_id(datetime.now(UTC)), started_at=utc_now())
        self._senders: list[MarkSender] = []
        self._own_pids: dict[str, list[int]] = {}
        self._readings: Readings | None = None
        self._ground: Ground | None = None
        self._marking = False
        self._before: MemoryReading | None = None
        self._idle_before: QuietTime | None = None
        self._idle: QuietTime | None = None
        self._word: HypervisorWord | None = None
        self._files: tuple[CachedFiles, ...] | None = None
        self._clocks: ClockRelation | None = None
        self._shows: asyncio.TimerHandle | None = None

    async def take(self) -> BootObservation:
        """Prepare the files, start the guests, read their memory and end them; no guest runs afterwards.

        Raises NodeError for what is impossible, MeasurementError for what may be retried, Aborted when stopped.
        """
        await self._stage.refuse_memory(self._point.platform, self._members)
        own = DiskImages(self._stage.uut, self._point.platform, self._offer)
        try:
            if self._offer.files:
                done = "looked for" if self._offer.installed else "copied"
                self._show(f"the guests' files are being {done}")
                await run_cancellable(self._stage, own.make(on_disk=self._point.start == "cold"))
            if self._point.start == "hot":
                self._show("one guest is started and discarded, so that all it needs is in memory")
                await self._start_throwaway_guest(own)
            return await self._measured(own)
        finally:
            self._stage.on_mark = None
            if self._shows is not None:
                self._shows.cancel()
            await self._stage.restore()
            await self._remove(own)

    async def _start_throwaway_guest(self, own: DiskImages) -> None:
        try:
            await run_cancellable(self._stage, self._start_crew(own, self._members[:1], "thrown away", HowMade()))
        except AgentError as exc:
            if exc.code not in DID_NOT_COME:
                raise
            raise MeasurementError(f"the guest that is discarded before a hot start: {exc.message}") from exc
        await self._stage.restore()

    async def _remove(self, own: DiskImages) -> None:
        """Remove the copies. Leftover copies do not invalidate the measurement; the agent retries on exit."""
        try:
            await own.remove()
        except NodeLost:
            pass  # the UUT's agent has removed them
        except NodeError as exc:
            self._seen.notes.append({"node": self._stage.uut.name, "kind": "left_behind", "detail": exc.message})

    async def _start_crew(
        self, own: DiskImages, members: Sequence[CrewMember], turn: str, how: HowMade
    ) -> StandingCrew:
        made = replace(how, options=own.options, limit_s=self._limit_s, anew=True)
        return await self._stage.stand(self._point.platform, members, (self._turn, turn), made)

    async def _measured(self, own: DiskImages) -> BootObservation:
        async def before(ground: Ground) -> Sequence[CrewMember]:
            return await self._begin(ground, own)

        crew: StandingCrew | None = None
        missing: list[str] = []
        marks: SeenMarks | None = None
        try:
            crew = await run_cancellable(
                self._stage, self._start_crew(own, self._members, "measured", HowMade(before=before))
            )
            memory, swapped = await self._quiet(crew)
        except AgentError as exc:
            if exc.code not in DID_NOT_COME or self._ground is None:
                raise
            missing.append(exc.message)
            memory, swapped = None, await self._swapped()
        finally:
            if self._ground is not None and self._marking:
                marks = await _closed(self._ground.timekeeper)
        ground = self._ground
        assert ground is not None
        if marks is None:
            raise MeasurementError("the timekeeper went away while guests started")
        if self._readings is not None:
            await self._readings.close()
        if crew is not None:
            missing += await self._attest(crew)
        if marks.interrupted:
            self._seen.notes.append(interrupted_note(ground.timekeeper.name, marks.interrupted))
        senders = self._known(crew)
        found = find_marks(senders, marks.marks)
        if missing and crew is None:
            missing += [f"{name}: sent no mark" for name, each in found.of.items() if each.start_request_ns is None]
        pids = {} if crew is None else {member.name: member.pid or 0 for member in crew.crew.members}
        used, whole = memory if memory is not None else (GuestsMemory(), None)
        return BootObservation(
            observations=self._seen,
            set_up=None if crew is None else crew.begin_trial(),
            clocks=self._clocks,
            guests=guests_booted(
                senders, None if crew is None else crew.crew, found, self._clocks, used, pids, self._word
            ),
            file_system=own.file_system,
            files=self._files,
            memory=whole,
            idle=IdleSwitches(before=self._idle_before, standing=self._idle),
            swapped_pages=swapped,
            timekeeper=_timekeeper(ground, marks, found),
            missing=tuple(missing),
            attestation={} if crew is None else crew.crew.attestation,
            environment=self._stage.environment((ground.uut, ground.timekeeper), self._seen.settings()),
        )

    async def _begin(self, ground: Ground, own: DiskImages) -> Sequence[CrewMember]:
        """Work right before the start: quiet time, the files' pages, clocks, memory, the timekeeper's marks."""
        self._ground = ground
        self._show(f"{QUIET_S:g} s of quiet before the start")
        self._idle_before = await measure_idle(ground.uut, QUIET_S)
        if own.paths:
            self._files = await self._prepare_files(own)
        drawn = nonces(len(self._members))
        self._senders = [
            MarkSender(
                name=each.name,
                address=each.address.partition("/")[0],
                mac=None if self._offer.installed else each.mac.lower(),
                start=nonce,
            )
            for each, nonce in zip(self._members, drawn, strict=True)
        ]
        start = StartMarks(marks=MARKS, interface=ground.stream.sink.interface, address=ground.address)
        self._marking = True  # to be stopped from here on: the agent may begin even if this wait fails
        await ground.timekeeper.ask(start)
        self._stage.on_mark = self._watcher()
        self._own_pids = {ground.uut.name: []}
        self._readings = Readings(
            self._seen,
            {ground.uut.name: ground.uut, ground.timekeeper.name: ground.timekeeper},
            {ground.uut.name: [], ground.timekeeper.name: []},
            self._stage.guest_processes,
            self._own_pids,
            self._stage.inventory,
        )
        await self._readings.open()
        self._show(f"{len(self._members)} guests are being started", {})
        self._before = await self._look(ground.uut)
        self._clocks = await related_clocks(ground.uut, ground.timekeeper)
        return [
            replace(each, boot_mark=BootMark(ground.address, Nonce(nonce.payload_bytes, nonce.pattern)))
            for each, nonce in zip(self._members, drawn, strict=True)
        ]

    async def _prepare_files(self, own: DiskImages) -> tuple[CachedFiles, ...]:
        """Bring the files into the state of the point, as far as possible; the verdict judges the result."""
        if self._point.start == "hot":
            await own.read()
            return await own.look()
        for _ in range(DROPS):
            await own.drop()
            files = await own.look()
            if sum_cached_pages(files)[1] == 0:
                break
        return files

    async def _quiet(self, crew: StandingCrew) -> tuple[tuple[GuestsMemory, MemoryUse], int | None]:
        """Return the guests' memory after a quiet time, and the pages swapped since before the start."""
        self._show(f"all {len(self._members)} guests are up; {QUIET_S:g} s of quiet, then their memory")
        self._idle = await run_cancellable(self._stage, measure_idle(crew.uut, QUIET_S))
        after = await self._look(crew.uut)
        self._word = after.word
        pids = [member.pid for member in crew.crew.members if member.pid is not None]
        self._own_pids[crew.uut.name] = pids
        guests = await read_guest_memory(crew.uut, pids)
        before = self._before or MemoryReading()
        return (guests, memory_used(before, after, guests, crew.crew.members, QUIET_S)), _moved(before, after)

    async def _look(self, uut: AgentLink) -> MemoryReading:
        word = await self._stage.hypervisor_memory(self._point.platform, self._members)
        return replace(await read_memory(uut), word=word)

    def _known(self, crew: StandingCrew | None) -> list[MarkSender]:
        """Return the sender of each mark, with the MAC address that was found for an installed guest."""
        macs = {} if crew is None else {each.name: each.mac.lower() for each in crew.crew.members if each.mac}
        return [replace(each, mac=macs.get(each.name, each.mac)) for each in self._senders]

    async def _swapped(self) -> int | None:
        return _moved(self._before or MemoryReading(), await read_memory(self._stage.uut))

    async def _attest(self, crew: StandingCrew) -> list[str]:
        """Return, as sentences, how the guests differ from their set-up."""
        self._seen.attestation = crew.crew.attestation
        return await find_attestation_drift(crew)

    def _watcher(self) -> Callable[[TimeMark], None]:
        finder, loop = MarkFinder(self._senders), asyncio.get_running_loop()

        def show() -> None:
            self._shows = None
            found = finder.found().of
            started = sum(each.start_request_ns is not None for each in found.values())
            self._show(f"{started} of {len(self._members)} guests have come", found)

        def hear(mark: TimeMark) -> None:
            if finder.see(mark) is not None and self._shows is None:
                self._shows = loop.call_later(SHOWN_EVERY_S, show)

        return hear

    def _show(self, text: str, found: Mapping[str, Marks] | None = None) -> None:
        guests = () if found is None else guests_starting([each.name for each in self._members], found)
        self._bench.show(StepPicture(found=(text,), guests=guests))


async def _closed(timekeeper: AgentLink) -> SeenMarks | None:
    """Stop the marks and return those kept, or None if the timekeeper went away or the marks had not begun."""
    try:
        return await timekeeper.ask(StopMarks(marks=MARKS))
    except NodeLost:
        return None
    except AgentError as exc:
        if exc.code != "no_such_marks":
            raise
        return None


async def related_clocks(uut: AgentLink, timekeeper: AgentLink) -> ClockRelation:
    """Compare both clocks with the console's again, one after the other; in parallel each would delay the other's
    answers.

    Raises NodeLost.
    """
    (uut_error_ns, uut_offset_ns), (error_ns, offset_ns) = await _compared(uut), await _compared(timekeeper)
    both = await timekeeper.ask(Ping())
    return ClockRelation(
        uut_offset_ns=uut_offset_ns,
        uut_error_ns=uut_error_ns,
        timekeeper_offset_ns=offset_ns,
        timekeeper_error_ns=error_ns,
        timekeeper_monotonic_ns=both.monotonic_ns,
        timekeeper_wall_ns=both.wall_ns,
    )


async def _compared(link: AgentLink) -> tuple[int, int]:
    """Return error and offset of the node's monotonic clock, from the best of several comparisons in a short time."""
    begun_s, found = time.monotonic(), list[tuple[int, int]]()
    while not found or (min(found)[0] > CLOSE_NS and time.monotonic() - begun_s < COMPARING_S):
        await link.measure_clock()
        found.append((link.clock_error_ns, link.monotonic_offset_ns))
    return min(found)


def _moved(before: MemoryReading, after: MemoryReading) -> int | None:
    if before.swapped_pages is None or after.swapped_pages is None:
        return None
    return after.swapped_pages - before.swapped_pages


def _timekeeper(ground: Ground, marks: SeenMarks, found: MarkResult) -> TimekeeperRecord:
    return TimekeeperRecord(
        node=ground.timekeeper.name,
        interface=ground.stream.sink.interface,
        address=ground.address,
        dropped_packets=marks.dropped_kernel_packets + marks.unread_packets,
        strange_packets=found.strange_packets + marks.strange_packets,
        doubled=found.doubled,
        wall_moved_ns=marks.clock_step_ns,
    )
