"""The files of a report: figures, tables, the list of its runs, and the page."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from pathlib import Path

from labconsole.errors import ConfigError
from labconsole.model.record.summary import RunSummary
from labconsole.report.assembly import Report
from labconsole.report.figure_drawing import FORMATS as DRAWN
from labconsole.report.figure_drawing import draw_figure, require_matplotlib
from labconsole.report.page import render_page, require_jinja
from labconsole.report.tables import to_csv, to_latex, to_markdown
from labconsole.report.trial_rows import build_trials_table
from labconsole.text.sanitize import sanitize_cell

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
