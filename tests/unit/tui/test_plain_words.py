"""What people read is in plain words, and names the same thing in the same way wherever it is shown."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labconsole.engine.execution.progress import ExecutionStatus
from labconsole.engine.live.events import TrialFinished, TrialStarted
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import Reason, RunRecord, Verdict
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console import clock
from labconsole.tui.parts.fields import Field
from labconsole.wire.links import NodeLinkState
from support import fake_lab_session
from support.driven_console import SIZES, console, picture, shown, until
from support.fake_lab_session import LabSession
from support.fake_session import FakeSession, link, make_record

pytestmark = pytest.mark.asyncio

REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10_000_000, duration_s=5.0)
TITLE, CODE = "sending took too long", "duration_stretched"
LONG = "s1: sent for 7.235 s instead of 5 s, and nothing but the generator itself shows what held the source back"
RATE = {"offered_pps": 1_200_000.0}
STRETCHED = Verdict(status="suspect", reasons=(Reason(code=CODE, detail="s1: sent for 7.2 s instead of 5 s"),))


def stretched(*args: Any, **kwargs: Any) -> RunRecord:
    return make_record(*args, **kwargs).model_copy(update={"verdict": STRETCHED})


async def test_the_reasons_of_a_verdict_begin_with_a_title_and_name_the_code_where_one_filters_by_it() -> None:
    def session() -> FakeSession:
        made = FakeSession()
        made.store.records.append(stretched(REQUEST, "run0"))
        return made

    async with console(session) as (app, made, pilot):
        await pilot.press("2")
        await shown(app, pilot, f"{TITLE} ({CODE}): s1: sent for", "→ offer less")
        app.state.watch.ended(clock.wall_s(), made.store.records[0], saved=True)
        await pilot.press("0")
        await shown(app, pilot, f"1 × {TITLE} ({CODE})")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    path = tmp_path / "plans" / "one.yaml"
    path.write_text("plan: one\nplatforms: [raw]\nframe_sizes: [64]\ntargets: [10Mbit]\nduration_s: 5\n")
    return path


async def carried_through(app: ConsoleApp, pilot: Pilot[int]) -> None:
    """Run the plan under the cursor to its end."""
    await pilot.press("4")
    await shown(app, pilot, "one.yaml", "ready")
    await pilot.press("r")
    await until(pilot, lambda: app.state.execution is not None and app.state.plan_over is not None)
    assert app.state.execution is not None and app.state.execution.status is ExecutionStatus.DONE


async def test_the_grid_of_a_plan_says_in_plain_words_why_a_trial_is_not_valid(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_lab_session, "make_record", stretched)
    async with console(LabSession) as (app, _, pilot):
        await carried_through(app, pilot)
        assert CODE not in await shown(app, pilot, f"{TITLE}: s1: sent", f"  ? point 0, rep. 1: {TITLE}  ")


@pytest.mark.parametrize(("size", "words"), [((80, 24), TITLE), ((120, 40), TITLE), ((200, 60), LONG[-40:])])
async def test_the_last_run_says_its_reason_in_words_that_fit(size: tuple[int, int], words: str) -> None:
    reasons = (Reason(code=CODE, detail=LONG), Reason(code="sources_apart", detail="the sources started apart"))

    async with console(FakeSession, size) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: app.state.last is not None and not app.state.requested)
        assert app.state.last is not None
        suspect = Verdict(status="suspect", reasons=reasons)
        app.state.last = app.state.last.model_copy(update={"verdict": suspect})
        app.state.revision += 1
        for key in ("7", "1"):
            await pilot.press(key)
            await until(pilot, lambda: words in picture(app)[1])
            assert "…" not in picture(app)[1]


async def test_the_set_up_chooses_shorter_words_where_there_is_little_room() -> None:
    def session() -> FakeSession:
        made = FakeSession()
        fast = replace(REQUEST, target="max")
        record = make_record(fast, "fast")
        made.store.records.append(record.model_copy(update={"total": record.total.model_copy(update=RATE)}))
        return made

    async with console(session) as (app, _, pilot):
        await pilot.press("e")
        app.screen.query_one("#sources", Field).value = "1"
        for target, words in (
            ("max", "line rate 1\u2009420\u2009455 pps"),
            ("1G", "! at most 1\u2009200\u2009000 pps"),
        ):
            app.screen.query_one("#target", Field).value = target
            row = next(iter([line for line in await lines_with(app, pilot, words) if "Target" in line]))
            assert "…" not in row[:55]


async def test_the_log_says_where_an_entry_comes_from_in_as_many_words_as_fit() -> None:
    async with console() as (app, _, pilot):
        logging.getLogger("labconsole.engine.execution.attempts").warning("tried again")
        app.state.note(0.0, "the disk is full", "error", "snk1")
        await pilot.press("7")
        tried = next(line for line in await lines_with(app, pilot, "tried again") if "! attempts " in line)
        full = next(line for line in await lines_with(app, pilot, "disk is full") if "✗ snk1 " in line)
        assert tried.index("tried again") == full.index("the disk")


async def lines_with(app: ConsoleApp, pilot: Pilot[int], words: str) -> list[str]:
    await shown(app, pilot, words)
    return [line for line in picture(app) if words in line]


@pytest.mark.parametrize("size", SIZES[1:])
async def test_of_the_doubtful_trials_of_a_plan_it_says_how_many_there_are_of_each_kind(
    plan: Path, size: tuple[int, int]
) -> None:
    plan.write_text(plan.read_text() + "repetitions: 5\nmax_redo: 1\norder: as-listed\n")

    def session() -> LabSession:
        made = LabSession()
        made.verdicts = ["valid", "suspect", "invalid", "valid", "invalid", "invalid", "valid"]
        return made

    async with console(session, size) as (app, _, pilot):
        await carried_through(app, pilot)
        await shown(app, pilot, "3 doubtful trials", "1 suspect, 1 invalid, 1 valid when repeated")
        assert app.state.plan_over is not None
        said = app.state.plan_over.text
        assert "5 trials measured (1 invalid, 1 suspect, 3 valid), 0 stored before, 2 repeats" in said


async def test_a_virtual_link_has_no_speed_of_its_own() -> None:
    async with console() as (app, session, pilot):
        port = vars(link("eth1", 2))
        session.telemetry.set_links("src1", [NodeLinkState(**{**port, "kind": None, "driver": "igb"})])
        session.telemetry.set_links("src2", [NodeLinkState(**{**port, "speed_bps": 10**10})])

        def row(node: str) -> str:
            return next((line for line in picture(app) if node in line and " eth1 " in line and "up" in line), "")

        await until(pilot, lambda: " 1\u2009000 " in row("src1"))
        assert " virtual " in row("src2") and "10\u2009000" not in row("src2")


async def test_the_log_and_the_event_lines_say_in_fewer_words_what_would_be_cut() -> None:
    async with console() as (app, session, pilot):
        assert app.state.last is None
        record = make_record(REQUEST, "20260302T091500Z-0abcde")
        suspect = Verdict(status="suspect", reasons=(Reason(code=CODE, detail=LONG),))
        session.say(TrialStarted(run_id=record.run_id, request=REQUEST, repetition=2, repetitions=3))
        session.say(TrialFinished(record=record.model_copy(update={"verdict": suspect}), saved=True))
        brief = f"saved {record.run_id}, suspect: {TITLE}"
        for key in ("1", "7"):
            await pilot.press(key)
            rows = [row.rstrip(" │") for row in await lines_with(app, pilot, brief)]
            assert any(row.endswith(brief) for row in rows)
            assert any(f"trial {record.run_id} (2 of 3): raw 64 B 1×10Mbit" in row for row in picture(app))
        await shown(app, pilot, "shows what held the source back")
