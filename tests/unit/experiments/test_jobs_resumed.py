"""Which trials of a plan of jobs need not be taken again: those of crews that came to the end of their block."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.crew_experiment import (
    count_steps_in_broken_blocks,
    describe_refusals,
    drop_incomplete_blocks,
    find_refusals,
)
from labconsole.errors import ConfigError
from labconsole.experiments.boot.steps import Boots
from labconsole.experiments.job.plan import JobFactors, PlannedJobs
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.steps import Jobs
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.run import Verdict
from labconsole.verdict.reasons import reason, weighed
from support.job_records import taken

PLANNED = PlannedJobs(JobFactors(jobs=("wait", "cpu-pi")), ("lxc",), 2, 1, seed=1)  # type: ignore[arg-type]


class Store:
    """The newest first, as a store answers; ``asked`` counts the questions."""

    def __init__(self, records: list[JobRecord]) -> None:
        self._records, self.asked = records, 0

    def experiments(self, kind: Any, where: Any, *, status: str | None = None) -> list[JobRecord]:
        self.asked += 1
        return [each for each in reversed(self._records) if each.plan.hash in where.plan_hash]


def record(meaning: str, *, status: str = "done") -> JobRecord:
    made = taken([1.0])
    return made.model_copy(update={"plan": made.plan.model_copy(update={"hash": meaning}), "status": status})


def steps() -> list[Any]:
    return [
        SimpleNamespace(hash=meaning, trial=trial, repetitions=1, plan_name="p", factors=PLANNED.factors)
        for meaning, trial in zip(PLANNED.hashes, PLANNED.trials, strict=True)
    ]


def kept(*records: JobRecord) -> list[int]:
    """The blocks of which trials are kept, one number for each."""
    found = Jobs(Store(list(records))).stored(steps(), "f")  # type: ignore[arg-type]
    return sorted(each.trial.block for each in steps() if each.hash in found)


def of_block(block: int) -> list[str]:
    return [each.hash for each in steps() if each.trial.block == block]


def test_a_crew_that_came_to_the_end_of_its_block_is_kept() -> None:
    assert kept(*map(record, (*of_block(1), *of_block(2)))) == [1, 1, 2, 2]


def test_of_a_crew_that_broke_off_all_trials_are_taken_again() -> None:
    assert kept(*map(record, (*of_block(1), of_block(2)[0]))) == [1, 1]


def test_a_trial_that_stayed_invalid_breaks_no_crew_and_is_taken_again() -> None:
    first, second = of_block(1)
    assert kept(record(first), record(second, status="failed")) == [1]


def test_more_repetitions_of_crews_that_are_gone_are_refused_and_more_set_ups_are_not(tmp_path: Path) -> None:
    def steps_of(set_ups: int, repetitions: int) -> list[Any]:
        path = tmp_path / "plan.yaml"
        keys = f"set_ups: {set_ups}\nrepetitions: {repetitions}\n"
        path.write_text(f"plan: p\nplatforms: [lxc]\n{keys}job: {{jobs: [wait, cpu-pi]}}\n")
        return list(Jobs(Store([])).steps(load_plan(path)))  # type: ignore[arg-type]

    done = [record(each.hash) for each in steps_of(2, 1)]
    assert {each.plan.repetitions for each in done} == {1}
    store: Any = Store(done)
    assert len(Jobs(store).stored(steps_of(3, 1), "f")) == 4
    with pytest.raises(ConfigError, match="asks for more trials in a set-up than block 1 had.*raise set_ups"):
        Jobs(store).stored(steps_of(2, 2), "f")
    # One that was asked for as often broke off: it is taken again.
    broken = [each.model_copy(update={"plan": each.plan.model_copy(update={"repetitions": 2})}) for each in done]
    again: Any = Store(broken)
    assert Jobs(again).stored(steps_of(2, 2), "f") == {}


def test_guests_with_another_disk_are_other_guests(tmp_path: Path) -> None:
    """The larger disk of a plan with one job more is in no hash, but in the record."""

    def steps_of(jobs: str) -> list[Any]:
        path = tmp_path / "plan.yaml"
        path.write_text(f"plan: p\nplatforms: [lxc]\njob: {{jobs: [{jobs}]}}\n")
        return list(Jobs(Store([])).steps(load_plan(path)))  # type: ignore[arg-type]

    (alone,), both = steps_of("disk-read"), steps_of("disk-read, disk-zero")
    assert alone.hash in {each.hash for each in both}
    assert alone.factors.crew_disk_mib < both[0].factors.crew_disk_mib
    for steps, own in (([alone], True), (both, False)):
        made = record(alone.hash)
        asked = made.requested.model_copy(update={"disk_mib": steps[0].factors.crew_disk_mib})
        store: Any = Store([made.model_copy(update={"requested": asked})])
        assert (alone.hash in Jobs(store).stored([alone], "f")) == own


def test_the_newest_of_a_trial_is_kept() -> None:
    first, second = of_block(1)
    old, new = record(first), record(first).model_copy(update={"job_id": "newer"})
    found = Jobs(Store([old, record(second), new])).stored(steps(), "f")  # type: ignore[arg-type]
    assert found[first].job_id == "newer"


def test_whole_blocks_are_taken_again_where_a_trial_does_not_enter(tmp_path: Path) -> None:
    """What is compared was taken in one go."""
    path = tmp_path / "plan.yaml"
    path.write_text("plan: p\nplatforms: [lxc]\nset_ups: 3\nrepetitions: 1\njob: {jobs: [wait, cpu-pi]}\n")
    plan = load_plan(path)
    steps = Jobs(Store([])).steps(plan)  # type: ignore[arg-type]
    stored = {each.hash: record(each.hash) for each in steps}
    assert drop_incomplete_blocks(steps, stored).keys() == stored.keys()
    doubted = next(each for each in steps if each.trial.block == 2)
    stored[doubted.hash] = stored[doubted.hash].model_copy(update={"verdict": Verdict(status="suspect", reasons=())})
    kept = drop_incomplete_blocks(steps, stored)
    assert sorted(each.trial.block for each in steps if each.hash in kept) == [1, 1, 3, 3]
    del stored[next(each.hash for each in steps if each.trial.block == 3)]  # one stayed invalid
    kept = drop_incomplete_blocks(steps, stored)
    assert sorted(each.trial.block for each in steps if each.hash in kept) == [1, 1]


def test_trials_of_guests_that_broke_off_are_counted_as_to_be_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("plan: p\nplatforms: [lxc]\nset_ups: 2\nrepetitions: 1\njob: {jobs: [wait, cpu-pi]}\n")
    first, second, third, fourth = Jobs(Store([])).steps(load_plan(path))  # type: ignore[arg-type]
    assert count_steps_in_broken_blocks([first, second, third, fourth], []) == 0
    assert count_steps_in_broken_blocks([first, second, third], [fourth]) == 1
    assert count_steps_in_broken_blocks([first, second], [third, fourth]) == 0


def test_what_one_platform_cannot_be_asked_keeps_no_other_from_being_measured(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("plan: p\nplatforms: [raw, lxc]\nset_ups: 2\njob: {jobs: [wait]}\n")
    steps = list(Jobs(Store([])).steps(load_plan(path)))  # type: ignore[arg-type]

    def refuse(step: Any) -> None:
        if (platform := step.trial.point.platform) in cannot:
            raise ConfigError(f"platform {platform} has no weights")

    cannot = {"raw"}
    found = find_refusals(steps, refuse)
    assert [each.hash in found for each in steps] == [each.trial.point.platform == "raw" for each in steps]
    (words,) = describe_refusals(steps, found)
    assert words.endswith(", and 1 more: platform raw has no weights") and words.startswith("raw")
    cannot = {"raw", "lxc"}
    with pytest.raises(ConfigError, match="has no weights"):
        find_refusals(steps, refuse)
    assert find_refusals([], refuse) == {}


def test_a_start_has_guests_of_its_own_and_is_not_taken_again_for_another(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("plan: p\nplatforms: [lxc]\nset_ups: 1\nrepetitions: 2\nboot: {start: [hot]}\n")
    first, second = Boots(Store([])).steps(load_plan(path))  # type: ignore[arg-type]
    assert count_steps_in_broken_blocks([first], [second]) == 0


def test_a_job_over_its_limit_is_not_tried_again_for_the_mark_that_is_lost_with_it(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("plan: p\nplatforms: [lxc]\njob: {jobs: [wait]}\n")
    (step,) = Jobs(Store([])).steps(load_plan(path))  # type: ignore[arg-type]
    over = reason("job_failed", "g1: the job had not ended after 2 s", guest="g1", limit_s=2)
    lost = reason("mark_lost", "g1: the timekeeper did not see the end mark", guest="g1", marks=["end"])
    assert not step._again(weighed([over, lost]))
    assert step._again(weighed([lost]))
