"""A report with all that it rests on in one archive: a reviewer can take it apart, and recompute it elsewhere.

The archive says nothing of how nodes are reached: of the inventory goes in what decides results, under the fingerprint
that the runs have. Everything is the same bytes for the same store and program, so two archives can be compared.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from labconsole.bundle import archive
from labconsole.errors import ConfigError, StoreError
from labconsole.measure.admission import place_of
from labconsole.model.generator import of_elsewhere
from labconsole.model.inventory import DEFAULT_INVENTORY, Inventory, load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.occasions import build_occasion_plans
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kind import RecordKind
from labconsole.model.record.kinds import record_kinds
from labconsole.model.record.note import exported, plan_notes
from labconsole.model.record.run import METHOD
from labconsole.model.record.summary import RunSummary
from labconsole.model.yaml_file import read_text
from labconsole.report.assembly import Report, counts
from labconsole.report.files import FORMATS, TABLES, require, write_report
from labconsole.report.planned_trials import collect_plan_names
from labconsole.report.request import ReportRequest
from labconsole.store.writing import RunStore
from labconsole.text.sanitize import single_line
from labconsole.wire.version import __version__

PLANS = (Path("plans"), Path())
"""Where plans are looked for that are not given as files."""

PLANS_SOUGHT = "plan files in plans/ and in this directory were looked at; name the file of another by --plan FILE"
GIT_S = 10
RUNS, SEARCHES, CALIBRATIONS, VERSIONS = "runs.jsonl", "searches.jsonl", "calibrations.jsonl", "versions.json"
INVENTORY = "inventory/hosts.yaml"
"""Names in the archive; series/RUN_ID.npz, plans/* and report/* beside them."""


@of_elsewhere()
def write_bundle(out: Path, request: ReportRequest, made: Report, store: RunStore, *, hosts: Path | None) -> list[str]:
    """Pack the report that ``request`` gave into ``out``, which must not be there yet.

    ``hosts``: where the inventory may be; it goes in if the runs were taken with it, and so do plans. Returns what
    could not be found, in words.
    """
    if out.exists():
        raise ConfigError("already exists and will not be overwritten", key="--bundle", value=str(out))
    names = [path.name for path in request.plan_files]
    if len(set(names)) < len(names):
        words = "two of these files have the same name, by which a bundle keeps them; rename one"
        raise ConfigError(words, key="--plan", value=", ".join(map(str, request.plan_files)))
    try:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".bundle-") as name:
            directory = Path(name) / "files"
            directory.mkdir()
            about, modified_s = _fill(directory, made, store, hosts, request.plan_files)
            partial = Path(name) / "archive"
            archive.pack(partial, directory, {**about, "redo": _redo(request)}, modified_s=modified_s)
            partial.rename(out)
    except OSError as exc:
        raise ConfigError(f"cannot write {out}: {exc.strerror or exc}", key="--bundle") from None
    return list(about["missing"])


def _redo(request: ReportRequest) -> dict[str, Any]:
    """The request, for whoever makes the report again; of plans' files the names, by which they are shown."""
    plans = {path.name: load_plan(path).hash() for path in request.plan_files}
    return {"arguments": request.arguments(), "filter": list(request.filter), "plans": plans}


def _fill(
    directory: Path, made: Report, store: RunStore, hosts: Path | None, plans: Sequence[Path]
) -> tuple[dict[str, Any], int]:
    ids = _needed(made, store) | {trial.run_id for search in made.material.searches for trial in search.trials}
    facts = _Facts()
    experiments = _experiments(directory, made, facts)
    _runs(directory, store, ids, facts)
    inventory = _inventory(directory, hosts, facts.fingerprints)
    found, meant = _plans(directory, plans, inventory, facts)
    searches = [record.to_json() for record in reversed(made.material.searches)]
    _lines(directory / SEARCHES, searches)
    calibrations = [c for f in sorted(facts.fingerprints) for c in reversed(store.calibrations(f))]
    _lines(directory / CALIBRATIONS, calibrations)
    write_report(made, directory / "report", report_formats())
    (directory / VERSIONS).write_text(json.dumps(versions(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    missing = [
        f"inventory of testbed {name} ({key})"
        for key, name in sorted(facts.fingerprints.items())
        if inventory is None or key != inventory.fingerprint()
    ]
    missing += [
        f"plan {name} ({key})"
        for key, name in sorted(facts.plans.items())
        if key not in meant and not key.startswith(HASH_PREFIX)
    ]
    about = {
        "labconsole_version": __version__,
        "runs": facts.count,
        "series": facts.series,
        "searches": len(searches),
        "experiments": experiments,
        "calibrations": len(calibrations),
        "plans": found,
        "inventory": inventory.fingerprint() if inventory is not None else None,
        "missing": missing,
        "method": METHOD,
        "selection": made.selection.to_json(),
        "report": counts(made),
    }
    return about, facts.newest_s


def _needed(made: Report, store: RunStore) -> set[str]:
    """The runs that are meant, and those by which it is judged whether they enter.

    These are all of their set-ups and places, and of the set-ups of what lies in these places, too: a set-up that broke
    off does not fill a place. With them the pilots of their plans, whose trials fixed what the runs say was fixed, and
    the first run of every set-up of their plans: when it began tells which set-ups of a block were taken in one go.
    """
    meant = made.material.kept.run_ids
    stored = store.list()
    places = {place_of(run) for run in stored if run.run_id in meant} - {None}
    beside = [run for run in stored if run.run_id in meant or place_of(run) in places]
    set_ups = {run.set_up for run in beside} - {None}
    plans = {(run.plan_hash, run.testbed_fingerprint) for run in stored if run.run_id in meant and run.block}
    begun: dict[tuple[str | None, str, int | None, str | None], RunSummary] = {}
    for run in stored:
        if run.block and run.set_up is not None and (run.plan_hash, run.testbed_fingerprint) in plans:
            key = (run.plan_hash, run.testbed_fingerprint, run.block, run.set_up)
            begun[key] = min(begun.get(key, run), run, key=lambda each: (each.started_at, each.run_id))
    return {run.run_id for run in begun.values()} | {
        run.run_id
        for run in stored
        if run.run_id in meant
        or run.set_up in set_ups
        or place_of(run) in places
        or (run.role == "pilot" and (run.plan_hash, run.testbed_fingerprint) in plans)
    }


class _Facts:
    """What the packed runs say of where they are from."""

    def __init__(self) -> None:
        self.count = self.series = self.newest_s = 0
        self.fingerprints: dict[str, str] = {}
        self.plans: dict[str, str] = {}
        self.step_hashes: set[str] = set()


def name_records_file(kind: RecordKind[Any]) -> str:
    """Where a bundle has the records of a kind that is no run."""
    return f"{kind.plural}.jsonl"


def _experiments(directory: Path, made: Report, facts: _Facts) -> dict[str, int]:
    """The records of such kinds that the report is of; as many as there are of each."""
    counts = {}
    for name, records in made.material.experiments.items():
        if not records:
            continue
        kind = record_kinds()[name]
        _lines(directory / name_records_file(kind), [record.to_json() for record in reversed(records)])
        counts[name] = len(records)
        for columns in map(kind.columns, records):
            facts.fingerprints[columns.testbed_fingerprint] = columns.testbed
            facts.newest_s = max(facts.newest_s, int(datetime.fromisoformat(columns.started_at).timestamp()))
            facts.step_hashes.add(columns.plan_hash or "")
    facts.plans |= {key: name for (key, _), name in collect_plan_names(made.material.experiments).items()}
    return counts


def _runs(directory: Path, store: RunStore, ids: set[str], facts: _Facts) -> None:
    """The records with their notes, one a line, the first started first, then the notes on their plans; the series of
    each as they are.
    """
    notes = store.notes()
    (directory / "series").mkdir()
    with (directory / RUNS).open("x", encoding="utf-8") as stream:
        for record in store.iterate(unreadable=_warn_skipped):
            if record.run_id not in ids:
                continue
            stream.write(json.dumps(exported(record, notes.get(record.run_id)), sort_keys=True) + "\n")
            facts.count += 1
            facts.fingerprints[record.testbed_fingerprint] = record.testbed
            facts.newest_s = max(facts.newest_s, int(datetime.fromisoformat(record.started_at).timestamp()))
            if record.plan is not None:
                facts.plans[record.plan.hash] = record.plan.name
            try:
                packed = store.packed_series(record.run_id)
            except StoreError as exc:
                _warn_skipped(exc)
                continue
            if packed is not None:
                facts.series += 1
                (directory / "series" / f"{record.run_id}.npz").write_bytes(packed)
        for each in plan_notes(notes):
            if each.plan_hash in facts.plans and each.testbed_fingerprint in facts.fingerprints:
                stream.write(json.dumps(each.to_json(), sort_keys=True) + "\n")


def _warn_skipped(problem: StoreError) -> None:
    sys.stderr.write(f"labconsole: left out: {single_line(str(problem))}\n")


def _lines(path: Path, items: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(item, sort_keys=True) + "\n" for item in items), encoding="utf-8")


def _inventory(directory: Path, hosts: Path | None, fingerprints: Iterable[str]) -> Inventory | None:
    """The inventory, if the runs are from its testbed, without how its nodes are reached."""
    path = hosts or DEFAULT_INVENTORY
    if hosts is None and not path.exists():
        return None
    inventory = load_inventory(path)
    if inventory.fingerprint() not in fingerprints:
        if hosts is not None:
            raise ConfigError(
                f"describes testbed {inventory.testbed} ({inventory.fingerprint()}), but none of the runs was "
                f"measured on it",
                key="--hosts",
                value=str(hosts),
            )
        return None
    target = directory / INVENTORY
    target.parent.mkdir()
    target.write_text(
        json.dumps(anonymize_inventory(inventory), indent=1) + "\n", encoding="utf-8"
    )  # JSON is YAML, too
    return inventory


def anonymize_inventory(inventory: Inventory) -> dict[str, Any]:
    """An inventory that means the same and says neither where nodes are nor how they are logged in to."""
    data: dict[str, Any] = inventory.model_dump(mode="json", exclude_defaults=True)
    for name, node in data["nodes"].items():
        for key in ("user", "port", "key", "jump", "become", "python", "capture_dir"):
            node.pop(key, None)
        node["address"] = name
    for key in ("ssh_config", "known_hosts"):
        data.get("defaults", {}).pop(key, None)
    return data


def _plans(
    directory: Path, asked: Sequence[Path], inventory: Inventory | None, facts: _Facts
) -> tuple[dict[str, str], set[str]]:
    """Plan files that were named, or that mean what runs carry as a hash. Returns names in the archive to hashes, and
    every hash that these plans have for runs.
    """
    found: dict[str, str] = {}
    meant: set[str] = set()
    there = (path for place in PLANS for path in sorted(place.glob("*.y*ml")))
    beside = [path for path in there if path.is_file() and path not in asked]  # opening a pipe would wait
    for path in (*asked, *beside):
        try:
            plan = load_plan(path, inventory)
        except ConfigError:
            continue  # of another testbed, or no plan: its runs would be told as missing
        key = plan.hash()
        every = [plan, *build_occasion_plans(plan, facts.plans.values())]
        own = {each.hash() for each in every}.union(*(each.telemetry_hashes for each in every))
        means_none = (facts.plans.keys() | facts.step_hashes).isdisjoint(
            own.union(*(each.search_hashes + each.step_hashes for each in every))
        )
        if (path not in asked and means_none) or key in found.values():
            continue
        (directory / "plans").mkdir(exist_ok=True)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-") or "plan"
        name = f"plans/{stem}.yaml" if f"plans/{stem}.yaml" not in found else f"plans/{stem}-{key}.yaml"
        (directory / name).write_bytes(read_text(path).encode())
        found[name] = key
        meant |= own
    return dict(sorted(found.items())), meant


def report_formats() -> tuple[str, ...]:
    """All that can be written here; tables always."""
    try:
        require(FORMATS)
    except ConfigError:
        return TABLES
    return FORMATS


def versions() -> dict[str, Any]:
    """What made the numbers: the program, Python and the libraries that the program asks for, as installed."""
    packages: dict[str, str | None] = {}
    try:
        asked_for = metadata.requires("labconsole") or ()
    except metadata.PackageNotFoundError:  # run from its files, never installed
        asked_for = ()
    for requirement in asked_for:
        name = re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0]
        if name == "labconsole" or "extra == 'test'" in requirement or 'extra == "test"' in requirement:
            continue
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = None
    return {
        "labconsole": __version__,
        "git": git_describe(),
        "python": platform.python_version(),
        "packages": packages,
    }


def git_describe() -> str | None:
    """The program's commit, when it runs from a checkout of its own."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--tags"],
            capture_output=True,
            text=True,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
