"""Activity of the unit under test's processors during traffic, for a run with telemetry. Pure."""

from __future__ import annotations

from labconsole.measure.processor_description import HEADINGS, processor_rows, processor_sentences
from labconsole.model.record.run import RunRecord
from labconsole.text.cells import safe
from labconsole.tui.screens.runs.run_pages import Row, field

CELLS = (10, 7, 9, 8, 7, 11, 13, 10)
"""Widths of HEADINGS. On a narrow screen the last leave first."""


def processors_part(record: RunRecord, width: int) -> list[Row]:
    """Build the part. Empty for a run without telemetry."""
    rows: list[Row] = []
    for label, sentence in processor_sentences(record):
        rows += field(label, sentence, width)
    if not rows:
        return []
    figures = processor_rows(record)
    if figures:
        rows += [[], [(_line(HEADINGS, width), "head")], *([(_line(row, width), "")] for row in figures)]
    return [[("Processors of the unit under test, while traffic ran", "strong")], *rows, []]


def _line(cells: tuple[str, ...], width: int) -> str:
    line = ""
    for cell, room in zip(cells, CELLS, strict=True):
        if len(line) + room > width:
            break
        line += safe(cell, room).rjust(room)
    return line
