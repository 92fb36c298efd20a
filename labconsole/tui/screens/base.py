"""What every screen of the console has: one paint timer, the pause, access to what it shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ScreenStackError
from textual.binding import Binding
from textual.screen import ModalScreen, Screen

from labconsole.engine.events import Event
from labconsole.tui import clock
from labconsole.tui.session import RunSummaryLike, SessionLike
from labconsole.tui.settings import Settings
from labconsole.tui.state import ConsoleState
from labconsole.tui.widgets.status import TopBar

if TYPE_CHECKING:
    from labconsole.tui.app import ConsoleApp

PAUSE = Binding(
    "space",
    "pause",
    "Pause",
    id="pause",
    key_display="space",
    tooltip="Stop painting, to read in peace; everything is still recorded.",
)


def frames_per_second(settings: Settings) -> float:
    """How often to look for something new to paint: through SSH or tmux every frame is bytes on somebody's line."""
    remote = os.environ.get("SSH_CONNECTION") or os.environ.get("TMUX")
    return settings.remote_frames_per_second if remote else settings.frames_per_second


class ConsoleScreen(Screen[None]):
    """A screen that looks at telemetry on a timer; samples never arrive as messages."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (104, "-normal"), (168, "-wide")]  # noqa: RUF012 - as Textual has it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012
    WHERE: ClassVar[str] = ""

    def __init__(self, session: SessionLike, state: ConsoleState) -> None:
        super().__init__()
        self.session, self.state = session, state
        self._seen: tuple[object, ...] = ()
        self.composed = False
        """True once all parts of the screen are there: Textual calls a screen mounted before."""

        self.paused = False

    @property
    def console_app(self) -> ConsoleApp:
        from labconsole.tui.app import ConsoleApp

        assert isinstance(self.app, ConsoleApp)
        return self.app

    def on_mount(self) -> None:
        self.composed = True
        self.set_interval(1 / frames_per_second(self.console_app.settings), self.tick)

    @property
    def standing(self) -> bool:
        """All its parts are there: they are composed, and the console is not being taken apart yet."""
        return self.composed and self.display

    def on_screen_resume(self) -> None:
        self._seen = ()
        self.call_after_refresh(self.tick)

    def top_bar(self) -> TopBar:
        """The first line of every screen."""
        bar = TopBar(self.WHERE, self.session.inventory, self.session.telemetry, self.state)
        bar.read_only = self.session.read_only
        return bar

    def tick(self) -> None:
        """Paint if this screen is in sight and something moved."""
        if not self.standing or self.console_app.hung_up:
            return
        try:
            front = self.app.screen
        except ScreenStackError:
            return  # the console is being left: its timers end after its screens
        if not (front is self or isinstance(front, ModalScreen)):
            return
        self.query_one(TopBar).paint()
        if self.paused:
            return
        self.paint_clock()
        seen = (self.session.telemetry.revision, self.state.revision)
        if seen != self._seen:
            self._seen = seen
            self.paint_data()

    def paint_clock(self) -> None:
        """What moves with time alone."""

    def paint_data(self) -> None:
        """What moves with telemetry and events."""

    def show_runs(self, runs: Sequence[RunSummaryLike]) -> None:
        """The newest saved runs were read again."""

    def engine_event(self, event: Event) -> None:
        """The engine said something; called on the event loop, whether this screen is in sight or not."""

    def commands(self) -> Iterable[tuple[str, str, Callable[[], object]]]:
        """(name, words, what it does) for the command palette: everything that has a key here."""
        return ()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.query_one(TopBar).paused_since_s = clock.monotonic_s() if self.paused else None
        self._seen = ()
        self.tick()

    def run_id_to_copy(self) -> str | None:
        """What ``y`` copies."""
        return None
