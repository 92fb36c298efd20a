"""What Plans, Check, Nodes and Log look like at three sizes, as pictures. Clocks stand still, the session is scripted.

After a wanted change: ``pytest tests/unit/tui/test_lab_snapshots.py --snapshot-update``, and look at what changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labconsole.engine.execution import stop_conditions
from labconsole.engine.live.events import NodeChanged, NodeState, Notice
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console import clock
from labconsole.tui.parts.screen import ConsoleScreen
from labconsole.tui.screens.bench.screen import BenchScreen
from support.fake_lab_session import EVE, LabSession

SIZES = [(80, 24), (120, 40), (200, 60)]
NOW_S = 1_772_442_900.0

PLAN = """\
plan: matrix
platforms: [raw, container]
frame_sizes: [64, 1500]
targets: [10Mbit, max]
sources: [1, 3]
duration_s: 10
repetitions: 9
order: as-listed
settle_s: 0
"""


class StillTime:
    """The execution's clock."""

    @staticmethod
    def monotonic() -> float:
        return 100.0


@pytest.fixture(autouse=True)
def still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "monotonic_s", lambda: 100.0)
    monkeypatch.setattr(clock, "wall_s", lambda: NOW_S)
    monkeypatch.setattr(stop_conditions, "time", StillTime)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "matrix.yaml").write_text(PLAN)
    (tmp_path / "plans" / "broken.yaml").write_text(PLAN.replace("10Mbit", "100"))


def make_console() -> tuple[ConsoleApp, list[LabSession]]:
    made: list[LabSession] = []

    def factory() -> LabSession:
        made.append(LabSession(hold=True))
        return made[0]

    return ConsoleApp(factory), made


async def until(pilot: Pilot[int], true: Callable[[], bool]) -> None:
    for _ in range(2000):
        if true():
            return
        await pilot.pause(0.01)
    raise AssertionError("it did not come to that")


async def go(app: ConsoleApp, pilot: Pilot[int], made: list[LabSession], key: str) -> None:
    await until(pilot, lambda: isinstance(app.screen, BenchScreen) and bool(made and made[0].telemetry.interfaces))
    await until(pilot, lambda: any("snk3 connected" in note.text for note in app.state.notes))  # the last node
    await pilot.press(key)
    await until(pilot, lambda: not isinstance(app.screen, BenchScreen) and app.screen.is_mounted)


async def paint(app: ConsoleApp, pilot: Pilot[int]) -> None:
    await pilot.pause(0.2)
    assert isinstance(app.screen, ConsoleScreen)
    app.screen.tick()
    await pilot.pause()


BLOCKS = """\
plan: blocks
platforms: [raw, container]
frame_sizes: [64, 1500]
targets: [10Mbit, max]
backgrounds: [none, idle]
duration_s: 10
set_ups: 5
repetitions: 2
margin: 2%
claims: [table-1, ranking]
settle_s: 0
"""


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x60"])
def test_a_plan_in_blocks_while_it_is_paused(snap_compare: Any, size: tuple[int, int]) -> None:
    Path("plans/matrix.yaml").write_text(BLOCKS)
    app, made = make_console()

    async def drive(pilot: Pilot[int]) -> None:
        await go(app, pilot, made, "4")
        session = made[0]
        session.verdicts = ["valid"] * 30 + ["suspect", "valid", "invalid", "valid"]
        taken = 0

        async def traffic(request: object) -> None:
            nonlocal taken
            taken += 1
            if taken == 56:
                assert app.state.execution is not None
                app.state.execution.pause()

        session.traffic = traffic  # type: ignore[method-assign]
        await until(pilot, lambda: "ready" in picture(app))
        await pilot.press("r")
        await until(pilot, lambda: app.state.execution is not None and app.state.execution.status.value == "paused")
        await paint(app, pilot)
        await pilot.press("home", "end")  # as above
        await paint(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=drive)


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x60"])
def test_plans_while_one_is_paused(snap_compare: Any, size: tuple[int, int]) -> None:
    app, made = make_console()

    async def drive(pilot: Pilot[int]) -> None:
        await go(app, pilot, made, "4")
        session = made[0]
        session.verdicts = ["valid"] * 20 + ["suspect", "valid", "invalid", "valid"]
        taken = 0

        async def traffic(request: object) -> None:
            nonlocal taken
            taken += 1
            if taken == 31:
                assert app.state.execution is not None
                app.state.execution.pause()

        session.traffic = traffic  # type: ignore[method-assign]
        await until(pilot, lambda: "ready" in picture(app))
        await pilot.press("r")
        await until(pilot, lambda: app.state.execution is not None and app.state.execution.status.value == "paused")
        await paint(app, pilot)
        await pilot.press("home", "f", "f")  # from a place that does not depend on what was painted meanwhile
        await paint(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=drive)


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x60"])
def test_a_check_with_problems(snap_compare: Any, size: tuple[int, int]) -> None:
    app, made = make_console()

    async def drive(pilot: Pilot[int]) -> None:
        await go(app, pilot, made, "5")
        await pilot.press("r")
        await until(pilot, lambda: "checked in" in picture(app))
        await pilot.press("f")
        await paint(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=drive)


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x60"])
def test_nodes_with_one_lost(snap_compare: Any, size: tuple[int, int]) -> None:
    app, made = make_console()

    async def drive(pilot: Pilot[int]) -> None:
        await go(app, pilot, made, "6")
        made[0].holders = {"src1": EVE}
        made[0].telemetry.nodes["snk2"].retry_at_s = 104.0
        made[0].say(NodeChanged(node="snk2", state=NodeState.LOST, message="the connection was lost"))
        await until(pilot, lambda: "leased by" in picture(app))
        await paint(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=drive)


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x60"])
def test_log_with_hostile_words(snap_compare: Any, size: tuple[int, int]) -> None:
    app, made = make_console()

    async def drive(pilot: Pilot[int]) -> None:
        await go(app, pilot, made, "7")
        app.state.journal.entries.clear()
        for severity, words in (
            ("information", "[bold]not markup[/bold] and \x1b[31mnot red"),
            ("warning", "the clock of this node was stepped by 0.4 s; " * 6),
            ("error", "the run could not be saved: no space left on device"),
        ):
            made[0].say(Notice(severity=severity, message=words, node="snk1"))
        await paint(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=drive)


def picture(app: ConsoleApp) -> str:
    return "\n".join("".join(s.text for s in strip) for strip in app.screen._compositor.render_strips())
