"""Control groups of version 2 on a tree of files that stands for them: what is enabled, and what is left."""

from __future__ import annotations

import shutil
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
