"""The console's side of an operator's absence: keys seen, terminal notified, a digest on return."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from textual import events

from labconsole.engine.live.events import Event
from labconsole.model.record.verdict_codes import title_with_code
from labconsole.text.cells import format_duration, safe
from labconsole.tui.console import clock
from labconsole.tui.console.absence import AbsenceDigest, Kind, NotableEvent
from labconsole.tui.console.current_measurement import build_current_measurement
from labconsole.tui.console.notifications import OperatorNotifier, TerminalNotifier
from labconsole.tui.console.settings import Settings
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE, ConsoleState, PlanEnd
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.overlay import ScrollOverlay

# -- the digest --------------------------------------------------------------------------------------------------------
# Since you left: plans, runs, nodes and trouble during the operator's absence, on one screen.

HAPPENINGS_SHOWN = 40
REASONS_SHOWN = 8
TITLES: dict[Kind, str] = {"plan": "Plans", "node": "Nodes", "trouble": "Errors"}
LOOKS = {"information": ("✓", "good"), "warning": ("!", "warn"), "error": ("✗", "bad")}


def _clock(wall_s: float, *, day: bool = False) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):{'%Y-%m-%d ' if day else ''}%H:%M:%S}"


def _cut(text: str, room: int) -> list[str]:
    """Wrap at blanks."""
    rows: list[str] = []
    rest = safe(text, 600)
    while rest and len(rows) < 3:
        cut = rest if len(rest) <= room else rest[: rest.rfind(" ", 0, room + 1)] or rest[:room]
        rows.append(cut)
        rest = rest[len(cut) :].lstrip()
    return rows


class DigestText(Lines):
    """The digest as lines."""

    def __init__(self, digest: AbsenceDigest, now: str) -> None:
        super().__init__()
        self._digest, self._now = digest, now

    def lines(self, width: int) -> list[list[Span]]:
        digest = self._digest
        lasted = format_duration(digest.until_wall_s - digest.from_wall_s)
        rows: list[list[Span]] = [
            [(safe(f"{_clock(digest.from_wall_s, day=True)} to now, UTC: {lasted}", width), "strong")],
            [(safe(f"now: {self._now}", width), "muted")],
            [],
        ]
        if digest.nothing:
            return [*rows, [("Nothing happened.", "muted")]]
        rows += self._format_kind("plan", width) + self._runs(width)
        rows += self._format_kind("node", width) + self._format_kind("trouble", width)
        if digest.dropped:
            rows.append([(f"{digest.dropped} older entries were dropped; the store has all runs.", "warn")])
        return rows

    def _format_kind(self, kind: Kind, width: int) -> list[list[Span]]:
        found = [each for each in self._digest.happenings if each.kind == kind]
        if not found:
            return []
        rows: list[list[Span]] = [[(TITLES[kind], "head")]]
        if len(found) > HAPPENINGS_SHOWN:
            rows.append([(f"  {len(found) - HAPPENINGS_SHOWN} earlier ones are in the Log", "muted")])
        for each in found[-HAPPENINGS_SHOWN:]:
            rows += self._happening(each, width)
        return [*rows, []]

    def _happening(self, each: NotableEvent, width: int) -> list[list[Span]]:
        glyph, tone = LOOKS[each.severity]
        first, *others = _cut(each.text, max(20, width - 14)) or [""]
        rows: list[list[Span]] = [[(f"  {_clock(each.at_wall_s)} ", "muted"), (f"{glyph} ", tone), (first, "")]]
        return rows + [[(" " * 13 + row, "")] for row in others]

    def _runs(self, width: int) -> list[list[Span]]:
        digest = self._digest
        if not digest.runs:
            return []
        counts: list[Span] = [(f"  {digest.runs} ended", "")]
        for status in ("valid", "suspect", "invalid"):
            if digest.verdicts[status]:
                counts.append((f"   {VERDICT_GLYPHS[status]} {digest.verdicts[status]} {status}", VERDICT_TONE[status]))
        if digest.not_saved:
            counts.append((f"   ✗ {digest.not_saved} NOT SAVED", "bad"))
        rows: list[list[Span]] = [[("Runs", "head")], counts]
        for code, number in digest.reasons.most_common(REASONS_SHOWN):
            rows.append([(safe(f"     {number} × {title_with_code(code)}", width), "muted")])
        return [*rows, []]


class SinceYouLeft(ScrollOverlay):
    """Closes with the key that opened it, too."""

    ACTIONS = (Action("0,f10", "dismiss", "Close", "Close it.", id="since", shown=False, common=True),)

    def __init__(self, digest: AbsenceDigest, now: str) -> None:
        title = "Since you left" if digest.away else "Since the console was opened"
        super().__init__(title, DigestText(digest, now))


# -- away notifier -----------------------------------------------------------------------------------------------------
# The console's side of notifying an absent operator: keys seen, terminal notified, digest shown.

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
