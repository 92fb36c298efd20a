"""What the unit under test's processors did while traffic ran, of a run for telemetry. Pure."""

from __future__ import annotations

from labconsole.measure.processor_description import HEADINGS, processor_rows, processor_sentences
from labconsole.model.record.run import RunRecord
from labconsole.text.cells import safe
from labconsole.tui.screens.runs.run_pages import Row, field

CELLS = (10, 7, 9, 8, 7, 11, 13, 10)
"""Of HEADINGS; on a narrow screen the last go first."""


def processors_part(record: RunRecord, width: int) -> list[Row]:
    """Empty of a run that was not asked."""
    rows: list[Row] = []
    for label, sentence in processor_sentences(record):
        rows += field(label, sentence, width)
    if not rows:
        return []
    told = processor_rows(record)
    if told:
        rows += [[], [(_line(HEADINGS, width), "head")], *([(_line(row, width), "")] for row in told)]
    return [[("Processors of the unit under test, while traffic ran", "strong")], *rows, []]


def _line(cells: tuple[str, ...], width: int) -> str:
    line = ""
    for cell, room in zip(cells, CELLS, strict=True):
        if len(line) + room > width:
            break
        line += safe(cell, room).rjust(room)
    return line
