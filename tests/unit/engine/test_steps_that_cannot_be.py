"""Steps that a testbed cannot be asked: told at once, never counted as left, and no block is taken again for them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.execution.progress import Outcome, StepState
from labconsole.engine.execution.steps import Steps
from labconsole.errors import ConfigError
from labconsole.experiments.job.steps import Jobs
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.tui.screens.plans.searches_table import describe_steps
from support.job_records import taken
from support.testbeds import GOOD


class Kind:
    """Jobs on two platforms, of which one cannot have them; those of the other are stored."""

    def __init__(self) -> None:
        self.jobs = Jobs(None)

    def steps(self, plan: Any, only: Any = None, salt: str = "") -> Any:
        return self.jobs.steps(plan)

    def refuse(self, steps: Any, *of: Any) -> dict[str, ConfigError]:
        return {each.hash: ConfigError("has no weights") for each in steps if each.trial.point.platform == "raw"}

    def stored(self, steps: Any, testbed_fingerprint: str) -> Any:
        return {each.hash: taken([1.0]) for each in steps}


@pytest.mark.parametrize("retake", [False, True])
def test_nothing_is_left_where_all_that_can_be_measured_is_stored(tmp_path: Path, retake: bool) -> None:
    (path := tmp_path / "plan.yaml").write_text("plan: p\nplatforms: [raw, lxc]\nset_ups: 3\njob: {jobs: [wait]}\n")
    (hosts := tmp_path / "hosts.yaml").write_text(GOOD)
    plan, outcome = load_plan(path), Outcome()
    execution: Any = SimpleNamespace(
        plan=plan, only=None, salt="", retake=retake, outcome=outcome, running=False, spent_s=0.0
    )
    session: Any = SimpleNamespace(inventory=load_inventory(hosts), experiments=[Kind()], stage=None, boots_s={})
    steps = Steps(execution, session, None, lambda progress: None)
    seen, _ = steps.look()
    steps.load_steps(seen, 0)
    assert (steps.remaining, steps.count(StepState.STORED), steps.refusals) == ([], 3, 3)
    assert (outcome.steps.skipped, outcome.steps.not_measured) == (3, 3)
    (why,) = outcome.steps.refused
    assert why.startswith("raw") and why.endswith(", and 2 more: has no weights")
    assert not outcome.complete
    execution.steps = steps
    told = [words for _, words, _ in describe_steps(plan, execution)]
    assert "3 cannot be measured on this testbed" in told and "3 stored, which are not made again" in told
