"""Actions on the list of runs: compare two, and copy ids, records, rows and differences as text."""

from __future__ import annotations

import json

from labconsole.model.record.note import exported
from labconsole.text.cells import safe
from labconsole.tui.parts import new_file
from labconsole.tui.parts.live_results import LiveResultsScreen
from labconsole.tui.parts.runs_table import SavedRunsTable
from labconsole.tui.screens.runs.details_pane import DetailsPane

CLIPBOARD_BYTES = 74_000
"""Limit of terminals for a copy through OSC 52 (xterm: 100 000 characters of base64)."""


class CopyActionsScreen(LiveResultsScreen):
    """The part of the Runs screen that compares and copies."""

    @property
    def table(self) -> SavedRunsTable:
        return self.query_one(SavedRunsTable)

    @property
    def details(self) -> DetailsPane:
        return self.query_one(DetailsPane)

    def action_compare(self) -> None:
        chosen = [*self.table.marked]
        if len(chosen) == 1 and self.table.chosen not in (None, chosen[0]):
            chosen.append(str(self.table.chosen))
        if len(chosen) != 2:
            many = f"{len(chosen)} are marked; {{runs-unmark}} unmarks all" if chosen[1:] else "{runs-mark} marks one"
            self.console_app.tell(self.insert_keys(f"Comparing needs two runs: {many}."), "warning")
            return
        self.details.compare(*chosen)

    def lines_to_copy(self) -> list[str]:
        return list(self.table.marked) or ([self.table.chosen] if self.table.chosen else [])

    def action_copy_record(self) -> None:
        """Copy the record, as ``runs show --json`` prints it."""
        view = self.details.view
        if view.record is None:
            self.console_app.tell("There is no record to copy.", "warning")
            return
        self._copy(json.dumps(exported(view.record, view.note)), f"the record of {view.record.run_id}")

    def action_copy_rows(self) -> None:
        table = self.table
        keys = [key for key in table.marked if key in table.by_id] or ([table.chosen] if table.chosen else [])
        if not keys:
            self.console_app.tell("There is no row to copy.", "warning")
            return
        self._copy(table.rows_text(keys), f"{len(keys)} rows" if len(keys) > 1 else "the row")

    def _differences(self) -> str | None:
        """The compare page as text. If nothing is compared yet, compare first."""
        text = self.details.differences
        if text is None:
            self.action_compare()
        return text

    def action_copy_differences(self) -> None:
        if (text := self._differences()) is not None:
            self._copy(text, "the differences of the two runs")

    def action_export_differences(self) -> None:
        if (text := self._differences()) is not None:
            explanation, texts = "A line per difference, with tabs between the columns.", {".tsv": lambda: text}
            tell = self.console_app.tell
            self.app.push_screen(new_file.ask("the differences", "differences.tsv", explanation, texts, tell))

    def _copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        size = len(text.encode())
        much = f"; {size} bytes, more than many terminals take. {self.key_of('runs-export')} exports instead."
        doubt = much if size > CLIPBOARD_BYTES else ""
        self.notify(f"Copied {safe(what, 80)}{doubt}", markup=False)
