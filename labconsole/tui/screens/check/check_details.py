"""The result under the cursor in full. Before the first one: the check's steps, and the last calibration."""

from __future__ import annotations

import textwrap

from labconsole.engine.check.result import CheckResult
from labconsole.text.cells import safe
from labconsole.tui.parts.lines import Lines, Span, field
from labconsole.tui.parts.screen import insert_keys
from labconsole.tui.screens.check.checks_table import LOOKS, TESTBED


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
