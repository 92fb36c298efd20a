"""The command report: figures, tables and one page for a reviewer, out of the store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from labconsole.model.run_query import Query
    from labconsole.model.search_record import SearchRecord
    from labconsole.report.assembly import Report
    from labconsole.report.digest import Digest
    from labconsole.report.sample import FilePoint, Sample
    from labconsole.report.selection import Selection
    from labconsole.store import RunFilter, RunStore, RunSummary

DRAWN = ("svg", "pdf", "png")
TABLES = ("csv", "md", "tex")
FORMATS = (*DRAWN, *TABLES, "html")


def report(args: argparse.Namespace) -> int:
    """``labconsole report``: 0 when it is made. In the terminal, or into the files of --out, whose names it prints."""
    formats = _formats(args)
    if args.hosts is not None and args.bundle is None:
        raise ConfigError("goes with --bundle", key="--hosts", value=str(args.hosts))
    if args.out is not None:
        _require(formats)
    made = gather(args)
    if args.json:
        for line in _objects(made):
            sys.stdout.write(json.dumps(line) + "\n")
    if args.out is not None:
        written = write(made, args.out, formats)
        if not args.json:
            sys.stdout.write("".join(f"{path}\n" for path in written))
    if args.bundle is not None:
        _bundle(args, made)
    if args.terminal or (args.out is None and args.bundle is None and not args.json):
        from labconsole.report_terminal import show

        show(made)
    return 0


def _bundle(args: argparse.Namespace, made: Report) -> None:
    """``report --bundle FILE``: the report and all that it rests on, for `labconsole verify FILE` elsewhere."""
    from labconsole.bundle import write_bundle
    from labconsole.model.plan_load import load_plan
    from labconsole.store import open_store

    plans = _plan_files(args)
    again = {
        "arguments": _again(args), "filter": list(args.filter),
        "plans": {path.name: load_plan(path).hash() for path in plans},
    }  # fmt: skip
    with open_store(args.store, write=False) as store:
        missing = write_bundle(args.bundle, made, store, hosts=args.hosts, plans=plans, redo=again)
    for what in missing:
        sys.stderr.write(f"labconsole: not found, and so not in the bundle: {what}\n")
    if not args.json:
        sys.stdout.write(f"{args.bundle}\n")


def _again(args: argparse.Namespace) -> list[str]:
    """The arguments that decide what a report says, but for the filter and the files of plans."""
    names = [word for word in args.plan or () if not word.endswith((".yaml", ".yml"))]
    return [
        *([f"--reference={args.reference}"] if args.reference else []),
        *([f"--reference-map={','.join(args.reference_map)}"] if args.reference_map else []),
        *([f"--platforms={','.join(args.platforms)}"] if args.platforms else []),
        *([f"--testbed={args.testbed}"] if args.testbed else []),
        *(f"--plan={name}" for name in names),
        *([f"--pool={','.join(args.pool)}"] if args.pool else []),
        *([f"--margin={args.margin}"] if args.margin else []),
        *(["--select-by-outcome"] if args.select_by_outcome else []),
    ]


def _formats(args: argparse.Namespace) -> tuple[str, ...]:
    unknown = sorted(set(args.formats or ()) - set(FORMATS))
    if unknown:
        raise ConfigError("is no format", key="--formats", value=unknown[0], allowed=", ".join(FORMATS))
    if args.formats and args.out is None:
        raise ConfigError("is for files, and there is no --out DIR", key="--formats", value=",".join(args.formats))
    return tuple(name for name in FORMATS if not args.formats or name in args.formats)


def _require(formats: Collection[str]) -> None:
    """Before anything is read: what the files need is installed."""
    from labconsole.report.draw import require_matplotlib
    from labconsole.report.page import require_jinja

    if {"html", *DRAWN} & set(formats):
        require_matplotlib()
    if "html" in formats:
        require_jinja()


def gather(args: argparse.Namespace) -> Report:
    """The report on the runs that the arguments mean. Raises ConfigError when there are none."""
    from labconsole.measure.admission import admit
    from labconsole.report.assembly import assemble
    from labconsole.report.evaluation import evaluate
    from labconsole.report.reference import load_reference
    from labconsole.report.sample import coverage, sample
    from labconsole.report.selection import parse_filter
    from labconsole.store import RunFilter, open_store

    reference = load_reference(args.reference) if args.reference else None
    names = _mapped(args.reference_map, has_reference=reference is not None)
    query, where = parse_filter(args.filter), filter_of(args)
    with open_store(args.store, write=False) as store:
        stored = store.list()
        of_options = stored if where == RunFilter() else store.list(where)
        selection = _selection(args, query, of_options)
        searches, meant = _searches(store, query.select(of_options))
        if not meant:
            raise _no_runs(args, stored)
        kept = sample(meant, admission := admit(stored, {run.run_id for run in meant}))
        digest = _digest(store, where, kept)
    made = evaluate(
        kept.entered, admission=admission, facts=digest.facts, margin_ratio=selection.margin_ratio, pool=selection.pool
    )
    found = coverage(kept, digest.planned, _file_points(args), query, args.platforms)
    return assemble(
        kept, digest, made, selection=selection, found=found, reference=reference, names=names, searches=searches,
        plans=_plan_texts(args),
    )  # fmt: skip


def _selection(args: argparse.Namespace, query: Query, runs: list[RunSummary]) -> Selection:
    """What was chosen. Raises ConfigError where that is an outcome, and nobody said so."""
    from labconsole.report.selection import Selection, checked_pool, parse_margin, require_free

    options = [
        f"{name} {', '.join(value)}"
        for name, value in (
            ("plan", [Path(word).name if word.endswith((".yaml", ".yml")) else word for word in args.plan or ()]),
            ("platforms", args.platforms or ()),
            ("testbed", [args.testbed] if args.testbed else ()),
        )
        if value
    ]
    return Selection(
        text=query.text,
        options=tuple(options),
        by_outcome=require_free(query, runs, allowed=args.select_by_outcome),
        pool=checked_pool(args.pool),
        margin_ratio=parse_margin(args.margin),
    )


def _file_points(args: argparse.Namespace) -> list[FilePoint]:
    """The points that the files of --plan ask for, whether there is a run of them or not."""
    from labconsole.model.plan_load import load_plan
    from labconsole.report.sample import FilePoint

    found = []
    for path in _plan_files(args):
        plan = load_plan(path)
        set_ups = plan.set_ups or 1
        for point in plan.points:
            asked, planned = point.request, set_ups * plan.repetitions_of(point.index)
            if planned:
                found.append(
                    FilePoint(
                        plan_name=plan.name, plan_hash=plan.hash(), plan_point=point.index, planned=planned,
                        platform=asked.platform, frame_size_bytes=asked.frame_size_bytes,
                        frame_size_includes_fcs=asked.frame_size_includes_fcs, sources=asked.sources,
                        target_bps=None if asked.target_bps == "max" else asked.target_bps,
                        background=asked.background, duration_s=asked.duration_s,
                    )
                )  # fmt: skip
    return found


def _plan_files(args: argparse.Namespace) -> list[Path]:
    """Those of --plan; once there is a report, they have been read as plans."""
    return [Path(word) for word in args.plan or () if word.endswith((".yaml", ".yml"))]


def _plan_texts(args: argparse.Namespace) -> list[tuple[str, str]]:
    return [(path.name, path.read_text(encoding="utf-8")) for path in _plan_files(args)]


def _searches(store: RunStore, selected: list[RunSummary]) -> tuple[list[SearchRecord], list[RunSummary]]:
    """The searches with a trial among these runs, and the runs less what is a search's trial.

    Those are of many loads and often short: they would clutter curves and enter means. Where there is nothing else,
    they are the report's runs.
    """
    from labconsole.measure.design_points import is_search_trial

    ids = {run.run_id for run in selected}
    searches = [each for each in store.searches() if any(trial.run_id in ids for trial in each.trials)]
    return searches, [run for run in selected if not is_search_trial(run)] or selected


def filter_of(args: argparse.Namespace) -> RunFilter:
    """What the store can choose by itself: --plan (names, or the plan of a file), --platforms, --testbed."""
    from labconsole.store import RunFilter

    names, hashes = [], []
    for word in args.plan or ():
        if word.endswith((".yaml", ".yml")):
            from labconsole.model.plan_load import load_plan

            plan = load_plan(Path(word))
            hashes += [plan.hash(), *plan.search_hashes]
        else:
            names.append(word)
    if names and hashes:
        raise ConfigError("names and files cannot be mixed", key="--plan", value=", ".join(args.plan))
    return RunFilter(platform=args.platforms, plan_name=names or None, plan_hash=hashes or None, testbed=args.testbed)


def _no_runs(args: argparse.Namespace, there: list[RunSummary]) -> ConfigError:
    where = str(args.store or "the user's own")
    if not there:
        return ConfigError("no run is saved there yet", key="--store", value=where)
    by_file = any(word.endswith((".yaml", ".yml")) for word in args.plan or ())
    plans = sorted({run.plan_name + (f" ({run.plan_hash})" if by_file else "") for run in there if run.plan_name})
    has = [
        f"{len(there)} runs",
        f"platforms {', '.join(sorted({run.platform for run in there}))}",
        f"testbeds {', '.join(sorted({run.testbed for run in there}))}",
        f"plans {', '.join(plans)}" if plans else "no plan",
    ]
    hint = "; a plan in a file means runs of its hash, its name means all that were ever called so" if by_file else ""
    return ConfigError(f"no saved run matches; the store has {'; '.join(has)}{hint}", key="--store", value=where)


def _mapped(pairs: Iterable[str] | None, *, has_reference: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs or ():
        own, equals, theirs = pair.partition("=")
        if not (own and equals and theirs):
            raise ConfigError("is no pair of names", key="--reference-map", value=pair, allowed="own=paper's")
        found[own] = theirs
    if found and not has_reference:
        raise ConfigError("needs --reference", key="--reference-map", value=", ".join(pairs or ()))
    return found


def _digest(store: RunStore, where: RunFilter, kept: Sample) -> Digest:
    """One pass over the records as JSON. One that cannot be read is told on stderr and in the report's first words."""
    from labconsole.model.record import FORMAT
    from labconsole.report.digest import Digest
    from labconsole.store.records import parse_record

    meant = kept.run_ids
    digest = Digest({run.run_id for run in kept.entered}, kept.why)
    for run_id, text in store.texts(where):
        if run_id not in meant:
            continue
        try:
            record = json.loads(text)
            if record["format"] > FORMAT:
                raise ValueError(record["format"])
            digest.add(record)
        except (ValueError, KeyError, TypeError, AttributeError):
            try:
                parse_record(text, f"run {run_id}")  # says what is wrong with it, in words
            except StoreError as exc:
                sys.stderr.write(f"labconsole: {exc}\n")
                digest.unreadable.append(run_id)
                continue
            raise
    return digest


def _objects(made: Report) -> Iterable[dict[str, Any]]:
    from labconsole.report.findings import COMPARES
    from labconsole.report.tables import to_json

    yield {"selection": made.selection.to_json(), "conclusions": list(made.conclusions), **counts(made)}
    for table in (*made.tables, *made.references):
        yield to_json(table)
    for finding in made.findings:
        claims = finding.kind in COMPARES
        yield {
            "finding": finding.kind, "claim": claims, "sentence": finding.sentence, "run_ids": finding.run_ids,
        }  # fmt: skip


def counts(made: Report) -> dict[str, Any]:
    """Planned, taken, retaken and entered over all points, what is missing, and the family of claims."""
    from labconsole.report.sample import missing_words

    planned = [each.planned for each in made.coverage]
    family = made.evaluation.claims
    return {
        "planned": None if None in planned else sum(each or 0 for each in planned),
        "taken": sum(each.taken for each in made.coverage),
        "retaken": sum(each.retaken for each in made.coverage),
        "entered": len(made.kept.entered),
        "left_out": dict(made.kept.excluded_by_reason),
        "missing_of_plans": missing_words(made.coverage),
        "claims": {"tested": family.size, "different": sum(claim.different for claim in family.claims),
                   "margin_ratio": family.margin_ratio, "margin_declared": family.declared},
    }  # fmt: skip


def write(made: Report, out: Path, formats: Collection[str] = FORMATS) -> list[Path]:
    """The report's files in ``out``, in the order in which they are printed."""
    from labconsole.report.draw import draw
    from labconsole.report.page import render
    from labconsole.report.tables import to_csv, to_latex, to_markdown

    writers = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
    try:
        out.mkdir(parents=True, exist_ok=True)
        written, drawings = [], {}
        wanted = [name for name in DRAWN if name in formats]
        if {"html", *DRAWN} & set(formats):
            for figure in made.figures:
                drawn = draw(figure, [*wanted, *(["svg"] if "html" in formats and "svg" not in wanted else [])])
                drawings[figure.name] = drawn.get("svg", b"").decode()
                for suffix in wanted:
                    written.append(_file(out / f"{figure.name}.{suffix}", drawn[suffix]))
        for table in (*made.tables, *made.references):
            for suffix in TABLES:
                if suffix in formats:
                    written.append(_file(out / f"{table.name}.{suffix}", writers[suffix](table).encode()))
        if "csv" in formats:
            written.append(_file(out / "runs.csv", _runs_csv(made).encode()))
        if "html" in formats:
            written.append(_file(out / "report.html", render(made, drawings=drawings).encode()))
    except OSError as exc:
        raise ConfigError(f"cannot be written: {exc.strerror}", key="--out", value=str(exc.filename or out)) from None
    return written


def _runs_csv(made: Report) -> str:
    """Every run that was meant, and whether it enters: so that a reader can compute each mean again."""
    import pandas as pd

    from labconsole.model.spreadsheet import harmless_cell
    from labconsole.store.summary import RunSummary

    columns = [field.name for field in fields(RunSummary) if field.name not in ("reason_codes", "note", "has_series")]
    rows = []
    for run in (*made.kept.entered, *made.kept.excluded):
        why = made.kept.why.get(run.run_id)
        cells = [harmless_cell(getattr(run, name)) for name in columns]
        rows.append([why is None, why or "", *cells, " ".join(run.reason_codes)])
    frame = pd.DataFrame(rows, columns=["enters", "why_not", *columns, "reason_codes"], dtype=object)
    return str(frame.to_csv(index=False, lineterminator="\n"))


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
