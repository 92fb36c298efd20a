"""The searches that a report shows, and the common data of its tables on them. Pure.

Of searches with the same meaning (one ended early, and was repeated) the report shows the newest that finished, or else
the newest. Repetitions, and searches from the command line, are shown separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from labconsole.model.record.search import SearchRecord
from labconsole.report.formatting import size_cells
from labconsole.report.point_columns import size_columns
from labconsole.report.table_builder import Item, TableColumn, column, csv_column, join_columns

LIMITS = {
    "uut": "UUT",
    "generator": "generator",
    "instrument": "instrument",
    "line_rate": "line rate",
    "below_minimum": "lowest load",
    "undecided": "undecided",
    "trial_length": "longest burst tried",
}


def select_searches(records: Iterable[SearchRecord]) -> list[SearchRecord]:
    """Return the searches to show, in the order of tables."""

    def place(record: SearchRecord) -> tuple[object, ...]:
        requested, size = record.requested, size_cells(record.requested.frame)
        factors = (requested.platform, *size, requested.sources, requested.background, record.testbed)
        return (*factors, record.plan.repetition, record.started_at)

    return sorted(select_newest(records), key=place)


def select_newest(records: Iterable[SearchRecord]) -> list[SearchRecord]:
    """Return one of the searches with the same meaning on the same testbed."""
    found: dict[tuple[str, str], SearchRecord] = {}
    for record in sorted(records, key=lambda r: (r.status == "done", r.started_at, r.search_id)):
        found[record.plan.hash, record.testbed_fingerprint] = record
    return list(found.values())


def factor_columns(record: Callable[[Item], SearchRecord]) -> TableColumn[Item]:
    """What was varied, first in every table of searches."""
    columns: list[TableColumn[Item]] = [
        column("platform", "platform", lambda item: record(item).requested.platform),
        size_columns(lambda item: record(item).requested.frame, "frame size (B)"),
        column("sources", "sources", lambda item: record(item).requested.sources),
        column("background", "background", lambda item: record(item).requested.background),
        csv_column("testbed", lambda item: record(item).testbed),
    ]
    return join_columns(columns)
