"""The command verify on a bundle: do its files match the manifest, and can every number in it be derived again?"""

from __future__ import annotations

import csv
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labconsole.bundle import pack
from labconsole.bundle.archive import Differences, Tell, Unpacked, unpack
from labconsole.bundle.examination import Examination
from labconsole.bundle.reproduction import PlanCommand, check_origins, plan_names, reproduce_report
from labconsole.errors import StoreError
from labconsole.measure.recompute.discrepancy import Discrepancy
from labconsole.measure.recompute.tables import ABSTRACTS, CLAIMING, OF_GUESTS, wrong_cells
from labconsole.model.record.annotations import NotedRecord, PlanNote
from labconsole.model.record.kind import RecordKind, record_kinds
from labconsole.model.record.run import METHOD
from labconsole.model.record.search import SEARCH
from labconsole.model.record.summary import RunSummary
from labconsole.store.experiments import parse_experiment
from labconsole.store.importing import ExportedExperiment, import_records, read_jsonl, read_lines
from labconsole.store.notes import parse_calibration
from labconsole.store.open import open_store
from labconsole.store.series import check_series, read_file
from labconsole.store.writing import RunStore
from labconsole.units import counted
from labconsole.wire.codec import count_parts

# -- tables ------------------------------------------------------------------------------------------------------------
# Checks a bundle's tables against its runs by an independent path. The files are read here, bounded in their cells.

CHECKED_TABLES = ("results", *CLAIMING, *OF_GUESTS, *ABSTRACTS)

MAX_CELLS = 2 << 20
"""For all tables that are in memory during the comparison: 35 000 design points of sixty columns each."""

MAX_COLUMNS = 1000
MAX_ROW_CHARACTERS = 1 << 20
"""For one row, over any number of lines."""


def wrong_tables(directory: Path, runs: list[RunSummary], manifest: dict[str, Any]) -> Iterator[str]:
    """Sentences on cells of ``directory``'s tables that do not follow from the bundle's runs."""
    try:
        entered, missing = _read_entered(directory / "runs.csv", {run.run_id for run in runs})
        tables = _read_tables(
            [directory / f"{name}.csv" for name in CHECKED_TABLES if (directory / f"{name}.csv").exists()]
        )
    except (OSError, ValueError, csv.Error, KeyError) as exc:
        yield f"report: its tables cannot be read: {exc}"
        return
    if missing is not None:
        yield f"report/runs.csv: {missing[:80]} enters a mean, but is not among the runs"
    selection = manifest.get("selection")
    pool = selection.get("pool") if isinstance(selection, dict) else None
    pooled = [name for name in pool if isinstance(name, str)] if isinstance(pool, list) else []
    yield from wrong_cells(tables, (run for run in runs if run.run_id in entered), pooled, runs)


def _read_entered(path: Path, known: set[str]) -> tuple[set[str], str | None]:
    """The known runs that enter a mean according to this table, and the id of the first unknown run, or None."""
    entered: set[str] = set()
    missing: str | None = None
    for row in read_rows(path):
        if row.get("enters") == "True":
            run_id = row["run_id"]
            if run_id in known:
                entered.add(run_id)
            else:
                missing = run_id if missing is None else min(missing, run_id)
    return entered, missing


def _read_tables(paths: list[Path]) -> dict[str, list[dict[str, str]]]:
    tables: dict[str, list[dict[str, str]]] = {}
    cells = 0
    for path in paths:
        rows = tables.setdefault(path.stem, [])
        for row in read_rows(path):
            cells += len(row)
            if cells > MAX_CELLS:
                raise ValueError(f"{path.name}: the tables have more than {MAX_CELLS} cells")
            rows.append(row)
    return tables


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file by column.

    Raises ValueError for a row that is not as wide as the head, for more than ``MAX_COLUMNS`` columns, and for a row of
    more than ``MAX_ROW_CHARACTERS``. OSError and csv.Error pass through.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        characters_left = MAX_ROW_CHARACTERS

        def lines() -> Iterator[str]:
            nonlocal characters_left
            while line := stream.readline(characters_left + 1):
                characters_left -= len(line)
                if characters_left < 0:
                    raise ValueError(f"{path.name}: a row has more than {MAX_ROW_CHARACTERS} characters")
                yield line

        reader = csv.reader(lines())
        head = next(reader, [])
        if len(head) > MAX_COLUMNS:
            raise ValueError(f"{path.name}: has {len(head)} columns; allowed: {MAX_COLUMNS}")
        for row in reader:
            characters_left = MAX_ROW_CHARACTERS
            if len(row) != len(head):
                raise ValueError(f"{path.name}: line {reader.line_num} has {len(row)} cells, the head has {len(head)}")
            yield dict(zip(head, row, strict=True))


# -- the whole bundle --------------------------------------------------------------------------------------------------
# The runs are imported into a store of their own, recomputed there, and reported again: the tables must equal the
# packed ones. Figures and page are compared only if the libraries that drew them are installed here.

MAX_VALUES_TOGETHER = 64 << 20
"""For all searches and guest trials, which a report keeps in memory: five thousand trials of a hundred guests."""


@dataclass(frozen=True, slots=True)
class BundleCheck:
    """The result of verifying a bundle.

    ``counts``: what was examined, by plural name. ``unjudged``: descriptions of what could not be judged, each with its
    number of runs. ``differences``: how many there are, including those that were only counted. ``commands``: the
    plans' commands.
    """

    counts: dict[str, int]
    unjudged: Counter[str]
    differences: int
    commands: tuple[PlanCommand, ...]


@contextmanager
def open_bundle(path: Path) -> Iterator[Unpacked]:
    """A bundle, unpacked into a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="labconsole-bundle-") as name:
        yield unpack(path, Path(name))


@contextmanager
def open_as_store(path: Path) -> Iterator[RunStore]:
    """A bundle's runs, series and searches as a store. Raises StoreError if a file differs from the manifest."""
    with open_bundle(path) as found, tempfile.TemporaryDirectory(prefix="labconsole-import-") as name:
        if found.differences:
            raise StoreError(f"{path}: {found.differences[0]}; `labconsole verify` names every difference")
        with open_store(str(Path(name) / "runs.sqlite")) as store:
            try:
                import_records(store, _runs(found))
                for file in _series_files(found):
                    record = store.get(run_id := file.name.removesuffix(".npz"))
                    if record.run_id != run_id:
                        raise StoreError(f"series/{file.name}: does not belong to any run")
                    store.take_over([(record, read_file(file, record.run_id))])
                _experiments(found, store, _refuse)
            except StoreError as exc:
                raise StoreError(f"{path}: {found.describe(exc)}") from exc
            yield store


def _refuse(sentence: str) -> None:
    raise StoreError(sentence)


def check(path: Path, tell_difference: Tell) -> BundleCheck:
    """Verify a bundle and report its differences, of very many only the first. Raises StoreError if it is no bundle."""
    tell = Differences(tell_difference)
    with open_bundle(path) as found, tempfile.TemporaryDirectory(prefix="labconsole-verify-") as name:
        for difference in found.differences:
            tell(difference)
        counts = {"files": len(found.manifest["files"]), "runs": 0, "series": 0, "searches": 0, "tables": 0}
        with open_store(str(Path(name) / "runs.sqlite")) as store:
            _take(found, store, tell)
            counts["searches"], others = _experiments(found, store, tell)
            counts["runs"], not_judged = _examine(store, tell)
            counts["series"] = _series(found, store, tell)
            commands = check_origins(found, store, tell)
            summaries = store.list()
        present = any(run.method == METHOD for run in summaries)
        if counts["runs"] or others:
            count = counts["runs"] or sum(others.values())
            made = reproduce_report(found, Path(name), tell)
            counts["tables"] = made.files
            if made.not_drawn:
                not_judged["pictures and page of the report, which other libraries drew"] += count
            if counts["runs"] and found.manifest.get("method") == METHOD:
                for sentence in wrong_tables(found.directory / "report", summaries, found.manifest):
                    tell(sentence)
            elif found.manifest.get("method") != METHOD:
                not_judged["the tables of the report, which were computed by another method"] += count
                if present:
                    tell(f"manifest.json: method: says {found.manifest.get('method')}, runs are of method {METHOD}")
        elif any(name.startswith("report/") for name in found.names):
            tell("report: there are no runs or trials that it could follow from")
        _files(found, tell)
        for word in ("runs", "series", "searches"):
            if found.manifest.get(word) != counts[word]:
                tell(f"manifest.json: says {found.manifest.get(word)} {word}, there are {counts[word]}")
        said = found.manifest.get("experiments", {})
        if isinstance(said, dict) and (unknown := sorted(map(str, said.keys() - record_kinds().keys()))):
            tell(f"{', '.join(unknown)}: no installed package reads records of this kind; install the one that does")
        if said != others:
            tell(f"manifest.json: experiments: says {said}, there are {others}")
        counts |= {record_kinds()[kind].plural: count for kind, count in others.items()}
        tell.end()
        return BundleCheck(counts, not_judged, tell.count, commands)


def _take(found: Unpacked, store: RunStore, tell: Tell) -> None:
    """Import all runs; if one of them differs, import none and report the difference."""
    try:
        result = import_records(store, _runs(found))
        if result.present:
            tell(f"{pack.RUNS}: {counted(result.present, 'run')} contained twice")
    except StoreError as exc:
        tell(found.describe(exc))


def _runs(found: Unpacked) -> Iterator[NotedRecord | PlanNote]:
    """The contents of a bundle's file of runs. Other records have files and bounds of their own."""
    for item in read_jsonl(found.directory / pack.RUNS):
        if isinstance(item, ExportedExperiment):
            raise StoreError(
                f"{pack.RUNS}: contains a {item.kind.name}; a bundle has it in {pack.name_records_file(item.kind)}"
            )
        yield item


def _examine(store: RunStore, tell: Tell) -> tuple[int, Counter[str]]:
    def found(place: str, wrong: Discrepancy) -> None:
        tell(f"{place}  {wrong.where}: {wrong.sentence}")

    examination = Examination(found)
    for record in store.iterate():
        examination.take(record)
    for kind in record_kinds().values():
        for record in store.experiments(kind)[::-1] if kind is not SEARCH else ():
            examination.take_other(kind, record)
    examination.end(store.experiments(SEARCH))
    return examination.runs, examination.unjudged


def _series(found: Unpacked, store: RunStore, tell: Tell) -> int:
    known, count = {run.run_id for run in store.list()}, 0
    for path in _series_files(found):
        count += 1
        run_id, name = path.name.removesuffix(".npz"), f"series/{path.name}"
        if run_id not in known:
            tell(f"{name}: does not belong to any run")
            continue
        try:
            check_series(read_file(path, run_id), run_id, name)
        except StoreError as exc:
            tell(found.describe(exc))
    return count


def _files(found: Unpacked, tell: Tell) -> None:
    """Nothing is in the archive that no reader here looks at, and its calibrations are as many as it says."""
    known = {pack.RUNS, pack.CALIBRATIONS, pack.VERSIONS, pack.INVENTORY, *plan_names(found)}
    known |= {pack.name_records_file(kind) for kind in record_kinds().values()}
    for name in sorted(found.names - known):
        if not name.startswith(("series/", "report/")):
            tell(f"{name}: is not a part of a bundle, and nothing verifies it")
    path, count = found.path(pack.CALIBRATIONS), 0
    if path is None:
        return
    try:
        for number, line in read_lines(path):
            parse_calibration(line.decode("utf-8", "replace"), f"{pack.CALIBRATIONS}:{number}")
            count += 1
        if found.manifest.get("calibrations") != count:
            tell(f"manifest.json: says {found.manifest.get('calibrations')} calibrations, there are {count}")
    except StoreError as exc:
        tell(found.describe(exc))


def _series_files(found: Unpacked) -> list[Path]:
    return [found.directory / name for name in sorted(found.names) if name.startswith("series/")]


def _experiments(found: Unpacked, store: RunStore, tell: Tell) -> tuple[int, dict[str, int]]:
    """Import the other records from their files. Returns the numbers of valid searches, and of others by kind."""
    values_left = MAX_VALUES_TOGETHER
    counts: dict[str, int] = {}
    for kind in (SEARCH, *(kind for kind in record_kinds().values() if kind is not SEARCH)):
        counts[kind.name], values_left = _import_kind(found, store, kind, values_left, tell)
    return counts.pop(SEARCH.name), {name: count for name, count in counts.items() if count}


def _import_kind(
    found: Unpacked, store: RunStore, kind: RecordKind[Any], values_left: int, tell: Tell
) -> tuple[int, int]:
    """Import a kind's records from their file. Returns how many were valid and how many values are left."""
    name = pack.name_records_file(kind)
    path, count = found.path(name), 0
    if path is None:
        return 0, values_left  # the check of the manifest has already reported it
    try:
        for number, line in read_lines(path):
            values_left -= count_parts(line)
            if values_left < 0:
                raise StoreError(
                    f"{name}:{number}: the bundle's searches and trials of guests hold more than "
                    f"{MAX_VALUES_TOGETHER} values together"
                )
            try:
                store.import_experiments(kind, [parse_experiment(kind, line, f"{name}:{number}")])
                count += 1
            except StoreError as exc:
                tell(str(exc))
    except StoreError as exc:
        tell(found.describe(exc))
    return count, values_left
