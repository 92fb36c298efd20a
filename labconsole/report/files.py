"""The files of a report: figures, tables, the lists of its runs and trials, and the page."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from labconsole.contracts.report import Table
from labconsole.errors import ConfigError
from labconsole.measure.paired_blocks import newest_trials
from labconsole.model.record.kind import ExperimentColumns, ExperimentRecord, GuestTrialRecord, RecordKind, record_kinds
from labconsole.model.record.summary import RunSummary
from labconsole.report.assembly import Report
from labconsole.report.figure_drawing import FORMATS as DRAWN
from labconsole.report.figure_drawing import draw_figure, require_matplotlib
from labconsole.report.page import render_page, require_jinja
from labconsole.report.planned_trials import is_included, select_guest_trials
from labconsole.report.table_builder import TableColumn, build_table, csv_column
from labconsole.report.tables import to_csv, to_latex, to_markdown
from labconsole.text.sanitize import sanitize_cell

# -- trial rows --------------------------------------------------------------------------------------------------------
# Every selected trial that is not a run: its request, the values of each guest, and whether it enters. Pure.


class TrialRow(NamedTuple):
    """A trial, and its record: its columns in lists, and its content as JSON
    (``plain``). ``why_not``: why it does not enter, or empty.
    """

    kind: RecordKind[Any]
    columns: ExperimentColumns
    record: ExperimentRecord
    trial: GuestTrialRecord
    plain: Mapping[str, Any]
    why_not: str


COLUMNS: Final[list[TableColumn[TrialRow]]] = [
    csv_column("kind", lambda row: row.kind.name),
    csv_column("id", lambda row: row.columns.id),
    csv_column("enters", lambda row: not row.why_not),
    csv_column("why_not", lambda row: row.why_not),
    csv_column("started_at", lambda row: row.columns.started_at),
    csv_column("testbed", lambda row: row.columns.testbed),
    csv_column("testbed_fingerprint", lambda row: row.columns.testbed_fingerprint),
    csv_column("emulated", lambda row: row.trial.emulated),
    csv_column("plan_name", lambda row: row.columns.plan_name),
    csv_column("plan_hash", lambda row: row.columns.plan_hash),
    csv_column("block", lambda row: row.trial.plan.block),
    csv_column("repetition", lambda row: row.trial.plan.repetition),
    csv_column("attempt", lambda row: row.trial.plan.attempt),
    csv_column("set_up", lambda row: (row.plain.get("set_up") or {}).get("id")),
    csv_column("platform", lambda row: row.columns.platform),
    csv_column("asked", lambda row: json.dumps(row.plain["requested"], ensure_ascii=False)),
    csv_column("verdict", lambda row: row.trial.verdict.status),
    csv_column("reason_codes", lambda row: " ".join(reason.code for reason in row.trial.verdict.reasons)),
    csv_column("measured", lambda row: json.dumps(row.kind.measured(row.record), ensure_ascii=False)),
]
"""The request and the measured values are JSON: the design point, and for each quantity the values guest by guest."""


def build_trials_table(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> Table:
    """A row for each trial, by kind, in the order in which they were measured. It is not printed."""
    return build_table("trials", "Trials of guests", COLUMNS, _build_rows(experiments))


def _build_rows(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> Iterator[TrialRow]:
    for name, records in sorted(experiments.items()):
        kind = record_kinds()[name]
        trials = {id(trial): trial for trial in select_guest_trials(records)}
        newest = {id(trial) for trial in newest_trials(trials.values())}
        for record in sorted(records, key=lambda each: kind.columns(each).started_at):
            if (trial := trials.get(id(record))) is None:
                continue  # a search: its trials are runs
            superseded = id(record) not in newest
            why_not = "superseded" if superseded else "" if is_included(trial) else trial.verdict.status
            yield TrialRow(kind, kind.columns(record), record, trial, record.to_json(), why_not)


# -- files -------------------------------------------------------------------------------------------------------------

TABLES = ("csv", "md", "tex")
FORMATS = (*DRAWN, *TABLES, "html")


def require(formats: Collection[str]) -> None:
    """Raises ConfigError naming what to install if files of these formats cannot be made here."""
    if {"html", *DRAWN} & set(formats):
        require_matplotlib()
    if "html" in formats:
        require_jinja()


def write_report(made: Report, out: Path, formats: Collection[str] = FORMATS) -> list[Path]:
    """Write the report's files to ``out`` and return them in the order in which they are printed."""
    writers = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
    try:
        out.mkdir(parents=True, exist_ok=True)
        written, drawings = [], {}
        wanted = [name for name in DRAWN if name in formats]
        if {"html", *DRAWN} & set(formats):
            for figure in made.figures:
                drawn = draw_figure(figure, [*wanted, *(["svg"] if "html" in formats and "svg" not in wanted else [])])
                drawings[figure.name] = drawn.get("svg", b"").decode()
                for suffix in wanted:
                    written.append(_file(out / f"{figure.name}.{suffix}", drawn[suffix]))
        for table in (*made.tables, *made.references):
            for suffix in TABLES:
                if suffix in formats:
                    written.append(_file(out / f"{table.name}.{suffix}", writers[suffix](table).encode()))
        if "csv" in formats:
            written.append(_file(out / "runs.csv", _runs_csv(made).encode()))
            trials = build_trials_table(made.material.experiments)
            if trials.rows:
                written.append(_file(out / "trials.csv", to_csv(trials).encode()))
        if "html" in formats:
            written.append(_file(out / "report.html", render_page(made, drawings=drawings).encode()))
    except OSError as exc:
        raise ConfigError(f"cannot write {exc.filename or out}: {exc.strerror}", key="--out") from None
    return written


def _runs_csv(made: Report) -> str:
    """Every selected run and whether it enters, so that a reader can recompute each mean."""
    import pandas as pd  # takes a second, and figures and tables do not need it

    columns = [field.name for field in fields(RunSummary) if field.name not in ("reason_codes", "note", "has_series")]
    rows = []
    for run in (*made.material.kept.entered, *made.material.kept.excluded):
        why = made.material.kept.why.get(run.run_id)
        cells = [why or "", *(getattr(run, name) for name in columns), " ".join(run.reason_codes)]
        rows.append([why is None, *map(sanitize_cell, cells)])
    frame = pd.DataFrame(rows, columns=["enters", "why_not", *columns, "reason_codes"], dtype=object)
    return str(frame.to_csv(index=False, lineterminator="\n"))


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
