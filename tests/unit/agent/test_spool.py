"""Directories of dead captures are swept; those of living ones, of others and of another make are not."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from labconsole.agent import capture_dir
from labconsole.agent.keeper import UndoJournal
from labconsole.wire.codec import WireError


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> UndoJournal:
    monkeypatch.setattr(capture_dir.CaptureFile, "swept", set())
    _, writing = os.pipe()
    return UndoJournal(writing)


def left(directory: Path, name: str, *files: str) -> Path:
    made = directory / name
    made.mkdir()
    for file in files:
        (made / file).touch()
    return made


def test_what_dead_agents_left_is_swept_before_a_capture_and_the_living_one_s_is_not(
    tmp_path: Path, journal: UndoJournal
):
    empty = left(tmp_path, "labconsole-0123456789abcdef")
    full = left(tmp_path, "labconsole-0123456789abcde0", "capture.pcap")
    living = capture_dir.CaptureFile(str(tmp_path), journal)
    assert not empty.exists() and not full.exists()
    capture_dir.sweep(str(tmp_path))
    assert Path(living.directory).exists()
    living.close()
    assert list(tmp_path.iterdir()) == []


def test_nobody_else_can_open_a_capture_while_it_has_a_name(tmp_path: Path, journal: UndoJournal):
    before = os.umask(0)
    try:
        capture = capture_dir.CaptureFile(str(tmp_path), journal)
    finally:
        os.umask(before)
    assert Path(capture.directory).stat().st_mode & 0o777 == 0o700
    assert os.fstat(capture.descriptor).st_mode & 0o777 == 0o600
    capture.unname()
    assert not Path(capture.directory).exists()
    os.close(capture.descriptor)


def test_what_is_not_of_our_making_stays(tmp_path: Path, journal: UndoJournal):
    strange = left(tmp_path, "labconsole-0123456789abcdef", "thesis.tex")
    named = left(tmp_path, "labconsole-backup")
    target = left(tmp_path, "elsewhere", "capture.pcap")
    link = tmp_path / "labconsole-0123456789abcde1"
    link.symlink_to(target)
    (tmp_path / "labconsole-0123456789abcde2").touch()
    before = sorted(tmp_path.rglob("*"))
    capture_dir.sweep(str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
    assert strange.exists() and named.exists() and (target / "capture.pcap").exists()


def test_another_user_s_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = left(tmp_path, "labconsole-0123456789abcdef")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    capture_dir.sweep(str(tmp_path))
    assert made.exists()


def test_a_directory_that_is_swept_while_it_is_made_is_made_again(
    tmp_path: Path, journal: UndoJournal, monkeypatch: pytest.MonkeyPatch
):
    made: list[str] = []
    mkdir = os.mkdir

    def swept_once(path: str, mode: int = 0o777) -> None:
        mkdir(path, mode)
        made.append(path)
        if len(made) == 1:
            capture_dir.sweep(str(tmp_path))

    monkeypatch.setattr(os, "mkdir", swept_once)
    kept = capture_dir.CaptureFile(str(tmp_path), journal)
    assert len(made) == 2 and kept.directory == made[1]
    kept.unname()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_said(tmp_path: Path, journal: UndoJournal):
    with pytest.raises(WireError, match="cannot write captures to .*: No such file or directory"):
        capture_dir.CaptureFile(str(tmp_path / "none"), journal)


def test_a_lock_is_held_as_long_as_the_directory_has_a_name(tmp_path: Path, journal: UndoJournal):
    one = capture_dir.CaptureFile(str(tmp_path), journal)
    descriptor = os.open(one.directory, os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    one.unname()
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
