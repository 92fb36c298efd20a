"""The searches that a report shows, and the common data of its tables on them. Pure.

Of searches with the same meaning (one ended early, and was repeated) the report shows the newest that finished, or else
the newest. Repetitions, and searches from the command line, are shown separately.
"""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.model.record.search import SearchRecord
from labconsole.report.formatting import SIZE_COLUMNS, format_size_number, size_cells

LIMITS = {
    "uut": "UUT",
    "generator": "generator",
    "instrument": "instrument",
    "line_rate": "line rate",
    "below_minimum": "lowest load",
    "undecided": "undecided",
    "trial_length": "longest burst tried",
}
FACTORS = ("platform", *SIZE_COLUMNS, "sources", "background", "testbed")
HEADINGS = ("platform", "frame size (B)", "sources", "background")


def select_searches(records: Iterable[SearchRecord]) -> list[SearchRecord]:
    """Return the searches to show, in the order of tables."""
    return sorted(select_newest(records), key=lambda r: (*factors(r), r.plan.repetition, r.started_at))


def select_newest(records: Iterable[SearchRecord]) -> list[SearchRecord]:
    """Return one of the searches with the same meaning on the same testbed."""
    found: dict[tuple[str, str], SearchRecord] = {}
    for record in sorted(records, key=lambda r: (r.status == "done", r.started_at, r.search_id)):
        found[record.plan.hash, record.testbed_fingerprint] = record
    return list(found.values())


def factors(record: SearchRecord) -> tuple[str, int | None, bool | None, int, str, str]:
    """Return the factors in the order of ``FACTORS``."""
    requested = record.requested
    return (requested.platform, *size_cells(requested.frame), requested.sources, requested.background, record.testbed)


def format_factors(record: SearchRecord) -> tuple[str, ...]:
    """Format the factors in the order of ``HEADINGS``."""
    requested = record.requested
    return (requested.platform, format_size_number(requested.frame), str(requested.sources), requested.background)
