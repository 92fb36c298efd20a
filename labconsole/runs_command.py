"""The command runs: what is saved and noted, out of the store as a file, and back in without doubles."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labconsole.engine.stamps import operator_name
from labconsole.errors import ConfigError, StoreError
from labconsole.model.note import exported
from labconsole.model.run_query import QueryError, parse_query
from labconsole.store import RunStore, RunSummary, open_store
from labconsole.text_report import note_lines, run_lines, runs_table

_SQLITE_MAGIC, _GZIP_MAGIC = b"SQLite format 3\0", b"\x1f\x8b"


def runs(args: argparse.Namespace) -> int:
    """``labconsole runs``: 1 when an import had to leave something out."""
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
        "show": "a run's id", "note": "a run's id",
        "import": "a file of JSON lines, a bundle, or another store",
    }.get(args.action)  # fmt: skip
    if needed and not args.what:
        raise ConfigError(f"runs {args.action} needs {needed}")
    if args.text is not None and args.action != "note":
        raise ConfigError(f"runs {args.action} takes no further word", value=args.text)
    if args.action in ("list", "export") and args.what is not None:
        raise ConfigError(f"runs {args.action} takes no run; --where says which", value=args.what)
    for option in ("format", "out"):
        if getattr(args, option) is not None and args.action != "export":
            raise ConfigError("goes with export only", key=f"--{option}")
    if args.where is not None and args.action not in ("list", "export"):
        raise ConfigError("goes with list and export only", key="--where")


def _chosen(store: RunStore, args: argparse.Namespace, *, limit: int | None = None) -> list[RunSummary]:
    """The runs that ``--where`` means, newest first."""
    if args.where is None:
        return store.list(limit=limit)
    try:
        query = parse_query(args.where)
    except QueryError as exc:
        raise ConfigError(str(exc), key="--where") from None
    return query.select(store.list())[:limit]


def _list(store: RunStore, args: argparse.Namespace) -> None:
    chosen = _chosen(store, args, limit=args.limit)
    if not args.json:
        sys.stdout.write("\n".join(runs_table(chosen)) + "\n")
        return
    for summary in chosen:
        try:
            _json_line(exported(store.get(summary.run_id), store.note(summary.run_id)))
        except StoreError as exc:
            _tell(exc)


def _show(store: RunStore, args: argparse.Namespace) -> None:
    record = store.get(args.what)
    note = store.note(record.run_id)
    if args.json:
        _json_line(exported(record, note))
    else:
        lines = run_lines(record, saved=True, details=True)
        sys.stdout.write("\n".join(lines + note_lines(note)) + "\n")


def _note(store: RunStore, args: argparse.Namespace) -> None:
    """``labconsole runs note ID [TEXT]``: write the note on a run (an empty text removes it), or show it."""
    if args.text is not None:
        store.set_note(args.what, args.text, author=operator_name())
    note = store.note(args.what)
    if args.json:
        _json_line({"run_id": store.get(args.what).run_id, "note": None if note is None else note.to_json()})
    else:
        sys.stdout.write("\n".join(note_lines(note) or ["no note"]) + "\n")


def _import(store: RunStore, args: argparse.Namespace) -> int:
    from labconsole.store.exchange import read_jsonl

    if "://" in args.what or _begins(args.what, _SQLITE_MAGIC):
        with open_store(args.what, write=False) as source:
            return _merge(source, store, args)
    if _begins(args.what, _GZIP_MAGIC):
        from labconsole.bundle_verification import as_store

        with as_store(Path(args.what)) as source:
            return _merge(source, store, args)
    result = store.import_records(read_jsonl(Path(args.what)), refusing=True)
    if args.json:
        _json_line(asdict(result))
    else:
        notes = f", {result.notes} notes taken" if result.notes else ""
        notes += f", {result.searches} searches taken" if result.searches else ""
        sys.stdout.write(f"{result.added} runs added, {result.present} were there already{notes}\n")
    return 0


def _begins(what: str, magic: bytes) -> bool:
    """Whether a file is of a kind. One that cannot be read is told by whoever reads it next."""
    try:
        with Path(what).open("rb") as stream:
            return stream.read(len(magic)) == magic
    except (OSError, ValueError):
        return False


def _merge(source: RunStore, store: RunStore, args: argparse.Namespace) -> int:
    from labconsole.store.merging import merge

    result = merge(source, store, _tell)
    if args.json:
        _json_line(asdict(result))
    else:
        words = [f"{result.added} runs added", f"{result.present} were there already"]
        words += [f"{count} {word} taken" for count, word in (
            (result.series, "series"), (result.notes, "notes"), (result.calibrations, "calibrations"),
            (result.searches, "searches"),
        ) if count]  # fmt: skip
        words += [f"{result.left_out} left out"] if result.left_out else []
        sys.stdout.write(", ".join(words) + "\n")
    return 1 if result.left_out else 0


def _export(store: RunStore, args: argparse.Namespace) -> None:
    from labconsole.store import exporting

    out = None if args.out is None else Path(args.out)
    kind = exporting.kind_of(args.format, out)
    if kind == "jsonl":
        exporting.to_file(out, exporting.jsonl(store, _chosen(store, args) if args.where else None, _tell))
    else:
        rows = list(reversed(_chosen(store, args)))
        exporting.to_file(out, exporting.csv(rows) if kind == "csv" else exporting.parquet(rows))


def _json_line(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


def _tell(problem: StoreError) -> None:
    sys.stderr.write(f"labconsole: left out: {problem}\n")
