"""Other activity on this node while it is measured: logins, guests, other sessions, and who used the processors."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Optional, Pattern, Sequence, Set, Tuple

from labconsole.agent.reading import facts
from labconsole.agent.reading.proc_files import Process, add_descendants, processes, read_bytes, read_text
from labconsole.wire import host_activity
from labconsole.wire.codec import WireError
from labconsole.wire.host_activity import ProcessPlace

# -- guests of hypervisors ---------------------------------------------------------------------------------------------
# Guests of hypervisors on this node: processes that match the console's patterns, and their names.

MAX_PATTERNS = 100
MAX_PATTERN_CHARACTERS = 200

MAX_NAME_CHARACTERS = 200
MAX_ARGUMENTS = 4096
"""Most arguments of a command line that are searched for a name: any user may start a process with a guest's name and
tens of thousands of arguments.
"""

_NAMING = (
    ("-name", "guest"),
    ("--name", "guest"),
    ("--comment", None),
    ("-comment", None),
    ("--startvm", None),
    ("-startvm", None),
    ("--id", None),
    ("--api-sock", None),
    ("--api-socket", "path"),
)
"""Options of QEMU, crosvm, VirtualBox (any version takes one dash or two), Firecracker and Cloud Hypervisor that
identify guests, in order of preference; and the key within the value, if that is a list of settings.
"""
_XL_GLOBAL = re.compile(r"-[vftTN]+\Z")
_XL_FILE = ("-f", "--defconfig")
_XL_NAME = re.compile(r"""(?:\A|[;\n])[^\S\n]*name\s*=\s*(["']?)([^"';\n]+)\1""")
_LXC_MONITOR = "[lxc monitor] "
_LXC_VALUES = (
    "-f",
    "-s",
    "-c",
    "-L",
    "-p",
    "-o",
    "-l",
    "-P",
    "-g",
    "-u",
    "--rcfile",
    "--define",
    "--console",
    "--console-log",
    "--pidfile",
    "--share-net",
    "--share-ipc",
    "--share-uts",
    "--share-pid",
    "--logfile",
    "--logpriority",
    "--lxcpath",
    "--uid",
    "--gid",
)
"""Options of lxc-start and lxc-execute, LXC 1 to 6, whose value is a separate argument."""


def matching(patterns: Sequence[str]) -> Pattern[str]:
    """Compile a pattern that fully matches the names of guests' processes and no others. Raises WireError."""
    if len(patterns) > MAX_PATTERNS or max(map(len, patterns), default=0) > MAX_PATTERN_CHARACTERS:
        raise WireError("bad_request", "guests has too many or too long patterns")
    try:
        return re.compile("|".join("(?:%s)" % pattern for pattern in patterns))
    except re.error as exc:
        raise WireError("bad_request", "guests has a pattern that is not a regular expression: %s" % exc) from exc


def find_guest_name(command_line: bytes) -> Optional[str]:
    """Return a guest's name by its command line (null-terminated arguments), or None if it has none.

    A program may be named by a path, and follow an interpreter or a loader and their options.
    """
    arguments = command_line.decode("utf-8", "replace").rstrip("\0").split("\0", MAX_ARGUMENTS)[:MAX_ARGUMENTS]
    names = [word.rpartition("/")[2] for word in arguments]
    if "xl" in names[:4]:
        found = _xl_name(arguments[names.index("xl") + 1 :])
    else:
        started = next((at for at, name in enumerate(names[:4]) if name in ("lxc-start", "lxc-execute")), None)
        if arguments[0].startswith(_LXC_MONITOR):
            found = _monitored(arguments[0][len(_LXC_MONITOR) :].rstrip())
        elif started is not None:
            found = _lxc_name(arguments[started + 1 :])
        else:
            found = _option(arguments)
    return found[:MAX_NAME_CHARACTERS] if found else None


def _option(arguments: List[str]) -> Optional[str]:
    """Return the name by the options of hypervisors whose guests are programs, and by User-mode Linux's arguments."""
    for naming, key in _NAMING:
        for at, word in enumerate(arguments[1:], 1):
            value = arguments[at + 1] if word == naming and at + 1 < len(arguments) else None
            if value is None and word.startswith(naming + "="):
                value = word[len(naming) + 1 :]
            if value:
                return value if key is None else _first_key(value, key)
    return next((word[len("umid=") :] for word in arguments[1:] if word.startswith("umid=")), None)


def _first_key(value: str, key: str) -> Optional[str]:
    """Return one of the settings ``a=b,c=d``, whose first may have no key; a doubled comma means one."""
    parts = value.replace(",,", "\0").split(",")
    for at, part in enumerate(parts):
        name, equals, said = part.partition("=")
        if (equals and name == key) or (not equals and at == 0):
            return (said if equals else part).replace("\0", ",")
    return None


def _xl_name(arguments: List[str]) -> Optional[str]:
    """Parse ``xl [-v] create [OPTIONS] [FILE] [SETTING=VALUE ...]``: a setting ``name``, or the name of the file."""
    while arguments and _XL_GLOBAL.match(arguments[0]):
        arguments = arguments[1:]
    if not arguments or arguments[0] != "create":
        return None
    name: Optional[str] = None
    config: Optional[str] = None
    rest = iter(arguments[1:])
    for word in rest:
        if word in _XL_FILE or re.match(r"-[AFVcdeinpq]+f\Z", word):
            config = next(rest, None)
        elif word.startswith("--defconfig="):
            config = word.partition("=")[2]
        elif re.match(r"-[AFVcdeinpq]*f.", word):
            config = word.partition("f")[2]
        elif word.startswith("-"):
            continue
        elif "=" in word:
            settings = _XL_NAME.findall(word)
            name = settings[-1][1].strip() if settings else name
        elif config is None:
            config = word
    if name is None and config:
        name = re.sub(r"\.cfg\Z", "", config.rpartition("/")[2])
    return name or None


def _monitored(title: str) -> Optional[str]:
    """Parse LXC's directory and container. If both may contain blanks, the container's directory decides.

    Only names of at most MAX_NAME_CHARACTERS are tried: a copy of the title for each of its blanks may be gigabytes.
    """
    last = range(max(title.rfind("/") + 1, len(title) - 1 - MAX_NAME_CHARACTERS), len(title) - 1)
    possible = [(title[:at], title[at + 1 :]) for at in last if title[at] == " "]
    if len(possible) > 1:
        possible = [(path, name) for path, name in possible if os.path.isdir(os.path.join(path, name))]
    return possible[0][1] if len(possible) == 1 else None


def _lxc_name(arguments: List[str]) -> Optional[str]:
    """Parse ``lxc-start [-n NAME] [OPTIONS] [NAME] [-- PROGRAM]``."""
    rest = iter(arguments)
    for word in rest:
        if word in ("-n", "--name"):
            return next(rest, None)
        if word.startswith("--name="):
            return word.partition("=")[2]
        if re.match(r"-n.", word):
            return word[2:]
        if word == "--":
            return next(rest, None)
        if word in _LXC_VALUES:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return None


# -- activity ----------------------------------------------------------------------------------------------------------
# Read at the beginning and at the end of a window; the agent keeps the first reading and reports the differences,
# because a node may have thousands of processes and only those that used a processor matter. One pass over /proc costs
# some 15 microseconds per process. A process that started and ended within the window is part of its parent's
# waited-for time.

MAX_PROCESSES = 20
"""Most processes named in a reply, the busiest first."""
MAX_GUESTS = 256
LEAST_SHARE = 0.01
"""Least share of one processor: a process that used less is in the sums only."""

_PYTHON = re.compile("python|pypy")
"""Part of the name of every interpreter that may run an agent: ``python3.11``, ``platform-python`` (RHEL 8),
``pypy3``.
"""
AGENT_WORD = b"labconsole-agent"
"""Part of every agent's command line, see nodes/archive.py."""
SESSION_WORD = b"session-"
"""Prefix of the argument that the agents of one console share: the last one of their command lines."""

MOST_OF_STAT = 1 << 20
_CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def parse_cpu(text: str) -> Dict[str, Dict[str, int]]:
    """Parse /proc/stat: "cpu" (the sum), "cpu0", ... to ticks by kind."""
    found: Dict[str, Dict[str, int]] = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields or not fields[0].startswith("cpu"):
            break
        try:
            numbers = [int(word) for word in fields[1:9]]
        except ValueError:
            continue
        found[fields[0]] = dict(zip(_CPU_FIELDS, numbers))
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
    """Return the argument that identifies an agent's console, or None if the command line has none."""
    word = line.rstrip(b"\0").rpartition(b"\0")[2]
    return word if word.startswith(SESSION_WORD) else None


class ProcessOwnership:
    """The owner of a process: "ours", another session's ("labconsole"), a "guest", the "kernel", or "other"."""

    def __init__(
        self,
        seen: Dict[int, Process],
        guests: Pattern[str],
        roots: Sequence[int] = (),
        console: Optional[int] = None,
    ) -> None:
        """``guests``: names of guests' processes. ``roots``: processes that, with their descendants, are ours, although
        others started them. ``console``: the process of our console, if it is visible from here.
        """
        keeper = os.getppid()
        lines = {pid: command_line(pid) for pid, process in seen.items() if _PYTHON.search(process.name)}
        agents = {pid for pid, line in lines.items() if AGENT_WORD in line}
        # Other nodes that share this kernel: the same console has started their agents.
        session = _last_word(command_line(os.getpid()))
        sisters = {pid for pid in agents if session is not None and _last_word(lines[pid]) == session}
        own = add_descendants({keeper} | sisters | {pid for pid in roots if pid in seen}, seen)
        # The processes of our connections: the shell and the SSH server above each agent, and their ancestors.
        self.above = set().union(*(_ancestors(pid, seen) for pid in {keeper} | sisters)) - own
        if console is not None and console in seen and console not in own:
            self.above.add(console)
        self.ours = own | self.above
        agents -= self.ours
        # The outermost process of each session.
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
    """The beginning of the current window, if any."""

    def __init__(self) -> None:
        self._begin: Optional[Snapshot] = None

    def read(
        self,
        begin: bool,
        guests: Sequence[str] = (),
        roots: Sequence[int] = (),
        console: Optional[ProcessPlace] = None,
    ) -> Dict[str, Any]:
        """Take one reading; with ``begin`` it opens a window, else it closes the open one. Blocks for some ms.

        ``console``: where our console runs.
        """
        now = Snapshot()
        here = {"boot_id": host_activity.boot_id(), "pid_namespace": host_activity.pid_namespace()}
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
    """Return the ticks that each process used within the window: itself, and its children that ended in it."""
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
        # A child's use before the window is added to its parent all at once when it ends.
        waited = process.waited - before.waited - ended.get(pid, 0)
        found[pid] = process.used - before.used, waited if waited > 0 else 0
    return found


def _derive_cpu_ticks(first: Dict[str, int], last: Dict[str, int]) -> Optional[Dict[str, int]]:
    """Return ticks by kind, or None if the kernel's own figures decreased (idle and iowait may)."""
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
    """Return the activity between two snapshots."""
    elapsed_s = (last.monotonic_ns - first.monotonic_ns) / 1e9
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    sums: Dict[str, float] = {}
    busy: List[Tuple[float, Process, str]] = []
    for pid, (own, ended) in derive_ticks_used(first, last).items():
        process = last.processes[pid]
        parts = [(own + ended, process, belonging.of(process))]
        if pid in belonging.above:
            # The SSH server and init belong to our connection, but not the processes they have waited for.
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
