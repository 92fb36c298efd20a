"""The results of a check as they arrive, grouped by node, the testbed as a whole first."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.model.inventory import Inventory
from labconsole.text.cells import format_decimal, safe
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.table import Column, LineTable

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
