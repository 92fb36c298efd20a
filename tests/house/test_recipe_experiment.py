"""A kind of experiment is one folder and the kind of its record: a toy's step is taken by a plan and stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from labconsole import experiments
from labconsole.engine.execution.execution import PlanExecution
from labconsole.experiments.kinds import kinds
from labconsole.experiments.units import report_units
from labconsole.model.record.kind import record_kinds
from labconsole.store.open import open_store
from support.execution_script import Script, execute, plan_of
from support.plugged_in import plugged_in

RECORD = """\
from labconsole.model.record.kind import ExperimentColumns, ExperimentRecord, RecordKind


class TwiceRecord(ExperimentRecord):
    format: int = 1
    id: str
    started_at: str
    testbed_fingerprint: str
    plan_name: str
    plan_hash: str
    platform: str
    runs: list[str]
    status: str = "done"
    failure: str | None = None


def columns(record):
    return ExperimentColumns(testbed="toys", **record.model_dump(exclude={"format", "runs", "failure"}))


KIND = RecordKind(
    name="twice", plural="twices", record=TwiceRecord, format=1, columns=columns, run_ids=lambda record: record.runs
)
"""
STEPS = """\
from labconsole.contracts.picture import StepPicture
from labconsole.model.record.kind import record_kinds
from labconsole.model.record.run import PlanRef
from labconsole.model.record.summary import RunFilter


class Step:
    hash = "sha256:twice"

    def __init__(self, plan, store):
        self.plan, self.request, self._store = plan, plan.points[0].request, store

    def describe(self):
        return "the first point, twice"

    def durations_s(self, inventory):
        return [self.request.duration_s] * 2

    def picture(self, record):
        return StepPicture(found=("twice the same",))

    def _place(self, **attempts):
        return PlanRef(name=self.plan.name, hash=self.hash, point=0, repetition=1, seed=self.plan.seed, **attempts)

    async def take(self, bench):
        runs = [await bench.trial(self.request, self._place) for _ in range(2)]
        bench.show(StepPicture(found=("twice the same",)))
        kind = record_kinds()["twice"]
        record = kind.record(
            id="twice-1", started_at=runs[0].started_at, testbed_fingerprint=bench.inventory.fingerprint(),
            plan_name=self.plan.name, plan_hash=self.hash, platform=self.request.platform,
            runs=[run.run_id for run in runs],
        )
        self._store.save_experiment(kind, record)
        return record


class Twice:
    def __init__(self, store):
        self._store = store

    def steps(self, plan, only=None, salt=""):
        return [Step(plan, self._store)] if plan.name == "toys" else []

    def stored(self, steps, testbed_fingerprint):
        if not steps:
            return {}
        where = RunFilter(plan_hash=[each.hash for each in steps], testbed_fingerprint=testbed_fingerprint)
        found = self._store.experiments(record_kinds()["twice"], where, status="done")
        return {record.plan_hash: record for record in found}

    def refuse(self, steps, plan, inventory, stage):
        return {}


EXPERIMENT = Twice
"""
UNITS = """\
from labconsole.contracts.report import MethodNote, ReportUnit

UNITS = (ReportUnit(name="twice", place=999, make=lambda material: [MethodNote("Twice", "the same, again")]),)
"""
PLAN = """\
plan: toys
platforms: [raw]
frame_sizes: [64]
targets: [10Mbit]
duration_s: 1
settle_s: 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy kind in a directory that is searched for kinds of experiment."""
    for name, text in (("__init__", ""), ("steps", STEPS), ("units/__init__", ""), ("units/note", UNITS)):
        file = tmp_path / "kinds" / "toy_twice" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path / "kinds")])
    return tmp_path


def test_a_folder_is_a_kind_of_experiment(folder: Path) -> None:
    with (
        plugged_in(folder / "site", "labconsole.kinds", {"twice": RECORD}),
        open_store(str(folder / "runs.sqlite")) as store,
    ):
        plan = plan_of(PLAN, folder)

        def taken() -> list[tuple[int, ...]]:
            script = Script(lambda trial, request: "valid")
            script.experiments = kinds(store)
            asyncio.run(execute(PlanExecution(plan, script), script))
            return script.asked

        assert len(taken()) == 1 + 2, "the grid's trial, then the step's"
        (record,) = store.experiments(record_kinds()["twice"])
        assert (record.plan_name, len(record.runs)) == ("toys", 2)
        assert len(taken()) == 1, "what is stored is not measured again; this script forgot the grid's trial"
        assert "twice" in {unit.name for unit in report_units()}


def test_the_toy_goes_with_its_directory() -> None:
    assert "twice" not in record_kinds()
    assert len(kinds(store=None)) == 5
