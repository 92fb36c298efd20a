"""A job whose guests did not come: a record with its reason, no further attempt, and a point that is theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import AgentError, LabError, MeasurementError, TooLittleMemory
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.steps import Jobs
from labconsole.experiments.job.summary import summarize_jobs
from labconsole.experiments.job.verify import recompute_job
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.model.plan.loader import load_plan
from support.absent_guests import Bench, Stage
from support.job_records import taken
from support.testbeds import GOOD


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    (path := tmp_path / "hosts.yaml").write_text(GOOD)
    return load_inventory(path)


def step(tmp_path: Path, bench: Bench) -> Any:
    path = tmp_path / "plan.yaml"
    path.write_text("plan: p\nplatforms: [lxc]\nmax_redo: 3\njob: {jobs: [wait], guests: [2]}\n")
    (made,) = Jobs(bench).steps(load_plan(path))  # type: ignore[arg-type]
    return made


def test_it_is_stored_with_its_reason_and_not_tried_again_for_each_trial(inventory: Inventory, tmp_path: Path) -> None:
    silent = AgentError("uut", "guest g2 did not answer within 60 s", code="guest_silent")
    bench = Bench(inventory, Stage(silent), JOB)
    record = asyncio.run(step(tmp_path, bench).take(bench))
    assert bench.saved == [record] and bench.over_words == [], "no word on how the testbed fares"
    assert (record.status, record.set_up, record.copies) == ("failed", None, ())
    assert [each.code for each in record.verdict.reasons] == ["guests_missing"]
    assert "g2 did not answer" in (record.failure or "")
    assert recompute_job(record) == []
    assert JobRecord.model_validate_json(record.model_dump_json(), strict=True) == record
    forged = record.model_copy(update={"verdict": record.verdict.model_copy(update={"reasons": ()})})
    assert [each.where for each in recompute_job(forged)][:1] == ["set_up"]


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (TooLittleMemory("uut", "2 guests are given 256 MiB of memory, and 100 are there"), "no_memory"),
        (AgentError("uut", "no room on disk: /var/tmp has 300 MiB left", code="no_space"), "no_space"),
    ],
)
def test_what_guests_lack_on_the_node_has_a_code_and_a_record(
    inventory: Inventory, tmp_path: Path, problem: LabError, code: str
) -> None:
    bench = Bench(inventory, Stage(problem), JOB)
    record = asyncio.run(step(tmp_path, bench).take(bench))
    assert bench.saved == [record] and bench.over_words == [] and bench.stage.asked == 1
    assert [each.code for each in record.verdict.reasons] == [code]
    assert record.set_up is None and recompute_job(record) == []


def test_attempts_that_come_to_nothing_are_made_again_and_the_last_leaves_a_record(
    inventory: Inventory, tmp_path: Path
) -> None:
    bench = Bench(inventory, Stage(MeasurementError("there is no iperf at the sink")), JOB)
    record = asyncio.run(step(tmp_path, bench).take(bench))
    assert bench.stage.asked == 4 and bench.saved == [record]
    assert [bool(again) for again in bench.over_words] == [True, True, True, False]
    assert [each.code for each in record.verdict.reasons] == ["not_measured"]
    assert record.set_up is None and recompute_job(record) == []


def test_what_no_guest_can_help_is_no_record(inventory: Inventory, tmp_path: Path) -> None:
    bench = Bench(inventory, Stage(AgentError("uut", "there is no bridge", code="not_supported")), JOB)
    with pytest.raises(AgentError, match="no bridge"):
        asyncio.run(step(tmp_path, bench).take(bench))
    assert bench.saved == []


def test_it_is_left_out_of_the_point_that_the_others_are_of(inventory: Inventory, tmp_path: Path) -> None:
    other = taken([1.0, 1.1], guests=2, platform="lxc")
    bench = Bench(inventory, Stage(AgentError("uut", "g1 ended", code="guest_ended")), JOB)
    void = asyncio.run(step(tmp_path, bench).take(bench))
    void = void.model_copy(
        update={
            "requested": other.requested,
            "testbed_fingerprint": other.testbed_fingerprint,
            "environment": other.environment,
        }
    )
    (point,) = summarize_jobs([other, void]).points
    assert point.job_ids == (other.job_id,) and point.left_out == {"guests_missing": 1}
