"""Other state of the node that a check needs: space, time, memory, other programs, rules, leftovers of earlier runs.

The counterpart of settings.py for varying values. Only /proc, /sys and a few directories are read, no program is
started. An unknown value is null.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
import shutil
import socket
from contextlib import closing
from typing import Any, Dict, List, Optional, Pattern, Sequence, Tuple

from labconsole.agent import capture_dir, netlink
from labconsole.agent.processes import children
from labconsole.agent.reading import facts
from labconsole.agent.reading.host_activity import matching
from labconsole.agent.reading.proc_files import read_bytes, read_number, read_process, read_text
from labconsole.agent.sending.pktgen_files import ProcFiles, cleanup_ours
from labconsole.network.iproute import delete_link, open_route

CLOCK_UNSYNCHRONISED = 5
"""TIME_ERROR, the answer of adjtimex while nothing disciplines the clock."""

STATUS_NANOSECONDS = 0x2000
STATUS_UNSYNCHRONISED = 0x40
SNIFFERS = ("tcpdump", "dumpcap", "tshark", "wireshark", "netsniff-ng", "suricata", "Suricata-Main", "zeek")
"""Suricata names its first thread itself, and so its process."""
SENDERS = ("trafgen", "iperf", "iperf3", "netperf", "nuttcp", "stress-ng", "stress", "mausezahn", "mz")
COMMAND_CHARACTERS = 300
MOST_CHARACTERS = 500
"""Most characters of an argument that are searched for a secret: the time grows with the square of its length."""
_SECRET = (
    r"(?:pass(?:word|wd|phrase)?|secret|token|credentials?|authorization|data|psk|(?:api-?|auth-?|private-?)?key"
    r"|(?<![a-z])(?:auth|pwd?|pin)(?![a-z]))[\w-]*"
)
"""QEMU's ``-object secret,data=...``, ``--password ...`` and the like."""
_SECRET_FOLLOWS = re.compile(r"-{0,2}[\w-]*?%s[=:]?\Z" % _SECRET, re.IGNORECASE)
_SECRET_OPTION = re.compile(r"((?<![\w-])-{1,2}[\w-]*?%s[=:]).+" % _SECRET, re.IGNORECASE | re.DOTALL)
_SECRET_INSIDE = re.compile(
    r"(%s(?:\s*[=:]\s*|\s+)(?:(?:basic|bearer)\s+)?)(?:(?!,[\w.-]+=)\S)+" % _SECRET, re.IGNORECASE
)
"""The value ends where the next of QEMU's ``name=value`` begins, and may contain commas."""
_SECRET_IN_URL = re.compile(r"(//[^\s/:@]*:)[^\s/]+@")
_NO_PASSWORD = (
    re.compile(r"-p(?:\d+|[A-Za-z]{0,4}|(?:idfile|flash|lugin)\b.*|arallel|erfmap|reconfig|rom-env|ortrait)\Z"),
    _SECRET_FOLLOWS,
    _SECRET_OPTION,
)
"""Cases in which the text after ``-p`` is no password: a port, other options of one letter, or the rest of an option of
QEMU's.
"""
MAX_PROCESSES = 200
MAX_LEFTOVERS = 200
OURS = re.compile(r"lc[bvt][io]?\d+\Z")
"""Names that the platform drivers give their bridges, veths and taps."""


class _Timex(ctypes.Structure):
    """struct timex."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("fraction", ctypes.c_long),
        ("tick", ctypes.c_long),
        ("rest", ctypes.c_char * 160),
    ]


def clock() -> Optional[Dict[str, Any]]:
    """Return whether the kernel's clock is disciplined, and its own error bound."""
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except AttributeError:
        return None
    if state < 0:
        return None
    unit_ns = 1 if timex.status & STATUS_NANOSECONDS else 1000
    return {
        "synchronised": state != CLOCK_UNSYNCHRONISED and not timex.status & STATUS_UNSYNCHRONISED,
        "offset_ns": timex.offset * unit_ns,
        "max_error_us": timex.maxerror,
        "estimated_error_us": timex.esterror,
    }


def disk(directory: str) -> Dict[str, Any]:
    try:
        status = os.statvfs(directory)
    except OSError as exc:
        return {"directory": directory, "error": exc.strerror, "free_bytes": None, "total_bytes": None}
    writable = os.access(directory, os.W_OK | os.X_OK)
    return {
        "directory": directory,
        "error": None if writable else "is not writable",
        "free_bytes": status.f_bavail * status.f_frsize,
        "total_bytes": status.f_blocks * status.f_frsize,
    }


def memory() -> Dict[str, Optional[int]]:
    found: Dict[str, Optional[int]] = {}
    for key, name in (("total_bytes", "MemTotal"), ("available_bytes", "MemAvailable")):
        match = re.search(r"^%s:\s+(\d+) kB" % name, read_text("/proc/meminfo") or "", re.MULTILINE)
        found[key] = int(match.group(1)) * 1024 if match else None
    return found


def heat() -> Dict[str, Optional[int]]:
    """Return how often processors were slowed down by heat since boot, and the hottest place now."""
    counts = [
        read_number(path)
        for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
    ]
    known = [count for count in counts if count is not None]
    degrees = [read_number(path) for path in glob.glob("/sys/class/thermal/thermal_zone*/temp")]
    hot = [value for value in degrees if value is not None and 0 < value < 200_000]
    return {"throttled": sum(known) if known else None, "hottest_millidegrees": max(hot) if hot else None}


def redact_secrets(arguments: Sequence[str]) -> str:
    """Format a command line for a report: arguments after a word for a secret, or ``-p``, are omitted, and passwords in
    URLs. ``arguments``: of the command; text beyond COMMAND_CHARACTERS is cut. A secret that looks like something else
    is not found.
    """
    shown: List[str] = []
    before, characters = "", 0
    for whole in arguments:
        if characters >= COMMAND_CHARACTERS:
            break
        word = whole[:MOST_CHARACTERS]
        password = before == "-p" and not word.startswith("-") and not word.isdigit()
        if password or (before and _SECRET_FOLLOWS.match(before)):
            kept = "***"
        elif word.startswith("-p") and not any(known.match(word) for known in _NO_PASSWORD):
            kept = "-p***"
        else:
            kept = _SECRET_OPTION.sub(r"\1***", word)
            if kept == word:
                kept = _SECRET_INSIDE.sub(r"\1***", word)
        shown.append(_SECRET_IN_URL.sub(r"\1***@", kept))
        characters += len(shown[-1]) + 1
        before = word
    return " ".join(shown)[:COMMAND_CHARACTERS]


def _process(pid: str, guests: Pattern[str]) -> Optional[Tuple[str, str]]:
    """Return (kind, name) of a process that a measurement should know of."""
    name = read_text("/proc/%s/comm" % pid) or ""
    if name in SNIFFERS:
        return "sniffer", name
    if name in SENDERS:
        return "sender", name
    if guests.fullmatch(name):
        return "guest", name
    return None


def _is_ours(pid: int, command: str) -> bool:
    """Whether this agent started it, or it only prints its version, as agents request from tcpdump."""
    if command.rstrip().endswith(" --version"):
        return True
    for _ in range(4):
        seen = read_process(pid)
        if seen is None or seen.parent <= 1:
            return False
        pid = seen.parent
        if pid == os.getpid():
            return True
    return False


def processes(guests: Pattern[str]) -> List[Dict[str, Any]]:
    """Return programs that watch or load the network, and hypervisors' guests, visible here and not started by this
    agent.
    """
    own = os.stat("/proc/self/ns/net").st_ino
    found: List[Dict[str, Any]] = []
    for pid in sorted((entry for entry in os.listdir("/proc") if entry.isdigit()), key=int):
        known = _process(pid, guests)
        if known is None or len(found) >= MAX_PROCESSES:
            continue
        arguments = (read_text("/proc/%s/cmdline" % pid) or "").split("\0")
        command = redact_secrets(arguments)
        if _is_ours(int(pid), command):
            continue
        try:
            here: Optional[bool] = os.stat("/proc/%s/ns/net" % pid).st_ino == own
        except FileNotFoundError:
            continue  # it has just ended
        except OSError:
            here = None
        entry = {"pid": int(pid), "kind": known[0], "name": known[1], "command": command, "same_network": here}
        found.append(entry)
    return found


def pktgen_devices() -> List[str]:
    """Return all devices configured in pktgen."""
    try:
        threads = ProcFiles().threads()
    except (OSError, ValueError):
        return []
    return [device for thread in threads.values() for device in thread.devices]


def conntrack() -> Dict[str, Optional[int]]:
    """Return the connections tracked in this namespace; null if the module is not loaded."""
    return {
        "entries": read_number("/proc/sys/net/netfilter/nf_conntrack_count"),
        "limit": read_number("/proc/sys/net/netfilter/nf_conntrack_max"),
    }


def icmp() -> Dict[str, Optional[int]]:
    """Return ICMP errors that this namespace has sent: a storm of them means that frames are refused, not forwarded."""
    lines = [line.split() for line in (read_text("/proc/self/net/snmp") or "").splitlines() if line.startswith("Icmp:")]
    counted = dict(zip(lines[0], lines[1])) if len(lines) == 2 else {}
    return {
        "sent_unreachable": int(counted["OutDestUnreachs"]) if "OutDestUnreachs" in counted else None,
        "sent_redirects": int(counted["OutRedirects"]) if "OutRedirects" in counted else None,
    }


def management() -> Dict[str, Any]:
    """Return the interface of the SSH session, and the addresses of all but loopback."""
    ssh, inward = _ssh_server_address(), None
    addresses: Dict[str, List[str]] = {}
    with closing(netlink.RouteSocket()) as route:
        names = route.names()
        for entry in route.addresses():
            name, address = names.get(entry["index"]), entry.get("IFA_LOCAL") or entry.get("IFA_ADDRESS")
            if address == ssh:
                inward = name
            if name is not None and name != "lo" and not str(address).startswith("fe80:"):
                addresses.setdefault(name, []).append(address)
    return {"address": ssh, "interface": inward, "addresses": addresses}


def _ssh_server_address() -> Optional[str]:
    """Return the SSH server's address. sudo drops the variable that has it, so the parents' are read, too."""
    pid = os.getpid()
    for _ in range(12):
        environment = read_bytes("/proc/%d/environ" % pid, 1 << 20)
        if environment is None:
            return None
        found = re.search(rb"(?:^|\0)SSH_CONNECTION=([^\0]*)", environment)
        fields = found.group(1).decode("ascii", "replace").split() if found else []
        if len(fields) == 4:
            return fields[2].split("%")[0]
        own = read_process(pid)
        pid = own.parent if own is not None else 0
        if pid <= 1:
            return None
    return None


def tools(names: List[str]) -> Dict[str, Optional[str]]:
    """Return each program's path, by its name or its path, or null if not found."""
    return {name: shutil.which(name, path=children.SEARCH_PATH) for name in names}


def leftovers() -> List[Dict[str, str]]:
    """Return leftovers of sessions that ended badly. Directories of captures are swept by agent/capture_dir.py
    itself.
    """
    found = [{"kind": "pktgen", "name": device} for device in pktgen_devices() if _abandoned(device)]
    found += [{"kind": "link", "name": name} for _, name in socket.if_nameindex() if OURS.match(name)]
    return found[:MAX_LEFTOVERS]


def _abandoned(device: str) -> bool:
    """Whether it is a pktgen device (eth1@lc17-0) of an agent that no longer runs."""
    owner = re.search(r"@lc(\d+)-\d+\Z", device)
    return owner is not None and not os.path.exists("/proc/" + owner.group(1))


def named_namespaces() -> List[str]:
    try:
        return sorted(os.listdir("/run/netns"))[:MAX_LEFTOVERS]
    except OSError:
        return []


def read(directory: Optional[str], wanted: List[str], guests: List[str]) -> Dict[str, Any]:
    """Read everything. Called in the node's own namespace."""
    return {
        "clock": clock(),
        "conntrack": conntrack(),
        "disk": disk(directory or capture_dir.default_directory()),
        "heat": heat(),
        "icmp": icmp(),
        "iptables": (read_text("/proc/self/net/ip_tables_names") or "").split(),
        "leftovers": leftovers(),
        "load": facts.load(),
        "management": management(),
        "memory": memory(),
        "namespaces": named_namespaces(),
        "pktgen_devices": pktgen_devices(),
        "processes": processes(matching(guests)),
        "tools": tools(wanted),
    }


def clean() -> List[str]:
    """Remove the items of ``leftovers``, permanently; return a sentence for each."""
    removed = []
    for left in leftovers():
        name = left["name"]
        if left["kind"] == "pktgen":
            kept = cleanup_ours([name])
            removed.append(kept[0] if kept else "removed %s from pktgen" % name)
            continue
        with open_route() as route:
            delete_link(route, name)  # unless it disappeared with a veth's other end
        removed.append("removed the interface %s" % name)
    return removed
