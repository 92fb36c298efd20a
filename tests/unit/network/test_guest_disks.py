"""Disks of guests as an agent makes them: bounded by what there is, and gone with all that was written to them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.network import change
from labconsole.network.guest_disks import GuestDisk, GuestDisks, sweep
from labconsole.wire.codec import WireError

NAME, OTHER = "labconsole-disks-0123abcd", "labconsole-disks-ffffffff"


class Node:
    """Keeps what it is promised."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def promise(self, kind: str, **entry: Any) -> None:
        self.entries.append({"kind": kind, **entry})


def made(place: Path, *, files: bool, mib: int = 1) -> Node:
    node: Any = Node()
    disks = [GuestDisk(guest=name, mib=mib) for name in ("g1", "g2")]
    GuestDisks(place=str(place), name=NAME, disks=disks, files=files).apply(node)
    return node


@pytest.mark.parametrize("files", [True, False])
def test_each_guest_has_one_and_nothing_is_left_of_them(tmp_path: Path, files: bool) -> None:
    node = made(tmp_path, files=files)
    top = tmp_path / NAME
    assert top.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in top.iterdir()) == ["g1", "g2"]
    if files:
        assert [each.stat().st_size for each in top.iterdir()] == [2**20] * 2
        assert all(each.stat().st_blocks * 512 >= 2**20 for each in top.iterdir()), "the room is theirs already"
    else:
        (top / "g1" / "below").mkdir()
        (top / "g1" / "below" / "zero").write_bytes(b"0" * 5000)
    (entry,) = node.entries
    change.undo(entry)
    assert list(tmp_path.iterdir()) == []
    change.undo(entry)


def test_what_a_guest_points_to_stays(tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "place"
    outside.mkdir()
    place.mkdir()
    (outside / "file").write_text("mine")
    node = made(place, files=False)
    (place / NAME / "g1" / "link").symlink_to(outside)
    change.undo(node.entries[0])
    assert (outside / "file").read_text() == "mine"
    assert list(place.iterdir()) == []


def test_more_than_there_is_room_for_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=300 * 256, f_frsize=4096))
    with pytest.raises(WireError, match="has 300 MiB left; 2 guests' disks need 60 MiB, and 256 MiB must") as caught:
        made(tmp_path, files=True, mib=30)
    assert caught.value.code == "no_space"
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_fills_up_meanwhile_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    node: Any = Node()
    with pytest.raises(WireError) as caught:
        GuestDisks(place=str(tmp_path), name=NAME, disks=[GuestDisk(guest="g1", mib=1)], files=True).apply(node)
    assert caught.value.code == "no_space"
    change.undo(node.entries[0])
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_nobodys_to_remove(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("a file of this name")
    node: Any = Node()
    with pytest.raises(WireError) as caught:
        GuestDisks(place=str(tmp_path), name=NAME, disks=[], files=False).apply(node)
    assert caught.value.code == "exists"
    assert node.entries == []
    with pytest.raises(WireError) as caught:
        made(tmp_path / "missing", files=False)
    assert caught.value.code == "no_directory"


def test_disks_of_a_dead_agent_are_removed_and_those_of_a_living_one_are_not(tmp_path: Path) -> None:
    node = made(tmp_path, files=True)
    (tmp_path / OTHER / "g1").mkdir(parents=True)
    (tmp_path / "labconsole-disks-notes").mkdir()
    sweep(str(tmp_path))
    assert sorted(each.name for each in tmp_path.iterdir()) == [NAME, "labconsole-disks-notes"]
    change.undo(node.entries[0])
    assert [each.name for each in tmp_path.iterdir()] == ["labconsole-disks-notes"]
