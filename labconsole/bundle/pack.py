"""Packs a report with everything it rests on into one archive, so that a reviewer can recompute it elsewhere.

The archive does not reveal how nodes are reached. From the inventory it contains only what decides results, under the
fingerprint that the runs have. The same store and program always give the same bytes, so two archives can be compared.
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
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from labconsole.bundle import archive
from labconsole.errors import ConfigError, StoreError
from labconsole.measure.admission import place_of
from labconsole.model.generator import of_elsewhere
from labconsole.model.inventory import DEFAULT_INVENTORY, Inventory, load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import build_occasion_plans
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.annotations import exported, plan_notes
from labconsole.model.record.kind import RecordKind, record_kinds
from labconsole.model.record.run import METHOD
from labconsole.model.record.summary import RunSummary
from labconsole.model.yaml_file import read_text
from labconsole.report.assembly import Report, counts
from labconsole.report.files import FORMATS, TABLES, write_report
from labconsole.report.planned_trials import collect_plan_names
from labconsole.report.request import ReportRequest
from labconsole.store.writing import RunStore
from labconsole.text.extras import EXTRAS, build_install_command
from labconsole.text.sanitize import single_line
from labconsole.wire.version import __version__

PLANS = (Path("plans"), Path())
"""Where to look for plans that are not given as files."""

PLANS_SOUGHT = "plan files in plans/ and in this directory were looked at; name the file of another by --plan FILE"
GIT_S = 10
RUNS, SEARCHES, CALIBRATIONS, VERSIONS = "runs.jsonl", "searches.jsonl", "calibrations.jsonl", "versions.json"
INVENTORY = "inventory/hosts.yaml"
"""Names in the archive, next to series/RUN_ID.npz, plans/* and report/*."""


@of_elsewhere()
def write_bundle(out: Path, request: ReportRequest, made: Report, store: RunStore, *, hosts: Path | None) -> list[str]:
    """Pack the report that ``request`` gave into ``out``, which must not exist yet.

    ``hosts``: path of the inventory. The inventory and plans are included if the runs were measured with them. Returns
    sentences on what could not be found.
    """
    if out.exists():
        raise ConfigError("already exists and will not be overwritten", key="--bundle", value=str(out))
    names = [path.name for path in request.plan_files]
    if len(set(names)) < len(names):
        message = "two of these files have the same name, by which a bundle keeps them; rename one"
        raise ConfigError(message, key="--plan", value=", ".join(map(str, request.plan_files)))
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
    """The report's request, to make the report again. Plan files are given by the names that it displays."""
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
    for why in find_unusable_packages():
        _tell(f"the bundle's report has tables only, without figures and page: {why}")
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
    """The ids of the selected runs, and of the runs that decide whether the selected ones enter.

    These are all runs in the set-ups and places of the selected runs, and all runs in the set-ups that fill these
    places: a set-up that was not completed does not fill a place. Also included are the pilots of their plans, whose
    trials fixed what the runs report as fixed, and the first run of every set-up of their plans, whose start time shows
    which set-ups of a block were measured without interruption.
    """
    meant = made.material.kept.run_ids
    stored = store.list()
    places = {place_of(run) for run in stored if run.run_id in meant} - {None}
    related = [run for run in stored if run.run_id in meant or place_of(run) in places]
    set_ups = {run.set_up for run in related} - {None}
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
    """The origin of the packed runs, according to their records."""

    def __init__(self) -> None:
        self.count = self.series = self.newest_s = 0
        self.fingerprints: dict[str, str] = {}
        self.plans: dict[str, str] = {}
        self.step_hashes: set[str] = set()


def name_records_file(kind: RecordKind[Any]) -> str:
    """The name of the file in a bundle that contains the records of a kind other than runs."""
    return f"{kind.plural}.jsonl"


def _experiments(directory: Path, made: Report, facts: _Facts) -> dict[str, int]:
    """Write the other records that the report covers. Returns the number of records of each kind."""
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
    """Write the records with their notes, one per line, the earliest first; then the notes on plans; then the
    series.
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
    _tell(f"left out: {problem}")


def _tell(sentence: str) -> None:
    sys.stderr.write(f"labconsole: {single_line(sentence)}\n")


def _lines(path: Path, items: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(item, sort_keys=True) + "\n" for item in items), encoding="utf-8")


def _inventory(directory: Path, hosts: Path | None, fingerprints: Iterable[str]) -> Inventory | None:
    """The inventory if the runs are from its testbed, or None. It is written without how its nodes are reached."""
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
    )  # JSON is also YAML
    return inventory


def anonymize_inventory(inventory: Inventory) -> dict[str, Any]:
    """An equivalent inventory that reveals neither where nodes are nor how to log in to them."""
    data: dict[str, Any] = inventory.model_dump(mode="json", exclude_defaults=True)
    for name, node in data["nodes"].items():
        for key in ("user", "port", "key", "jump", "become", "python", "capture_dir"):
            node.pop(key, None)
        node["address"] = name
    for key in ("ssh_config", "known_hosts"):
        data.get("defaults", {}).pop(key, None)
    return data


def _plans(
    directory: Path, requested: Sequence[Path], inventory: Inventory | None, facts: _Facts
) -> tuple[dict[str, str], set[str]]:
    """Write the plan files that were named, or whose hash the runs carry.

    Returns the archive's names with their hashes, and every hash that these plans have for runs.
    """
    found: dict[str, str] = {}
    meant: set[str] = set()
    there = (path for place in PLANS for path in sorted(place.glob("*.y*ml")))
    others = [path for path in there if path.is_file() and path not in requested]  # opening a pipe would wait
    for path in (*requested, *others):
        try:
            plan = load_plan(path, inventory)
        except ConfigError:
            continue  # a plan of another testbed, or no plan: including it would report its runs as missing
        key = plan.hash()
        every = [plan, *build_occasion_plans(plan, facts.plans.values())]
        own = {each.hash() for each in every}.union(*(each.telemetry_hashes for each in every))
        means_none = (facts.plans.keys() | facts.step_hashes).isdisjoint(
            own.union(*(each.search_hashes + each.step_hashes for each in every))
        )
        if (path not in requested and means_none) or key in found.values():
            continue
        (directory / "plans").mkdir(exist_ok=True)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-") or "plan"
        name = f"plans/{stem}.yaml" if f"plans/{stem}.yaml" not in found else f"plans/{stem}-{key}.yaml"
        (directory / name).write_bytes(read_text(path).encode())
        found[name] = key
        meant |= own
    return dict(sorted(found.items())), meant


def report_formats() -> tuple[str, ...]:
    """All formats that can be written here; tables always can."""
    return TABLES if find_unusable_packages() else FORMATS


def find_unusable_packages() -> list[str]:
    """Why figures and the page cannot be written here, a sentence for each package that they need; none if they can."""
    return [why for module in EXTRAS["report"].packages if (why := _describe_unusable(module)) is not None]


def _describe_unusable(module: str) -> str | None:
    try:
        import_module(module)
    except Exception as exc:  # libraries of other versions break an installed package in many ways
        if isinstance(exc, ModuleNotFoundError) and exc.name == module:
            return f"{module} is not installed: {build_install_command('report')}"
        return f"{module} is installed and cannot be imported: {type(exc).__name__}: {exc}"
    return None


def versions() -> dict[str, Any]:
    """The versions of what computed the numbers: the program, Python, and the installed libraries that it requires."""
    packages: dict[str, str | None] = {}
    try:
        requirements = metadata.requires("labconsole") or ()
    except metadata.PackageNotFoundError:  # run from its source files, never installed
        requirements = ()
    for requirement in requirements:
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
    """The program's commit, or None if it does not run from its own checkout."""
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
