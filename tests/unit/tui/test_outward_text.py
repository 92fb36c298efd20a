"""What leaves the console by another way than its screens is words: clipboard, toasts, files, a crash's traceback."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable
from pathlib import Path

import pytest
from rich.console import Console
from rich.traceback import Traceback

from labconsole.measure.comparison import Pair
from labconsole.tui.console.runtime import SanitizingApp, SanitizingSegments
from labconsole.tui.console.state import Entry
from labconsole.tui.parts import dialogs
from labconsole.tui.screens.runs.run_pages import comparison_lines
from support.foreign_words import PIECES, check_tabs
from support.fuzzing import harmful
from support.store_samples import sample_record

WORDS = "".join(PIECES)


@pytest.mark.asyncio
async def test_the_clipboard_and_toasts_take_words_alone() -> None:
    app = SanitizingApp()
    async with app.run_test() as pilot:
        app.copy_to_clipboard(WORDS)
        assert app.clipboard and not harmful(app.clipboard)
        app.screen.notify(f"[b]{WORDS}", title=WORDS, markup=True)
        await pilot.pause()
        (told,) = app._notifications
        assert not harmful(told.message) and not harmful(told.title) and not told.markup
        assert "[b]" in told.message


def test_the_console_is_such_an_app_and_no_screen_goes_around_it() -> None:
    from labconsole.tui.app import ConsoleApp

    assert ConsoleApp.copy_to_clipboard is SanitizingApp.copy_to_clipboard
    assert ConsoleApp.notify is SanitizingApp.notify


def test_a_crash_is_told_in_colours_of_ours_alone() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=100)
    console.push_render_hook(SanitizingSegments(console))
    try:
        raise RuntimeError(WORDS.replace("\ud800", ""))
    except RuntimeError:
        console.print(Traceback(show_locals=True))
    assert "RuntimeError" in out.getvalue() and not harmful(out.getvalue())


def test_the_apps_last_words_go_through_the_same() -> None:
    hooks = SanitizingApp().error_console._render_hooks
    assert [type(hook) for hook in hooks] == [SanitizingSegments]


def test_a_line_of_the_log_is_one_line() -> None:
    entry = Entry(1, 0.0, WORDS, "error", WORDS, WORDS)
    assert not harmful(entry.line("now")) and "\n" not in entry.line("now")


def test_a_new_file_holds_words(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    ask = dialogs.ask_new_file("it", str(path), "", {".tsv": lambda: WORDS}, lambda _: None)
    taken: Awaitable[str] = ask._take(str(path))

    async def answer() -> str:
        return await taken

    assert asyncio.run(answer()) == ""
    assert not harmful(path.read_text(encoding="utf-8"))


def test_differences_of_runs_are_cells_without_formulas() -> None:
    left, right = sample_record(0, operator=WORDS), sample_record(1)
    pairs = [*(Pair("s", piece, piece, "x") for piece in PIECES), Pair("s", "rate", 2.0, 1.0, "pps")]
    text = "\n".join(comparison_lines(left, right, pairs))
    check_tabs(text, 5)
    assert "\t-50 %" in text, "a number stays one"
