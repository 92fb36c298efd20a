"""A store from Python: its runs as data frames, and its reports and comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from labconsole.comparison.changes import Changes
from labconsole.contracts.report import Table
from labconsole.errors import ConfigError, StoreError
from labconsole.model.query import QueryError, parse_query
from labconsole.model.record.run import RunRecord
from labconsole.model.record.summary import RunSummary
from labconsole.report.assembly import Report
from labconsole.store.exporting import COLUMNS, ChosenRuns, Kind, row_values
from labconsole.store.open import open_store as open_run_store
from labconsole.store.writing import RunStore
from labconsole.text.sanitize import sanitize_line

if TYPE_CHECKING:
    import pandas as pd


# -- data frames -------------------------------------------------------------------------------------------------------
# Runs and tables as pandas data frames, with types that represent unknown values.

MORE: Final[dict[str, Kind]] = {
    "forwarding_pps": "real",
    "forwarding_bps": "real",
    "offered_packets": "integer",
    "source_lost_packets": "integer",
    "uut_lost_packets": "integer",
    "sink_lost_packets": "integer",
    "late_packets": "integer",
    "set_up": "text",
    "block": "integer",
    "attempt": "integer",
    "uut_kernel": "text",
    "hypervisor": "text",
    "boot_id": "text",
    "method": "integer",
    "format": "integer",
}
"""Columns of a frame of runs in addition to those of an export."""

DTYPES: Final[dict[Kind, str]] = {
    "text": "string",
    "integer": "Int64",
    "real": "Float64",
    "boolean": "boolean",
    "time": "datetime64[us, UTC]",
}


def build_runs_frame(runs: Sequence[RunSummary]) -> pd.DataFrame:
    """A frame of these runs. ``runs``: oldest first."""
    import pandas as pd

    rows = [row_values(run) | {name: getattr(run, name, None) for name in MORE} for run in runs]
    columns = {}
    for name, kind in (COLUMNS | MORE).items():
        values = [row[name] for row in rows]
        if name == "reason_codes":
            values = [";".join(codes) for codes in values]
        if kind == "time":
            times = pd.to_datetime(pd.Series(values, dtype="string"), utc=True, format="ISO8601")
            columns[name] = times.astype(DTYPES[kind])
        else:
            columns[name] = pd.Series(values, dtype=DTYPES[kind])
    return pd.DataFrame(columns).set_index("run_id")


def build_table_frame(table: Table) -> pd.DataFrame:
    """A table's exact values, under the column names of its CSV."""
    import pandas as pd

    return pd.DataFrame([list(row) for row in table.rows], columns=list(table.columns)).convert_dtypes()


# -- stores ------------------------------------------------------------------------------------------------------------

PLACE: Final = "the store"


def _leave_out(problem: StoreError) -> None:
    """Ignore a record that cannot be read: the frame has the columns of the list of runs."""


class SelectedRuns:
    """Some runs of a store, newest first. Its length and their summaries require no record to be read."""

    def __init__(self, store: RunStore, chosen: Sequence[RunSummary]) -> None:
        self._store, self._chosen = store, chosen

    def __repr__(self) -> str:
        return sanitize_line(f"<{len(self)} runs of {self._store.name}>")

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[RunSummary]:
        return iter(self._chosen)

    def frame(self) -> pd.DataFrame:
        """A row per run, oldest first, by run id. Columns: docs/python.md. Unknown values are NA."""
        rows = ChosenRuns(self._store, self._chosen, _leave_out).rows()
        return build_runs_frame(rows)

    def records(self) -> Iterator[RunRecord]:
        """The whole records, newest first. Raises StoreError for one that cannot be read."""
        return (self._store.get(run.run_id) for run in self._chosen)


class OpenStore:
    """A run store that is open for reading. Use it in a ``with`` statement, or call close()."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return sanitize_line(f"<run store {self._store.name}>")

    def __enter__(self) -> OpenStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def runs(self, where: str = "") -> SelectedRuns:
        """The runs that a filter selects, as in the console's list of runs: ``platform=raw size=64``.

        Raises ConfigError about the first invalid word.
        """
        try:
            query = parse_query(where)
        except QueryError as exc:
            raise ConfigError(str(exc), key="where", value=where) from None
        return SelectedRuns(self._store, query.select(self._store.list()))

    def report(self, where: str = "", **options: Any) -> MadeReport:
        """The report of `labconsole report` on the runs that a filter selects.

        ``options``: those of ReportRequest. Raises ConfigError, also for a filter that selects by outcome.
        """
        from labconsole.experiments.kinds import find_plugin_hashes
        from labconsole.experiments.units import report_units
        from labconsole.report.loading import load_report
        from labconsole.report.request import ReportRequest

        request = ReportRequest(filter=tuple(where.split()), **options)
        made = load_report(
            request, self._store, report_units(), place=PLACE, on_unreadable=_warn, outside=find_plugin_hashes
        )
        for failure in made.failures:
            warnings.warn(failure, stacklevel=2)
        return MadeReport(made)


class MadeReport:
    """A report. ``conclusions``: how it may be read, and how not. Its tables are data frames by name."""

    def __init__(self, made: Report) -> None:
        self.made = made

    @property
    def conclusions(self) -> tuple[str, ...]:
        """The conclusions in sentences."""
        return tuple(self.made.conclusions)

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return [table.name for table in (*self.made.tables, *self.made.references)]

    def frame(self, table: str) -> pd.DataFrame:
        """A table with the exact values. Raises ConfigError if there is none of this name."""
        for each in (*self.made.tables, *self.made.references):
            if each.name == table:
                return build_table_frame(each)
        raise ConfigError("there is no such table", value=table, allowed=", ".join(self.tables))

    def write(self, directory: str | Path, formats: Sequence[str] | None = None) -> list[Path]:
        """Write the report as `labconsole report --out` does. ``formats``: None for all. Raises ConfigError."""
        from labconsole.report.files import FORMATS, require, write_report

        chosen = tuple(FORMATS if formats is None else formats)
        require(chosen)
        return list(write_report(self.made, Path(directory), chosen))


class ComparedSides:
    """The differences between two sides. It has every field of Changes, such as ``changes``: each design point of runs
    on both sides. As text (``print``) it is the output of `labconsole compare --markdown`.
    """

    def __init__(self, made: Changes) -> None:
        self.made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["made"], name)

    def __repr__(self) -> str:
        made = self.made
        of_runs, of_others = len(made.changes), len(made.quantities.changes)
        sides = f"{made.before.words} with {made.after.words}"
        return sanitize_line(f"<comparison of {sides}: {of_runs} of runs, {of_others} of other trials>")

    def __str__(self) -> str:
        from labconsole.comparison.change_tables import to_markdown

        return "\n".join(to_markdown(self.made))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on what may and may not be concluded."""
        from labconsole.comparison.change_tables import describe_changes

        return tuple(describe_changes(self.made))


def open_store(url: str | Path | None = None) -> OpenStore:
    """Open a store by its file or URL, or the user's own if None. Raises StoreError if there is none."""
    return OpenStore(open_run_store(None if url is None else str(url), write=False))


def make_report(store: str | Path | None = None, where: str = "", **options: Any) -> MadeReport:
    """The report of `labconsole report` on a store; see OpenStore.report()."""
    with open_store(store) as opened:
        return opened.report(where, **options)


def compare(
    before: str, after: str, *, store: str | Path | None = None, where: str = "", margin: str | None = None
) -> ComparedSides:
    """The comparison of `labconsole compare` for two sides (docs/compare.md). Raises ConfigError and StoreError."""
    from labconsole.api.comparisons import compare_sides

    place = None if store is None else str(store)
    return ComparedSides(compare_sides(before, after, place, where.split(), margin, on_unreadable=_warn))


def _warn(problem: StoreError) -> None:
    warnings.warn(str(problem), stacklevel=4)
