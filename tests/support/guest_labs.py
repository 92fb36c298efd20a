"""What the tests of guests on a lab share: a lab that offers them, runs on it, a run that something befalls."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, labconsole, processes, records, wait_until
from support.requirements import missing, require


@contextmanager
def lab_with(platforms: Sequence[str], *, sources: int = 2) -> Iterator[lab.LabStatus]:
    """A lab whose UUT offers these. Where LXC may start no container, its platform is left out by a skip."""
    require("lxc-start", "busybox", "stress")
    if os.geteuid() != 0:
        pytest.skip("LXC needs root here")
    name = f"guests{os.getpid()}"
    try:
        yield lab.up(LabSpec(name=name, sources=sources, platforms=tuple(platforms)))
    except LabSetupError as exc:
        missing(str(exc))
    finally:
        lab.down(name)


def taken(status: lab.LabStatus, store: Path, platform: str, *words: str) -> dict[str, Any]:
    """One run, which was not void."""
    told = ("run", "--platform", platform, "--duration", "1", *words, "--json")
    (record,) = records(labconsole(*told, hosts=status.hosts_file, store=store))
    assert record["verdict"]["status"] != "invalid", record["verdict"]
    return record


def refused(hosts: Path, store: Path, platform: str, *words: str) -> str:
    """What a run is refused with, which is one line."""
    done = labconsole("run", "--platform", platform, "--duration", "1", *words, hosts=hosts, store=store)
    assert done.returncode in (1, 2, 3), done.stdout
    said = [line for line in done.stderr.splitlines() if line.startswith("labconsole: ")]
    assert len(said) == 1, done.stderr
    return said[0]


def begun(status: lab.LabStatus, store: Path, platform: str) -> subprocess.Popen[str]:
    """A run of some seconds that has begun to forward."""
    name = status.spec.name
    process = subprocess.Popen(
        [
            *COMMAND,
            "run",
            "--platform",
            platform,
            "--target",
            "1Mbit",
            "--duration",
            "5",
            "--json",
            "--hosts",
            str(status.hosts_file),
            "--store",
            str(store),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def forwarded() -> int:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return int(lab.execute(name, "snk1", ["cat", "/sys/class/net/eth1/statistics/rx_packets"]).stdout)

    base = forwarded()
    wait_until(
        lambda: forwarded() > base + 1000 and "tcpdump" in processes(name, "snk1"), timeout_s=100, what="it never sent"
    )
    return process


def on_uut(status: lab.LabStatus, line: str) -> str:
    """Run one line of a shell on the UUT, from outside SSH."""
    done = lab.execute(status.spec.name, "uut", ["sh", "-c", line])
    assert done.status == 0, done.stderr
    return done.stdout
