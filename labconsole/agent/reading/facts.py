"""Facts about this machine, for the record of every run. An unknown fact is None, never a guess."""

from __future__ import annotations

import asyncio
import glob
import os
import platform
import re
import shutil
import struct
from typing import Any, Dict, List, Optional, Tuple

from labconsole.agent.processes import children
from labconsole.agent.reading.proc_files import read_bytes, read_text

VERSION_TIMEOUT_S = 2.0
UTMP_RECORD = struct.Struct("=hxxi32s4s32s256shhiii4i20x")
UTMP_USER_PROCESS = 7
CAPABILITIES = {
    5: "kill",
    10: "net_bind_service",
    12: "net_admin",
    13: "net_raw",
    16: "sys_module",
    19: "sys_ptrace",
    21: "sys_admin",
    23: "sys_nice",
    24: "sys_resource",
}


def _first_match(pattern: str, text: Optional[str]) -> Optional[str]:
    match = re.search(pattern, text or "", re.MULTILINE)
    return match.group(1).strip() if match else None


def operating_system() -> Optional[str]:
    name = _first_match(r"^PRETTY_NAME=(.*)$", read_text("/etc/os-release"))
    return name.strip("\"'") if name else None


def memory_bytes() -> Optional[int]:
    kib = _first_match(r"^MemTotal:\s+(\d{1,15}) kB", read_text("/proc/meminfo"))
    return int(kib) * 1024 if kib else None


def load() -> Optional[List[float]]:
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return None


def governors() -> Optional[Dict[str, int]]:
    """Return frequency governors and the number of CPUs of each, or None if the kernel shows none (most guests)."""
    counted: Dict[str, int] = {}
    for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"):
        name = read_text(path)
        if name:
            counted[name] = counted.get(name, 0) + 1
    return counted or None


def parse_utmp(data: bytes) -> List[Dict[str, Any]]:
    """Parse the logins in a utmp file's bytes."""
    found = []
    for at in range(0, len(data) - UTMP_RECORD.size + 1, UTMP_RECORD.size):
        kind, _, line, _, user, host, _, _, _, since_s, _, *_ = UTMP_RECORD.unpack_from(data, at)
        if kind == UTMP_USER_PROCESS:
            values = [word.split(b"\0")[0].decode("utf-8", "replace") for word in (user, line, host)]
            found.append({"user": values[0], "line": values[1], "host": values[2] or None, "since_wall_s": since_s})
    return found


def logins() -> Optional[List[Dict[str, Any]]]:
    data = read_bytes("/run/utmp", UTMP_RECORD.size * 1000)
    return None if data is None else parse_utmp(data)


def capabilities() -> Optional[List[str]]:
    mask = _first_match(r"^CapEff:\s*([0-9a-f]+)", read_text("/proc/self/status"))
    if mask is None:
        return None
    return [name for bit, name in sorted(CAPABILITIES.items()) if int(mask, 16) >> bit & 1]


def pktgen() -> Tuple[Optional[str], bool]:
    """Return (version if loaded, whether it is or could be loaded)."""
    control = read_text("/proc/net/pktgen/pgctrl")
    if control or os.path.isdir("/proc/net/pktgen"):
        return _first_match(r"[Vv]er(?:sion)?:?\s*([\w.]+)", control) or "unknown", True
    release = os.uname().release
    builtin = "net/core/pktgen.ko" in (read_text("/lib/modules/%s/modules.builtin" % release) or "")
    return None, builtin or bool(glob.glob("/lib/modules/%s/kernel/net/core/pktgen.ko*" % release))


async def tool_version(name: str, *arguments: str) -> Optional[str]:
    """Return the first line of a tool's version output, or None if it is absent or slow."""
    path = shutil.which(name, path=children.SEARCH_PATH)
    if path is None:
        return None
    process = await children.spawn([path, *arguments])
    try:
        out, err = await asyncio.wait_for(process.communicate(), VERSION_TIMEOUT_S)
    except asyncio.TimeoutError:
        children.kill_group(process)
        await process.exited()
        return "unknown"
    lines = (out + b"\n" + err).decode("utf-8", "replace").strip().splitlines()
    return lines[0].strip()[:200] if lines else "unknown"


async def tcpdump_version() -> Optional[str]:
    line = await tool_version("tcpdump", "--version")
    return _first_match(r"version (\S+)", line) or line if line else None


async def read() -> Dict[str, Any]:
    uname = os.uname()
    cpuinfo = read_text("/proc/cpuinfo")
    version, loadable = pktgen()
    uptime = _first_match(r"\A(\d{1,12}(?:\.\d{1,9})?)\s", read_text("/proc/uptime"))
    return {
        "hostname": uname.nodename,
        "kernel": uname.release,
        "kernel_version": uname.version,
        "machine": uname.machine,
        "os": operating_system(),
        "product": read_text("/sys/class/dmi/id/product_name"),
        "vendor": read_text("/sys/class/dmi/id/sys_vendor"),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_model": _first_match(r"^(?:model name|Model|cpu model)\s*:\s*(.*)$", cpuinfo),
        "hypervisor_flag": None if cpuinfo is None else bool(re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.M)),
        "hypervisor_type": read_text("/sys/hypervisor/type"),
        "memory_bytes": memory_bytes(),
        "python": platform.python_version(),
        "tcpdump": await tcpdump_version(),
        "pktgen": version,
        "pktgen_loadable": loadable,
        "load": load(),
        "governors": governors(),
        "logins": logins(),
        "capabilities": capabilities(),
        "euid": os.geteuid(),
        "clocksource": read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "uptime_s": float(uptime) if uptime else None,
        # One kernel, one clock: equal ids mean that two nodes share it.
        "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
        "network_namespace": os.stat("/proc/self/ns/net").st_ino,
    }
