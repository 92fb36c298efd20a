"""Guests that forward on a real lab: what can be done inside one of them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from labconsole.lab import commands as lab


def inside_router(name: str, number: int, *argv: str) -> str:
    """Run a program in the network namespace of a router, from 1, of a lab: that which has its inbound NIC."""
    links = lab.execute(name, "uut", ["ip", "-o", "link"]).stdout
    mac, seen = f"02:6c:77:01:00:{number - 1:02x}", set()
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
        other_end = re.search(rf"eth1@if(\d+):.*{mac}", own)
        if other_end is None or f"{other_end[1]}: lcgi{number}@" not in links:
            continue
        done = subprocess.run([*enter, *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    raise AssertionError(f"router {number} is not there, in the lab {name}")
