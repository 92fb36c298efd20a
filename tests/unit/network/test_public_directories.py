"""What other users put into a directory that anyone can write to costs a look little, and never holds an agent up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labconsole.network import public_directories
from support.requirements import missing

OURS = re.compile(r"labconsole-[0-9]+\Z")

LOOK_AT_A_MOUNT_THAT_NEVER_ANSWERS = """
import ctypes, os, re, sys

NEWNS, RECURSIVE, PRIVATE = 0x20000, 16384, 262144
libc = ctypes.CDLL(None)
if libc.unshare(NEWNS) or libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None):
    sys.exit("no mounts")
place = sys.argv[1]
os.makedirs(place + "/labconsole-1000")
try:
    served = os.open("/dev/fuse", os.O_RDWR)
except OSError:
    sys.exit("no mounts")
options = b"fd=%d,rootmode=40000,user_id=1000,group_id=1000,allow_other" % served
if libc.mount(b"served", (place + "/labconsole-1000").encode(), b"fuse", 0, options):
    sys.exit("no mounts")

from labconsole.agent import capture_dir, lease, lease_takeover
from labconsole.network import guest_disks
from labconsole.wire.codec import WireError

lease.PUBLIC = place
os.environ["XDG_RUNTIME_DIR"] = ""
lease.find_lease_directories = lambda: [place + "/labconsole-1000"]
assert lease.find_lease_paths() == []
try:
    lease._open()
except WireError as refusal:
    assert "is on a file system that a user's program serves" in str(refusal), refusal
try:
    lease_takeover._ask(place + "/labconsole-1000/lease-1.ask", 1000, b"", {}).send(None)
except WireError as refusal:
    assert "is on a file system that a user's program serves" in str(refusal), refusal
capture_dir._NAME = guest_disks._NAME = re.compile("labconsole-1000")
capture_dir.sweep(place)
guest_disks.sweep(place)
print("looked")
"""


def test_a_file_system_of_a_user_s_own_that_never_answers_is_not_looked_into(tmp_path: Path):
    """Its program may be one that was stopped: whatever touches a path on it then waits for ever."""
    argv = [sys.executable, "-c", LOOK_AT_A_MOUNT_THAT_NEVER_ANSWERS, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    if "no mounts" in done.stderr:
        missing("mounting a file system of a program's (root, and /dev/fuse)")
    assert (done.stdout, done.stderr) == ("looked\n", "")


def test_own_directories_alone_are_found_and_only_so_many_names_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "labconsole-1").mkdir()
    (tmp_path / "labconsole-2").mkdir()
    (tmp_path / "thesis").mkdir()
    owner = os.lstat

    def of_another(path: str) -> os.stat_result:
        found = list(owner(path))
        found[4] += path.endswith("2")
        return os.stat_result(found)

    monkeypatch.setattr(os, "lstat", of_another)
    assert list(public_directories.find_own_directories(str(tmp_path), OURS)) == [f"{tmp_path}/labconsole-1"]
    monkeypatch.setattr(public_directories, "MAX_NAMES", 2)
    for number in range(3, 30):
        (tmp_path / f"labconsole-{number}").mkdir()
    assert len(list(public_directories.find_names(str(tmp_path), OURS))) <= 2
