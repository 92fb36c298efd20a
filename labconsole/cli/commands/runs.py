"""``labconsole runs``: list, annotate, export and import saved runs without duplicates."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.api.comparisons import is_bundle, is_store
from labconsole.cli.commands import About
from labconsole.cli.options import ONE_OR_MORE, add_common
from labconsole.cli.output import answer, print_error, print_json_line, print_lines
from labconsole.errors import ConfigError, StoreError
from labconsole.store import exporters

if TYPE_CHECKING:
    from labconsole.model.record.summary import RunSummary
    from labconsole.store.importing import ImportResult
    from labconsole.store.merging import MergeResult
    from labconsole.store.writing import RunStore

about = About(100, "list, show, annotate, export or import saved runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--store", "--json")
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "show", "note", "export", "import"),
        default="list",
        help="action (default: list)",
    )
    parser.add_argument(
        "what",
        nargs="?",
        help="show, note: a run's id or the beginning of one; import: a file written by export or by report "
        "--bundle, or another store; records that are already stored are skipped",
    )
    parser.add_argument(
        "text",
        nargs="?",
        help='note: the text to attach to the run ("" removes the note); without it the note is shown',
    )
    parser.add_argument(
        "--limit", type=ONE_OR_MORE, default=20, metavar="N", help="list: show the newest N runs (default: 20)"
    )
    parser.add_argument(
        "--where",
        metavar="FILTER",
        help="list, export: filter as in the console, such as 'platform=raw size=64 verdict!=invalid'",
    )
    parser.add_argument(
        "--format",
        choices=exporters.names(),
        help="export: format, by run or by table row (default: from the file name, else jsonl)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="export: file to write (default: stdout)")


def run(args: argparse.Namespace) -> int:
    """Return 1 if an import had to leave something out."""
    from labconsole.store.open import open_store

    _refuse_strays(args)
    writes = args.action == "import" or (args.action == "note" and args.text is not None)
    with open_store(args.store, write=writes) as store:
        if args.action == "import":
            return _import(store, args)
        if args.action == "export":
            _export(store, args)
        elif args.action == "show":
            _show(store, args)
        elif args.action == "note":
            _note(store, args)
        else:
            _list(store, args)
    return 0


def _refuse_strays(args: argparse.Namespace) -> None:
    needed = {
        "show": "a run's id",
        "note": "a run's id",
        "import": "a file of JSON lines, a bundle, or another store",
    }.get(args.action)
    if needed and not args.what:
        raise ConfigError(f"runs {args.action} needs {needed}")
    if args.text is not None and args.action != "note":
        raise ConfigError(f"runs {args.action} takes no further argument", value=args.text)
    if args.action in ("list", "export") and args.what is not None:
        raise ConfigError(f"runs {args.action} does not take a run id; use --where to select runs", value=args.what)
    for option in ("format", "out"):
        if getattr(args, option) is not None and args.action != "export":
            raise ConfigError("only valid with export", key=f"--{option}")
    if args.where is not None and args.action not in ("list", "export"):
        raise ConfigError("only valid with list and export", key="--where")


def _chosen(store: RunStore, args: argparse.Namespace, *, limit: int | None = None) -> list[RunSummary]:
    """The runs that ``--where`` selects, newest first."""
    from labconsole.model.query import QueryError, parse_query

    if args.where is None:
        return store.list(limit=limit)
    try:
        query = parse_query(args.where)
    except QueryError as exc:
        raise ConfigError(str(exc), key="--where") from None
    return query.select(store.list())[:limit]


def _list(store: RunStore, args: argparse.Namespace) -> None:
    from labconsole.cli.text.runs import runs_table
    from labconsole.model.record.annotations import exported

    chosen = _chosen(store, args, limit=args.limit)
    if not args.json:
        print_lines(*(runs_table(chosen) if chosen or args.where is None else ["no saved run matches"]))
        return
    for summary in chosen:
        try:
            print_json_line(exported(store.get(summary.run_id), store.note(summary.run_id)))
        except StoreError as exc:
            _warn_skipped(exc)


def _show(store: RunStore, args: argparse.Namespace) -> None:
    from labconsole.cli.text.runs import note_lines, run_lines
    from labconsole.model.record.annotations import exported

    record = store.get(args.what)
    note = store.note(record.run_id)
    lines = run_lines(record, saved=True, details=True) + note_lines(note)
    answer(exported(record, note), lines, as_json=args.json)


def _note(store: RunStore, args: argparse.Namespace) -> None:
    """``labconsole runs note ID [TEXT]``: write the note on a run (an empty text removes it), or show it."""
    from labconsole.cli.text.runs import note_lines
    from labconsole.model.identity import operator_name

    if args.text is not None:
        store.set_note(args.what, args.text, author=operator_name())
    note = store.note(args.what)
    if args.json:
        print_json_line({"run_id": store.get(args.what).run_id, "note": None if note is None else note.to_json()})
    else:
        print_lines(*(note_lines(note) or ["no note"]))


def _import(store: RunStore, args: argparse.Namespace) -> int:
    from labconsole.store.importing import import_records, read_jsonl
    from labconsole.store.open import open_store

    if is_store(args.what):
        with open_store(args.what, write=False, foreign=True) as source:
            return _merge(source, store, args)
    if is_bundle(args.what):
        from labconsole.bundle.verify import open_as_store

        with open_as_store(Path(args.what)) as source:
            return _merge(source, store, args)
    result = import_records(store, read_jsonl(Path(args.what)), refusing=True)
    answer(_flat(result), [_imported(result)], as_json=args.json)
    return 0


ONE_OF = {"series": "series", "notes": "note", "calibrations": "calibration"}


def _flat(result: ImportResult | MergeResult) -> dict[str, int]:
    """What was imported, by name: experiments of each kind on a line with the others."""
    return result.to_json()


def _imported(result: ImportResult | MergeResult) -> str:
    """The same numbers as a sentence."""
    from labconsole.model.record.kind import record_kinds

    one_of = ONE_OF | {kind.plural: kind.name for kind in record_kinds().values()}
    parts = [f"{result.added} run{'' if result.added == 1 else 's'} added", f"{result.present} already stored"]
    for name, count in _flat(result).items():
        if count and name in one_of:
            parts.append(f"{count} {one_of[name] if count == 1 else name} imported")
    return ", ".join(parts)


def _merge(source: RunStore, store: RunStore, args: argparse.Namespace) -> int:
    from labconsole.store.merging import merge

    result = merge(source, store, _warn_skipped)
    sentence = _imported(result) + (f", {result.left_out} left out" if result.left_out else "")
    answer(_flat(result), [sentence], as_json=args.json)
    return 1 if result.left_out else 0


def _export(store: RunStore, args: argparse.Namespace) -> None:
    from labconsole.store.exporting import ChosenRuns

    chosen = None if args.where is None else _chosen(store, args)
    if chosen == []:
        print_error("no saved run matches, so none is exported")
    exporters.export(ChosenRuns(store, chosen, _warn_skipped), args.format, args.out)


def _warn_skipped(problem: StoreError) -> None:
    print_error(f"left out: {problem}")
