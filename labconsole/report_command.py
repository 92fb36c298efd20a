"""The command report: figures, tables and one page for a reviewer, out of the store."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from labconsole.model.record import RunRecord
    from labconsole.report.figures import Figure
    from labconsole.report.findings import Finding
    from labconsole.report.frame import Sample
    from labconsole.report.tables import Table


def report(args: argparse.Namespace) -> int:
    """``labconsole report``: 0 when it is written. stdout names the files, or with --json the tables as objects."""
    from labconsole.report.draw import require_matplotlib
    from labconsole.report.evaluation import DEDICATED, IDLE, changes, design_points
    from labconsole.report.figures import all_figures
    from labconsole.report.findings import find_all
    from labconsole.report.frame import runs_frame, sample, told_apart
    from labconsole.report.tables import relative_changes, results, to_json
    from labconsole.store import RunFilter, open_store

    where = RunFilter(platform=args.platforms, plan_name=args.plan, testbed=args.testbed)
    with open_store(args.store, write=False) as store:
        frame = runs_frame(store.list(where))
        if frame.empty:
            raise ConfigError("no saved run matches", key="--store", value=str(args.store or "the user's own"))
        kept = sample(frame)
        points = design_points(told_apart(kept.runs))
        unreadable: list[StoreError] = []
        records = list(store.iterate(where, unreadable=unreadable.append))
    for problem in unreadable:
        sys.stderr.write(f"labconsole: left out: {problem}\n")
    cpu = changes(points, ("light", "heavy"), (IDLE, DEDICATED))
    network = changes(points, ("forwarding-50", "forwarding-95"), (DEDICATED, IDLE))
    tables: list[Table] = [results(points)]
    if cpu:
        title = "Relative change of the maximum throughput under background CPU load"
        tables.append(relative_changes(cpu, name="table-1", title=title))
    if network:
        title = "Relative change of the maximum throughput beside a forwarding second guest"
        tables.append(relative_changes(network, name="figure-5-numbers", title=title))
    findings = find_all(points, [record for record in records if record.verdict.status != "invalid"])
    if args.json:
        for table in tables:
            sys.stdout.write(json.dumps(to_json(table)) + "\n")
        for finding in findings:
            line = {"finding": finding.kind, "sentence": finding.sentence, "run_ids": finding.run_ids}
            sys.stdout.write(json.dumps(line) + "\n")
        if args.out is None:
            return 0
    if args.out is None:
        args.out = Path("report")
    require_matplotlib()
    written = _write(args.out, kept, records, all_figures(points), tables, findings)
    if not args.json:
        sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0


def _write(
    out: Path,
    kept: Sample,
    records: list[RunRecord],
    figures: list[Figure],
    tables: list[Table],
    findings: list[Finding],
) -> list[Path]:
    from labconsole.report.draw import save
    from labconsole.report.page import render
    from labconsole.report.tables import to_csv, to_latex, to_markdown

    try:
        out.mkdir(parents=True, exist_ok=True)
        written, drawings = [], {}
        for figure in figures:
            files = save(figure, out)
            drawings[figure.name] = files[0].read_text(encoding="utf-8")
            written += files
        for table in tables:
            for suffix, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
                written.append(_file(out / f"{table.name}.{suffix}", text))
        page = render(
            title=f"Forwarding performance of {', '.join(sorted({r.requested.platform for r in records}))}",
            records=records,
            kept=kept,
            figures=figures,
            drawings=drawings,
            tables=tables,
            findings=findings,
        )
        written.append(_file(out / "report.html", page))
    except OSError as exc:
        raise ConfigError(f"cannot be written: {exc.strerror}", key="--out", value=str(exc.filename or out)) from None
    return written


def _file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
