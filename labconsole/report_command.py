"""The command report: figures, tables and one page for a reviewer, out of the store."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from labconsole.model.search_record import SearchRecord
    from labconsole.report.assembly import Report
    from labconsole.report.digest import Digest
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

    redo = [f"--reference={args.reference}"] if args.reference else []
    redo += [f"--reference-map={','.join(args.reference_map)}"] if args.reference_map else []
    plans = _plan_files(args)
    again = {"arguments": redo, "plans": {path.name: load_plan(path).hash() for path in plans}}
    with open_store(args.store, write=False) as store:
        missing = write_bundle(args.bundle, made, store, hosts=args.hosts, plans=plans, redo=again)
    for what in missing:
        sys.stderr.write(f"labconsole: not found, and so not in the bundle: {what}\n")
    if not args.json:
        sys.stdout.write(f"{args.bundle}\n")


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
    from labconsole.report.assembly import assemble
    from labconsole.report.frame import runs_frame, sample
    from labconsole.report.reference import load_reference
    from labconsole.store import open_store

    reference = load_reference(args.reference) if args.reference else None
    names = _mapped(args.reference_map, has_reference=reference is not None)
    where = filter_of(args)
    with open_store(args.store, write=False) as store:
        selected = _selected(store.list(where), args.filter)
        searches, meant = _searches(store, selected)
        if not meant:
            raise _no_runs(args, store.list())
        kept = sample(runs_frame(meant))
        digest = _digest(store, where, {run.run_id for run in meant}, set(kept.runs["run_id"]))
    return assemble(kept, digest, reference=reference, names=names, searches=searches, plans=_plan_texts(args))


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


def _selected(summaries: list[RunSummary], words: Iterable[str]) -> list[RunSummary]:
    """Those for which every word of the filter holds, as in the console's list of runs."""
    from labconsole.model.run_query import QueryError, parse_query

    text = " ".join(words)
    try:
        return parse_query(text).select(summaries)
    except QueryError as exc:
        raise ConfigError(str(exc), key="FILTER", value=text) from None


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


def _digest(store: RunStore, where: RunFilter, meant: Collection[str], entering: Collection[str]) -> Digest:
    """One pass over the records as JSON. One that cannot be read is told on stderr and left out of the page's words."""
    from labconsole.model.record import FORMAT
    from labconsole.report.digest import Digest
    from labconsole.store.records import parse_record

    digest = Digest(entering)
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
                sys.stderr.write(f"labconsole: left out: {exc}\n")
                continue
            raise
    return digest


def _objects(made: Report) -> Iterable[dict[str, Any]]:
    from labconsole.report.tables import to_json

    for table in (*made.tables, *made.references):
        yield to_json(table)
    for finding in made.findings:
        yield {"finding": finding.kind, "sentence": finding.sentence, "run_ids": finding.run_ids}


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
    from labconsole.model.spreadsheet import harmless_cell

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [name for name in made.kept.runs.columns if name not in ("reason_codes", "note", "has_series")]
    writer.writerow(["enters", *columns, "reason_codes"])
    for enters, frame in ((True, made.kept.runs), (False, made.kept.excluded)):
        bare = frame[columns].astype(object).where(frame[columns].notna(), None)
        for values, codes in zip(bare.itertuples(index=False), frame["reason_codes"], strict=True):
            writer.writerow([enters, *(harmless_cell(value) for value in values), " ".join(codes)])
    return out.getvalue()


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
