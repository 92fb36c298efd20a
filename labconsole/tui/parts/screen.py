"""Base of every screen of the console: one paint timer, the pause, access to the data shown, and the way back."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from textual import on
from textual.app import ScreenStackError
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.live.events import Event
from labconsole.engine.protocol import SessionLike
from labconsole.errors import OnlyWatches
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.plan import Plan
from labconsole.model.record.summary import RunSummary
from labconsole.tui.console import clock
from labconsole.tui.console.memory import ConsoleMemory
from labconsole.tui.console.saved_runs import SavedRuns
from labconsole.tui.console.settings import Settings
from labconsole.tui.console.state import ConsoleState, PlanEnd
from labconsole.tui.parts.action import Action, HasActions, display_key
from labconsole.tui.parts.status import MeasuringLine, Tab, TopBar

# -- navigation --------------------------------------------------------------------------------------------------------
# Back navigation: esc returns to the screen that led here, and restores its state.

Undo = Callable[[], None]


class Modes(Protocol):
    """Shows one screen at a time, by the name of its mode."""

    @property
    def current_mode(self) -> str: ...

    def switch_mode(self, mode: str) -> object:
        """Show another screen."""


@dataclass(slots=True)
class _NavigationStep:
    origin: str
    led_to: str
    undo: Undo | None = None


class NavigationHistory:
    """Steps from a screen to one opened from it. Going to a screen directly forgets them."""

    def __init__(self, modes: Modes) -> None:
        self._modes = modes
        self._steps: list[_NavigationStep] = []

    def push_mode(self, mode: str) -> None:
        """Go from the active screen to another, as a step that can be undone."""
        self._steps.append(_NavigationStep(self._modes.current_mode, mode))
        self._modes.switch_mode(mode)

    def set_aside(self, undo: Undo) -> None:
        """Keep ``undo``, which restores the active screen's previous state. Without a step, nothing is kept."""
        if self.has_origin and self._steps[-1].undo is None:
            self._steps[-1].undo = undo

    @property
    def has_origin(self) -> bool:
        """Whether another screen led to the active one."""
        return bool(self._steps) and self._steps[-1].led_to == self._modes.current_mode

    def back(self) -> bool:
        """Return one step. False if no other screen led to the active one."""
        if not self.has_origin:
            return False
        step = self._steps.pop()
        if step.undo is not None:
            step.undo()
        self._modes.switch_mode(step.origin)
        return True

    def forget(self) -> None:
        """Forget all steps: the operator went elsewhere."""
        self._steps.clear()


# -- screen ------------------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from labconsole.comparison.trends import PlanTrends
    from labconsole.model.query import Query

    ReadTrends = Callable[[str | None, Query, Any], PlanTrends]
    """Takes a plan's name, or None for the one measured last; a filter; a store. Blocking. Raises LabError."""

PAUSE = Action(
    "space",
    "pause",
    "Freeze",
    "Freeze the display, or unfreeze it. Recording continues.",
    id="pause",
    title="Freeze or unfreeze the display",
)


_ACTION_ID = re.compile(r"\{([a-z-]+)\}")


def frames_per_second(settings: Settings) -> float:
    """How often to look for something new to paint: through SSH or tmux every frame uses the operator's line."""
    remote = os.environ.get("SSH_CONNECTION") or os.environ.get("TMUX")
    return settings.remote_frames_per_second if remote else settings.frames_per_second


class Application(Protocol):
    """The screen's view of the application that shows it."""

    @property
    def tabs(self) -> Sequence[Tab]: ...
    @property
    def state(self) -> ConsoleState: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def memory(self) -> ConsoleMemory: ...
    @property
    def saved(self) -> SavedRuns | None: ...
    @property
    def runs(self) -> Sequence[RunSummary]: ...
    @property
    def navigation(self) -> NavigationHistory: ...
    @property
    def read_trends(self) -> ReadTrends | None:
        """Reads results of plans on their occasions. None if unavailable."""
        ...

    @property
    def hung_up(self) -> bool: ...
    def declared_actions(self) -> list[Action]:
        """The actions of its keys on every screen."""
        ...

    def bench_is_painted(self) -> None:
        """Start all slow work: the bench is on screen."""

    def tell(self, message: str, severity: str = "information", *, note: bool = True) -> None:
        """Show a message in a toast, and with ``note`` in the event line."""

    def start_run(self, request: DesignPoint, repetitions: int) -> None:
        """Start, unless something is running already."""

    def busy(self) -> bool:
        """Whether something is running already. If so, a message says what."""
        ...

    def start_search(self, plan: Plan) -> PlanExecution | None:
        """Begin the search of this plan, or return None if something else is running."""
        ...

    def plan_over(self, over: PlanEnd) -> None:
        """Handle the end of a plan, which stays visible until the operator has read it."""

    def load_runs(self) -> object:
        """Read the list of runs from the store."""

    def ask_abort(self) -> object:
        """Ask once, then stop the running work."""

    def action_mode(self, mode: str) -> None:
        """Go to a screen."""


class DocumentedScreen(HasActions, Screen[None]):
    """A screen whose actions help and palette list. Its layout follows the room available."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (104, "-normal"), (168, "-wide")]  # noqa: RUF012 - as Textual has it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012
    title_in_help = ""

    async def give_up(self) -> None:
        """End and undo the work under way here: the operator is leaving the console."""

    def documented_actions(self) -> Iterator[tuple[DOMNode, Action]]:
        """The actions in help and palette, with the node that does them: the screen's own, and those of its parts."""
        yield from ((self, action) for action in self.offered_actions())
        parts = {type(part): part for part in self.query("*") if isinstance(part, HasActions)}
        for part in parts.values():
            actions = (action for action in part.declared_actions() if action.sentence and not action.common)
            yield from ((part, action) for action in actions)


class ConsoleScreen(DocumentedScreen):
    """A screen that polls telemetry on a timer. Samples never arrive as messages."""

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__()
        self.console_app, self.session, self.state = app, session, app.state
        self.tab, self.title_in_help = tab, tab.title
        self._seen: tuple[object, ...] = ()
        self._measuring_line: MeasuringLine | None = None
        self.composed = False
        """True once all parts of the screen exist: Textual calls a screen mounted earlier."""

        self.paused = False

    def on_mount(self) -> None:
        self.composed = True
        self.begin()
        self.set_interval(1 / frames_per_second(self.console_app.settings), self.tick)

    def begin(self) -> None:
        """Start: all parts exist. Called once, whereas Textual calls an ``on_mount`` of each class."""

    @property
    def is_up(self) -> bool:
        """Whether all its parts exist: they are composed, and the console is not closing yet."""
        return self.composed and self.display

    @property
    def _front(self) -> Screen[Any] | None:
        """The active screen, or None while the console is closing: its timers end after its screens."""
        try:
            return None if self.console_app.hung_up else self.app.screen
        except ScreenStackError:
            return None

    @property
    def is_in_view(self) -> bool:
        """Whether it is the active screen and the console is visible."""
        return self._front is self

    def on_screen_resume(self) -> None:
        self._seen = ()
        self.call_after_refresh(self.tick)
        self.come_to_front()

    def come_to_front(self) -> None:
        """Handle becoming the active screen, for the first time or again."""

    def key_of(self, id: str) -> str:
        """The first key of one of the screen's actions, or of the console's, as printed on the keyboard."""
        everywhere = (*self.declared_actions(), *self.console_app.declared_actions())
        action = next(action for action in everywhere if action.id == id)
        return display_key(action.keys_now(self.console_app.settings.keymap)[0])

    def insert_keys(self, text: str) -> str:
        """Replace ``{id}`` in a text by the key of that action."""
        return _ACTION_ID.sub(lambda match: self.key_of(match[1]), text)

    def top_bar(self) -> TopBar:
        """The first line of every screen."""
        tabs = self.console_app.tabs
        bar = TopBar(self.tab, tabs, self.session.inventory, self.session.telemetry, self.state)
        bar.read_only = self.session.read_only
        return bar

    def measuring_line(self) -> MeasuringLine:
        """The line of every screen with the present measurement."""
        self._measuring_line = line = MeasuringLine(self.state, self.format_start_hint())
        return line

    def format_start_hint(self) -> str:
        """A hint how to start, for when nothing was measured yet."""
        return "trials are started on the Bench, plans on Plans"

    @on(TopBar.Wanted)
    def go_to_tab(self, event: TopBar.Wanted) -> None:
        self.console_app.action_mode(event.tab.mode)

    def tick(self) -> None:
        """Paint if this screen is visible and something changed."""
        if not self.is_up or not (self.is_in_view or isinstance(self._front, ModalScreen)):
            return
        self.state.observed = self.session.observed_trial()
        self.query_one(TopBar).paint()
        if self.paused:
            return
        if self._measuring_line is not None:
            self._measuring_line.paint()
        self.paint_clock()
        seen = (self.session.telemetry.revision, self.state.revision)
        if seen != self._seen:
            self._seen = seen
            self.paint_data()

    def paint_clock(self) -> None:
        """Paint what changes with time alone."""

    def paint_data(self) -> None:
        """Paint what changes with telemetry and events."""

    def show_runs(self, runs: Sequence[RunSummary]) -> None:
        """Take the newest saved runs, just read."""

    def engine_event(self, event: Event) -> None:
        """Handle an event of the engine. Called on the event loop, whether this screen is visible or not."""

    def only_watches(self) -> bool:
        """Whether this console only watches. If so, a message says it."""
        if self.session.read_only:
            self.console_app.tell(str(OnlyWatches()), "warning", note=False)
        return self.session.read_only

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.query_one(TopBar).paused_since_s = clock.monotonic_s() if self.paused else None
        self._seen = ()
        self.tick()

    def lines_to_copy(self) -> list[str]:
        """What ``y`` copies: run ids, or the line under the cursor."""
        return []


def insert_keys(widget: Widget, text: str) -> str:
    """Replace ``{id}`` in a text for a widget of a screen."""
    return widget.screen.insert_keys(text) if isinstance(widget.screen, ConsoleScreen) else text
