"""A screen is a new directory and a line in ``SCREENS``: nothing else is told of it, nor of what its keys do.

The directory lies on the path of the package that it would lie in, and the application is made a second time, with the
line: what a screen's actions bind is known when its class is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from labconsole.errors import ConfigError
from labconsole.tui import app as app_module
from labconsole.tui import screens
from labconsole.tui.console.settings import Settings
from labconsole.tui.keymap import check_settings
from labconsole.tui.screens import ScreenEntry
from support.driven_console import settle, text, until
from support.fake_session import FakeSession

SCREEN = '''
"""Toys."""

from textual.containers import Container
from textual.widgets import Static

from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.action import KeyBar
from labconsole.tui.parts.screen import ConsoleScreen


class Teddy(HasActions, Static, can_focus=True):
    ACTIONS = (Action("h", "hug", "Hug", "Hug the teddy."), Action("j", "drop", "Drop", shown=False))

    def action_hug(self):
        self.update("hugged")

    def action_drop(self):
        self.update("dropped")


class ToyScreen(ConsoleScreen):
    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action("t,f12", "toy(3)", "Play", "Play with the toy.", id="toy-play"),
        Action("", "toy(9)", "Play more", "Play until tired."),
    )

    def compose(self):
        yield self.top_bar()
        yield Teddy("a teddy", id="teddy")
        yield KeyBar()

    def action_toy(self, times):
        self.query_one(Teddy).update(f"played {times} times")
'''


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The application, with a screen ``toys``."""
    place = tmp_path / "toys"
    place.mkdir()
    (place / "__init__.py").touch()
    (place / "screen.py").write_text(SCREEN)
    (place / "screen.tcss").write_text("#teddy { margin: 2; }\n")
    monkeypatch.setattr(screens, "__path__", [*screens.__path__, str(tmp_path)])
    monkeypatch.setattr(screens, "SCREENS", (*screens.SCREENS, ScreenEntry("toys", "Toys", "8", "f9", "Play.")))
    spec = spec_from_file_location("labconsole.tui.app_with_toys", app_module.__file__)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    yield module
    for name in [name for name in sys.modules if name.startswith(f"{screens.__name__}.toys")]:
        del sys.modules[name]
    vars(screens).pop("toys", None)


@pytest.mark.asyncio
@pytest.mark.parametrize(("keymap", "key"), [({}, "t"), ({"toy-play": "z"}, "z")])
async def test_a_directory_is_a_screen(toys: ModuleType, keymap: dict[str, str], key: str) -> None:
    app = toys.ConsoleApp(FakeSession, Settings(keymap=keymap))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "Bench" in text(app))
        await pilot.press("f9")
        await until(pilot, lambda: type(app.screen).__name__ == "ToyScreen" and app.screen.is_mounted)
        await settle(app, pilot)
        shown = [row for row in text(app).splitlines() if row.strip()]
        assert "8 Toys" in shown[0] and shown[1].strip() == "a teddy"
        assert shown[-1].split() == ["h", "Hug", key, "Play", "y", "Copy", "?", "Help", "q", "Quit"]
        await pilot.press(key)
        await until(pilot, lambda: "played 3 times" in text(app))
        await pilot.press("h")
        await until(pilot, lambda: "hugged" in text(app))

        offered = {command.title: command for command in app.get_system_commands(app.screen)}
        assert offered["Play"].help == f"Play with the toy. ({'z' if keymap else 't, F12'})"
        assert offered["Play more"].help == "Play until tired."
        assert offered["Hug"].help == "Hug the teddy. (h)"
        assert not {"Drop", "Toys"} & set(offered)  # nothing said of it; we are there already
        await offered["Play more"].callback()
        await until(pilot, lambda: "played 9 times" in text(app))

        keys = "z" if keymap else "t F12"
        place, rows = app.help_sections(app.screen)[0]
        assert (place, rows) == ("On the Toys screen", [(keys, "Play with the toy."), ("h", "Hug the teddy.")])
        assert ("8 F9", "Play.") in app.help_sections(app.screen)[1][1]
        await pilot.press("1")
        await until(pilot, lambda: "Toys" in {command.title for command in app.get_system_commands(app.screen)})


def test_the_settings_know_its_keys(toys: ModuleType) -> None:
    check_settings(Settings(keymap={"toy-play": "z"}), toys.places)
    for keymap, complaint in (({"toy-play": "q"}, "toy-play"), ({"toy-stop": "z"}, "go-toys")):
        with pytest.raises(ConfigError, match=complaint):
            check_settings(Settings(keymap=keymap), toys.places)
