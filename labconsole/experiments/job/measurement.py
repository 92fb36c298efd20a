"""One attempt of a job with a running crew: find programs, time empty jobs, start all copies, record the marks."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass

from labconsole.contracts.crew import StandingCrew, StandingMember
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import CopyState, StepPicture
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_measurement import CrewAttempt, record_marks, run_cancellable
from labconsole.errors import AgentError, MeasurementError, NodeError
from labconsole.experiments.job.disks import DiskWatch
from labconsole.experiments.job.http_requests import HttpRequests
from labconsole.experiments.job.live_view import (
    MOST_NAMED,
    build_uniform_guests,
    describe_progress,
    driving_note,
    guests_at_work,
)
from labconsole.experiments.job.plan import JobPoint
from labconsole.experiments.job.record import CopyRecord, DiskRecord
from labconsole.experiments.job.script import Window, build_copy, guest_line, read_answers
from labconsole.measure.external_timing import MarkFinder, Marks, MarkSender, Nonce, find_marks
from labconsole.model.jobs import JOBS, Job, JobServer
from labconsole.model.record.kind import EmptyJobs, ProgramRecord, TimekeeperRecord
from labconsole.platforms.base.guest_shell import DONE, WAITS, nonces
from labconsole.verdict.reasons import LEAST_STEP_S, interrupted_note, reason
from labconsole.wire.guests import TOGETHER_S, AskGuests, GuestLine, GuestStatus, StartGuest, StopGuest
from labconsole.wire.marks import StartMarks, TimeMark

# -- timekeeper server -------------------------------------------------------------------------------------------------
# The server that a job talks to: a standard program at the timekeeper, which runs while one trial's guests work.

SERVER = "server"
SERVER_S = 10.0


@asynccontextmanager
async def run_server(server: JobServer | None, crew: StandingCrew, problems: list[str]) -> AsyncIterator[None]:
    """Run the server if the job needs one. ``problems`` collects a server that ended early.

    Raises NodeError if it cannot be started.
    """
    if server is None:
        yield
        return
    timekeeper = crew.timekeeper
    argv = [*server.argv, crew.address]
    wish = StartGuest(guest=SERVER, argv=argv, ready=server.ready, timeout_s=SERVER_S)
    starting = asyncio.ensure_future(timekeeper.ask(wish, timeout_s=SERVER_S + 5))
    try:
        await asyncio.shield(starting)
        yield
        if not await _runs(timekeeper):
            problems.append(f"{argv[0]} at {timekeeper.name}, which guests talk to, ended before they had")
    finally:
        await asyncio.gather(starting, return_exceptions=True)  # a server that is still starting could not be ended
        with suppress(NodeError):  # it never existed, or is gone already
            await timekeeper.ask(StopGuest(guest=SERVER))


async def _runs(timekeeper: AgentLink) -> bool:
    try:
        return (await timekeeper.ask(GuestStatus(guest=SERVER))).running
    except AgentError:
        return False


# -- the attempt -------------------------------------------------------------------------------------------------------

EMPTY_JOBS, MOST_EMPTY_JOBS = 10, 15
"""The number of empty jobs that are timed, and the most that are tried: one may fail as any trial may."""

EMPTY_LIMIT_S = 60.0
WAY_FINDING_JOBS = 3
"""The most empty jobs in each guest before any that counts: a guest first asks for the timekeeper's MAC address."""

MARKS = "marks"
SHOWN_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """The observations of one attempt."""

    attempt: CrewAttempt
    empty: EmptyJobs | None
    client: ProgramRecord | None
    copies: tuple[CopyRecord, ...]
    timekeeper: TimekeeperRecord
    start_skew_s: float | None
    disk: DiskRecord | None = None


class JobMeasurement:
    """One attempt with a running crew."""

    def __init__(self, point: JobPoint, limit_s: float, bench: Bench, crew: StandingCrew) -> None:
        self._point, self._limit_s, self._bench, self._crew = point, limit_s, bench, crew
        self._members = {member.name: member for member in crew.members}
        self._standing: dict[str, StandingMember] = {member.name: member for member in crew.crew.members}
        self._attempt = CrewAttempt(bench.stage, crew)
        self._seen, self._problems = self._attempt.observations, self._attempt.problems
        self._empty: EmptyJobs | None = None
        self._client: ProgramRecord | None = None
        self._disk: DiskWatch | None = None
        self._shows: asyncio.TimerHandle | None = None

    async def take(self) -> JobObservation:
        """Measure: from the empty jobs, if the crew has had none yet, to the guests' attestation after the job.

        Raises MeasurementError if even an empty job leaves no marks, NodeError, and Aborted when stopped.
        """
        crew, point = self._crew, self._point
        job = JOBS[point.job]
        names = [crew.members[guest].name for guest, _ in point.copies()]
        await self._attempt.find_program(job.program, list(dict.fromkeys(names)))
        await self._reach_timekeeper(list(dict.fromkeys(names)))
        if job.requests is None:
            if crew.empty is None:
                crew.empty = await self._empty_jobs(names[0])
            self._empty = crew.empty
        copies: dict[str, int] = {}
        for name in names:
            copies[name] = copies.get(name, 0) + 1
        if job.disk is not None:
            self._disk = DiskWatch(job.disk, point.size, crew, copies)
            await run_cancellable(self._bench.stage, self._disk.make_ready(self._limit_s))
        many = f"{len(names)} cop{'ies' if len(names) > 1 else 'y'}"
        ready = build_uniform_guests(list(self._members), CopyState.STANDS)
        self._bench.show(StepPicture(found=(f"{many} of {job.words(point.size)} under way",), guests=ready))
        async with (
            self._attempt.watched({crew.uut: [], crew.timekeeper: []}),
            run_server(job.server, crew, self._problems),
            self._disk or nullcontext(),
        ):
            window = await self._work(job, copies)
        if window.marks.interrupted:
            self._seen.notes.append(interrupted_note(crew.timekeeper.name, window.marks.interrupted))
        if window.answered is not None:
            self._seen.notes.append(driving_note(crew.uut.name, window.answered))
        for guest, said in window.said.items():
            if said.code == "guest_silent" and said.asked_ns is not None:
                detail = f"{guest}: the job had not ended after {self._limit_s:g} s"
                self._seen.doubts.append(reason("job_failed", detail, guest=guest, limit_s=self._limit_s))
            elif said.code:
                self._problems.append(f"{guest}: {said.message}")
        if not any(said.code for said in window.said.values()):
            await self._attempt.attest()  # a guest that does not answer a line would not attest either
        seen_copies = tuple(self._copies(window))
        starts = [copy.start_reply_ns for copy in seen_copies if copy.start_reply_ns is not None]
        return JobObservation(
            attempt=self._attempt,
            empty=self._empty,
            client=self._client,
            copies=seen_copies,
            timekeeper=TimekeeperRecord(
                node=crew.timekeeper.name,
                interface=crew.stream.sink.interface,
                address=crew.address,
                dropped_packets=window.marks.dropped_kernel_packets + window.marks.unread_packets,
                strange_packets=window.found.strange_packets + window.marks.strange_packets,
                doubled=window.found.doubled,
                wall_moved_ns=window.marks.clock_step_ns,
            ),
            start_skew_s=(max(starts) - min(starts)) / 1e9 if len(starts) > 1 else None,
            disk=None if self._disk is None else self._disk.seen(seen_copies),
        )

    async def _work(self, job: Job, copies: Mapping[str, int]) -> Window:
        """Run the job in all guests that work, or request it from outside."""
        if job.requests is None:
            return await self._round(job.command(self._point.size), copies, self._limit_s, live=True)
        requests = HttpRequests(job.requests, self._point.size, self._limit_s, self._crew, self._disk, self._problems)
        addresses = {guest: self._origin(guest)[0] for guest in copies}
        window = await run_cancellable(self._bench.stage, requests.take(copies, addresses, MARKS))
        self._empty, self._client = requests.empty, requests.client
        return window

    async def _reach_timekeeper(self, names: Sequence[str]) -> None:
        """Let each of these guests reach the timekeeper once, because the first packet to it is late or lost.

        Raises MeasurementError for those that cannot.
        """
        reached = self._crew.reached
        for _ in range(WAY_FINDING_JOBS):
            if not (lost := [name for name in names if name not in reached]):
                return
            window = await self._round(":", dict.fromkeys(lost, 1), EMPTY_LIMIT_S)
            answers = window.answers
            reached.update(
                window.copies[sender][0]
                for sender, marks in window.found.of.items()
                if marks.outside_ns is not None and answers[sender].ping_status == 0
            )
        if lost := [name for name in names if name not in reached]:
            raise MeasurementError(f"no answer of the timekeeper reaches {', '.join(lost[:MOST_NAMED])}")

    async def _empty_jobs(self, name: str) -> EmptyJobs:
        """Time jobs that do nothing, one after the other in the first guest. Raises MeasurementError."""
        times: list[float] = []
        problem = None
        for _ in range(MOST_EMPTY_JOBS):
            window = await self._round(":", {name: 1}, EMPTY_LIMIT_S)
            problem = _unsound(window)
            if problem is None:
                (marks,) = window.found.of.values()
                assert marks.outside_ns is not None
                times.append(marks.outside_ns / 1e9)
            if len(times) == EMPTY_JOBS:
                return EmptyJobs(each_s=tuple(times), mean_s=statistics.fmean(times), sd_s=statistics.stdev(times))
        raise MeasurementError(f"only {len(times)} of {MOST_EMPTY_JOBS} jobs that do nothing could be timed: {problem}")

    def _origin(self, guest: str) -> tuple[str, str]:
        """Return the source address and MAC of a guest's packets."""
        standing, wanted = self._standing[guest], self._members[guest]
        return (standing.address or wanted.address).partition("/")[0], (standing.mac or wanted.mac).lower()

    async def _round(self, command: str, copies: Mapping[str, int], limit_s: float, *, live: bool = False) -> Window:
        """Run this number of copies of a command in each of these guests at once, and return them with their marks.

        ``live``: show the marks as they arrive.
        """
        crew = self._crew
        fresh = iter(nonces(2 * sum(copies.values())))
        senders: list[MarkSender] = []
        whose: dict[str, tuple[str, int]] = {}
        lines: list[GuestLine] = []
        for guest, count in copies.items():
            pairs: list[tuple[Nonce, Nonce]] = []
            for number in range(1, count + 1):
                start, end = next(fresh), next(fresh)
                name = f"{guest}/{number}"
                address, mac = self._origin(guest)
                senders.append(MarkSender(name=name, address=address, mac=mac, start=start, end=end))
                whose[name] = (guest, number)
                pairs.append((start, end))
            disk = None if self._disk is None else self._disk.of(guest)
            lines.append(GuestLine(guest=guest, line=guest_line(command, pairs, crew.address, disk)))
        self._bench.stage.on_mark = self._watcher(senders) if live else None
        wanted = StartMarks(marks=MARKS, interface=crew.stream.sink.interface, address=crew.address)
        try:
            async with record_marks(crew.timekeeper, wanted) as kept:
                answered = await run_cancellable(
                    self._bench.stage,
                    crew.uut.ask(
                        AskGuests(asked=lines, until=DONE, timeout_s=limit_s, waits=WAITS),
                        timeout_s=limit_s + TOGETHER_S + 30,
                    ),
                )
        finally:
            self._bench.stage.on_mark = None
            if self._shows is not None:
                self._shows.cancel()
                self._shows = None
        (marks,) = kept
        return Window(find_marks(senders, marks.marks), marks, whose, read_answers(answered, whose), answered)

    def _watcher(self, senders: Sequence[MarkSender]) -> Callable[[TimeMark], None]:
        """Return a callback that shows the copies' progress at each of their marks, at most some times a second."""
        finder, loop = MarkFinder(senders), asyncio.get_running_loop()
        names, heard_s = list(self._members), dict[str, float]()

        def show() -> None:
            self._shows = None
            found = finder.found().of
            guests = guests_at_work(names, found, heard_s)
            self._bench.show(StepPicture(found=tuple(describe_progress(found)), guests=guests))

        def hear(mark: TimeMark) -> None:
            sender = finder.see(mark)
            if sender is None:
                return
            heard_s.setdefault(sender, time.monotonic())
            if self._shows is None:
                self._shows = loop.call_later(SHOWN_EVERY_S, show)

        return hear

    def _copies(self, window: Window) -> Iterable[CopyRecord]:
        answers = window.answers
        alone = {guest for guest, _ in window.copies.values()} - {
            guest for guest, number in window.copies.values() if number > 1
        }
        for name, (guest, number) in window.copies.items():
            marks, answer, said = window.found.of.get(name, Marks()), answers[name], window.said.get(guest)
            yield build_copy(
                guest,
                number,
                self._origin(guest),
                marks,
                answer,
                asked_ns=None if said is None else said.asked_ns,
                answered_ns=said.answered_ns if said is not None and guest in alone else None,
                empty_s=None if self._empty is None else self._empty.mean_s,
            )


def _unsound(window: Window) -> str | None:
    """Return why the only copy's time is unreliable, by the same criteria as for a trial, or None if it is reliable."""
    (marks,), (answer,), (said,) = window.found.of.values(), window.answers.values(), window.said.values()
    if said.message is not None:
        return said.message
    if marks.outside_ns is None or answer.ping_status != 0:
        return f"of {len(window.marks.marks)} pings seen none is its own, or none was answered in time"
    if answer.exit_status != 0:
        return "the guest did not say how it ended"
    seen = window.marks
    strange = window.found.strange_packets + seen.strange_packets + len(window.found.doubled)
    if strange or seen.dropped_kernel_packets or seen.unread_packets:
        return "there were pings that match no mark"
    if abs(seen.clock_step_ns) > LEAST_STEP_S * 1e9:
        return "the timekeeper's clock was set"
    return None
