"""What else goes on on this node while it is measured: logins, guests, other sessions, and who used the processors.

Taken at the begin and at the end of a window; the agent keeps the begin and tells the differences, because a node may
have thousands of processes and only those that used a processor matter. One pass over /proc costs some 15 microseconds
a process. A process that came and went within the window is found in what its parent waited for.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Optional, Pattern, Sequence, Set, Tuple

from labconsole.agent.reading import facts
from labconsole.agent.reading.files import read_bytes, read_text
from labconsole.agent.reading.guests import find_guest_name, matching
from labconsole.agent.reading.process_table import Process, add_descendants, processes
from labconsole.wire import process_location
from labconsole.wire.host_activity import ProcessPlace

MAX_PROCESSES = 20
"""Named in a reply, the busiest first."""
MAX_GUESTS = 256
LEAST_SHARE = 0.01
"""Of one processor: what used less is in the sums only."""

_PYTHON = re.compile("python|pypy")
"""In the name of every interpreter that may run an agent: ``python3.11``, ``platform-python`` (RHEL 8), ``pypy3``."""
AGENT_WORD = b"labconsole-agent"
"""Every agent's command line holds it, see nodes/archive.py."""
SESSION_WORD = b"session-"
"""How the word begins that the agents of one console have in common: the last one of their command lines."""

MOST_OF_STAT = 1 << 20
_CPU_WORDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def parse_cpu(text: str) -> Dict[str, Dict[str, int]]:
    """ "cpu" (the sum), "cpu0", ... to ticks by kind, from /proc/stat."""
    found: Dict[str, Dict[str, int]] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or not words[0].startswith("cpu"):
            break
        try:
            numbers = [int(word) for word in words[1:9]]
        except ValueError:
            continue
        found[words[0]] = dict(zip(_CPU_WORDS, numbers))
    return found


def command_line(pid: int) -> bytes:
    return read_bytes("/proc/%d/cmdline" % pid) or b""


class Snapshot:
    """One moment: processes, processors, clocks."""

    def __init__(self) -> None:
        self.monotonic_ns, self.wall_ns = time.monotonic_ns(), time.time_ns()
        self.cpu = parse_cpu(read_text("/proc/stat", MOST_OF_STAT) or "")
        self.processes = processes()


def _ancestors(pid: int, all_processes: Dict[int, Process]) -> Set[int]:
    found: Set[int] = set()
    while pid in all_processes and pid not in found:
        found.add(pid)
        pid = all_processes[pid].parent
    return found


def _last_word(line: bytes) -> Optional[bytes]:
    """Which console started an agent, by the agent's command line; None for what says no such thing."""
    word = line.rstrip(b"\0").rpartition(b"\0")[2]
    return word if word.startswith(SESSION_WORD) else None


class ProcessOwnership:
    """Whose a process is: "ours", another session's ("labconsole"), a "guest", the "kernel", or "other"."""

    def __init__(
        self,
        seen: Dict[int, Process],
        guests: Pattern[str],
        roots: Sequence[int] = (),
        console: Optional[int] = None,
    ) -> None:
        """``guests``: what guests' processes are called. ``roots``: processes that are ours with all that descends from
        them, though others started them. ``console``: the process of our console, where that can be seen from here.
        """
        keeper = os.getppid()
        lines = {pid: command_line(pid) for pid, process in seen.items() if _PYTHON.search(process.name)}
        agents = {pid for pid, line in lines.items() if AGENT_WORD in line}
        # Other nodes that share this kernel: their agents have been started by the same console.
        session = _last_word(command_line(os.getpid()))
        sisters = {pid for pid in agents if session is not None and _last_word(lines[pid]) == session}
        own = add_descendants({keeper} | sisters | {pid for pid in roots if pid in seen}, seen)
        # What carries our links: the shell and the SSH server above each agent, and whatever started those.
        self.above = set().union(*(_ancestors(pid, seen) for pid in {keeper} | sisters)) - own
        if console is not None and console in seen and console not in own:
            self.above.add(console)
        self.ours = own | self.above
        agents -= self.ours
        # Of each session the outermost process.
        self.agents = {pid for pid in agents if seen[pid].parent not in agents}
        self._theirs = add_descendants(agents, seen)
        self.guests = {
            pid for pid, process in seen.items() if pid not in self.ours and guests.fullmatch(process.name) is not None
        }

    def of(self, process: Process) -> str:
        if process.pid in self.ours:
            return "ours"
        if process.kernel:
            return "kernel"
        if process.pid in self.guests:
            return "guest"
        return "labconsole" if process.pid in self._theirs else "other"


class HostActivity:
    """The begin of the window that is being watched, if any."""

    def __init__(self) -> None:
        self._begin: Optional[Snapshot] = None

    def read(
        self,
        begin: bool,
        guests: Sequence[str] = (),
        roots: Sequence[int] = (),
        console: Optional[ProcessPlace] = None,
    ) -> Dict[str, Any]:
        """One reading; with ``begin`` it opens a window, else it closes the one that is open. Blocks for some ms.

        ``console``: where our console runs.
        """
        now = Snapshot()
        here = {"boot_id": process_location.boot_id(), "pid_namespace": process_location.pid_namespace()}
        with_us = console is not None and (here == {"boot_id": console.boot_id, "pid_namespace": console.pid_namespace})
        pid_of_console = console.pid if console is not None and with_us else None
        belonging = ProcessOwnership(now.processes, matching(guests), roots, pid_of_console)
        window = None
        if not begin and self._begin is not None:
            window = compare(self._begin, now, belonging)
        self._begin = now if begin else None
        return {
            "monotonic_ns": now.monotonic_ns,
            "wall_ns": now.wall_ns,
            **here,
            "logins": facts.logins(),
            "load": facts.load(),
            "cpus": max(len(now.cpu) - 1, 0) or None,
            "guests": [
                {"name": find_guest_name(command_line(pid)) or now.processes[pid].name, "pid": pid}
                for pid in sorted(belonging.guests)[:MAX_GUESTS]
            ],
            "sessions": sorted(belonging.agents),
            "window": window,
        }


def derive_ticks_used(first: Snapshot, last: Snapshot) -> Dict[int, Tuple[int, int]]:
    """Ticks that each process used within the window: itself, and its children that ended in it."""
    ended: Dict[int, int] = {}
    for pid, process in first.processes.items():
        now = last.processes.get(pid)
        if now is None or now.started != process.started:
            ended[process.parent] = ended.get(process.parent, 0) + process.used + process.waited
    found: Dict[int, Tuple[int, int]] = {}
    for pid, process in last.processes.items():
        before = first.processes.get(pid)
        if before is None or before.started != process.started:
            found[pid] = process.used, process.waited
            continue
        # What its children had used before the window began comes in one piece when they end.
        waited = process.waited - before.waited - ended.get(pid, 0)
        found[pid] = process.used - before.used, waited if waited > 0 else 0
    return found


def _derive_cpu_ticks(first: Dict[str, int], last: Dict[str, int]) -> Optional[Dict[str, int]]:
    """Ticks by kind, None where the kernel's own figures went back (idle and iowait may)."""
    found = {kind: last[kind] - first[kind] for kind in last if kind in first}
    return None if not found or min(found.values()) < 0 else found


def _shares(ticks: Optional[Dict[str, int]]) -> Optional[Dict[str, float]]:
    total = sum(ticks.values()) if ticks else 0
    if not ticks or not total:
        return None
    idle = ticks.get("idle", 0) + ticks.get("iowait", 0)
    interrupts = ticks.get("irq", 0) + ticks.get("softirq", 0)
    return {
        "busy_ratio": round(1 - idle / total, 4),
        "interrupt_ratio": round(interrupts / total, 4),
        "steal_ratio": round(ticks.get("steal", 0) / total, 4),
    }


def compare(first: Snapshot, last: Snapshot, belonging: ProcessOwnership) -> Dict[str, Any]:
    """What happened between two snapshots."""
    elapsed_s = (last.monotonic_ns - first.monotonic_ns) / 1e9
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    sums: Dict[str, float] = {}
    busy: List[Tuple[float, Process, str]] = []
    for pid, (own, ended) in derive_ticks_used(first, last).items():
        process = last.processes[pid]
        parts = [(own + ended, process, belonging.of(process))]
        if pid in belonging.above:
            # The SSH server and init are on our way, but what they have waited for was somebody else's.
            parts = [(own, process, "ours"), (ended, process._replace(name="ended below " + process.name), "other")]
        for ticks, part, whose in parts:
            sums[whose] = sums.get(whose, 0.0) + ticks * tick_s
            if ticks * tick_s >= LEAST_SHARE * elapsed_s:
                busy.append((ticks * tick_s, part, whose))
    busy.sort(key=lambda item: -item[0])
    every = {
        name: shares
        for name, shares in (
            (name, _shares(_derive_cpu_ticks(first.cpu[name], last.cpu[name])))
            for name in last.cpu
            if name in first.cpu
        )
        if shares is not None
    }
    whole = every.pop("cpu", None)
    hottest = max(every.items(), key=lambda item: item[1]["busy_ratio"], default=None)
    return {
        "elapsed_s": elapsed_s,
        "cpu": whole,
        "hottest": None if hottest is None else {"cpu": hottest[0], **hottest[1]},
        "used_s": {whose: round(seconds, 3) for whose, seconds in sums.items()},
        "processes": [
            {"pid": process.pid, "name": process.name, "whose": whose, "cpu_s": round(seconds, 3)}
            for seconds, process, whose in busy[:MAX_PROCESSES]
        ],
    }
