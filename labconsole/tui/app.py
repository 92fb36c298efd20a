"""The console: wires a session to screens, from the first start on. It measures nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from textual import work
from textual.actions import parse
from textual.app import App, ComposeResult, SystemCommand
from textual.dom import DOMNode
from textual.markup import escape
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Static
from textual.worker import WorkerFailed

from labconsole.engine.live.events import Event, Notice, TrialFinished
from labconsole.engine.protocol import SessionFactory, SessionLike
from labconsole.errors import LabError
from labconsole.model.record.summary import RunSummary
from labconsole.text.cells import safe
from labconsole.tui.console import clock, theme
from labconsole.tui.console.memory import ConsoleMemory
from labconsole.tui.console.runtime import (
    HangUpDriver,
    KeyQueueApp,
    SanitizingApp,
    StyleSheet,
    ThrottledSelector,
    detach,
    freeze_garbage_collector,
    terminal_is_gone,
)
from labconsole.tui.console.saved_runs import SavedRuns
from labconsole.tui.console.settings import Settings, load_settings, memory_path, theme_path
from labconsole.tui.console.state import ConsoleState, JournalHandler
from labconsole.tui.keymap import PARTS, KeyScopes, check_settings, collect_key_scopes, themes
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.away_notifier import SINCE
from labconsole.tui.parts.dialogs import Confirm
from labconsole.tui.parts.overlay import Help, Overlay, key_sections
from labconsole.tui.parts.screen import ConsoleScreen, DocumentedScreen, NavigationHistory
from labconsole.tui.parts.trial_runner import SearchRunnerApp
from labconsole.tui.screens import SCREENS, ScreenEntry

if TYPE_CHECKING:  # a console with a testbed needs no discovery, and shows the bench sooner
    from labconsole.tui.parts.screen import ReadTrends
    from labconsole.tui.screens.first.screen import FirstStart


# -- help entries ------------------------------------------------------------------------------------------------------
# Texts of all actions, for the help of the active screen and for the command palette.

Sections = list[tuple[str, list[tuple[str, str]]]]


def help_sections(everywhere: Sequence[Action], screen: Screen[Any], keymap: Mapping[str, str]) -> Sections:
    """Keys by where they work, those of the active screen first. An overlay hides what works everywhere else."""
    sections = {}
    if isinstance(screen, Overlay):
        sections = {f"In {screen.title_in_help}": screen.declared_actions()}
        everywhere = [action for action in everywhere if action.priority]
    if isinstance(screen, DocumentedScreen):
        sections = {f"On the {screen.title_in_help} screen": [each for _, each in screen.documented_actions()]}
    parts = {f"In {place}": owner.ACTIONS for place, owner in PARTS.items()}
    return key_sections({**sections, "Everywhere": everywhere, **parts}, keymap)


def list_palette_commands(
    app: App[Any], everywhere: Iterable[Action], screen: Screen[Any], keymap: Mapping[str, str]
) -> Iterable[SystemCommand]:
    """Everything that is possible now, each once."""
    documented: list[tuple[DOMNode, Action]] = [(app, action) for action in everywhere]
    if isinstance(screen, DocumentedScreen):
        documented += screen.documented_actions()
    offered: set[tuple[DOMNode, str, tuple[object, ...]]] = set()
    for node, action in documented:
        place, name, parameters = parse(action.does)
        does = ({"app": app, "screen": screen}.get(place, node), name, parameters)
        if does not in offered and does[0].check_action(name, parameters):
            offered.add(does)
            title, description = action.format_palette_entry(keymap)
            yield SystemCommand(escape(title), escape(description), partial(app.run_action, action.does, node))


# -- app ---------------------------------------------------------------------------------------------------------------
# The console: wires a session to screens. It measures nothing and decides nothing about measurements.
#
# The session is made after the first frame is on screen, on the app's own loop, because connecting takes longer than an
# operator should look at an empty screen. Every way out (q, ctrl+q, SIGTERM, SIGHUP) goes through ``leave``: stop
# traffic, let the engine keep what was counted, close the session.

RUNS_SHOWN = 500


class ConsoleApp(HasActions, SearchRunnerApp, KeyQueueApp, SanitizingApp):
    """The application. ``session`` is None until it is open.

    Without a session factory there is no testbed yet, and ``first`` is the first start.
    """

    TITLE = "labconsole"
    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    ACTIONS = (
        *(entry.action() for entry in SCREENS),  # not in the key bar: the top bar names them all
        SINCE,
        Action(
            "y",
            "copy_run_id",
            "Copy",
            "Copy the run's id, or what the cursor is on, to the clipboard.",
            id="copy",
            title="Copy run id",
        ),
        Action(
            "d",
            "toggle_dark",
            "Light/dark",
            "Switch between the light and the dark theme.",
            id="dark",
            title="Light or dark",
            shown=False,
        ),
        Action("question_mark,f1", "help", "Help", "Show all keys and explain the terms.", id="help"),
        Action("q", "quit", "Quit", "Quit; asks first if a trial is running.", id="quit"),
        Action("ctrl+q", "quit", "Quit", "Quit, even while typing.", id="quit-always", shown=False, priority=True),
        Action("", "change_theme", "Theme", "Choose any theme."),
    )

    def __init__(
        self,
        session_factory: SessionFactory | None,
        settings: Settings | None = None,
        memory: ConsoleMemory | None = None,
        *,
        first: FirstStart | None = None,
        alone: bool = False,
        read_trends: ReadTrends | None = None,
    ) -> None:
        super().__init__(driver_class=HangUpDriver)
        self.stylesheet = StyleSheet(variables=self.get_css_variables())
        self.tabs = SCREENS
        self._alone = alone
        self.read_trends = read_trends
        self.settings = settings or Settings()
        self.memory = memory or ConsoleMemory(None)
        self._factory = session_factory
        self.session: SessionLike | None = None
        self.state = ConsoleState()
        self._journal = JournalHandler(self.state.journal)
        self.runs: Sequence[RunSummary] = ()
        self.saved: SavedRuns | None = None
        self.navigation = NavigationHistory(self)
        self.failure: LabError | None = None
        self._leaving = self._connecting = self._check_at_once = self.hung_up = False
        self._first = first
        self.afterwards: Callable[[], int] | None = None
        """Called after the operator has left the console."""

        for each in theme.THEMES:
            self.register_theme(each)
        self.theme = self._first_theme()
        self.set_keymap(self.settings.keymap)

    def compose(self) -> ComposeResult:
        yield Static(" labconsole   connecting to the testbed …", id="opening", markup=False)

    def on_mount(self) -> None:
        self._journal.attach()
        self.theme_changed_signal.subscribe(self, self._theme_chosen)
        for number, handler in ((signal.SIGTERM, self.leave), (signal.SIGHUP, self.hang_up)):
            # Not every host of the app lets signals be set (tests run it in other threads).
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(number, handler)
        if self._alone and terminal_is_gone(0):
            self.hang_up()  # the terminal closed before any handler was installed
            return
        self.call_after_refresh(self._open)

    def on_unmount(self) -> None:
        self._journal.detach()
        self.end_calling()

    def _first_theme(self) -> str:
        """The settings' theme, or the last chosen one if they name none."""
        chosen = None if "theme" in self.settings.model_fields_set else self.memory.recall_theme()
        return chosen if chosen in themes() else self.settings.theme

    def _theme_chosen(self, chosen: Theme) -> None:
        self.memory.keep_theme(chosen.name)

    def _open(self) -> None:
        if self._factory is None:
            self._show_first_start()
            return
        try:
            session = self._factory()
        except LabError as exc:
            self.failure = exc
            self.exit(exc.exit_code)
            return
        self.session = session
        self.saved = SavedRuns(session.store)
        defaults = session.inventory.defaults
        self.state.read_only, self.state.announcer = session.read_only, session.inventory.streams[0].source.node
        self.state.wait_per_trial_s = defaults.drain_s + defaults.settle_s
        self.begin_calling(session.inventory.testbed)
        session.subscribe(self._on_event)
        for entry in SCREENS:
            self.add_mode(entry.mode, partial(self._make_screen, entry, session))
        self.switch_mode(SCREENS[0].mode)

    def _show_first_start(self) -> None:
        from labconsole.tui.screens.first.screen import FirstScreen

        if self._first is not None:
            self.push_screen(FirstScreen(self, self._first))

    def start_session(self, session: Callable[[], SessionLike]) -> None:
        """Continue with the new testbed, and check it."""
        self._factory, self._check_at_once = session, True
        self.pop_screen()
        self._open()

    async def _check_new_testbed(self) -> None:
        """Check a new testbed once all its nodes were tried: is it fit to measure on?"""
        if self._check_at_once:
            await self.switch_mode("check")
            self.screen.call_after_refresh(partial(self.screen.run_action, "run"))

    def _make_screen(self, entry: ScreenEntry, session: SessionLike) -> ConsoleScreen:
        return entry.load()(self, session, entry)

    def bench_is_painted(self) -> None:
        """Start all slow work: the bench is on screen."""
        if self.session is not None and not self._connecting:
            self._connecting = True
            self._freeze_garbage_collector()
            self._connect(self.session)

    @work(group="connect")
    async def _connect(self, session: SessionLike) -> None:
        """Open the store and connect, then import plotext (0.12 s) and the screens.

        Otherwise the first trial's first frame and the first look at another screen would wait for these imports.
        """

        def import_the_rest() -> None:
            import plotext  # noqa: F401

            for entry in SCREENS:
                entry.load()

        try:
            await session.open()
        except LabError as exc:
            self.failure = exc
            self.leave()
            return
        if self._leaving:
            return
        self.load_runs()
        await session.connect()
        await asyncio.to_thread(import_the_rest)
        self._style_screens()
        self._freeze_garbage_collector()
        if not self._leaving:
            await self._check_new_testbed()

    def _style_screens(self) -> None:
        """Read the screens' style sheets at once. Otherwise each screen restyles everything when it is first shown."""
        for screen in (entry.load() for entry in SCREENS):
            self.stylesheet.read(Path(inspect.getfile(screen)).with_name(str(screen.CSS_PATH)))
        self.stylesheet.reparse()
        self.stylesheet.update(self)

    def _freeze_garbage_collector(self) -> None:
        """Freeze the garbage collector if the process ends with the console. Elsewhere nothing would ever be freed."""
        if self._alone:
            freeze_garbage_collector()

    def can_throttle(self) -> bool:
        """Whether messages of nodes may wait until more of them have arrived."""
        return self.session is not None and not self._leaving and not self.session.timing_matters

    def _on_event(self, event: Event) -> None:
        """Handle an event of the engine. Called on the event loop."""
        self.state.apply(event, now_s=clock.monotonic_s(), wall_s=clock.wall_s())
        self.heard(event)
        for screen in self.console_screens():
            screen.engine_event(event)
        if isinstance(event, TrialFinished):
            self.load_runs()
        elif isinstance(event, Notice) and event.severity == "error":
            self.tell(event.message, "error", note=False)

    def tell(self, message: str, severity: str = "information", *, note: bool = True) -> None:
        """Show a message in the event line and as a toast."""
        if note:
            self.state.note(clock.wall_s(), message, severity)
        known = severity if severity in ("information", "warning", "error") else "information"
        self.notify(safe(message, 400), severity=known, markup=False)  # type: ignore[arg-type]

    @work(exclusive=True, group="runs")
    async def load_runs(self) -> None:
        """Read the list of runs in a thread, and pass it to the screens."""
        if self.session is None:
            return
        store = self.session.store
        try:
            self.runs = await asyncio.to_thread(lambda: list(store.list(limit=RUNS_SHOWN)))
        except LabError as exc:
            self.tell(str(exc), "error")
            return
        for screen in self.console_screens():
            screen.show_runs(self.runs)

    def console_screens(self) -> list[ConsoleScreen]:
        """The screens visited so far, visible or not."""
        stacks = [screen for stack in self._screen_stacks.values() for screen in stack]
        return [screen for screen in stacks if isinstance(screen, ConsoleScreen) and screen.is_up]

    @work(group="ask", exclusive=True)
    async def _ask_and_leave(self) -> None:
        what = f"A {self.state.what_runs} is running. Quit?"
        question = Confirm(what, f"Traffic is stopped first. {self.state.kept_trials_text}")
        if not self.trial_runs() or await self.push_screen_wait(question):
            self.leave()

    async def action_quit(self) -> None:
        """Leave; ask once while a trial runs."""
        if self.trial_runs() and not self._leaving:
            self._ask_and_leave()
        else:
            self.leave()

    def leave_and_run(self, afterwards: Callable[[], int]) -> None:
        """Leave the console, then call ``afterwards``."""
        self.afterwards = afterwards
        self.leave()

    @work(group="leave")
    async def leave(self) -> None:
        """Stop traffic, wait until the engine has kept what was measured, close, exit."""
        if self._leaving:
            return
        self._leaving = True
        for screen in self.screen_stack:
            if isinstance(screen, DocumentedScreen):
                await screen.give_up()
        session = self.session
        if session is not None:
            await self.stop_traffic(session)
            trials = [worker for worker in self.workers if worker.group == "trial"]
            for worker in trials:
                with contextlib.suppress(WorkerFailed):
                    await worker.wait()
            try:
                await session.close()
            except LabError as exc:
                self.failure = exc
            except TimeoutError:
                self.failure = LabError("the session did not close in time; agents end when their connection is closed")
        if self._alone:
            self._ignore_signals()
        self.exit(0 if self.failure is None else self.failure.exit_code)

    def _ignore_signals(self) -> None:
        """Ignore signals from here on: the loop would restore their handlers, and a signal would end the process.

        A closed terminal sends two signals, the second when its shell ends.
        """
        # Not every host of the app lets signals be set, as in on_mount.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only the other screens, and nothing of a testbed before there is one."""
        if self.session is None and action in ("mode", "copy_run_id", "since"):
            return False
        return not (action == "mode" and parameters == (self.current_mode,))

    def hang_up(self) -> None:
        """Leave as with q, but without painting or writing: the terminal is gone."""
        if not self.hung_up:
            self.hung_up = True
            detach()
            self.leave()

    def panic(self, *renderables: RenderableType) -> None:
        """Handle Textual's panic. Its input thread also panics when the terminal goes away, which is a hang-up."""
        if self.hung_up or terminal_is_gone(0):
            self.hang_up()
        else:
            super().panic(*renderables)

    def action_mode(self, mode: str) -> None:
        """Go to a screen, once there is a session."""
        if self.session is not None and self.current_mode != mode:
            self.navigation.forget()
            self.switch_mode(mode)

    def action_copy_run_id(self) -> None:
        """Copy the run ids that the screen in front offers."""
        lines = self.screen.lines_to_copy() if isinstance(self.screen, ConsoleScreen) else []
        if not lines:
            self.notify("There is no run to copy yet.", markup=False)
            return
        self.copy_lines(lines)
        self.notify(f"Copied {safe(' '.join(lines), 80)}", markup=False)

    def action_toggle_dark(self) -> None:
        """Switch between a light and a dark theme."""
        self.theme = theme.LIGHT.name if self.current_theme.dark else theme.DARK.name

    def action_help(self) -> None:
        """Show every key of the active screen."""
        self.push_screen(Help(self.help_sections(self.screen)))

    def help_sections(self, screen: Screen[Any]) -> Sections:
        """Keys by where they work, those of this screen first."""
        return help_sections(self.declared_actions(), screen, self.settings.keymap)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Everything that is possible now, each once."""
        return list_palette_commands(self, self.offered_actions(), screen, self.settings.keymap)


def places() -> KeyScopes:
    """The scopes in which actions have keys. Imports every screen."""
    return collect_key_scopes(ConsoleApp, SCREENS)


def run_console(
    session_factory: SessionFactory | None,
    read_trends: ReadTrends | None = None,
    *,
    first: FirstStart | None = None,
) -> int:
    """Run the console until the operator leaves it, then print what was saved and where. Returns the exit status.

    Without a session factory the ``first`` start is shown, which leads to one.

    Raises ConfigError if the settings file is invalid.
    """
    settings = load_settings()
    check_settings(settings, places)
    gc.disable()  # until the bench is painted; objects made before that live on anyway
    app = ConsoleApp(
        session_factory,
        settings,
        ConsoleMemory(memory_path() if settings.remember_set_up else None, theme_path()),
        first=first,
        alone=True,
        read_trends=read_trends,
    )
    selector = ThrottledSelector(app.can_throttle)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        status = runner.run(app.run_async())
    if app.failure is not None:
        print(f"labconsole: {app.failure}", file=sys.stderr)
    location = app.session.store.name if app.session is not None else None
    for line in app.state.describe_saved_runs(location):
        print(line)
    if app.afterwards is not None:
        return app.afterwards()
    return app.return_code or 0 if status is None else status
