"""What a unit under test says of its memory and of its page cache, as it is read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from labconsole.contracts.picture import CopyState
from labconsole.experiments.boot import derived_values, disk_images
from labconsole.experiments.boot.derived_values import MemoryReading, parse_memory_reading, sum_known
from labconsole.experiments.boot.disk_images import counted_pages
from labconsole.experiments.boot.measurement import guests_started, guests_starting
from labconsole.measure.external_timing import Marks
from support.boot_records import boot_data, boot_record


def test_memory_is_read_from_what_the_kernel_says() -> None:
    text = "MemTotal: 9 kB\nMemAvailable:     2048 kB\npswpin 3\npswpout 4\nksm_run 1\nksm_pages_sharing 12\n"
    assert parse_memory_reading(text) == MemoryReading(2048 * 1024, 7, 1, 12)
    assert parse_memory_reading("nothing") == MemoryReading()
    assert parse_memory_reading("pswpin 3\n").swapped_pages is None


def test_this_kernel_says_it() -> None:
    said = subprocess.run(["sh", "-c", derived_values._LOOK], capture_output=True, text=True, check=True).stdout
    found = parse_memory_reading(said)
    assert found.available_bytes
    assert found.swapped_pages is not None


def test_a_sum_is_known_when_all_are() -> None:
    assert sum_known([1, 2]) == 3
    assert sum_known([1, None]) is None
    assert sum_known([]) is None


def test_pages_are_told_for_each_path_or_not_at_all() -> None:
    assert counted_pages("0 700 0\n1 4 4\n") == [(700, 0), (4, 4)]
    assert counted_pages("1 4 4\n") == []
    assert counted_pages("fincore: no such file\n") == []


def test_an_operators_files_are_found_where_they_are_or_named(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "image").write_bytes(b"x" * 5000)
    (tmp_path / "link").symlink_to("image")

    def found(*names: str) -> tuple[int, list[tuple[str, str]]]:
        argv = ["sh", "-c", disk_images._LOOK_AT_THEIRS, "sh", *(f"{tmp_path}/{name}" for name in names)]
        said = subprocess.run(argv, capture_output=True, text=True)
        return said.returncode, [
            (Path(path).name, system) for _, path, system in disk_images._THEIRS.findall(said.stdout)
        ]

    status, rows = found("link", "root")
    assert status == 0
    assert [name for name, _ in rows] == ["image", "root"]
    system = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True).stdout.strip()
    assert {each for _, each in rows} == {system}
    assert found("image", "gone", "root")[0] == 4
    os.mkfifo(tmp_path / "pipe")
    assert found("image", "pipe")[0] == 6


def test_files_leave_the_page_cache_and_come_back(tmp_path: Path) -> None:
    """On a disk; in memory they stay, which is said, too."""
    (tmp_path / "root").mkdir()
    for name, size in (("root/one", 10_000), ("root/two", 4096), ("root/empty", 0)):
        (tmp_path / name).write_bytes(os.urandom(size))
    subprocess.run(["sync"], check=True)
    place = str(tmp_path / "root")

    def run(script: str) -> str:
        return subprocess.run(["sh", "-c", script, "sh", place], capture_output=True, text=True).stdout

    if subprocess.run(["which", "fincore"], capture_output=True).returncode != 0:
        pytest.skip("fincore is not installed")
    on_disk = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True).stdout.strip()
    run(disk_images._DROP)
    assert counted_pages(run(disk_images._COUNT)) == [(4, 4 if on_disk in disk_images.IN_MEMORY else 0)]
    run(disk_images._READ)
    assert counted_pages(run(disk_images._COUNT)) == [(4, 4)]


@pytest.mark.parametrize("said", ["", "echo 3"])
def test_files_of_which_fincore_tells_nothing_prove_nothing(tmp_path: Path, said: str) -> None:
    """It fails where the file system has no maps, and says so on its error stream; find says which files there are."""
    for name in ("one", "two"):
        (tmp_path / "root").mkdir(exist_ok=True)
        (tmp_path / "root" / name).write_bytes(b"x" * 5000)
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "fincore").write_text(f"#!/bin/sh\n{said}\nexit 1\n")
    (fake / "fincore").chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", disk_images._COUNT, "sh", str(tmp_path / "root")],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{fake}:{os.environ['PATH']}"},
    )
    assert done.returncode == 7
    assert counted_pages(done.stdout) == []
    assert "of 2 files" in done.stderr


def test_a_guest_that_came_stands_and_the_others_are_still_starting():
    found = {"g1": Marks(start_request_ns=5_000_000_000), "g2": Marks(start_request_ns=5_250_000_000)}
    rows = guests_starting(["g1", "g2", "g3"], found)
    assert [(row.name, row.state, row.begun_s) for row in rows] == [
        ("g1", CopyState.STANDS, 0.0),
        ("g2", CopyState.STANDS, 0.25),
        ("g3", CopyState.STARTS, None),
    ]
    assert [row.state for row in guests_starting(["g1"], {})] == [CopyState.STARTS]


def test_what_is_over_says_how_long_each_guest_took():
    record = boot_record(boot_data([1.0, 1.5]))
    assert [(row.name, row.begun_s, row.seconds) for row in guests_started(record.guests)] == [
        ("g1", 0.0, 1.0),
        ("g2", 0.5, 1.5),
    ]
