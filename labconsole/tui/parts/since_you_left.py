"""Since you left: plans, runs, nodes and trouble during the operator's absence, on one screen."""

from __future__ import annotations

from datetime import UTC, datetime

from labconsole.model.record.verdict_codes import title_with_code
from labconsole.text.cells import format_duration, safe
from labconsole.tui.console.absence import AbsenceDigest, Kind, NotableEvent
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.scroll_overlay import ScrollOverlay

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
