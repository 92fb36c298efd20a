"""Control groups of version 2 on a tree of files that stands for them: what is enabled, and what is left."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from labconsole.network import control_groups
from labconsole.network.control_groups import CONTROL, ControlGroups, Limits


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root whose groups have the memory controller, and not that of the CPU; with a group of somebody else's."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / CONTROL).write_text("memory\n")
    (tmp_path / "system.slice").mkdir()
    monkeypatch.setattr(control_groups, "ROOT", str(tmp_path))
    monkeypatch.setattr(control_groups, "SECOND_VERSION", str(tmp_path / "cgroup.controllers"))
    monkeypatch.setattr(control_groups, "_remove", lambda directory, deadline: shutil.rmtree(directory))
    return tmp_path


def applied() -> dict[str, Any]:
    """What is promised before two guests are held to limits."""
    promised: list[dict[str, Any]] = []

    class Node:
        def promise(self, kind: str, **entry: Any) -> None:
            promised.append({"kind": kind, **entry})

    node: Any = Node()
    limits = [Limits(group="g1", cpu_shares=512, memory_mib=64), Limits(group="g2", cpu_quota_ratio=0.5)]
    ControlGroups(name="labconsole-1", groups=limits).apply(node)
    (entry,) = promised
    return entry


def test_a_controller_that_groups_did_not_have_is_taken_from_them_again(root: Path) -> None:
    entry = applied()
    assert entry["enabled"] == ["cpu"]
    assert (root / "labconsole-1" / "g2" / "cpu.max").read_text() == "50000 100000"
    ControlGroups.undo(entry)
    assert (root / CONTROL).read_text() == "-cpu"  # the last word to the kernel
    assert not (root / "labconsole-1").exists()


def test_a_controller_stays_where_a_group_came_since_that_may_have_limits_by_it(root: Path) -> None:
    entry = applied()
    (root / "docker").mkdir()
    ControlGroups.undo(entry)
    assert (root / CONTROL).read_text() == "+cpu"


def test_nothing_is_taken_that_was_there_before(root: Path) -> None:
    (root / CONTROL).write_text("cpu memory\n")
    entry = applied()
    assert (entry["enabled"], entry["beside"]) == ([], [])
    ControlGroups.undo(entry)
    assert (root / CONTROL).read_text() in ("+cpu", "+memory")  # said again, and never the contrary


def test_groups_of_a_dead_agent_are_removed_and_those_of_a_living_one_are_not(root: Path) -> None:
    """LXC makes groups wherever its own are, so those of one name are several."""
    dead, living, guests, strange = "labconsole-0123abcd", "labconsole-ffffffff", "lxc.payload.g1", "labconsole-notes"
    for group in (dead, living, strange):
        (root / "system.slice" / group / guests).mkdir(parents=True)
    (root / dead).mkdir()
    (root / strange).mkdir()
    descriptor = control_groups.hold(str(root / living))
    control_groups.sweep()
    assert sorted(each.name for each in root.glob("labconsole-*")) == [living, strange]
    assert sorted(each.name for each in (root / "system.slice").iterdir()) == [living, strange]
    assert (root / "system.slice" / living / guests).is_dir(), "that no process is in it yet does not matter"
    os.close(descriptor)
    control_groups.sweep()
    assert [each.name for each in (*root.glob("labconsole-*"), *(root / "system.slice").iterdir())] == [strange] * 2


def test_a_group_that_the_kernel_does_not_remove_is_left_and_still_told_from_one_in_use(root: Path) -> None:
    (root / "system.slice" / "labconsole-0123abcd" / "lxc.payload.g1").mkdir(parents=True)
    (root / "labconsole-0123abcd").mkdir()
    (busy := root / "system.slice" / "labconsole-0123abcd" / "lxc.payload.g1" / "process").write_text("")
    control_groups.sweep()
    assert busy.exists() and (root / "labconsole-0123abcd").is_dir()
    busy.unlink()
    control_groups.sweep()
    assert not list(root.glob("**/labconsole-*"))


def test_one_that_is_swept_between_making_and_locking_it_is_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep was faster, or has just locked it and removes it while its maker waits for the lock."""
    path, makes, made = root / "labconsole-0123abcd", os.mkdir, []

    def taken_away(descriptor: int) -> None:
        path.rmdir()
        os.close(descriptor)

    def mkdir(*arguments: Any) -> None:
        makes(*arguments)
        made.append(arguments)
        if len(made) < 3:
            descriptor = os.open(path, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            threading.Timer(0.2, taken_away, [descriptor]).start() if len(made) == 2 else taken_away(descriptor)

    monkeypatch.setattr(os, "mkdir", mkdir)
    descriptor = control_groups.hold(str(path))
    assert len(made) == 3
    control_groups.sweep()
    assert path.is_dir()
    os.close(descriptor)


def test_a_group_is_held_from_its_making_until_it_is_undone(root: Path) -> None:
    entry = applied()
    descriptor = os.open(root / "labconsole-1", os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    ControlGroups.undo(entry)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
