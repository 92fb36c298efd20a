"""Nothing is said by colour alone: every state has a glyph or a word of its own, and greys show the same text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from textual.color import Color
from textual.theme import Theme

from labconsole.engine.check.result import CheckStatus
from labconsole.engine.execution.progress import Cell, ExecutionStatus, TrialState
from labconsole.engine.live.events import NodeChanged, NodeState, Notice
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console import theme
from labconsole.tui.console.state import VERDICT_GLYPHS
from labconsole.tui.parts.node_text import STATE_LOOKS
from labconsole.tui.parts.status import SEVERITY_MARK
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens.check import checks_table
from labconsole.tui.screens.log import screen
from labconsole.tui.screens.plans import grid, plans_table, searches_table
from support.driven_console import SIZES, console, picture, settle, until
from support.fake_lab_session import LabSession
from support.fake_session import FakeSession, make_record

REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=3, target=10**8, duration_s=5)
PLAN = "plan: p\nplatforms: [raw]\nframe_sizes: [64]\ntargets: [10Mbit, max]\nduration_s: 1\nrepetitions: 2\n"


def glyphs(looks: Mapping[Any, tuple[str, str]]) -> list[str]:
    return [glyph for glyph, _tone in looks.values()]


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param([f"{glyph} {state.value}" for state, (glyph, _) in STATE_LOOKS.items()], id="nodes"),
        pytest.param([f"{glyph} {verdict}" for verdict, glyph in VERDICT_GLYPHS.items()], id="verdicts"),
        pytest.param(list(VERDICT_GLYPHS.values()), id="verdicts' glyphs"),
        pytest.param(glyphs(SEVERITY_MARK), id="events"),
        pytest.param(glyphs(screen.LOOKS), id="log"),
        pytest.param(glyphs(checks_table.LOOKS), id="checks"),
        pytest.param(glyphs(searches_table.LOOKS), id="searches"),
        pytest.param([f"{g} {s.value}" for s, (g, _) in plans_table.STATUS_LOOKS.items()], id="plans"),
        pytest.param([*glyphs(grid.LOOKS), grid.STORED_SUSPECT[0], grid.STORED_INVALID[0]], id="trials of a plan"),
    ],
)
def test_no_two_states_look_the_same_without_colours(shown: list[str]) -> None:
    assert len(set(shown)) == len(shown)


def test_every_state_has_its_look() -> None:
    assert STATE_LOOKS.keys() == set(NodeState)
    assert checks_table.LOOKS.keys() == set(CheckStatus)
    assert plans_table.STATUS_LOOKS.keys() == set(ExecutionStatus)
    assert grid.LOOKS.keys() == set(TrialState)
    looks = [grid.choose_look(Cell(state=state)) for state in TrialState]
    assert len({glyph for glyph, _ in looks}) == len(looks)


def prepare(session: FakeSession) -> None:
    """Something of everything."""
    for number, status in enumerate(("valid", "suspect", "invalid", "valid")):
        session.store.records.append(make_record(REQUEST, f"2026-{number}", loss=number / 100, status=status))


def show_states(session: FakeSession) -> None:
    session.loss = 0.02
    session.rate_pps = 1000
    for _ in range(5):
        session.advance()
    for node, state in (("src2", NodeState.LOST), ("src3", NodeState.FAILED), ("snk2", NodeState.CONNECTING)):
        session.say(NodeChanged(node=node, state=state, message="no answer"))
    for severity in ("information", "warning", "error"):
        session.say(Notice(severity=severity, message=f"this is {severity}"))


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "good.yaml").write_text(PLAN)
    (tmp_path / "plans" / "bad.yaml").write_text(PLAN.replace("10Mbit", "100"))


async def pictures(size: tuple[int, int], theme_name: str) -> dict[str, list[str]]:
    """Every screen's text, checked for cells that only their colour tells apart."""
    made: dict[str, list[str]] = {}

    def session() -> LabSession:
        started = LabSession()
        prepare(started)
        return started

    async with console(session, size) as (app, lab, pilot):
        app.theme = theme_name
        await until(pilot, lambda: len(app.runs) == 4)
        show_states(lab)
        for tab in app.tabs:
            app.action_mode(tab.mode)
            await until(pilot, lambda mode=tab.mode: app.current_mode == mode and app.screen.is_mounted)  # type: ignore[misc]
            for _ in range(3):
                await until(pilot, lambda: not any(w.is_running and w.group != "trial" for w in app.workers))
                await settle(app, pilot)
            app.screen.tick()  # type: ignore[attr-defined]
            await settle(app, pilot)
            made[tab.title] = picture(app)
            assert any(f"[{tab.key} {tab.title}]" in line for line in made[tab.title][:1])
            told_apart_by_text(app)
    return made


SAID_BY_THEIR_ROW = ("name", "rx_spark", "tx_spark")
"""Columns that are dimmed where another cell of the row says why."""


def told_apart_by_text(app: ConsoleApp) -> None:
    for table in app.screen.query(LineTable):
        if not table.display or not table.size.width:
            continue
        tones: dict[tuple[str, str], set[str]] = {}
        for key in table._keys:
            for (column, _), (words, tone) in zip(table._layout, table._row(key), strict=False):
                if words.strip() and column.name not in SAID_BY_THEIR_ROW:
                    tones.setdefault((column.name, words.strip()), set()).add(tone)
        only_by_colour = {what: found for what, found in tones.items() if len(found) > 1 and "strong" not in found}
        assert not only_by_colour, (table, only_by_colour)


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [SIZES[0], SIZES[-1]])  # the fewest columns and words, and all of them
async def test_every_screen_says_the_same_without_colours(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch, still_clocks: None, plans: None
) -> None:
    coloured = await pictures(size, theme.DARK.name)
    high_contrast = await pictures(size, theme.HIGH_CONTRAST.name)
    monkeypatch.setenv("NO_COLOR", "1")
    grey = await pictures(size, theme.DARK.name)
    assert coloured == high_contrast == grey
    assert len(coloured) == 7


def contrast(one: Color, other: Color) -> float:
    """As WCAG 2.2 defines it."""

    def luminance(colour: Color) -> float:
        parts = [part / 255 for part in colour.rgb]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("ours", "least"), [(theme.DARK, 4.5), (theme.LIGHT, 4.5), (theme.HIGH_CONTRAST, 7.0)])
def test_what_is_written_can_be_read_on_what_it_stands_on(ours: Theme, least: float) -> None:
    variables = ours.to_color_system().generate() | ours.variables
    for text, ground in itertools.product(
        ("foreground", "success", "warning", "error", "accent"), ("background", "panel")
    ):
        assert contrast(Color.parse(variables[text]), Color.parse(variables[ground])) >= least, (text, ground)
