"""Every number of a job's record that was made wrong is found; a record as it was taken is content."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.experiments.job.verify import recompute_job
from labconsole.model.tolerances import Tolerances
from support.job_records import disk_data, job_data, job_record


def differences(data: dict[str, Any]) -> list[str]:
    return [found.where for found in recompute_job(job_record(data))]


def test_a_record_follows_from_its_marks():
    assert differences(job_data()) == []


def test_a_job_over_its_limit_shows_in_a_copy_without_an_end_and_in_no_other():
    data = job_data()
    told = {"guest": data["copies"][0]["guest"], "limit_s": 2}
    over = {"code": "job_failed", "detail": "g1: the job had not ended after 2 s", "evidence": told, "follows": None}
    lost = {"code": "mark_lost", "detail": "g1: no end mark", "evidence": None, "follows": "job_failed"}
    data["status"], data["verdict"] = "failed", {"status": "invalid", "reasons": [over, lost]}
    assert "verdict.reasons" in differences(data)
    names = ("exit_status", "end_request_ns", "end_reply_ns", "outside_s", "seconds", "answered_ns", "host_s")
    ended = dict.fromkeys((*names, "inside_end_s", "inside_s", "clock_ratio"))
    data["copies"] = [{**data["copies"][0], **ended}, *data["copies"][1:]]
    assert differences(data) == []
    told["guest"] = data["copies"][1]["guest"]  # which ended
    assert "verdict.reasons" in differences(data)


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("copies", 0, "seconds"), 2.9, "copies[0].seconds"),
        (("copies", 1, "outside_s"), 3.0, "copies[1].outside_s"),
        (("copies", 0, "host_s"), 3.0, "copies[0].host_s"),
        (("copies", 0, "inside_s"), 3.0, "copies[0].inside_s"),
        (("copies", 0, "clock_ratio"), 1.0, "copies[0].clock_ratio"),
        (("copies", 0, "end_reply_ns"), 2_000, "copies[0]"),
        (("empty", "mean_s"), 0.0051, "empty.mean_s"),
        (("empty", "sd_s"), 0.001, "empty.sd_s"),
        (("start_skew_s",), 0.0, "start_skew_s"),
        (("swapped_pages",), 3, "verdict.reasons"),
        (("copies", 0, "exit_status"), 1, "verdict.reasons"),
        (("timekeeper", "strange_packets"), 1, "verdict.reasons"),
        (("program", "sha256"), ("a" * 64, "b" * 64), "verdict.reasons"),
        (("timekeeper", "doubled"), ("g1/1",), "verdict.reasons"),
        (("verdict", "status"), "invalid", "verdict.status"),
        (("status",), "failed", "status"),
        (("requested", "guests"), 3, "copies"),
    ],
    ids=str,
)
def test_whatever_was_made_wrong_is_found(path: tuple[Any, ...], value: Any, where: str):
    data = job_data()
    inner: Any = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert where in differences(data)


@pytest.mark.parametrize(
    ("job", "changed", "where"),
    [
        ("disk-read", {}, None),
        ("disk-zero", {}, None),
        ("disk-bonnie", {}, None),
        ("disk-read", {"job_read_bytes": 2**26}, "disk.job_read_bytes"),
        ("disk-zero", {"job_written_bytes": 0}, "disk.job_written_bytes"),
        ("disk-read", {"device_read_bytes": 2**27 - 1}, "verdict.reasons"),
        ("disk-zero", {"device_written_bytes": 0}, "verdict.reasons"),
    ],
    ids=str,
)
def test_what_a_device_did_is_held_against_what_the_job_is_known_to_do(
    job: str, changed: dict[str, int], where: str | None
):
    data = disk_data(job)
    data["disk"] |= changed
    found = differences(data)
    assert found == [] if where is None else where in found


def test_a_lost_mark_without_its_reason_is_found():
    data = job_data()
    data["copies"][0]["end_request_ns"] = None
    assert "verdict.reasons" in differences(data)


def test_a_reason_that_nothing_shows_is_found():
    data = job_data()
    data["verdict"] = {
        "status": "suspect",
        "reasons": [{"code": "job_short", "detail": "made up", "evidence": None, "follows": None}],
    }
    assert differences(data) == ["verdict.reasons"]


def test_a_trial_is_judged_again_by_its_own_tolerances():
    """A clock that was set by 2 ms is allowed by nothing but what the plan said."""
    data = job_data()
    data["timekeeper"]["wall_moved_ns"] = 2_000_000
    told = Tolerances().model_dump()
    data["in_force"] = {"tolerances": told | {"clock_step_s": 0.001}, "settle_s": 0.0, "drain_s": None}
    assert "verdict.reasons" in differences(data)
    data["in_force"]["tolerances"]["clock_step_s"] = -1.0
    assert "in_force.tolerances.clock_step_s" in differences(data)
    del data["in_force"]["tolerances"]["clock_step_s"]
    assert "in_force.tolerances.clock_step_s" in differences(data)
