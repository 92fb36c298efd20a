"""A plan of jobs whose node is lost: it is waited for, and what its guests did is taken again together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.steps import GuestTrialNarrator
from labconsole.contracts.picture import StepPicture
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome, StepProgress
from labconsole.engine.execution.runner import PlanRunner
from labconsole.errors import NodeLost
from labconsole.experiments.job.kind import KIND
from labconsole.experiments.job.procedure import JobStep
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.steps import Jobs
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from support.job_records import taken
from support.search_script import Script, Store

LOST = NodeLost("uut", "the connection was lost", operation="execute")


class JobStore(Store):
    """Keeps jobs, too."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[JobRecord] = []

    def save_experiment(self, kind: Any, record: Any) -> None:
        self.jobs.append(record)

    def experiments(self, kind: Any, where: Any, *, status: str | None = None) -> list[Any]:
        return [each for each in reversed(self.jobs) if each.plan.hash in where.plan_hash]


class Conduct:
    """A plan of jobs as it is carried out. ``format_losses``: the attempts in which the node is lost, from 1."""

    def __init__(self, tmp_path: Path, patch: pytest.MonkeyPatch, lost_at: Callable[[int], bool], keys: str) -> None:
        (path := tmp_path / "plan.yaml").write_text(
            f"plan: p\nplatforms: [raw]\norder: as-listed\nset_ups: 2\nrepetitions: 2\n{keys}\njob: {{jobs: [wait]}}\n"
        )
        self.script, self.told = Script(JobStore()), list[StepProgress]()
        self.plan: Plan = load_plan(path, self.script.inventory)
        self.script.experiments = (Jobs(self.script.store),)  # type: ignore[assignment, arg-type]
        self.taken: list[tuple[int, int]] = []
        self.shown: list[tuple[str, ...]] = []
        """What was to be seen of each step, when guests had broken off."""

        async def attempt(step: JobStep, bench: Any, number: int) -> JobRecord:
            self.taken.append((step.trial.block, step.trial.repetition))
            bench.show(StepPicture(found=("under way",)))
            if lost_at(len(self.taken)):
                raise LOST
            return taken([1.0]).model_copy(update={"plan": step.ref(number)})

        patch.setattr(JobStep, "attempt", attempt)
        self.execution = PlanExecution(self.plan, self.script, on_step=self._hear)  # type: ignore[arg-type]

    def _hear(self, progress: StepProgress) -> None:
        self.told.append(progress)
        if progress.broke:
            self.shown = [each.shown.found for each in self.execution.steps.seen]

    def run(self) -> Outcome:
        asyncio.run(PlanRunner([self.execution], self.script).run())  # type: ignore[arg-type]
        return self.execution.outcome


@pytest.mark.parametrize("keys", ["", "max_redo: 0"])
def test_what_a_lost_crew_did_is_taken_again_in_the_same_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    conduct = Conduct(tmp_path, monkeypatch, lambda number: number == 4, keys)
    outcome = conduct.run()
    assert conduct.taken == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 1), (2, 2)]
    assert (outcome.complete, len(outcome.steps.made), outcome.steps.redone) == (True, 4, 2)
    assert conduct.execution.place == 4
    assert conduct.script.told.count("connected again") == 1
    assert [each.broke for each in conduct.told if each.broke] == [str(LOST)]
    kept = ("under way",)
    assert conduct.shown == [kept, kept, (), kept], "of what is taken again nothing; the last goes on"
    for each in conduct.told:
        GuestTrialNarrator(KIND, as_json=False).narrate(each)
    assert (
        "the guests failed; all trials of this set-up will be repeated: uut: the connection" in capsys.readouterr().err
    )


def test_a_crew_that_came_to_its_end_is_not_taken_again_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conduct = Conduct(tmp_path, monkeypatch, lambda number: number == 3, "")
    assert conduct.run().complete
    assert conduct.taken == [(1, 1), (1, 2), (2, 1), (2, 1), (2, 2)]
    assert not any(each.broke for each in conduct.told)


@pytest.mark.parametrize(("keys", "waits"), [("max_redo: 0", 1), ("max_redo: 2", 2)])
def test_a_crew_that_loses_its_node_each_time_ends_the_plan_which_says_what_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str, waits: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever in the crew: its trials that went well count as no progress."""
    conduct = Conduct(tmp_path, monkeypatch, lambda number: number > 2 and number % 2 == 0, keys)
    with pytest.raises(NodeLost):
        conduct.run()
    assert conduct.script.told.count("connected again") == waits
    outcome = conduct.execution.outcome
    assert not outcome.complete
    assert GuestTrialNarrator(KIND, as_json=False).narrate_outcome(conduct.plan, outcome) == 3
    told = capsys.readouterr().out
    assert "p: jobs stopped; 3 measured" in told and "0 stored before" in told
    assert "of guests that failed: 1 of those measured" in told
    GuestTrialNarrator(KIND, as_json=True).narrate_outcome(conduct.plan, outcome)
    (event,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (event["taken"], event["stopped"], event["exit_status"]) == (3, True, 3)
