"""The command verify on a bundle: are its files those of the manifest, and does every number in it follow again.

The runs are taken into a store of their own, recomputed there, and reported on once more: the tables must come out as
they were packed. Pictures and page are compared only by the libraries that drew them.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from labconsole.bundle import pack
from labconsole.bundle.archive import Unpacked, unpack
from labconsole.bundle.examination import Examination
from labconsole.bundle.tables import wrong_tables
from labconsole.errors import ConfigError, LabError, StoreError
from labconsole.experiments.units import report_units
from labconsole.measure.recompute.discrepancy import Discrepancy
from labconsole.model.generator import of_elsewhere
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kinds import record_kinds
from labconsole.model.record.kinds.search import KIND as SEARCH
from labconsole.model.record.run import METHOD
from labconsole.model.record.summary import RunSummary
from labconsole.report.assembly import counts
from labconsole.report.files import write
from labconsole.report.gathering import gather
from labconsole.report.planned_trials import TrialOfPlan, trials_of
from labconsole.report.request import ReportRequest, parse_arguments
from labconsole.store.exchange.importing import import_records
from labconsole.store.exchange.lines import read_jsonl
from labconsole.store.experiments import parse_experiment
from labconsole.store.open import open_store
from labconsole.store.series import read_file, unpack_series
from labconsole.store.writing import RunStore
from labconsole.units import counted
from labconsole.wire.version import __version__

Tell = Callable[[str], None]
"""Told one difference, as a sentence that begins with its place."""


@contextmanager
def opened(path: Path) -> Iterator[Unpacked]:
    """A bundle, unpacked into a directory that goes again."""
    with tempfile.TemporaryDirectory(prefix="labconsole-bundle-") as name:
        yield unpack(path, Path(name))


@contextmanager
def as_store(path: Path) -> Iterator[RunStore]:
    """A bundle's runs, series and searches as a store. Raises StoreError when a file is not that of the manifest."""
    with opened(path) as found, tempfile.TemporaryDirectory(prefix="labconsole-import-") as name:
        if found.differences:
            raise StoreError(f"{path}: {found.differences[0]}; `labconsole verify` names every difference")
        with open_store(str(Path(name) / "runs.sqlite")) as store:
            try:
                import_records(store, read_jsonl(found.directory / pack.RUNS))
                for file in sorted((found.directory / "series").glob("*.npz")):
                    record = store.get(file.name.removesuffix(".npz"))
                    store.take_over([(record, read_file(file, record.run_id))])
                _searches(found, store, _refuse)
                _others(found, store, _refuse)
            except StoreError as exc:
                raise StoreError(f"{path}: {_inside(found, exc)}") from exc
            yield store


def _refuse(sentence: str) -> None:
    raise StoreError(sentence)


def check(path: Path, tell: Tell) -> tuple[dict[str, int], Counter[str]]:
    """Verify a bundle; every difference is told. Raises StoreError when it is not one.

    Returns what was looked at, and in words what of how many runs could not be judged.
    """
    with opened(path) as found, tempfile.TemporaryDirectory(prefix="labconsole-verify-") as name:
        for difference in found.differences:
            tell(difference)
        counts = {"files": len(found.manifest["files"]), "runs": 0, "series": 0, "searches": 0, "tables": 0}
        with open_store(str(Path(name) / "runs.sqlite")) as store:
            _take(found, store, tell)
            counts["searches"] = _searches(found, store, tell)
            others = _others(found, store, tell)
            counts["runs"], not_judged = _examine(store, tell)
            counts["series"] = _series(found, store, tell)
            _origins(found, store, tell)
            summaries = store.list()
        present = any(run.method == METHOD for run in summaries)
        if counts["runs"] or others:
            counts["tables"] = _report(found, Path(name), tell)
            if counts["runs"] and found.manifest.get("method") == METHOD:
                for sentence in wrong_tables(found.directory / "report", summaries, found.manifest):
                    tell(sentence)
            elif counts["runs"]:
                not_judged["the tables of the report, which were computed by another method"] += counts["runs"]
                if present:
                    tell(f"manifest.json: method: says {found.manifest.get('method')}, runs are of method {METHOD}")
        for word in ("runs", "series", "searches"):
            if found.manifest.get(word) != counts[word]:
                tell(f"manifest.json: says {found.manifest.get(word)} {word}, there are {counts[word]}")
        said = found.manifest.get("experiments", {})
        if isinstance(said, dict) and (unknown := sorted(map(str, said.keys() - record_kinds().keys()))):
            tell(f"{', '.join(unknown)}: no installed package reads records of this kind; install the one that does")
        if said != others:
            tell(f"manifest.json: experiments: says {said}, there are {others}")
        counts |= {record_kinds()[kind].plural: count for kind, count in others.items()}
        return counts, not_judged


def _take(found: Unpacked, store: RunStore, tell: Tell) -> None:
    """All runs, or with a difference told none."""
    path = found.directory / pack.RUNS
    try:
        result = import_records(store, read_jsonl(path))
        if result.present:
            tell(f"{pack.RUNS}: {counted(result.present, 'run')} contained twice")
    except StoreError as exc:
        tell(_inside(found, exc))


def _inside(found: Unpacked, problem: Exception) -> str:
    """An error in the bundle's own names."""
    return str(problem).replace(f"{found.directory}/", "")


def _examine(store: RunStore, tell: Tell) -> tuple[int, Counter[str]]:
    def found(place: str, wrong: Discrepancy) -> None:
        tell(f"{place}  {wrong.where}: {wrong.sentence}")

    examination = Examination(found)
    for record in store.iterate():
        examination.take(record)
    others = {name: store.experiments(kind)[::-1] for name, kind in record_kinds().items() if kind is not SEARCH}
    examination.end(store.experiments(SEARCH), others)
    return examination.runs, examination.unjudged


def _series(found: Unpacked, store: RunStore, tell: Tell) -> int:
    known, count = {run.run_id for run in store.list()}, 0
    for path in sorted((found.directory / "series").glob("*")):
        count += 1
        run_id, name = path.name.removesuffix(".npz"), f"series/{path.name}"
        if run_id not in known:
            tell(f"{name}: does not belong to any run")
            continue
        try:
            unpack_series(read_file(path, run_id), run_id, name)
        except StoreError as exc:
            tell(_inside(found, exc))
    return count


def _searches(found: Unpacked, store: RunStore, tell: Tell) -> int:
    count = 0
    for number, line in enumerate(_text(found, pack.SEARCHES, tell).splitlines(), 1):
        try:
            store.import_experiments(SEARCH, [parse_experiment(SEARCH, line, f"{pack.SEARCHES}:{number}")])
            count += 1
        except StoreError as exc:
            tell(str(exc))
    return count


def _others(found: Unpacked, store: RunStore, tell: Tell) -> dict[str, int]:
    """The records of kinds that are neither runs nor searches, as many as there are of each."""
    counts: dict[str, int] = {}
    for kind in record_kinds().values():
        name = pack.file_of(kind)
        if kind is SEARCH or name not in found.manifest["files"]:
            continue
        for number, line in enumerate(_text(found, name, tell).splitlines(), 1):
            try:
                store.import_experiments(kind, [parse_experiment(kind, line, f"{name}:{number}")])
                counts[kind.name] = counts.get(kind.name, 0) + 1
            except StoreError as exc:
                tell(str(exc))
    return counts


def _text(found: Unpacked, name: str, tell: Tell) -> str:
    try:
        return (found.directory / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""  # the manifest has told it
    except (OSError, UnicodeDecodeError) as exc:
        tell(f"{name}: cannot be read: {exc}")
        return ""


@of_elsewhere()
def _origins(found: Unpacked, store: RunStore, tell: Tell) -> None:
    """Inventory and plans are those that the runs name, or the bundle says that it lacks them."""
    from labconsole.model.inventory import load_inventory
    from labconsole.model.plan.loader import load_plan
    from labconsole.model.plan.occasions import on_occasions_of

    summaries, there = store.list(), set[str]()
    others = [each for kind in record_kinds().values() for each in trials_of(store.experiments(kind))]
    fingerprints = {run.testbed_fingerprint for run in summaries} | {each.testbed_fingerprint for each in others}
    inventory = None
    path = found.directory / pack.INVENTORY
    try:
        if path.exists():
            inventory = load_inventory(path)
            there.add(inventory.fingerprint())
        for name, key in _plans_of(found.manifest).items():
            if (found.directory / name).exists():
                plan = load_plan(found.directory / name, inventory)
                real = plan.hash()
                there.add(real)
                if real != key:
                    tell(f"{name}: means plan {real}, not {key} as the manifest says")
                _points(plan, [run for run in summaries if run.plan_hash == real], name, tell)
                names = [*(run.plan_name for run in summaries), *(each.plan.name for each in others)]
                for other in (plan, *on_occasions_of(plan, names)):
                    there.add(other.hash())
                    own = [each for each in others if each.plan.plan_hash == other.hash()]
                    _trials_of_guests(other, own, name, tell)
                    if other is not plan:
                        _points(other, [run for run in summaries if run.plan_hash == other.hash()], name, tell)
                    for also in other.telemetry_hashes:
                        there.add(also)
                        _points(other.for_telemetry(), [run for run in summaries if run.plan_hash == also], name, tell)
    except ConfigError as exc:
        tell(_inside(found, exc))
    said = " ".join(_words(found.manifest.get("missing")))
    for key in sorted(fingerprints - there):
        if key not in said:
            tell(f"{pack.INVENTORY}: is not the testbed {key} on which runs were measured")
    grids = {run.plan_hash for run in summaries if run.plan_hash and not run.plan_hash.startswith(HASH_PREFIX)}
    grids |= {each.plan.plan_hash for each in others if each.plan.plan_hash is not None}
    for key in sorted(grids - there):
        if key not in said:
            tell(f"plans: none of them is the plan {key} of these runs")


def _points(plan: Plan, runs: Iterable[RunSummary], name: str, tell: Tell) -> None:
    """Every run is what its plan asks for at its point."""
    requests = [point.request for point in plan.every_point]
    for run in runs:
        point = -1 if run.plan_point is None else run.plan_point
        asked = requests[point] if 0 <= point < len(requests) else None
        if asked is None:
            tell(f"{run.run_id}  plan.point: is {run.plan_point}, and {name} has {counted(len(requests), 'point')}")
            continue
        factors = asked.columns()
        for key in ("platform", "frame_size_bytes", "sources", "target_bps", "background", "duration_s"):
            if getattr(run, key) != factors[key]:
                words = f"{getattr(run, key)}, and {name} asks for {factors[key]}"
                tell(f"{run.run_id}  requested.{key}: at point {point} is {words}")


def _trials_of_guests(plan: Plan, records: Iterable[TrialOfPlan], name: str, tell: Tell) -> None:
    """Every trial is what its plan asks for at its point."""
    for record in records:
        place = record.plan
        if plan.of_guests is None or plan.of_guests.hash_at(place.point, place.block, place.repetition) != place.hash:
            tell(f"{name}: does not ask for the trial that began at {record.started_at}, at point {place.point}")


def _words(value: object) -> list[str]:
    """A list of words, as far as it is one."""
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _plans_of(manifest: dict[str, Any]) -> dict[str, str]:
    plans = manifest.get("plans")
    if not isinstance(plans, dict):
        return {}
    return {name: key for name, key in plans.items() if name in manifest["files"] and name.startswith("plans/")}


def _report(found: Unpacked, scratch: Path, tell: Tell) -> int:
    """Make the report again, and compare file by file. 0 where numbers were reckoned by another method than ours."""
    if found.manifest.get("method") != METHOD:
        return 0  # other numbers follow from the same counts
    redo = found.manifest.get("redo")
    formats = pack.report_formats() if _drawn_alike(found, tell) else ("csv", "md", "tex")
    try:
        request = _request(found, redo if isinstance(redo, dict) else {}, scratch / "plans")
        with open_store(str(scratch / "runs.sqlite"), write=False) as store:
            made = gather(
                request,
                store,
                report_units(outside=False),
                place="the bundle",
                on_unreadable=lambda problem: tell(str(problem)),
            )
        written = write(made, scratch / "report", formats)
    except LabError as exc:
        tell(f"report: cannot be reproduced: {_inside(found, exc)}")
        return 0
    for name, ours in (("selection", made.selection.to_json()), ("report", counts(made))):
        theirs = found.manifest.get(name)
        if theirs != json.loads(json.dumps(ours)):
            tell(f"manifest.json: {name}: says {theirs}, the runs give {ours}")
    for path in written:
        packed = found.directory / "report" / path.name
        if not packed.exists():
            tell(f"report/{path.name}: is missing")
        elif packed.read_bytes() != path.read_bytes():
            tell(f"report/{path.name}: {_first_difference(packed, path)}")
    if made.failures:
        made_again = {path.name for path in written}
        for packed in sorted((found.directory / "report").glob("*")):
            if packed.suffix[1:] in formats and packed.name not in made_again:
                tell(f"report/{packed.name}: cannot be made again: {'; '.join(made.failures)}")
    return len(written)


def _request(found: Unpacked, redo: dict[str, Any], directory: Path) -> ReportRequest:
    """What the report was asked for. Words of a stranger: they name no file, a plan in a file is the bundle's own."""
    told = redo.get("plans")
    by_hash = {key: name for name, key in _plans_of(found.manifest).items() if isinstance(key, str)}
    plans = []
    for shown, key in told.items() if isinstance(told, dict) else ():
        if isinstance(key, str) and key in by_hash and Path(shown).name == shown and shown.endswith((".yaml", ".yml")):
            directory.mkdir(exist_ok=True)
            (directory / shown).write_bytes((found.directory / by_hash[key]).read_bytes())
            plans.append(directory / shown)
    words, chosen = _words(redo.get("arguments")), _words(redo.get("filter"))
    return parse_arguments(words, filter=chosen, plan_files=plans)


def _drawn_alike(found: Unpacked, tell: Tell) -> bool:
    """Whether pictures and page would come out as the same bytes here."""
    try:
        theirs = json.loads(_text(found, pack.VERSIONS, tell) or "{}")
    except ValueError as exc:
        tell(f"{pack.VERSIONS}: is not JSON: {exc}")
        return False
    ours = pack.versions()
    packages = theirs.get("packages") if isinstance(theirs, dict) else None
    return (
        isinstance(packages, dict)
        and theirs.get("labconsole") == __version__
        and all(packages.get(name) == ours["packages"].get(name) for name in ("matplotlib", "jinja2"))
    )


SHOWN, SHOWN_BEFORE = 200, 60
"""Characters of a line of a table, in all and before the first one that differs."""


def _first_difference(packed: Path, made: Path) -> str:
    if made.suffix in (".png", ".pdf", ".svg", ".html"):
        return "differs when it is made again"
    one, other = (path.read_text(encoding="utf-8", errors="replace").splitlines() for path in (packed, made))
    for number, (left, right) in enumerate(zip_longest(one, other, fillvalue=""), 1):
        if left != right:
            differing = (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
            first = next(differing, min(len(left), len(right)))
            begin = max(0, first - SHOWN_BEFORE) if max(len(left), len(right)) > SHOWN else 0
            there = f", from character {begin + 1} on," if begin else ""
            shown, again = (line[begin : begin + SHOWN] for line in (left, right))
            return f"line {number}{there} is {shown!r}, the runs give {again!r}"
    return "differs in its line endings"
