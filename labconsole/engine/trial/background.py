"""The background load of one trial, and the stress program in the second guest that makes it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from labconsole.contracts.driver import SecondGuest
from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import run_concurrently
from labconsole.engine.trial.second_guest import SecondGuestSetup
from labconsole.errors import CapabilityMissing, NodeError, NodeLost, NodeUnreachable
from labconsole.model.record.run import Background, Figures
from labconsole.wire.usage import ProcessUsage, Usage

# -- guest load --------------------------------------------------------------------------------------------------------
# The ``stress`` program inside a guest: shell lines that start, sample and end it, and parsers of the answers.
#
# Pure. A guest is under test and may answer anything: every answer is matched completely, numbers are bounded, and
# mismatches are reported, never guessed. A guest needs only a shell, ``cat``, ``setsid`` and /proc.

ARGUMENTS = {"light": "--cpu 1", "heavy": "--cpu 8 --vm 4"}
"""Backgrounds that load the second guest's processor, by the program's own options (docs/background.md)."""

WORKERS = {"light": 1, "heavy": 12}
MEMORY_BYTES = {"light": 0, "heavy": 4 * 256 * 2**20}
"""Memory that the workers write to: ``stress --vm`` takes 256 MiB each."""

NO_STRESS = "no-stress"
NO_SETSID = "no-setsid"
_SHOWN = 80
_NUMBER = r"\d{1,19}"
_SIGNED = r"-?\d{1,20}"
_PID = r"[1-9]\d{0,9}"
_UPTIME = re.compile(r"(\d{1,12}\.\d{1,4}) \d{1,14}\.\d{1,4}")
_STAT = re.compile(rf"({_PID}) \((.{{0,64}})\) ([A-Za-z]) ({_SIGNED}(?: {_SIGNED}){{18,80}})")
_SCHEDSTAT = re.compile(rf"({_NUMBER}) ({_NUMBER}) {_NUMBER}")
_CPU = re.compile(rf"cpu +({_NUMBER}(?: {_NUMBER}){{6,15}})")
_STARTED = re.compile(rf"started ({_PID})")
_MEMORY = re.compile(r"memory (\d{1,15})")
_PAGE = re.compile(r"page (\d{1,6})")


class ImplausibleAnswer(ValueError):
    """Raised for an implausible answer of a guest; the message quotes it."""


@dataclass(frozen=True, slots=True)
class GuestFacts:
    """Available memory and page size of the guest, or None if not reported."""

    available_bytes: int | None
    page_bytes: int | None


@dataclass(frozen=True, slots=True)
class Worker:
    """One process at one instant, by the guest's own clock. ``born``: its start time, which identifies it.

    ``run_ns`` is time on a processor, ``wait_ns`` time waiting for one; None if the guest's kernel does not keep them.
    """

    at_s: float
    born: int
    minor_faults: int
    run_ns: int | None
    wait_ns: int | None


@dataclass(frozen=True, slots=True)
class LoadSample:
    """``cpu``: total time of the guest's processors in ticks, and the stolen part of it."""

    workers: dict[int, Worker]
    total_ticks: int
    stolen_ticks: int


FACTS_LINE = (
    "while read -r k v u; do case $k in MemAvailable:) echo memory $v;; esac; done </proc/meminfo; "
    "while read -r k v u; do case $k in MMUPageSize:) echo page $v; break;; esac; done </proc/self/smaps; :"
)


def start_line(kind: str) -> str:
    """A line that starts the load in its own process group, so that it can be ended as one, and prints the leader."""
    return (
        f"command -v stress >/dev/null || {{ echo {NO_STRESS}; exit 0; }}; "
        f"command -v setsid >/dev/null || {{ echo {NO_SETSID}; exit 0; }}; "
        f"setsid stress {ARGUMENTS[kind]} >/dev/null 2>&1 </dev/null & echo started $!"
    )


FIND_LINE = (
    'for d in /proc/[0-9]*; do read -r l <$d/stat && case $l in *" (stress) "*) echo "$l";; esac; done 2>/dev/null; :'
)
"""Lists every process with this name, also other users'."""


def sample_line(pids: Sequence[int]) -> str:
    """A line that reads all workers in one process, and the clock before each, since a guest may pause it."""
    files = " ".join(f"/proc/uptime /proc/{pid}/stat /proc/{pid}/schedstat" for pid in pids)
    return (
        f'read -r c </proc/stat; echo "$c"; cat {files} 2>/dev/null; :' if pids else 'read -r c </proc/stat; echo "$c"'
    )


def end_line(leader: int) -> str:
    """A line that kills the whole group, and lists processes as FIND_LINE does: a dead process stays until reaped."""
    return f"kill -9 -{leader} 2>/dev/null; {FIND_LINE}"


def parse_facts(answer: str) -> GuestFacts:
    """Parse the answer to FACTS_LINE."""
    memory, page = _MEMORY.search(answer), _PAGE.search(answer)
    return GuestFacts(
        available_bytes=int(memory[1]) * 1024 if memory else None, page_bytes=int(page[1]) * 1024 if page else None
    )


def parse_started(answer: str) -> int:
    """The process ID of the leader."""
    match = _STARTED.fullmatch(answer.strip())
    if match is None:
        raise ImplausibleAnswer(f"it should have reported which process it started, but said {_format_answer(answer)}")
    return int(match[1])


def parse_workers(answer: str, leader: int) -> list[int]:
    """The live workers among the processes that FIND_LINE listed: the leader's children, in order."""
    return sorted({pid for pid, parent, _ in _living(answer) if parent == leader})


def parse_group_members(answer: str, leader: int) -> list[int]:
    """The live processes of the leader's group, among those that a line listed."""
    return sorted({pid for pid, _, group in _living(answer) if group == leader})


def _living(answer: str) -> Iterator[tuple[int, int, int]]:
    """(process, parent, group) of each live process."""
    for line in answer.splitlines():
        match = _STAT.fullmatch(line)
        if match is None:
            raise ImplausibleAnswer(f"it should have listed processes, but said {_format_answer(line)}")
        if match[3] not in "ZXx":
            parent, group = match[4].split()[:2]
            yield int(match[1]), int(parent), int(group)


def parse_sample(answer: str, pids: Sequence[int]) -> LoadSample:
    """Parse the answer to sample_line. Ended workers are left out; an implausible answer raises ImplausibleAnswer."""
    first, _, rest = answer.partition("\n")
    cpu = _CPU.fullmatch(first)
    if cpu is None:
        raise ImplausibleAnswer(f"it should have reported its processor time, but said {_format_answer(first)}")
    ticks = [int(word) for word in cpu[1].split()]
    workers: dict[int, Worker] = {}
    at_s: float | None = None
    pid: int | None = None
    for line in rest.splitlines():
        if match := _UPTIME.fullmatch(line):
            at_s, pid = float(match[1]), None
        elif match := _STAT.fullmatch(line):
            pid = int(match[1])
            if at_s is None or pid not in pids or pid in workers:
                raise ImplausibleAnswer(f"it reported a process that was not requested: {_format_answer(line)}")
            numbers = [int(word) for word in match[4].split()]
            if min(numbers[6], numbers[18]) < 0:
                raise ImplausibleAnswer(f"it reported negative counts: {_format_answer(line)}")
            workers[pid] = Worker(at_s, numbers[18], numbers[6], None, None)
            if match[3] in "ZXx":
                del workers[pid]
                pid = None
        elif (match := _SCHEDSTAT.fullmatch(line)) and at_s is not None:
            if pid is not None:  # otherwise the worker has ended
                worker = workers[pid]
                workers[pid] = Worker(worker.at_s, worker.born, worker.minor_faults, int(match[1]), int(match[2]))
                pid = None
        else:
            raise ImplausibleAnswer(f"it should have reported its load, but said {_format_answer(line)}")
    # user nice system idle iowait irq softirq steal; guest time is part of user time.
    return LoadSample(workers, total_ticks=sum(ticks[:8]), stolen_ticks=ticks[7] if len(ticks) > 7 else 0)


def figures(kind: str, begin: LoadSample, end: LoadSample, page_bytes: int | None) -> dict[str, int | float | None]:
    """The load achieved between two samples.

    ``demand_ratio`` is the share of time in which a worker ran or waited for a processor, over all expected workers: 1
    for a load that always wants to run, even if it gets little processor time.
    """
    pairs = [
        (worker, end.workers[pid])
        for pid, worker in begin.workers.items()
        if pid in end.workers and end.workers[pid].born == worker.born
    ]
    windows = [last.at_s - first.at_s for first, last in pairs]
    faults = [last.minor_faults - first.minor_faults for first, last in pairs]
    run, wait = ([_grown(first, last, key) for first, last in pairs] for key in ("run_ns", "wait_ns"))
    demand = ran_s = touched = None
    if min(windows, default=1.0) > 0:
        wanted = [None if r is None or w is None else (r + w) / 1e9 for r, w in zip(run, wait, strict=True)]
        shares = [None if s is None else s / window for s, window in zip(wanted, windows, strict=True)]
        if None not in shares:
            demand = sum(share for share in shares if share is not None) / WORKERS[kind]
    if None not in run:
        ran_s = sum(ns for ns in run if ns is not None) / 1e9
    if page_bytes is not None and min(faults, default=0) >= 0:
        touched = sum(faults) * page_bytes
    window_s = sum(windows) / len(windows) if windows else None
    return {
        "workers": len(pairs),
        "demand_ratio": demand,
        "guest_cpu_s": ran_s,
        "guest_cpu_ratio": ran_s / window_s if ran_s is not None and window_s else None,
        "guest_window_s": window_s,
        "memory_touched_bytes": touched,
    }


def steal_ratio(begin: LoadSample, end: LoadSample) -> float | None:
    """The share of the guest's processor time that its host gave to others, as seen by the guest."""
    total, stolen = end.total_ticks - begin.total_ticks, end.stolen_ticks - begin.stolen_ticks
    return stolen / total if total > 0 and 0 <= stolen <= total else None


def _grown(first: Worker, last: Worker, key: str) -> int | None:
    before, after = getattr(first, key), getattr(last, key)
    return None if before is None or after is None or after < before else int(after - before)


def _format_answer(text: str) -> str:
    printable = "".join(char if char.isprintable() else "·" for char in text[:_SHOWN])
    return repr(printable) if text else "nothing"


# -- background --------------------------------------------------------------------------------------------------------
# The background load of one trial: started in the second guest, sampled at both ends of the counted window, ended.
#
# The record contains what was observed, from inside and from outside the guest, never what was requested. The second
# guest's own stream does not belong here: it is sent, captured and counted like any other (trial.py).

UP_S = 20.0
"""Time for the workers to start; a guest may be an emulated machine."""

DOWN_S = 5.0
LOOK_S = 0.02
USAGE_S = 10.0
MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Moment:
    """One end of the window: the guest's own sample, and the UUT's of the guest's processes, or None if missing."""

    at_s: float
    inside: LoadSample | None
    outside: Usage | None


class BackgroundLoad:
    """The background load of one trial. ``notes`` are added to the trial's: what could not be observed, and why."""

    def __init__(
        self,
        setup: SecondGuestSetup,
        guest: SecondGuest,
        uut: AgentLink,
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.notes: list[Figures] = []
        self._stopping = stopping
        self._setup, self._guest, self._uut = setup, guest, uut
        self._kind = setup.kind
        self._leader: int | None = None
        self._workers: list[int] = []
        self._facts: GuestFacts | None = None
        self._begin: _Moment | None = None
        self._end: _Moment | None = None

    async def start(self) -> None:
        """Start the load, if this kind has one; wait until all of its workers run, or until the trial is stopped.

        Raises CapabilityMissing or NodeError naming the guest and what it lacks; then nothing of the load is left.
        """
        if self._kind not in ARGUMENTS:
            return
        if self._guest.ask is None:
            raise self._complaint(self._guest.cannot or "no program can be run inside it", missing=True)
        self._facts = parse_facts(await self._ask(FACTS_LINE))
        self._refuse_too_small()
        answer = await self._ask(start_line(self._kind))
        for word, program in ((NO_STRESS, "stress"), (NO_SETSID, "setsid")):
            if answer.strip() == word:
                package = "stress" if program == "stress" else "util-linux"
                where = self._uut.name if self._guest.same_pids else "it"
                message = f"does not have {program}: install the package {package} in {where}"
                raise self._complaint(message, missing=True)
        try:
            self._leader = parse_started(answer)
            await self._wait_up()
        except ImplausibleAnswer as exc:
            raise self._complaint(str(exc)) from exc

    def _refuse_too_small(self) -> None:
        needed, there = MEMORY_BYTES[self._kind], self._facts.available_bytes if self._facts else None
        if there is not None and there < needed:
            raise self._complaint(
                f"has {there // MIB} MiB of memory to spare, and background {self._kind} (stress "
                f"{ARGUMENTS[self._kind]}) writes to {needed // MIB} MiB: give the guest more"
            )

    async def _wait_up(self) -> None:
        assert self._leader is not None
        wanted = WORKERS[self._kind]
        deadline = time.monotonic() + UP_S
        while True:
            self._workers = parse_workers(await self._ask(FIND_LINE), self._leader)
            if len(self._workers) == wanted or self._stopping():
                return
            if time.monotonic() > deadline:
                running = f"{len(self._workers)} of {wanted} processes after {UP_S:g} s"
                raise self._complaint(f"stress {ARGUMENTS[self._kind]} did not come up: {running}")
            await asyncio.sleep(LOOK_S)

    async def begin(self) -> None:
        """Take the sample at the beginning of the window."""
        self._begin = await self._look()

    async def end(self) -> None:
        """Take the sample at the end of the window. Unreadable values are unknown, which is not an error."""
        self._end = await self._look()

    async def stop(self) -> None:
        """End the load and wait until it has ended. Safe to call twice or before a start. Raises NodeError."""
        if self._leader is None:
            return
        leader, deadline = self._leader, time.monotonic() + DOWN_S
        while True:
            try:
                left = parse_group_members(await self._ask(end_line(leader)), leader)
            except ImplausibleAnswer as exc:
                raise self._complaint(str(exc)) from exc
            if not left:
                self._leader = None
                return
            if time.monotonic() > deadline:
                raise self._complaint(f"{len(left)} processes of its load do not terminate")
            await asyncio.sleep(LOOK_S)

    def result(self) -> Background:
        """The record of the load, without the second guest's own stream."""
        requested: dict[str, int | float] = {}
        achieved: dict[str, int | float | None] = {}
        begin, end = self._begin, self._end
        inside = (begin.inside, end.inside) if begin is not None and end is not None else (None, None)
        if self._kind in WORKERS:
            requested = {"workers": WORKERS[self._kind], "demand_ratio": 1.0}
            achieved = dict.fromkeys(requested)
            if inside[0] is not None and inside[1] is not None:
                page_bytes = self._facts.page_bytes if self._facts is not None else None
                achieved |= figures(self._kind, inside[0], inside[1], page_bytes)
        if inside[0] is not None and inside[1] is not None:
            achieved["steal_ratio"] = steal_ratio(inside[0], inside[1])
        achieved |= self._outside()
        if begin is not None and end is not None:
            achieved["window_s"] = end.at_s - begin.at_s
        if self._setup.request is not None:
            requested["offered_pps"] = self._setup.offered_pps
        return Background(
            kind=self._kind,
            guest=self._guest.name,
            cpus=self._guest.cpus,
            requested=requested,
            achieved=achieved,
            reference=self._setup.reference,
        )

    def _outside(self) -> dict[str, int | float | None]:
        """The UUT's view: processor time of the guest's processes, and their time waiting for a processor."""
        first, last = (moment.outside if moment is not None else None for moment in (self._begin, self._end))
        if first is None or last is None:
            return {}
        found: dict[str, int | float | None] = {}
        for name, before, after in (
            ("host_cpu_s", first.cpu_ns, last.cpu_ns),
            ("host_wait_s", first.wait_ns, last.wait_ns),
        ):
            found[name] = None if before is None or after is None or after < before else (after - before) / 1e9
        return found

    async def _look(self) -> _Moment:
        inside: list[LoadSample] = []
        outside: list[Usage] = []

        async def ask_inside() -> None:
            if self._guest.ask is None:
                return
            try:
                answer = await self._ask(sample_line(self._workers))
                inside.append(parse_sample(answer, self._workers))
            except ImplausibleAnswer as exc:
                self._note(str(exc))

        async def ask_outside() -> None:
            pids = [] if self._guest.pid is None else [self._guest.pid]
            if self._guest.same_pids:
                pids += self._workers
            if pids:
                outside.append(await self._uut.ask(ProcessUsage(pids=pids), timeout_s=USAGE_S))

        async def noted(work: Any) -> None:
            try:
                await work
            except (NodeLost, NodeUnreachable):
                return  # the trial learns that by itself
            except NodeError as exc:
                self._note(exc.message)

        at_s = time.monotonic()
        await run_concurrently([noted(ask_inside()), noted(ask_outside())])
        return _Moment(at_s, inside[0] if inside else None, outside[0] if outside else None)

    async def _ask(self, line: str) -> str:
        assert self._guest.ask is not None
        return await self._guest.ask(self._uut, line)

    def _note(self, detail: str) -> None:
        self.notes.append({"node": self._uut.name, "kind": "background", "detail": f"{self._guest.name}: {detail}"})

    def _complaint(self, what: str, *, missing: bool = False) -> NodeError:
        kind = CapabilityMissing if missing else NodeError
        return kind(self._uut.name, f"the second guest, {self._guest.name}: {what}", operation="background")
