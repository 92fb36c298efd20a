"""Clocks of the node: how far one is ahead of another, and the error bound of the wall clock."""

from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import time
from contextlib import closing
from typing import Callable, Dict, List, Tuple

from labconsole.agent.processes import children
from labconsole.agent.reading.ethtool import Ethtool
from labconsole.wire.clocks import MOST_ERROR_NS, KeptClock
from labconsole.wire.codec import WireError

# -- clock offset ------------------------------------------------------------------------------------------------------
# How far one clock of a node is ahead of another, and how far its wall clock was set meanwhile.

READINGS = 20


def closest(outer: Callable[[], int], inner: Callable[[], int]) -> Tuple[int, int]:
    """Return the inner clock's lead over the outer one and its uncertainty, from the closest of some readings, each
    between two of the outer clock.
    """
    readings: List[Tuple[int, int]] = []
    for _ in range(READINGS):
        before_ns = outer()
        at_ns = inner()
        after_ns = outer()
        readings.append((after_ns - before_ns, at_ns - (before_ns + after_ns) // 2))
    width_ns, ahead_ns = min(readings)
    return ahead_ns, (width_ns + 1) // 2


class ClockOffset:
    """The lead of the wall clock over the monotonic one."""

    def __init__(self) -> None:
        self.ns = self._read()

    def _read(self) -> int:
        return closest(time.monotonic_ns, time.time_ns)[0]

    def moved_ns(self) -> int:
        """Return how far it was set since."""
        return self._read() - self.ns


# -- nic clock ---------------------------------------------------------------------------------------------------------
# A NIC's own clock: its lead over the system's.


def offset_ns(interface: str) -> Tuple[int, int]:
    """Return the NIC clock's lead over the wall clock, and its uncertainty. Raises WireError."""
    with closing(Ethtool()) as tool:
        stamps = tool.time_stamps(interface)
    if stamps is None or stamps["clock"] is None:
        raise WireError("not_told", "%s: this port's NIC has no clock of its own" % interface)
    path = "/dev/ptp%d" % stamps["clock"]
    try:
        device = os.open(path, os.O_RDONLY)
    except OSError as exc:
        raise WireError("not_told", "%s: %s" % (path, exc.strerror)) from None
    try:
        number = ~device << 3 | 3  # FD_TO_CLOCKID
        return closest(time.time_ns, lambda: time.clock_gettime_ns(number))
    except OSError as exc:
        raise WireError("not_told", "%s: %s" % (path, exc.strerror)) from None
    finally:
        os.close(device)


# -- clock keeper ------------------------------------------------------------------------------------------------------
# The error bound of the node's wall clock, from the program that keeps it: chronyd, or linuxptp's ptp4l.
#
# Both report more than an offset. chronyd's |system time| + root dispersion + root delay / 2 bounds the error
# (chronyc(1)). ptp4l found its offset over a path whose delay it reports: no asymmetry makes it wrong by more than
# that. It is valid for the clock that ptp4l steers: with stamps of the NIC that is the NIC's, and the system clock's
# distance from it is measured here. A clock without a bound is refused with a message.

TIMEOUT_S = 5.0
MOST_BYTES = 1 << 16
_CHRONY = ["chronyc", "-c", "-n", "tracking"]
_PTP4L = ["pmc", "-u", "-b", "0"] + [
    "GET " + name for name in ("CURRENT_DATA_SET", "TIME_STATUS_NP", "TIME_PROPERTIES_DATA_SET", "PORT_PROPERTIES_NP")
]
_ADDRESS = re.compile(r"(?=.*[.:])[0-9A-Fa-f.:]+\Z")
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,12})?\Z")


def _refused(what: str) -> WireError:
    return WireError("not_told", what)


def _build_kept_clock(error_ns: float, reference: str, is_reference: bool) -> KeptClock:
    if error_ns > MOST_ERROR_NS:
        raise _refused("the clock may be off by %d s" % (error_ns / 1e9))
    return KeptClock(error_ns=math.ceil(error_ns), reference=reference, is_reference=is_reference)


def _number(text: str, what: str) -> float:
    if not _NUMBER.match(text):
        raise _refused("%s: %s is not a number" % (what, text[:40] or "nothing"))
    return float(text)


def chrony(said: str) -> KeptClock:
    """Parse the output of ``chronyc -c tracking``. Raises WireError with the reason if it gives no bound."""
    fields = said.strip().split(",")
    if len(fields) != 14:
        raise _refused("chronyc: %s" % (said.strip()[:200] or "no answer"))
    if fields[13] == "Not synchronised":
        raise _refused("chronyd is not synchronised")
    if not _ADDRESS.match(fields[1]):  # 7F7F0101: its own clock (local); PHC0, GPS: a device
        own = (fields[1] or fields[0])[:40]
        raise _refused("chronyd follows no server but %s, which another node need not have" % own)
    offset_s, delay_s, spread_s = (_number(fields[place], "chronyc") for place in (4, 10, 11))
    error_s = abs(offset_s) + abs(delay_s) / 2 + abs(spread_s)
    return _build_kept_clock(error_s * 1e9, "%s %s" % (fields[0][:16], fields[1][:80]), False)


def sections(said: str) -> List[Tuple[str, Dict[str, str]]]:
    """Parse pmc's output: each answer's name and its fields."""
    found: List[Tuple[str, Dict[str, str]]] = []
    for line in said.splitlines():
        head = re.search(r" RESPONSE MANAGE?MENT (\w+)", line)  # pmc misspelled it up to 1.4
        fields = line.split()
        if head:
            found.append((head.group(1), {}))
        elif found and len(fields) == 2:
            found[-1][1][fields[0]] = fields[1]
    return found


def ptp4l(said: str) -> KeptClock:
    """Parse pmc's output for the running ptp4l. Raises WireError with the reason if it gives no bound."""
    answers = sections(said)
    ports = [fields for name, fields in answers if name == "PORT_PROPERTIES_NP"]
    one = dict(answers)
    clock, status, scale = (
        one.get(name, {}) for name in ("CURRENT_DATA_SET", "TIME_STATUS_NP", "TIME_PROPERTIES_DATA_SET")
    )
    if not clock or not status or not ports:
        raise _refused("ptp4l does not answer pmc, or does not answer every query")
    steps = _number(clock.get("stepsRemoved", ""), "stepsRemoved")
    if steps > 1:
        raise _refused("ptp4l is %d steps from its grandmaster, and knows the error of the last one only" % steps)
    away_ns, path_ns = (_number(clock.get(name, ""), name) for name in ("offsetFromMaster", "meanPathDelay"))
    error_ns = abs(away_ns) + abs(path_ns)
    leads = not steps and status.get("gmPresent") == "false"  # without a master, too: then no port is one
    wanted, what = (("MASTER", "GRAND_MASTER"), "is a master") if leads else (("SLAVE",), "follows a master")
    port = next((port for port in ports if port.get("portState") in wanted), None)
    if port is None:
        states = ", ".join(port.get("portState", "?")[:20] for port in ports)
        raise _refused("no port of ptp4l %s: %s" % (what, states))
    if not leads and path_ns <= 0:
        raise _refused("ptp4l reports no path delay (meanPathDelay %g), as with delay_mechanism P2P" % path_ns)
    if port.get("timestamping") != "SOFTWARE":
        ahead_s = scale.get("currentUtcOffset", "") if scale.get("ptpTimescale") == "1" else "0"
        nic_ns, wrong_ns = offset_ns(port.get("interface", ""))
        error_ns += abs(nic_ns - round(_number(ahead_s, "currentUtcOffset") * 1e9)) + wrong_ns
    return _build_kept_clock(error_ns, status.get("gmIdentity", "")[:80], leads)


async def read(keeper: str) -> KeptClock:
    argv, parse = (_CHRONY, chrony) if keeper == "chrony" else (_PTP4L, ptp4l)
    path = shutil.which(argv[0], path=children.SEARCH_PATH)
    if path is None:
        raise _refused("%s is not installed on this node" % argv[0])
    process = await children.spawn([path, *argv[1:]])
    try:
        out, err = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    except asyncio.TimeoutError:
        children.kill_group(process)
        await process.exited()
        raise _refused("%s did not answer within %g s" % (argv[0], TIMEOUT_S)) from None
    if process.returncode:
        raise _refused("%s: %s" % (argv[0], (out + err)[:300].decode("utf-8", "replace").strip()))
    return parse(out[:MOST_BYTES].decode("utf-8", "replace"))
