"""The programs of jobs, given to the guests of a lab that is told so, run in each kind of guest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.guests import guest_image
from labconsole.lab.guests.guest_image import JOB_TOOLS
from labconsole.lab.spec import LabSpec
from support.crew_lab import Nodes, on_lab
from support.requirements import missing, require

pytestmark = [pytest.mark.alone, pytest.mark.platforms]

SAID = {
    "pi 30": "3.14159265358979323846264338327",
    "mbw -q -n 1 -t1 4": "Method: DUMB",
    "stress-ng --temp-path /tmp --cache-level 1 --matrix 1 --matrix-size 64 --matrix-ops 2": "successful run completed",
    "bonnie++ -d /tmp -s 0 -n 0 -u 0:0": "Version:",
    "iperf -v": "iperf version 2",
    "echo 'scale=9; sqrt(2)' | busybox bc": "1.414213562",
    "echo 6 | busybox sha256sum": "06e9d52c1720fca412803e3b07c4b228ff113e303f4c7ab94665319d832bbfb7",
}


@pytest.fixture(scope="module")
def guests(lab_home: Any) -> Iterator[lab.LabStatus]:
    require("lxc-start", "busybox", "stress", guest_image.UML_PROGRAM, *JOB_TOOLS)
    if os.geteuid() != 0:
        pytest.skip("LXC needs root here")
    name = f"programs{os.getpid()}"
    platforms = ("container", "lxc", "uml", "qemu-virtio")
    try:
        yield lab.up(LabSpec(name=name, sources=1, link_speed_bps=None, platforms=platforms, jobs=True))
    except LabSetupError as exc:
        missing(str(exc))
    finally:
        lab.down(name)


@pytest.mark.parametrize("platform", ["container", "lxc", "uml", "qemu-virtio"])
def test_every_program_of_a_job_runs_in_each_kind_of_guest(guests, platform: str) -> None:
    async def work(there: Nodes) -> None:
        driver = there.driver(platform)
        crew = await driver.prepare_crew(there.uut, there.wanted(1))
        for line, said in SAID.items():
            # Not every one ends with 0 after it has told its version.
            printed = await crew.members[0].ask(there.uut, f"({line}) 2>&1 || :")
            assert said in printed
        await driver.restore(there.uut)

    on_lab(guests, work)
