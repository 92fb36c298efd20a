"""Plans of a kind of experiment that another package has: shown on Plans, run from there, told on the Bench."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from labconsole.engine.execution.progress import ExecutionStatus
from labconsole.errors import ConfigError
from labconsole.experiments.kinds import PluginExperiment, kinds
from labconsole.tui.screens.plans.plans_table import PlansTable
from support.driven_console import console, shown, until
from support.fake_lab_session import LabSession
from support.plugged_in import plugged_in

pytestmark = pytest.mark.asyncio

TOY = """\
from labconsole.contracts.picture import StepPicture
from pydantic import BaseModel, ConfigDict


class Factors(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    often: int = 2


class Record:
    status, failure = "done", None


class Step:
    def __init__(self, plan, number):
        self.request, self.number = REQUEST(plan), number
        self.hash = f"toy-{number}"

    def describe(self):
        return f"toy number {self.number}"

    def durations_s(self, inventory):
        return [1.0, 1.0]

    def picture(self, record):
        return StepPicture(found=(f"played {self.number} times",))

    async def take(self, bench):
        bench.show(StepPicture(found=("half of it",)))
        await GATE.wait()
        return Record()


class Toy:
    def __init__(self, store):
        pass

    def steps(self, plan, only=None, salt=""):
        return [Step(plan, number) for number in range(1, dict(plan.experiments)["toy"].often + 1)]

    def stored(self, steps, testbed_fingerprint):
        return {}

    def earlier(self, testbed_fingerprint):
        return []

    def refuse(self, steps, plan, inventory, stage):
        return REFUSED(steps)


EXPERIMENT, FACTORS = Toy, Factors
REFUSED = lambda steps: {}
REQUEST = lambda plan: plan.points[0].request
"""
PLAN = """\
plan: toys
platforms: [raw]
frame_sizes: [64]
duration_s: 1
experiments:
  toy: {often: 3}
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The module of the kind, plugged in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "toys.yaml").write_text(PLAN)
    with plugged_in(tmp_path / "site", "labconsole.experiments", {"toy": TOY}):
        import toys_toy  # type: ignore[import-not-found]

        toys_toy.GATE = asyncio.Event()
        yield toys_toy


def session() -> LabSession:
    made = LabSession()
    outside = [each for each in kinds(made.store) if isinstance(each, PluginExperiment)]
    both: Any = (*made.experiments, *outside)
    made.experiments = both
    return made


def done(app: Any) -> bool:
    return app.state.execution is not None and app.state.execution.status is ExecutionStatus.DONE


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_such_a_plan_is_shown_run_and_told(toy: Any, size: tuple[int, int]):
    async with console(session, size) as (app, _, pilot):
        await pilot.press("4")
        before = await shown(app, pilot, "toys", "Steps", "toy number 1", "toy, often: 3")
        assert "bounds in packets/s" not in before
        await pilot.press("r")
        await shown(app, pilot, "half of it", "plan toys, step 1 of 3", "0 of 3")
        await pilot.press("1")
        await shown(app, pilot, "plan toys, step 1 of 3")
        await pilot.press("4")
        toy.GATE.set()
        await until(pilot, lambda: done(app))
        after = await shown(app, pilot, "played 1 times", "3 of 3")
        assert "no trial yet" not in after and "0 trials" not in after
        told = [note.text for note in app.state.notes]
        assert "plan toys begins: experiments of toy" in told
        assert "plan toys: done; 3 steps of toy done, 0 stored before" in told


async def test_steps_that_say_what_they_differ_in_have_columns_for_it(toy: Any):
    toy.Step.format_factors = lambda self: {"toy": "doll", "number": self.describe().rpartition(" ")[2]}
    async with console(session) as (app, _, pilot):
        await pilot.press("4")
        told = await shown(app, pilot, "toys", "Steps", "number", "found")
        assert "toy number 2" not in told


async def test_what_this_testbed_cannot_be_asked_is_said_beside_it(toy: Any):
    toy.REFUSED = lambda steps: {steps[1].hash: ConfigError("needs a swing", key="toy")}
    toy.GATE.set()
    async with console(session) as (app, _, pilot):
        await pilot.press("4")
        await shown(app, pilot, "toy: needs a swing", "1 cannot be measured on this testbed")
        await pilot.press("r")
        await until(pilot, lambda: done(app))
        told = [note.text for note in app.state.notes]
        assert "plan toys: done; 2 steps of toy done, 1 not done, 0 stored before" in told


def fails(plan: Any) -> Any:
    raise ValueError("out of toys")


@pytest.mark.parametrize(
    ("request_of", "why"),
    [(fails, "plug-in toy failed: ValueError: out of toys"), (lambda plan: None, "a step of it has no design point")],
)
async def test_a_kind_that_fails_says_so_with_its_plan_and_all_other_plans_are_shown(
    toy: Any, request_of: Any, why: str
):
    Path("plans/zoo.yaml").write_text(PLAN.partition("experiments")[0].replace("toys", "zoo") + "targets: [10Mbit]\n")
    toy.REQUEST = request_of
    async with console(session, (200, 60)) as (app, _, pilot):
        await pilot.press("4")
        await shown(app, pilot, "toys", "zoo", why)
        plans = app.screen.query_one(PlansTable)
        await until(pilot, lambda: [plans.cell_state(key, 20)[0] for key in list(plans.keys())] == ["○ ready"] * 2)
        await pilot.press("r")
        await until(pilot, lambda: any(why in note.text for note in app.state.notes))
        await until(pilot, lambda: not app.state.requested)
