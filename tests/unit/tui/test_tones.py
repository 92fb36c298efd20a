"""The colours of tones go with the theme, and no style sheet is read more often than it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from textual.css import stylesheet
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.strip import Strip

from labconsole.tui.app import ConsoleApp
from labconsole.tui.console.runtime import StyleSheet
from labconsole.tui.console.theme import DARK
from labconsole.tui.parts.lines import Tones
from support.driven_console import console, settle, still


def painted(app: ConsoleApp) -> list[Strip]:
    return app.screen._compositor.render_strips()


@pytest.mark.parametrize("mode", ["bench", "nodes"])
def test_a_theme_with_other_tones_only_paints_them_anew(mode):
    other = replace(DARK, name="other", accent="#ff00ff", secondary="#00ff00", warning="#0000ff")

    async def drive():
        async with console() as (app, _, pilot):
            app.action_mode(mode)
            await still(app, pilot)
            app.register_theme(other)
            await settle(app, pilot)
            before = painted(app)
            app.theme = other.name
            await still(app, pilot)
            await settle(app, pilot)
            after = painted(app)
            for tones in app.screen.query(Tones):
                tones.refresh()
            await settle(app, pilot)
            assert painted(app) == after != before

    asyncio.run(drive())


def test_a_tone_that_nobody_has_is_refused():
    async def drive():
        async with console() as (app, _, _):
            with pytest.raises(KeyError):
                app.screen.query(Tones).first().tone("mauve")

    asyncio.run(drive())


def test_a_style_sheet_is_parsed_again_only_with_other_variables(monkeypatch: pytest.MonkeyPatch):
    parsed: list[str] = []

    def counted(scope: str, css: str, *args: Any, **named: Any) -> Iterable[RuleSet]:
        parsed.append(css)
        return parse(scope, css, *args, **named)

    monkeypatch.setattr(stylesheet, "parse", counted)
    first, second = ".sheet-of-this-test { color: $mine; }", ".another-of-this-test { color: red; }"
    sheet = StyleSheet(variables={"mine": "red"})
    sheet.add_source(first)
    sheet.reparse()
    sheet.set_variables({"mine": "red"})
    sheet.add_source(second)
    sheet.reparse()
    assert parsed == [first, second]
    sheet.set_variables({"mine": "blue"})
    sheet.reparse()
    assert parsed == [first, second, first, second]
    assert [rule.styles.color.css for rule in sheet.rules] == ["rgb(0,0,255)", "rgb(255,0,0)"]
