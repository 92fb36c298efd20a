"""A throttle of the kernel's on what a guest reads from a device: how long so many bytes take is known beforehand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labconsole.lab import commands as lab
from support.live_lab import wait_until

BYTES_PER_S = 10_000_000
BLKIO = Path("/sys/fs/cgroup/blkio")
LIMIT = BLKIO / "blkio.throttle.read_bps_device"
GROUP = "labconsole-test-throttle"

# What is a guest's, in the node: a container's first process, whose group LXC made; all of a machine's.
THROTTLED = f"""\
for process in $(pgrep -f "$0"); do
  group=$(sed -n 's/^[0-9]*:blkio://p' /proc/$process/cgroup)
  if test "$1" = lxc; then echo "$2" >{BLKIO}$group/{LIMIT.name} || exit
  else echo $process >{BLKIO}/{GROUP}/cgroup.procs || exit; fi
  found=yes
done
test "$found"
"""
SHOWN = {"lxc": "^/bin/sh -c for link", "uml": "[u]mid=g1", "qemu-virtio": "^qemu-system"}


def limit_of(place: Path) -> str:
    """As the kernel takes it, for the device on which something is."""
    device = place.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)} {BYTES_PER_S}"


@contextmanager
def throttled(limit: str) -> Iterator[None]:
    """A control group for what has none of its own."""
    (BLKIO / GROUP).mkdir(exist_ok=True)
    try:
        (BLKIO / GROUP / LIMIT.name).write_text(limit)
        yield
    finally:
        wait_until(lambda: not (BLKIO / GROUP / "cgroup.procs").read_text(), timeout_s=10, what="the guest's end")
        (BLKIO / GROUP).rmdir()


@contextmanager
def node_throttled(name: str, node: str, limit: str) -> Iterator[None]:
    """All that a node of a lab starts meanwhile reads no faster, from its first byte on."""
    with throttled(limit):
        _move(name, node, f"{BLKIO}/{GROUP}")
        try:
            yield
        finally:
            _move(name, node, str(BLKIO))


def _move(name: str, node: str, group: str) -> None:
    """The node's own process, whose child this shell is; what it starts from now on is in its group."""
    moved = lab.execute(name, node, ["sh", "-c", f"echo $PPID >{group}/cgroup.procs"])
    assert moved.status == 0, moved.stderr


def hold_back(name: str, platform: str, limit: str) -> None:
    """Wait for the guest of a lab, and throttle it."""
    shell = ["sh", "-c", THROTTLED, SHOWN[platform], platform, limit]
    wait_until(lambda: lab.execute(name, "uut", shell).status == 0, timeout_s=60, what="the guest")
