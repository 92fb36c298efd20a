"""The results of a check as they arrive, the one under the cursor in full, and the last calibration."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar

from labconsole.engine.calibration import CalibrationOffer
from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.record.envelope import Bounds, Envelope, StreamEnvelope
from labconsole.text.cells import format_decimal, format_duration, format_rounded, safe
from labconsole.tui.parts.lines import Lines, Span, field
from labconsole.tui.parts.screen import insert_keys
from labconsole.tui.parts.table import Column, LineTable

# -- checks table ------------------------------------------------------------------------------------------------------
# The results of a check as they arrive, grouped by node, the testbed as a whole first.

LOOKS = {
    CheckStatus.PASS: ("✓", "good"),
    CheckStatus.WARN: ("!", "warn"),
    CheckStatus.FAIL: ("✗", "bad"),
    CheckStatus.SKIPPED: ("–", "muted"),
}
TESTBED = "testbed"
Key = tuple[int, str, int]
"""(index of the node, node, number of the result)."""


class ChecksTable(LineTable):
    """One row per result. ``problems_only`` hides what passed."""

    EMPTY = "Nothing checked yet."
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("node", "node", 8, right=False, grow_to=12),
        Column("status", "result", 9, right=False),
        Column("title", "check", 21, right=False),
        Column("evidence", "evidence", 18, right=False, grow_to=400),
        Column("took", "ms", 5, rank=2),
    )

    def __init__(self, inventory: Inventory) -> None:
        super().__init__(id="checks")
        self._places = {name: place for place, name in enumerate(inventory.nodes)}
        self._results: dict[Key, CheckResult] = {}
        self._order: list[Key] = []
        self._firsts: set[Key] = set()
        self.problems_only = False
        self.border_title = "Check"

    def clear(self) -> None:
        """Forget all results."""
        self._results.clear()
        self._cells.clear()
        self._steered = False
        self._arrange()

    def add(self, result: CheckResult) -> None:
        """Add a result."""
        node = result.node or ""
        place = -1 if result.node is None else self._places.get(node, len(self._places))
        self._results[place, node, len(self._results)] = result
        self._arrange()

    def turn_problems_only(self) -> None:
        """Switch between all results and those that did not pass."""
        self.problems_only = not self.problems_only
        self._arrange()
        self.paint()

    def _arrange(self) -> None:
        wanted = (key for key, r in self._results.items() if not self.problems_only or r.status is not CheckStatus.PASS)
        self._order = sorted(wanted)
        firsts, before = set(), None
        for key in self._order:
            if key[:2] != before:
                firsts.add(key)
            before = key[:2]
        if firsts != self._firsts:  # the row that names its node has moved
            self._firsts = firsts
            self._cells.clear()

    @property
    def counts(self) -> Counter[CheckStatus]:
        """Number of results of each status."""
        return Counter(result.status for result in self._results.values())

    @property
    def results(self) -> list[CheckResult]:
        """All results, by node."""
        return [self._results[key] for key in sorted(self._results)]

    def settle(self) -> None:
        """All results are in: put the cursor on the first failure or doubt, unless the operator moved it."""
        problems = self.problems()
        if problems and not self._steered:
            failed = (key for key in problems if self._results[key].status is CheckStatus.FAIL)
            self.move_to(next(failed, problems[0]))

    def problems(self) -> list[Key]:
        """The rows with a problem."""
        return [key for key in self._order if self._results[key].status in (CheckStatus.WARN, CheckStatus.FAIL)]

    @property
    def chosen(self) -> CheckResult | None:
        """The result under the cursor."""
        return self._results.get(self.cursor_key)

    def keys(self) -> list[Key]:
        return self._order

    def cell_node(self, key: Key, width: int) -> Span:
        return (safe(key[1] or TESTBED, width), "second") if key in self._firsts else ("", "")

    def cell_status(self, key: Key, width: int) -> Span:
        result = self._results[key]
        glyph, tone = LOOKS[result.status]
        return f"{glyph} {'mended' if result.fixed else result.status.value}", tone

    def cell_title(self, key: Key, width: int) -> Span:
        return safe(self._results[key].title, width), ""

    def cell_evidence(self, key: Key, width: int) -> Span:
        result = self._results[key]
        tone = "" if result.status in (CheckStatus.WARN, CheckStatus.FAIL) else "muted"
        return safe(result.evidence, width), tone

    def cell_took(self, key: Key, width: int) -> Span:
        return format_decimal(self._results[key].took_s * 1e3, 0), "muted"


# -- check details -----------------------------------------------------------------------------------------------------
# The result under the cursor in full. Before the first one: the check's steps, and the last calibration.


class CheckDetails(Lines):
    """The result under the cursor in full."""

    def __init__(self) -> None:
        super().__init__(id="check-details")
        self.result: CheckResult | None = None
        self.first = ""
        self.calibration: list[str] = []
        """Progress of a running calibration, or the findings of the last one."""

    def lines(self, width: int) -> list[list[Span]]:
        result = self.result
        if result is None:
            first: list[list[Span]] = [[(" " + line, "muted")] for line in _wrapped(self.first, width)]
            wrapped = [line for each in self.calibration for line in _wrapped(each, width)]
            return [*first, *([[(" " + safe(line, width - 2), "")] for line in ["", *wrapped]] if wrapped else [])]
        glyph, tone = LOOKS[result.status]
        rows = field("check", f"{result.title} ({result.id})", width, "strong")
        rows += field("node", result.node or TESTBED, width)
        rows += field("result", f"{glyph} {result.status.value}{', fixed' if result.fixed else ''}", width, tone)
        rows += field("evidence", result.evidence, width, rows=12)
        if result.hint:
            rows += field("to do", result.hint, width, "warn", rows=8)
        if result.fixable and not result.fixed:
            rows += field("", insert_keys(self, "press {check-fix} to fix this"), width, "accent")
        for index, (name, value) in enumerate(result.values.items()):
            rows += field("values" if index == 0 else "", f"{name} = {value}", width, "muted", rows=2)
        return [*rows, *field("took", f"{result.took_s * 1e3:.0f} ms", width, "muted")]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width - 2), subsequent_indent="    " if text.startswith("  ") else "")


# -- calibration text --------------------------------------------------------------------------------------------------
# Calibration on the Check screen, as text: its steps, its progress, its findings.

WIRED = {
    "lab": "The lab is wired around the unit under test, and back afterwards.",
    "inventory": "The testbed's own platform bypasses the unit under test.",
    "patched": "The unit under test must be bypassed by hand first, as listed under Result.",
}


def build_question(offer: CalibrationOffer, plan: Plan | None = None) -> tuple[str, str]:
    """The question before a calibration, and the effect of a yes."""
    sizes = ", ".join(str(frame.bytes) for frame in offer.wanted.frames)
    counts = " and ".join(map(str, offer.wanted.source_counts))
    why = f" (what plan {safe(plan.name, 40)} needs)" if plan is not None else ""
    does = (
        f"It measures what sources and sinks can do by themselves: frames of {sizes} B, {counts} sources at once{why}, "
        f"in about {format_duration(offer.about_s)} and more where bounds are narrowed. No run is saved."
    )
    return "Calibrate the testbed?", f"{WIRED[offer.bypass]} {does}"


def cable_lines(offer: CalibrationOffer) -> list[str]:
    """Cables that an operator has to connect before a yes."""
    return ["Before you say yes:", *offer.cables] if offer.cables else []


def format_calibration_age(envelope: Envelope | None, now_wall_s: float) -> str:
    """Format the time of the last calibration."""
    if envelope is None:
        return "not calibrated"
    ago_s = now_wall_s - datetime.fromisoformat(envelope.finished_at).timestamp()
    return f"calibrated {format_duration(ago_s)} ago"


def format_envelope(envelope: Envelope) -> Iterator[str]:
    """Yield the highest rate of each source and sink, in packets per second."""
    yield f"Calibration of {envelope.finished_at[:16].replace('T', ' ')} UTC, by {safe(envelope.operator, 60)}"
    if envelope.cut_short:
        yield "Some bounds are wider than wanted: the time limit was reached."
    for point in envelope.points:
        yield f"{point.frame.words()}, {point.sources} source{'s' if point.sources > 1 else ''} at once:"
        for stream in point.streams:
            yield f"  {_source(stream)}; {_sink(stream)}"


def _source(stream: StreamEnvelope) -> str:
    node = stream.source.partition("/")[0]
    if stream.maximum_pps is None:
        return f"{node}: its maximum is unknown"
    sure = "" if stream.maximum_confirmed else " (not confirmed by the NICs)"
    return f"{node} sends up to {format_rounded(stream.maximum_pps)} packets/s{sure}"


def _sink(stream: StreamEnvelope) -> str:
    node, bounds = stream.sink.partition("/")[0], _lower(stream.counters, stream.capture)
    if bounds.lossy_pps is None:
        return f"{node} lost nothing up to {format_rounded(bounds.clean_pps)}"
    if bounds.clean_pps is None:
        return f"{node} lost packets in every trial, from {format_rounded(bounds.lossy_pps)} up"
    clean, lossy = format_rounded(bounds.clean_pps), format_rounded(bounds.lossy_pps)
    return f"{node} loses nothing up to {clean}, something from {lossy}"


def _lower(*both: Bounds) -> Bounds:
    """The lower of counters and capture: the one that loses first."""
    return min(both, key=lambda each: float("inf") if each.lossy_pps is None else each.lossy_pps)
