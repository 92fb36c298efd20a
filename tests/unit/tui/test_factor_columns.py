"""What tells rows of guests apart stands in columns of its own, at every width; what all share leaves first."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App

from labconsole.engine.execution.progress import StepState, StepView
from labconsole.experiments.flow.steps import Flows
from labconsole.experiments.job.steps import Jobs
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.tui.parts.stored_trials import StoredTrials
from labconsole.tui.parts.table import factor_columns, fit_columns
from labconsole.tui.screens.plans.searches_table import SearchesTable
from support.driven_console import SIZES, console, shown, text, until
from support.fake_session import FakeSession, make_inventory
from support.flow_records import flow_record
from support.job_records import taken
from support.route_records import route_record

FLOWS = """
plan: flows
platforms: [raw, container]
set_ups: 2
repetitions: 1
flow:
  guests: [1, 2]
  offered: [line, 10Mbit]
  limits: [none, 25Mbit, [30Mbit, 40Mbit]]
  duration_s: 15.0
  bin_s: 0.5
"""

PLAN = """
plan: small
platforms: [raw]
set_ups: 2
repetitions: 1
job:
  jobs: [{job: cpu-sqrt2, size: 3000}]
  guests: [1, 2]
  working: [one, all, one-two]
  cpu: [same]
"""


def test_a_column_is_as_wide_as_what_it_says_and_what_all_share_leaves_first() -> None:
    rows = [
        {"platform": "lxc", "guests": str(guests), "working": working, "size": "3000 digits", "limits": ""}
        for guests, working in ((1, "one"), (20, "one-two"))
    ]
    columns = factor_columns(rows)
    assert [(each.title, each.width) for each in columns] == [
        ("platform", 8),
        ("guests", 6),
        ("working", 7),
        ("size", 11),
    ]
    assert [column.title for column, _ in fit_columns(columns, 25)] == ["platform", "guests", "working"]
    assert [column.title for column, _ in fit_columns(columns, 16)] == ["guests", "working"]


async def lines_of(plan: Plan, steps: list[StepView], width: int) -> list[str]:
    class Alone(App[None]):
        def compose(self) -> Any:
            yield SearchesTable()

    async with Alone().run_test(size=(width, len(steps) + 4)) as pilot:
        table = pilot.app.query_one(SearchesTable)
        execution: Any = SimpleNamespace(plan=plan, steps=SimpleNamespace(seen=steps, current=None), refusal=None)
        table.show(execution)
        await pilot.pause()
        return [table.render_line(y).text.rstrip() for y in range(len(steps) + 1)]


@pytest.mark.asyncio
@pytest.mark.parametrize("width", [64, 78, 114])
async def test_no_two_flows_of_a_plan_look_the_same(tmp_path: Path, width: int) -> None:
    """Here what they came to gives way."""
    path = tmp_path / "flows.yaml"
    path.write_text(FLOWS)
    plan = load_plan(path, make_inventory())
    store: Any = None
    lines = await lines_of(plan, [StepView(step) for step in Flows(store).steps(plan)], width)
    assert "limits" in lines[0] and "set-up" in lines[0] and "Mbit/s" in lines[0]
    assert len({tuple(line[2:].split()) for line in lines[1:]}) == len(lines) - 1


def flows_done(tmp_path: Path, asked: str) -> tuple[Plan, list[StepView]]:
    (path := tmp_path / "flows.yaml").write_text(asked)
    plan = load_plan(path, make_inventory())
    store: Any = None
    steps = [StepView(step) for step in Flows(store).steps(plan)]
    for each in steps:
        each.record, each.state = flow_record([[2500, 2600], [5500, 5500]]), StepState.DONE
    return plan, steps


@pytest.mark.asyncio
@pytest.mark.parametrize("width", [64, 78, 114])
async def test_of_what_flows_came_to_no_number_is_cut(tmp_path: Path, width: int) -> None:
    plan, steps = flows_done(tmp_path, FLOWS.replace("platforms: [raw, container]", "platforms: [container]"))
    lines = await lines_of(plan, steps, width)
    for line in lines[1:]:
        assert "94.80" in line and not re.search(r"[\d.,]…", line), line
    assert "g1 30.03" in lines[1] and ("g2 64.77" in lines[1]) is (width > 64)


@pytest.mark.asyncio
@pytest.mark.parametrize(("width", "last"), [(63, "g2 64.77 …"), (114, "of the line")])
async def test_what_all_flows_share_gives_way_to_what_they_came_to(tmp_path: Path, width: int, last: str) -> None:
    asked = FLOWS.replace("guests: [1, 2]", "guests: [2]").replace("[line, 10Mbit]", "[line]")
    asked = asked.replace("set_ups: 2", "set_ups: 1").replace("bin_s", "second_after_s: [0.0, 2.0]\n  bin_s")
    plan, steps = flows_done(tmp_path, asked)
    lines = await lines_of(plan, steps, width)
    assert all("g1 30.03" in line and line.endswith(last) for line in lines[1:]), lines


@pytest.mark.asyncio
@pytest.mark.parametrize("width", [66, 80, 114])
async def test_no_two_jobs_of_a_plan_look_the_same(tmp_path: Path, width: int) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(PLAN)
    plan = load_plan(path, make_inventory())
    store: Any = None
    steps = [StepView(step) for step in Jobs(store).steps(plan)]
    record = taken([2.0, 3.0, 3.2], platform="raw", working="one-two")
    steps[0].record, steps[0].state = record, StepState.DONE
    lines = await lines_of(plan, steps, width)
    assert "working" in lines[0] and "set-up" in lines[0] and "time" in lines[0]
    told = {tuple(line[2:].split()) for line in lines[2:]}
    assert len(told) == len(steps) - 1
    assert "first guest 2.000" in lines[1]


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_stored_trials_of_every_kind_tell_what_was_asked_in_columns(size: tuple[int, int]) -> None:
    async with console(FakeSession, size) as (app, session, pilot):
        records: list[Any] = [
            taken([2.0], guests=1, working="one"),
            taken([2.0, 2.1], working="all"),
            taken([2.0, 3.0, 3.2], working="one-two"),
            flow_record([[100, 100], [50, 50]]),
            route_record(routes=1000),
        ]
        store: Any = session.store
        store.experiments = lambda kind, where: [each for each in records if isinstance(each, kind.record)]
        await pilot.press("2", "E")
        await until(pilot, lambda: isinstance(app.screen, StoredTrials))
        await shown(app, pilot, "Stored jobs: 3 of 3", "guests working")
        rows = [line for line in text(app).splitlines() if " ✓ " in line]
        for working, row in zip((" one ", " all ", " one-two "), rows, strict=True):
            assert working in row
        await pilot.press("right", "right")
        await shown(app, pilot, "Stored flows: 1 of 1", "platform", "offered")
        await pilot.press("right")
        await shown(app, pilot, "Stored routes: 1 of 1", "routes", "1000")
