"""The lines of a dry run do in a shell what they say: run as they are, they set the platform up."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from labconsole.engine.trial.platform import set_up_commands, set_ups
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import load_inventory
from labconsole.platforms.loading import build_driver
from support.requirements import require, require_namespaces

INVENTORY = load_inventory(Path(__file__).parents[2] / "hosts.yaml")
MACHINE = """
set -e
mount -t tmpfs run /run
mount -t sysfs sys /sys
for n in 1 2 3 5 6 7; do ip link add eth$n type veth peer name p$n; ip link set p$n up; done
"""
LOOK = """
ip -o link; ip route; for name in $(ip netns | cut -d' ' -f1); do echo in $name; ip -n $name route; ip -n $name neigh; done
"""


def request(platform: str, background: str = "none", sources: int = 2) -> DesignPoint:
    return DesignPoint(
        platform=platform,
        frame=FrameSize(64),
        sources=sources,
        target=10**6,
        duration_s=1,
        background=background,
        generator="auto",
        observe="quiet",
    )


@pytest.mark.parametrize(
    ("platform", "background", "seen"),
    [
        ("raw", "none", ["198.19.2.1 dev eth6 scope link"]),
        ("raw-bridge", "none", [r"eth6@p6: <[^>]*\bUP\b.*master lcb2"]),
        ("container", "none", ["in guest\n198.18.1.1 dev eth0", "lladdr 02:00:00:00:00:02 PERMANENT", "master lcbo2"]),
        ("container", "idle", ["in second\n198.18.3.1 dev eth0", "198.19.3.1 dev eth1 lladdr 02:00:00:00:00:03"]),
    ],
)
def test_the_lines_set_the_platform_up(platform: str, background: str, seen: list[str]) -> None:
    require("unshare", "ip")
    require_namespaces()
    lines = "\n".join(set_up_commands(request(platform, background), INVENTORY, build_driver))
    for number in (1, 2, 3):
        lines = lines.replace(f"mac-of-snk{number}/eth1", f"02:00:00:00:00:0{number}")
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(
        ["unshare", *user, "--net", "--mount", "sh", "-c", MACHINE + lines + LOOK],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    for words in seen:
        assert re.search(words, done.stdout), (words, done.stdout)


def test_each_way_of_setting_a_platform_up_is_told_once_with_all_its_streams() -> None:
    asked = [request("raw", sources=1), request("raw", sources=3), request("raw", "idle"), request("raw", "light")]
    told = [(found.background != "none", found.sources) for found in set_ups(asked)]
    assert told == [(False, 3), (True, 2)]
