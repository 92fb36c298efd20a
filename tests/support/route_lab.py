"""Guests that forward on a real lab: what can be done inside one of them."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

from labconsole.lab import commands as lab


def inside_router(name: str, number: int, *argv: str) -> str:
    """Run a program in the network namespace of a router, from 1, of a lab: that which has its inbound NIC."""
    process = _inside(name, "eth1", f"02:6c:77:01:00:{number - 1:02x}", f"lcgi{number}")
    if process is None:
        raise AssertionError(f"router {number} is not there, in the lab {name}")
    done = subprocess.run(["nsenter", f"--net={process}/ns/net", *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def processes_of_guest(name: str, number: int, program: str = "") -> list[int]:
    """Those in the network namespace of a guest, from 1, of this lab and of no other; ``program``: of this name only."""
    wanted = None
    while wanted is None:
        process = _inside(name, "eth0", f"02:6c:77:00:00:{number - 1:02x}", f"lcg{number}")
        if process is None:
            return []
        with suppress(OSError):  # gone meanwhile, and others may be there
            wanted = os.stat(process / "ns/net").st_ino
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            inside = os.stat(each / "ns/net").st_ino == wanted
            if inside and program in ("", (each / "comm").read_text().strip()):
                found.append(int(each.name))
        except OSError:
            continue
    return found


def _inside(name: str, interface: str, mac: str, host_interface: str) -> Path | None:
    """A process in the namespace that has this NIC, whose other end is this interface of the lab's UUT; None: none."""
    links = lab.execute(name, "uut", ["ip", "-o", "link"]).stdout
    seen = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            namespace = os.stat(process / "ns/net").st_ino
        except OSError:
            continue
        if namespace in seen:
            continue
        enter = ["nsenter", f"--net={process}/ns/net"]
        own = subprocess.run([*enter, "ip", "-o", "link"], capture_output=True, text=True, check=False).stdout
        if own:  # the process was still there
            seen.add(namespace)
        other_end = re.search(rf"{interface}@if(\d+):.*{mac}", own)
        if other_end is not None and f"{other_end[1]}: {host_interface}@" in links:
            return process
    return None
