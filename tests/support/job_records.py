"""Records of jobs as they would be taken, for tests of what is made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from labconsole.experiments.job.disk_verdict import jobs_volume
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.script import CopyAnswer, build_copy
from labconsole.measure.external_timing import Marks
from labconsole.model.jobs import JOBS

MARKS = Marks(start_request_ns=1_000, start_reply_ns=2_000, end_request_ns=3_000_002_000, end_reply_ns=3_000_003_000)


def job_data() -> dict[str, Any]:
    """A trial of two guests, as plain data."""
    answer = CopyAnswer(exit_status=0, ping_status=0, inside_start_s=10.0, inside_end_s=13.01)
    copies = [
        build_copy(
            f"g{number}",
            1,
            (f"198.18.64.{number}", f"02:6c:77:00:00:0{number}"),
            MARKS,
            answer,
            asked_ns=5,
            answered_ns=3_010_000_005,
            empty_s=0.005,
        ).model_dump()
        for number in (1, 2)
    ]
    copies[1]["start_reply_ns"] += 500
    copies[1]["outside_s"] = (3_000_002_000 - 2_500) / 1e9
    copies[1]["clock_ratio"] = copies[1]["inside_s"] / copies[1]["outside_s"]
    copies[1]["seconds"] = copies[1]["outside_s"] - 0.005
    return {
        "job_id": "20261123T090905Z-a0964d",
        "format": 1,
        "started_at": "2026-11-23T09:09:05.000Z",
        "finished_at": "2026-11-23T09:09:09.000Z",
        "testbed": "t",
        "testbed_fingerprint": "f" * 64,
        "emulated": True,
        "operator": "op@h",
        "labconsole_version": "0",
        "plan": {
            "name": "p",
            "hash": "job-1",
            "point": 0,
            "block": 1,
            "repetition": 1,
            "position": 1,
            "seed": 1,
            "set_ups": 1,
            "repetitions": 1,
        },
        "requested": {
            "platform": "lxc",
            "job": "wait",
            "size": 3,
            "command": "sleep 3",
            "guests": 2,
            "working": "all",
            "cpu": "any",
            "limit_s": 600.0,
        },
        "set_up": {"id": "s", "started_at": "2026-11-23T09:09:01.000Z", "setup_s": 1.0, "trial": 1},
        "empty": {"each_s": (0.004, 0.006), "mean_s": 0.005, "sd_s": 0.0014142135623730952},
        "program": {"name": "busybox", "sha256": ("a" * 64,)},
        "copies": tuple(copies),
        "timekeeper": {
            "node": "snk1",
            "interface": "eth1",
            "address": "198.18.100.1",
            "dropped_packets": 0,
            "strange_packets": 0,
            "doubled": (),
            "wall_moved_ns": 0,
        },
        "start_skew_s": 5e-07,
        "swapped_pages": 0,
        "verdict": {"status": "valid", "reasons": ()},
        "attestation": {},
        "influences": (),
        "environment": {"nodes": {"uut": {"facts": {"boot_id": "boot-1"}}}},
        "status": "done",
        "failure": None,
    }


def disk_data(job: str = "disk-read", size: int = 64) -> dict[str, Any]:
    """A trial of that job in two guests, whose device did what they did and a little more."""
    data = job_data()
    work = JOBS[job].disk
    assert work is not None
    read, written = jobs_volume(work, size, job_record(data).copies)
    data["requested"] |= {"job": job, "size": size, "command": JOBS[job].command(size), "disk_mib": 200}
    data["disk"] = {
        "place": "/var/tmp",
        "file_system": "ext4",
        "device": "vda",
        "device_read_bytes": (read or 0) + 4096,
        "device_written_bytes": written + 8192,
        "job_read_bytes": read,
        "job_written_bytes": written,
        "guests": [{"guest": f"g{n}", "read_bytes": (read or 0) // 2, "written_bytes": 0} for n in (1, 2)],
    }
    return data


def drawn_at(block: int, *what: object) -> str:
    """When a trial was begun in its block, of which every second has the order of the one before it reversed."""
    rank = sum(ord(letter) * place for place, letter in enumerate(str(what), 1)) % 499
    minute = rank if block % 2 else 499 - rank
    return f"2026-11-{block:02}T{minute // 60:02}:{minute % 60:02}:05.000Z"


def job_record(data: dict[str, Any]) -> JobRecord:
    """The record of this data."""
    return JobRecord.model_validate_json(json.dumps(data), strict=True)


def taken(
    seconds: Sequence[float],
    *,
    platform: str = "lxc",
    guests: int = 2,
    working: str = "all",
    cpu: str = "any",
    block: int = 1,
    repetition: int = 1,
    codes: Sequence[str] = (),
) -> JobRecord:
    """A trial whose copies took so long; with ``codes`` it is suspect."""
    data = job_data()
    copy = data["copies"][0]
    data["copies"] = tuple(
        {
            **copy,
            "guest": f"g{number}",
            "seconds": each,
            "outside_s": each + 0.005,
            "host_s": each + 0.01,
            "answered_ns": copy["asked_ns"] + round((each + 0.01) * 1e9),
        }
        for number, each in enumerate(seconds, 1)
    )
    data["job_id"] = f"20261123T0909{block:02}Z-{platform}{guests}{working}{cpu}{repetition}"
    data["requested"] |= {"platform": platform, "guests": guests, "working": working, "cpu": cpu}
    data["started_at"] = drawn_at(block, platform, guests, working)
    data["plan"] |= {"block": block, "repetition": repetition, "hash": f"job-{data['job_id']}"}
    data["attestation"] = {"driver": "raw" if platform == "host" else platform}
    data["set_up"] |= {"id": f"{platform}{guests}-{block}"}
    if codes:
        reasons = [{"code": code, "detail": code, "evidence": None, "follows": None} for code in codes]
        data["verdict"] = {"status": "suspect", "reasons": reasons}
    return job_record(data)
