"""What `labconsole check` asks the UUT for: each platform's own programs, by its driver and its options."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labconsole.engine.check import tools
from labconsole.engine.check.context import CheckContext
from labconsole.platforms.loading import build_driver
from labconsole.wire.survey import Survey, TakeSurvey
from support.asking import partly
from support.fake_session import make_inventory

COMMAND = {
    "list": {"argv": ["qm", "list"], "regex": "(?P<guest>x) (?P<state>x)"},
    "state": {"argv": ["qm", "status", "{guest}"], "regex": "(?P<state>x)"},
    "nics_of": {"argv": ["/usr/bin/pvesh", "get"], "regex": "(?P<mac>x)"},
    "start": ["qm", "start"],
    "kill": ["qm", "stop"],
    "version": ["pveversion"],
}


def findings(platform: dict[str, Any], there: tuple[str, ...] = ()) -> Any:
    """The finding on a UUT with these programs, and the programs that it was asked for."""
    asked: list[str] = []

    async def ask(request: TakeSurvey, *, timeout_s: float) -> Survey:
        assert request.guests == ["xl"]
        asked.extend(request.tools)
        return partly(Survey, {"tools": {name: f"/usr/sbin/{name}" if name in there else None for name in asked}})

    async def check() -> Any:
        link = SimpleNamespace(ask=ask)
        inventory = make_inventory(platforms={"p": platform})
        session = SimpleNamespace(
            inventory=inventory, links={"uut": link}, driver_for=build_driver, guest_processes=lambda: ("xl",)
        )
        return await tools.platform(CheckContext(cast(Any, session), None, fix=False), "uut")

    return asyncio.run(check()), asked


@pytest.mark.parametrize(
    ("platform", "needed"),
    [
        ({"driver": "xl", "guest": "fw"}, ["xl"]),
        ({"driver": "esxi", "guest": "fw"}, ["vim-cmd", "esxcli"]),
        ({"driver": "esxi", "guest": "fw", "ssh": "root@esxi1"}, ["ssh"]),
        ({"driver": "openvz", "guest": 101}, ["vzctl", "vzlist"]),
        ({"driver": "openvz", "guest": 101, "tool": "prlctl"}, ["prlctl"]),
        ({"driver": "libvirt", "guest": "fw"}, ["virsh"]),
        ({"driver": "virtualbox", "guest": "fw"}, ["VBoxManage"]),
        ({"driver": "lxc", "guest": "fw"}, ["lxc-start"]),
        ({"driver": "vserver", "guest": "fw"}, ["vserver", "vserver-stat", "vkill"]),
        ({"driver": "qemu", "kernel": "/k", "initrd": "/i"}, ["qemu-system-x86_64"]),
        ({"driver": "qemu", "kernel": "/k", "initrd": "/i", "program": "qemu-kvm"}, ["qemu-kvm"]),
        ({"driver": "uml", "initrd": "/i"}, ["linux.uml"]),
        ({"driver": "uml", "initrd": "/i", "kernel": "/opt/linux.uml"}, ["/opt/linux.uml"]),
        ({"driver": "command", "guest": 101, **COMMAND}, ["qm", "/usr/bin/pvesh", "pveversion"]),
    ],
)
def test_each_platform_names_the_programs_that_the_uut_lacks(platform: dict[str, Any], needed: list[str]) -> None:
    missing, asked = findings(platform)
    assert asked == ["nft", *needed]
    assert missing.status == "fail"
    assert missing.evidence == ", ".join(f"no {tool} (for p)" for tool in needed)
    assert missing.values["missing"] == needed
    there, _ = findings(platform, tuple(needed))
    assert (there.status, there.evidence) == ("pass", ", ".join(f"{tool} /usr/sbin/{tool}" for tool in needed))


@pytest.mark.parametrize("driver", ["raw", "container"])
def test_what_the_kernel_does_itself_needs_no_program(driver: str) -> None:
    found, asked = findings({"driver": driver})
    assert (found.status, found.evidence, asked) == ("pass", "p: only the kernel is needed", [])
