"""What a device did, held against what jobs did: read from the kernel's tables, doubted where a cache hid it."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.experiments.job.disk_verdict import disk_notes, disk_reasons, jobs_volume
from labconsole.experiments.job.disks import parse_counts
from labconsole.experiments.job.record import DiskRecord
from labconsole.model.jobs import JOBS, DiskWork
from support.job_records import disk_data, job_data, job_record

COPIES = job_record(job_data()).copies
MIB = 2**20
TABLE = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 5424618 411259 183393866 2880329 1424917 2338252 177504608 1142461 0 640548 4221880
 254      16 vdb 1 0 2 0 3 0 4 0 0 0 0
4711 1048576 8192
99 0 0
"""


def seen(job: str = "disk-read", **changed: Any) -> DiskRecord:
    data = disk_data(job)
    data["disk"] |= changed
    found = job_record(data).disk
    assert found is not None
    return found


def codes(found: DiskRecord, **copy: Any) -> list[str]:
    return [each.code for each in disk_reasons(found, [each.model_copy(update=copy) for each in COPIES])]


def work(name: str) -> DiskWork:
    found = JOBS[name].disk
    assert found is not None
    return found


def test_the_device_and_the_processes_are_found_in_what_the_kernel_says() -> None:
    counts = parse_counts(TABLE, "254:0")
    assert (counts.read_sectors, counts.written_sectors) == (183393866, 177504608)
    assert counts.used == {4711: (1048576, 8192), 99: (0, 0)}
    assert parse_counts(TABLE, "8:0").read_sectors is None
    huge = TABLE.replace("183393866", "9" * 16).replace("4711 1048576", "4711 " + "9" * 19)
    assert parse_counts(huge, "254:0").read_sectors is None
    assert parse_counts(huge, "254:0").used == {99: (0, 0)}
    assert parse_counts("254 0 vda x x x\n254 0 vda 1 1 a 1 1 1 b 1\n", "254:0").written_sectors is None


def test_a_device_that_did_what_the_jobs_did_is_no_doubt() -> None:
    for job in ("disk-read", "disk-zero", "disk-bonnie"):
        assert codes(seen(job)) == []


@pytest.mark.parametrize(
    ("job", "changed", "code"),
    [
        ("disk-read", {"device_read_bytes": 128 * MIB - 1}, "buffered_by_host"),
        ("disk-read", {"device_read_bytes": 128 * MIB}, None),
        ("disk-zero", {"device_written_bytes": 0}, "buffered_by_host"),
        ("disk-zero", {"device_written_bytes": None}, "not_observed"),
        ("disk-read", {"device_read_bytes": None}, "not_observed"),
        ("disk-bonnie", {"device_read_bytes": 0}, None),
    ],
    ids=str,
)
def test_less_than_the_jobs_did_was_kept_by_a_cache(job: str, changed: dict[str, Any], code: str | None) -> None:
    assert codes(seen(job, **changed)) == ([] if code is None else [code])


def test_what_others_read_of_a_device_hides_nothing() -> None:
    """The device read enough, but not for the guests."""
    guests = [
        {"guest": "g1", "read_bytes": 64 * MIB, "written_bytes": 0},
        {"guest": "g2", "read_bytes": 4096, "written_bytes": 0},
    ]
    assert codes(seen(device_read_bytes=900 * MIB, guests=guests)) == ["buffered_by_host"]
    guests[1]["read_bytes"] = None
    assert codes(seen(device_read_bytes=900 * MIB, guests=guests)) == []


def test_a_job_that_failed_is_not_held_against_the_device() -> None:
    assert codes(seen("disk-zero", device_written_bytes=0), exit_status=1) == []


def test_a_surplus_is_told_and_not_taken_off() -> None:
    found = seen("disk-zero", device_written_bytes=1280 * MIB + 300 * MIB)
    (note,) = disk_notes(found, work("disk-zero"), 64, 2, "uut")
    assert (note["kind"], note["written_bytes"]) == ("disk_shared", 300 * MIB)
    assert found.device_written_bytes == 1580 * MIB
    assert list(disk_notes(seen("disk-zero"), work("disk-zero"), 64, 2, "uut")) == []
    assert list(disk_notes(None, None, 64, 2, "uut")) == []


def test_what_bonnie_read_from_memory_is_told() -> None:
    notes = list(disk_notes(seen("disk-bonnie", device_read_bytes=64 * MIB), work("disk-bonnie"), 64, 2, "uut"))
    assert [note["kind"] for note in notes] == ["read_from_memory"]
    assert (notes[0]["read_bytes"], notes[0]["device_bytes"]) == (256 * MIB, 64 * MIB)


def test_a_job_without_a_fixed_volume_is_held_to_what_it_says() -> None:
    told = [copy.model_copy(update={"output": "READ 10 WRITTEN 20"}) for copy in COPIES]
    assert jobs_volume(work("disk-mixed"), 10, told) == (20 * 1024, 40 * 1024)
    assert jobs_volume(work("disk-mixed"), 10, [told[0], COPIES[1]]) == (None, 20 * 1024)


@pytest.mark.parametrize("name", [job.name for job in JOBS.values() if job.disk is not None])
def test_a_disk_has_room_for_a_job_and_for_its_file_system(name: str) -> None:
    needed = work(name).needed_mib(JOBS[name].size, 1)
    assert needed >= work(name).files_mib * JOBS[name].size + work(name).more_files_mib + 64
    assert work(name).needed_mib(JOBS[name].size, 2) > needed
