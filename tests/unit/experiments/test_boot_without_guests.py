"""A start of guests that comes to nothing: a record with its reason, as a job's has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import LabError, MeasurementError, NodeError, TooLittleMemory
from labconsole.experiments.boot.kind import KIND as BOOT_KIND
from labconsole.experiments.boot.measurement import BootMeasurement
from labconsole.experiments.boot.record import RECORD as BOOT
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.steps import Boots
from labconsole.experiments.boot.summary import summarize_boots
from labconsole.experiments.boot.verify import recompute_boot
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.report.trial_text import trial_lines
from support.absent_guests import Bench, Stage
from support.boot_records import boot_data, boot_record
from support.testbeds import GOOD


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (path := tmp_path / "hosts.yaml").write_text(GOOD)
    return Bench(load_inventory(path), Stage(NodeError("uut", "no guest is asked for")), BOOT)


def taken(bench: Bench, tmp_path: Path, problem: LabError, monkeypatch: pytest.MonkeyPatch) -> BootRecord:
    """What is stored of a start whose taking ends so, each time."""

    async def take(self: BootMeasurement) -> Any:
        raise problem

    monkeypatch.setattr(BootMeasurement, "__init__", lambda *_: None)
    monkeypatch.setattr(BootMeasurement, "take", take)
    path = tmp_path / "plan.yaml"
    path.write_text("plan: p\nplatforms: [lxc]\nmax_redo: 2\nboot: {guests: [2], start: [hot]}\n")
    (step,) = Boots(bench).steps(load_plan(path))  # type: ignore[arg-type]
    record: BootRecord = asyncio.run(step.take(bench))  # type: ignore[arg-type]
    return record


@pytest.mark.parametrize(
    ("problem", "code", "attempts"),
    [
        (MeasurementError("the guest that is discarded before a hot start: g1 ended"), "not_measured", 3),
        (TooLittleMemory("uut", "2 guests are given 256 MiB of memory, and 100 are there"), "no_memory", 0),
    ],
)
def test_it_is_stored_with_its_reason(
    bench: Bench, tmp_path: Path, problem: LabError, code: str, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = taken(bench, tmp_path, problem, monkeypatch)
    assert bench.saved == [record] and len(bench.over_words) == attempts
    assert (record.status, record.set_up, record.guests, record.startup_s) == ("failed", None, (), None)
    assert [each.code for each in record.verdict.reasons] == [code]
    assert recompute_boot(record) == []
    assert BootRecord.model_validate_json(record.model_dump_json(), strict=True) == record
    assert any(code in line for line in trial_lines(BOOT_KIND, record))
    assert not any("page cache" in line for line in trial_lines(BOOT_KIND, record))
    (point,) = summarize_boots([record]).points
    assert (point.startup_s, dict(point.left_out)) == (None, {code: 1})


def test_guests_that_a_record_lacks_without_such_a_reason_are_told(bench: Bench) -> None:
    data = boot_data() | {"guests": [], "set_up": None, "status": "failed", "failure": "?"}
    assert "guests" in [each.where for each in recompute_boot(boot_record(data))]


def test_what_no_guest_can_help_is_no_record(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NodeError, match="fincore"):
        taken(bench, tmp_path, NodeError("uut", "fincore is not installed"), monkeypatch)
    assert bench.saved == []
