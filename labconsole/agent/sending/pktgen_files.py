"""The files under /proc/net/pktgen: their contents, the owners of listed devices, and how they are read and written.

Parsed by pattern, not by line: lines depend on what is set (burst, tos, imix, IPv6 addresses in place of dst_min). A
device of ours has its owner in its name, eth1@lc17-0, so that leftovers of a killed agent can be distinguished from
devices in use by others.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Tuple

from labconsole.wire.codec import WireError

ROOT = "/proc/net/pktgen"
CONTROL = "pgctrl"
THREAD_PREFIX = "kpktgend_"


_VERSION = re.compile(r"[Vv]ersion:?\s*([\d.]+)|pktgen v([\d.]+)")
_THREAD = re.compile(r"^Running:(?P<run>.*)\n\s*Stopped:(?P<stop>.*)\nResult:\s*(?P<res>.*)$", re.M)
_RESULT = re.compile(
    r"OK:\s+(?P<elapsed>\d+)\(c(?P<busy>\d+)\+d(?P<idle>\d+)\)\s+[un]sec,\s+"
    r"(?P<packets>\d+)\s+\((?P<size>\d+)byte,(?P<frags>-?\d+)frags\)\s+"
    r"(?P<pps>\d+)pps\s+(?P<mbps>\d+)Mb/sec\s+\((?P<bps>\d+)bps\)\s+errors:\s+(?P<errors>\d+)"
)
_CURRENT = re.compile(
    r"pkts-sofar:\s*(?P<sent>\d+)\s+errors:\s*(?P<errors>\d+).*?"
    r"started:\s*(?P<started>\d+)us\s+stopped:\s*(?P<stopped>\d+)us\s+idle:\s*(?P<idle>\d+)us",
    re.S,
)
_VALUE = re.compile(r"(\w+): (\S*)")


@dataclass(frozen=True)
class ThreadFile:
    running: Tuple[str, ...]
    stopped: Tuple[str, ...]
    result: str

    @property
    def devices(self) -> Tuple[str, ...]:
        return self.running + self.stopped


@dataclass(frozen=True)
class RunResult:
    """A finished run's Result. Times in µs: kernels before 2.6.3x print "nsec" next to the same microseconds."""

    elapsed_us: int
    busy_us: int
    idle_us: int
    packets: int
    errors: int


@dataclass(frozen=True)
class DeviceFile:
    params: Dict[str, str]
    flags: Tuple[str, ...]
    sent_packets: int
    errors: int
    started_us: int
    stopped_us: int
    """While running: now."""
    idle_us: int
    result_text: str
    """The text in the file, without the word Result."""
    result: Optional[RunResult]
    """None unless the text is that of a finished run."""


def parse_version(text: str) -> Optional[str]:
    found = _VERSION.search(text)
    return None if found is None else found.group(1) or found.group(2)


def parse_thread(text: str) -> ThreadFile:
    """Parse a thread's file. Raises ValueError if it is not one."""
    found = _THREAD.search(text)
    if found is None:
        raise ValueError("not the file of a pktgen thread: %r" % text[:200])
    return ThreadFile(tuple(found["run"].split()), tuple(found["stop"].split()), found["res"].strip())


def parse_result(text: str) -> Optional[RunResult]:
    found = _RESULT.match(text.strip())
    if found is None:
        return None
    return RunResult(
        elapsed_us=int(found["elapsed"]),
        busy_us=int(found["busy"]),
        idle_us=int(found["idle"]),
        packets=int(found["packets"]),
        errors=int(found["errors"]),
    )


def parse_device(text: str) -> DeviceFile:
    """Parse a device's file. Raises ValueError if it is not one."""
    head, found_current, rest = text.partition("\nCurrent:")
    current, found_result, result_text = rest.partition("\nResult:")
    counters = _CURRENT.search(current)
    if not head.startswith("Params:") or not found_current or not found_result or counters is None:
        raise ValueError("not the file of a pktgen device: %r" % text[:200])
    settings, _, flags = head[len("Params:") :].partition("Flags:")
    params: Dict[str, str] = dict(_VALUE.findall(settings))
    count = re.match(r"\s*count (\d+)", settings)
    if count:
        params["count"] = count.group(1)
    return DeviceFile(
        params=params,
        flags=tuple(flags.split()),
        sent_packets=int(counters["sent"]),
        errors=int(counters["errors"]),
        started_us=int(counters["started"]),
        stopped_us=int(counters["stopped"]),
        idle_us=int(counters["idle"]),
        result_text=result_text.strip(),
        result=parse_result(result_text),
    )


# -- the files --------------------------------------------------------------------------------------------------------


class ProcFiles:
    """The directory of one network namespace. Tests replace this class."""

    def __init__(self, root: str = ROOT) -> None:
        self.root = root

    def names(self) -> List[str]:
        return sorted(os.listdir(self.root))

    def read(self, name: str) -> str:
        with open(os.path.join(self.root, name), encoding="ascii", errors="replace") as file:
            return file.read()

    def write(self, name: str, line: str) -> None:
        """Write one line in one system call, as pktgen expects it. Raises OSError with pktgen's errno."""
        descriptor = os.open(os.path.join(self.root, name), os.O_WRONLY)
        try:
            os.write(descriptor, line.encode("ascii") + b"\n")
        finally:
            os.close(descriptor)

    def threads(self) -> Dict[str, ThreadFile]:
        """Return the threads by name, in the order of their CPUs."""
        names = [name for name in self.names() if name.startswith(THREAD_PREFIX)]
        return {name: parse_thread(self.read(name)) for name in sorted(names, key=thread_cpu)}


def thread_cpu(thread: str) -> int:
    return int(thread[len(THREAD_PREFIX) :])


# -- whose device it is ----------------------------------------------------------------------------------------------


def parse_owner(device: str) -> Optional[str]:
    """Return the owner of a device: ``lc17`` for ``eth1@lc17-0``, the agent with process id 17, or None if no agent."""
    found = re.fullmatch(r".+@(lc\d+)-\d+", device)
    return found.group(1) if found else None


def foreign_devices(threads: Dict[str, ThreadFile], ours: Iterable[str] = ()) -> List[str]:
    mine = set(ours)
    return [
        "%s on %s" % (device, name)
        for name, thread in threads.items()
        for device in thread.devices
        if device not in mine
    ]


def refuse_foreign(files: ProcFiles, ours: Iterable[str] = ()) -> None:
    foreign = foreign_devices(files.threads(), ours)
    if foreign:
        raise WireError(
            "pktgen_in_use",
            "another user has configured pktgen here (%s), and starting would start their devices, too"
            % ", ".join(foreign),
            {"devices": foreign},
        )


def cleanup_ours(
    paths: Optional[Iterable[str]] = None, owner: Optional[str] = None, proc_root: str = ROOT, files: Any = None
) -> List[str]:
    """Stop and remove devices, given as files' paths or by their owner's tag. For a keeper whose agent was killed.

    A thread that also has a foreign device is left unchanged: there is no way to remove one device alone. A run that
    includes a foreign device is not stopped. Returns one sentence for each device that could not be removed.
    """
    files = files or ProcFiles(proc_root)
    wanted = {os.path.basename(path) for path in paths or ()}

    def is_ours(device: str) -> bool:
        return device in wanted or (owner is not None and parse_owner(device) == owner)

    try:
        threads = files.threads()
    except FileNotFoundError:  # pktgen is gone, and our devices with it
        return []
    running = [device for thread in threads.values() for device in thread.running]
    if any(map(is_ours, running)) and all(map(is_ours, running)):
        files.write(CONTROL, "stop")
    left = []
    for name, thread in threads.items():
        ours = [device for device in thread.devices if is_ours(device)]
        if not ours:
            continue
        if len(ours) < len(thread.devices):
            left.append("%s stays on %s, which also has another user's device" % (", ".join(ours), name))
        else:
            files.write(name, "rem_device_all")
    return left
