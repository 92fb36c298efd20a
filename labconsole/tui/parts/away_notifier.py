"""The console's side of notifying an absent operator: keys seen, terminal notified, digest shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from textual import events

from labconsole.engine.live.events import Event
from labconsole.text.cells import format_duration, safe
from labconsole.tui.console import clock
from labconsole.tui.console.current_measurement import build_current_measurement
from labconsole.tui.console.notifications import TerminalNotifier
from labconsole.tui.console.notifier import OperatorNotifier
from labconsole.tui.console.settings import Settings
from labconsole.tui.console.state import ConsoleState, PlanEnd
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.since_you_left import SinceYouLeft

if TYPE_CHECKING:
    from textual.app import App

    _Base = App[int]
else:
    _Base = object

SINCE = Action(
    "0,f10",
    "since",
    "Since",
    "Show what happened since you left: plans, runs, nodes, errors.",
    id="since",
    title="Since you left",
    shown=False,
)

TELL_EVERY_S = 1.0


class AwayNotifierApp(_Base):
    """Mixed in before Textual's App. ``caller`` is None until there is a testbed."""

    state: ConsoleState
    settings: Settings
    caller: OperatorNotifier | None = None
    _attention: TerminalNotifier | None = None

    def begin_calling(self, testbed: str) -> None:
        """Start notifying the terminal."""
        self._attention = TerminalNotifier(self._write_to_terminal, self.settings.notify, os.environ)
        self._attention.begin()
        self.caller = OperatorNotifier(self.state, self._attention, testbed)
        self.set_interval(TELL_EVERY_S, self.caller.tick)

    def end_calling(self) -> None:
        """Restore the terminal's title and progress bar."""
        if self._attention is not None:
            self._attention.end()

    def _write_to_terminal(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def heard(self, event: Event) -> None:
        """Handle an event of the engine."""
        if self.caller is not None:
            self.caller.engine_event(event)

    def failed(self, message: str) -> None:
        """Handle a request that ended with an error."""
        if self.caller is not None:
            self.caller.failed(message)

    def plan_over(self, over: PlanEnd) -> None:
        """Handle the end of a plan, which stays visible until the operator has read it."""
        if self.caller is not None:
            self.caller.plan_over(over)

    async def on_event(self, event: events.Event) -> None:
        """Handle an event like Textual, and note that the operator is present."""
        if isinstance(event, events.Key | events.MouseDown | events.MouseScrollUp | events.MouseScrollDown):
            self._note_presence()
        await super().on_event(event)

    def _note_presence(self) -> None:
        digest = self.caller.seen() if self.caller is not None else None
        if digest is None:
            return
        runs = f"{digest.runs} run{'s' if digest.runs != 1 else ''} ended" if digest.runs else ""
        news = [each.text for each in digest.happenings if each.kind == "plan"][-1:]
        errors = sum(each.severity == "error" for each in digest.happenings)
        trouble = f"{errors} error{'s' if errors != 1 else ''}" if errors else ""
        summary = "; ".join(word for word in (*news, runs, trouble) if word) or "nodes came and went"
        away = format_duration(digest.until_wall_s - digest.from_wall_s)
        key = SINCE.keys_now(self.settings.keymap)[0]
        self.notify(
            safe(f"While you were away ({away}): {summary}. {key} shows it all.", 400), markup=False, timeout=15
        )

    def watch_app_focus(self, focus: bool) -> None:
        """Note the focus: an operator in another window may be notified."""
        if self.caller is not None:
            self.caller.focused = focus

    def action_since(self) -> None:
        """Show the digest, and mark its contents as read."""
        if self.caller is None:
            return
        now = build_current_measurement(self.state, clock.monotonic_s(), clock.wall_s())
        status = (
            " · ".join(word for word in (now.what[0], now.plan[0], now.place[0], now.step[0]) if word) if now else ""
        )
        self.push_screen(SinceYouLeft(self.caller.read(), status or "ready, nothing is measured"))
