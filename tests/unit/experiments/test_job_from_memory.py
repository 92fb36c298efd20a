"""What a job read from memory says nothing of disks."""

from __future__ import annotations

import random
from typing import Any

import pytest

from labconsole.experiments.job.limiting_resource import is_possibly_cached
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.summary import summarize_jobs
from labconsole.experiments.job.text import summary_lines
from support.job_records import disk_data, taken

MIB = 2**20
HOST_MIB = 1024


def worked(
    seconds: list[float],
    job: str = "disk-bonnie",
    size: int = 4 * HOST_MIB,
    *,
    device_ratio: float = 1.1,
    memory_mib: int | None = None,
    host_mib: int | None = HOST_MIB,
    machine_mib: object = None,
    **point: Any,
) -> JobRecord:
    """A trial of that job, whose device gave this share of what it read, on a host with so much memory."""
    record = taken(seconds, **point)
    reads = {"disk-bonnie": 2, "serve-http": 1}[job] if job in ("disk-bonnie", "serve-http") else 1
    told = JobRecord.model_validate({**record.model_dump(), "disk": disk_data(job, size)["disk"]}).disk
    assert told is not None
    told = told.model_copy(update={"device_read_bytes": round(device_ratio * reads * size * len(seconds) * MIB)})
    asked = record.requested.model_copy(update={"job": job, "size": size, "memory_mib": memory_mib})
    facts = record.environment["nodes"]["uut"]["facts"] | ({} if host_mib is None else {"memory_bytes": host_mib * MIB})
    nodes = {"nodes": {"uut": {"facts": facts}, "snk1": {"facts": {"memory_bytes": MIB}}}}
    machines = {"one": {"memory_mib": machine_mib}, "two": {"memory_mib": 32 if machine_mib != "much" else None}}
    has = record.attestation | ({} if machine_mib is None else {"machines": machines})
    return record.model_copy(update={"requested": asked, "disk": told, "environment": nodes, "attestation": has})


@pytest.mark.parametrize(
    ("changes", "cached"),
    [
        ({}, False),
        ({"size": 2 * HOST_MIB - 1}, True),  # less than twice the host's memory, whatever the device gave
        ({"size": HOST_MIB, "host_mib": None}, False),  # not known: the device gave it all
        ({"device_ratio": 0.9}, True),
        ({"device_ratio": 0.9, "host_mib": None}, True),
        ({"platform": "host", "size": HOST_MIB, "memory_mib": 256}, True),  # the bare host's processes have it all
        ({"size": HOST_MIB, "memory_mib": 256}, False),
        ({"size": 511, "memory_mib": 256}, True),
        ({"platform": "uml", "size": 256}, False),  # a kernel of its own, of which the memory is not known
        ({"platform": "uml", "size": 256, "memory_mib": 256}, True),
        ({"platform": "uml", "size": 255, "machine_mib": 128}, True),  # as its driver says, asked for or not
        ({"platform": "uml", "size": 256, "machine_mib": 128}, False),
        ({"platform": "uml", "size": 1, "machine_mib": "much"}, False),
        ({"job": "disk-read", "size": 64, "device_ratio": 1.0}, False),  # past every cache
        ({"job": "serve-http", "size": 64}, False),
        ({"job": "serve-http", "size": 64, "device_ratio": 0.1}, True),
    ],
    ids=str,
)
def test_files_are_twice_what_caches_them_or_may_be_read_from_memory(changes: dict[str, Any], cached: bool) -> None:
    assert is_possibly_cached(worked([4.0], **changes)) is cached
    assert is_possibly_cached(taken([4.0])) is False


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> list[JobRecord]:
    return [
        worked([seconds + block / 1000], platform=platform, guests=1, working="one", block=block, **how)
        for block in range(1, 6)
        for platform, seconds, how in (("host", 1.0, theirs), ("lxc", 2.0, ours))
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ({}, {}, "different"),
        ({}, {"size": 4 * HOST_MIB, "host_mib": 4 * HOST_MIB}, "read from memory"),
        ({"device_ratio": 0.5}, {"device_ratio": 0.5}, "read from memory"),
        (dict.fromkeys(["job"], "serve-http"), dict.fromkeys(["job"], "serve-http"), "different"),
        ({"job": "serve-http"}, {"job": "serve-http", "device_ratio": 0.5}, "read from memory"),
        ({"job": "serve-http", "device_ratio": 0.5}, {"job": "serve-http", "device_ratio": 0.5}, "different"),
    ],
    ids=str,
)
def test_an_overhead_of_what_memory_gave_is_not_claimed(
    ours: dict[str, Any], theirs: dict[str, Any], word: str
) -> None:
    summary = summarize_jobs(compared(ours, theirs))
    (found,) = summary.overheads
    assert found.word == word
    assert (found.effect.p is None) == (word == "read from memory")
    assert any(f": {word}, +9" in line for line in summary_lines(summary))


def test_an_overhead_of_which_some_trials_had_their_files_in_memory_is_not_claimed() -> None:
    """One trial of the bare host and all of the guests': both sides have some, and are not alike."""
    records = [
        worked(
            [seconds + block / 1000],
            platform=platform,
            guests=1,
            working="one",
            block=block,
            job="serve-http",
            device_ratio=0.5 if platform == "lxc" or block == 5 else 1.1,
        )
        for block in range(1, 6)
        for platform, seconds in (("host", 1.0), ("lxc", 2.0))
    ]
    (found,) = summarize_jobs(records).overheads
    assert (found.word, found.effect.p) == ("read from memory", None)


def test_neither_growth_nor_isolation_of_a_disk_is_claimed_of_memory() -> None:
    """All guests serve themselves from the page cache: no growth, and 2 and 3 times the time alone."""
    draw, cached = random.Random(3), "read from memory"
    for device_ratio, growth, isolation in ((1.1, "flat", "between guests"), (0.5, cached, cached)):
        records = [
            worked(
                [4.0 * each * draw.gauss(1, 1e-4) for each in times],
                platform="lxc",
                guests=guests,
                working=working,
                cpu="same",
                block=block,
                device_ratio=device_ratio,
            )
            for block in range(1, 6)
            for guests in (1, 2, 5)
            for working, times in (("one", [1.0]), ("one-two", [2.0, 3.0, 3.0]))
            if guests > 1 or working == "one"
        ]
        summary = summarize_jobs(records)
        assert summary.one_works[0].word == growth
        assert {each.word for each in summary.isolation} == {isolation}
