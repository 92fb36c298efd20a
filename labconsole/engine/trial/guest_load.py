"""The ``stress`` program inside a guest: shell lines that start, sample and end it, and parsers of the answers.

Pure. A guest is under test and may answer anything: every answer is matched completely, numbers are bounded, and
mismatches are reported, never guessed. A guest needs only a shell, ``cat``, ``setsid`` and /proc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
