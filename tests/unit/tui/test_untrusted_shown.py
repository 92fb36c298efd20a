"""What Textual paints is words, also where it paints a text as it is: fields, borders, and lines made of spans."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Input

from labconsole.model.record.annotations import RunNote
from labconsole.tui.parts.dialogs import AskText, Pick
from labconsole.tui.parts.fields import TypedText
from labconsole.tui.parts.filter_line import FilterLine, QuickFilter
from labconsole.tui.parts.lines import Lines, Span, set_border_titles
from labconsole.tui.parts.screen import ConsoleScreen
from labconsole.tui.parts.stored_trials import StoredTrials
from labconsole.tui.screens import SCREENS
from support.driven_console import console, picture, settle, until
from support.fake_lab_session import LabSession, result
from support.foreign_words import PIECES
from support.fuzzing import harmful
from support.store_samples import sample_record

WORDS = "".join(PIECES).replace("\ud800", "")


def check(lines: list[str]) -> None:
    assert not harmful("".join(lines)) and not any("\n" in line or "\t" in line for line in lines)


class Spans(Lines):
    def lines(self, width: int) -> list[list[Span]]:
        return [[("1\u2009000 ", "muted"), (WORDS[at:], "")] for at in range(0, len(WORDS), 40)]


class Parts(App[None]):
    """Each part that shows a text which may be somebody else's."""

    def compose(self) -> ComposeResult:
        yield Spans(id="spans")
        yield TypedText(WORDS)
        yield FilterLine()
        yield QuickFilter()


async def _taken(_: str) -> str:
    return WORDS


@pytest.mark.asyncio
async def test_whatever_a_part_is_given_is_painted_as_words() -> None:
    app = Parts()
    async with app.run_test(size=(200, 50)) as pilot:
        app.query_one(FilterLine).put(WORDS)
        app.query_one(QuickFilter).open()
        app.query_one(QuickFilter).query_one(Input).value = WORDS
        spans = app.query_one(Spans)
        spans.styles.border = ("round", "white")
        set_border_titles(spans, WORDS, WORDS)
        spans.paint()
        await pilot.pause()
        shown = ["".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()]
        assert "1\u2009000" in "".join(shown)
        check(shown)
        for dialog in (AskText(WORDS, WORDS, WORDS, _taken), Pick(WORDS, {WORDS: WORDS})):
            app.push_screen(dialog)
            await pilot.pause()
            dialog.query_one(Input).value = WORDS
            await pilot.press("enter")
            await pilot.pause()
            check(["".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()])
            app.pop_screen()


@pytest.mark.asyncio
async def test_somebody_else_s_note_is_edited_as_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def session() -> LabSession:
        fake = LabSession()
        fake.store.records[:] = [sample_record(0)]
        fake.store.notes[sample_record(0).run_id] = RunNote(WORDS, WORDS, "2026-01-01T00:00:00Z")
        return fake

    async with console(session, (120, 40)) as (app, fake, pilot):
        await pilot.press(next(screen.function_key for screen in SCREENS if screen.mode == "runs"))
        await settle(app, pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        await settle(app, pilot)
        check(picture(app))
        value = app.screen.query_one(Input).value
        assert "<script>" in value and len(value) == len(WORDS)
        await pilot.press("x", "enter")
        await until(pilot, lambda: not isinstance(app.screen, AskText))
        kept = fake.store.notes[sample_record(0).run_id].text
        assert kept is not None and kept.rstrip().endswith("x") and not harmful(kept)


@pytest.mark.asyncio
async def test_a_result_of_a_check_is_copied_as_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands behind a line feed is run by a shell into which it is pasted."""
    monkeypatch.chdir(tmp_path)

    def session() -> LabSession:
        fake = LabSession()
        fake.results = [result("mtu", "src1", "fail", WORDS, hint=WORDS)]
        return fake

    async with console(session, (120, 40)) as (app, _, pilot):
        await pilot.press(next(screen.function_key for screen in SCREENS if screen.mode == "check"))
        await settle(app, pilot)
        await pilot.press("r")
        assert isinstance(app.screen, ConsoleScreen)
        screen = app.screen
        await until(pilot, lambda: bool(screen.lines_to_copy()))
        app.action_copy_run_id()
        assert "<script>" in app.clipboard
        check([app.clipboard.replace("\t", " ")])


def test_a_summary_of_trials_is_copied_in_the_lines_that_are_shown() -> None:
    copied: list[str] = []
    screen: Any = SimpleNamespace(
        _sums=True,
        query_one=lambda _: SimpleNamespace(text_lines=["a\nb", "c"]),
        copy_text=lambda text, _: copied.append(text),
    )
    StoredTrials.action_copy(screen)
    assert copied == ["a b\nc"]
