"""Keys: none means two things in one place, every terminal delivers them, every one is in the help."""

from __future__ import annotations

import re

import pytest
from textual.binding import Binding
from textual.widgets import Input

from labconsole.tui.app import ConsoleApp
from labconsole.tui.keymap import DIALOGS, PARTS
from labconsole.tui.parts.action import HasActions, display_key
from labconsole.tui.parts.overlay import Help
from labconsole.tui.parts.screen import ConsoleScreen
from labconsole.tui.parts.step_screen import StepScreen, StepSelection
from labconsole.tui.parts.stored_trials import StoredTrials
from labconsole.tui.screens import SCREENS
from labconsole.tui.screens.plans.searches_table import SearchesTable
from support.driven_console import console, settle
from support.fake_lab_session import LabSession

ALL_SCREENS = [entry.load() for entry in SCREENS]
UNDELIVERED = re.compile(r"ctrl\+(m|i|j|h|b|\[)|alt\+|ctrl\+enter|shift\+enter")
"""Keys that terminals send as something else, or that tmux keeps for itself."""


def declared(*classes: type) -> list[str]:
    bindings = [b for c in classes for b in c.__dict__.get("BINDINGS", []) if isinstance(b, Binding)]
    return [key for b in bindings for key in b.key.split(",")]


@pytest.mark.parametrize("screen", ALL_SCREENS)
@pytest.mark.parametrize("widget", PARTS.values())
def test_no_two_bindings_overlap_where_the_focus_can_be(screen: type[ConsoleScreen], widget: type) -> None:
    keys = declared(widget) + declared(screen, ConsoleScreen) + declared(ConsoleApp)
    assert len(keys) == len(set(keys)), sorted(k for k in keys if keys.count(k) > 1)


@pytest.mark.parametrize("screen", ALL_SCREENS)
def test_no_key_of_the_console_is_taken_by_a_text_field(screen: type[ConsoleScreen]) -> None:
    editing = {k for b in Input.BINDINGS if isinstance(b, Binding) for k in b.key.split(",")}
    assert not editing & {*declared(screen, ConsoleScreen), *declared(ConsoleApp)}


@pytest.mark.asyncio
async def test_no_binding_hides_another_wherever_the_focus_can_be_on_any_screen() -> None:
    """On the screens as they are mounted: from each widget that can have the focus up to the application."""
    async with console(LabSession) as (app, _, pilot):
        for entry in SCREENS:
            await pilot.press(entry.function_key)
            await settle(app, pilot)
            assert isinstance(app.screen, ConsoleScreen) and app.screen.tab is entry
            for widget in [w for w in app.screen.query("*") if w.can_focus and not isinstance(w, Input)]:
                classes = [c for node in widget.ancestors_with_self for c in type(node).__mro__]
                ours = dict.fromkeys(c for c in classes if c.__module__.startswith("labconsole."))
                keys = declared(*ours)
                twice = sorted({key for key in keys if keys.count(key) > 1})
                assert not twice, (entry.title, widget, twice)


@pytest.mark.parametrize("modal", DIALOGS.values())
def test_no_two_bindings_overlap_in_a_question(modal: type) -> None:
    keys = declared(modal)
    assert len(keys) == len(set(keys))


def test_only_keys_that_every_terminal_delivers_are_used() -> None:
    for key in declared(ConsoleApp, ConsoleScreen, *ALL_SCREENS, *PARTS.values(), *DIALOGS.values()):
        assert not UNDELIVERED.match(key), key


def test_every_key_has_an_id_for_keymaps_and_words_for_help() -> None:
    owners: tuple[type[HasActions], ...] = (ConsoleApp, *ALL_SCREENS, *PARTS.values(), *DIALOGS.values())
    for owner in owners:
        for action in owner.declared_actions():
            assert action.id or not action.keys, action
            assert action.sentence, action


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("equals_sign", "="),
        ("question_mark", "?"),
        ("slash", "/"),
        ("ctrl+q", "^q"),
        ("f10", "F10"),
        ("f", "f"),
        ("escape", "esc"),
        ("space", "space"),
        ("pageup", "PgUp"),
        ("T", "T"),
        ("upper_t", "T"),
        ("shift+up", "shift+↑"),
    ],
)
def test_a_key_is_named_as_it_is_on_the_keyboard(key: str, word: str) -> None:
    assert display_key(key) == word


@pytest.mark.asyncio
async def test_help_and_palette_name_only_keys_that_work_here() -> None:
    async with console(LabSession) as (app, _, pilot):
        for entry in SCREENS:
            await pilot.press(entry.function_key)
            await settle(app, pilot)
            screen = app.screen
            assert isinstance(screen, ConsoleScreen)
            nodes = (screen, *screen.query("*"), app)
            keys = {key for node in nodes for key in node._bindings.key_to_bindings}
            bound = {display_key(key) for key in keys}
            offered = list(app.get_system_commands(app.screen))
            named = [
                (c.title, key)
                for c in offered
                for words in re.findall(r"\(([^()]*)\)$", c.help)
                for key in words.split(", ")
            ]
            assert named and not [(title, key) for title, key in named if key not in bound]
            assert len({c.title for c in offered}) == len(offered)
            rows = [row for _, rows in app.help_sections(screen)[:2] for row in rows]
            assert not [keys for keys, _ in rows if "_" in keys]


OVERLAYS = {
    "a search or trial": ("Previous", lambda app: StepScreen(app, lambda: StepSelection.of(None))),
    "stored trials of guests": (
        "Curves",
        lambda app: StoredTrials(app, app.session.store, lambda: 0),
    ),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("title", OVERLAYS)
async def test_help_is_there_over_the_screen_too_and_names_the_keys_of_what_is_seen(title: str) -> None:
    label, make = OVERLAYS[title]
    async with console(LabSession) as (app, _, pilot):
        view = make(app)
        app.push_screen(view)
        await settle(app, pilot)
        await pilot.press("question_mark")
        await settle(app, pilot)
        assert isinstance(app.screen, Help)
        sections = dict(app.help_sections(view))
        own = {action.label: action.sentence for action in view.declared_actions()}
        assert own[label] in [sentence for _, sentence in sections[f"In {title}"]]
        assert [keys for keys, _ in sections["Everywhere"]] == ["^q"], "no other key of the console works here"
        await pilot.press("question_mark")
        await settle(app, pilot)
        assert isinstance(app.screen, type(view))


def test_help_tells_that_enter_shows_a_trial_of_guests() -> None:
    (told,) = SearchesTable.ACTIONS
    assert all(noun in told.sentence for noun in ("search", "flows", "routers", "jobs", "starts"))
