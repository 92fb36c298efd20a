"""Where a bundle's runs come from, and its report made again from them."""

from __future__ import annotations

import filecmp
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from labconsole.bundle import pack
from labconsole.bundle.archive import MANIFEST, Tell, Unpacked, cut
from labconsole.errors import ConfigError, LabError, StoreError
from labconsole.experiments.units import report_units
from labconsole.model.generator import of_elsewhere
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kind import GuestTrialRecord, record_kinds
from labconsole.model.record.run import METHOD
from labconsole.model.record.summary import RunSummary
from labconsole.model.yaml_file import MAX_FILE_BYTES
from labconsole.report.assembly import counts
from labconsole.report.files import FORMATS, write_report
from labconsole.report.loading import load_report
from labconsole.report.planned_trials import select_guest_trials
from labconsole.report.request import ReportRequest, parse_arguments
from labconsole.store.open import open_store
from labconsole.store.records import parse_json
from labconsole.store.writing import RunStore
from labconsole.units import counted
from labconsole.wire.version import __version__

# -- origins -----------------------------------------------------------------------------------------------------------
# Where a bundle's runs come from: checks its inventory and plans against the runs, and lists the plans' commands.

MAX_PLANS, MAX_PLAN_BYTES = 1000, 16 << 20
"""The number of a bundle's plan files that are read, and their bytes together: parsing takes some 10 µs a byte."""

MAX_PLAN_HASHES = 500_000
"""Of all plan files together, each without an occasion and on every one that the records name. A hash counts once, and
once more for every ten points of its plan; the trials of guests of a plan have hashes, too, and ten of them count once.
"""


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """A command that a plan of a bundle would run on the console's machine. ``when``: pre or post."""

    plan: str
    when: str
    command: str

    def to_json(self) -> dict[str, str]:
        """As ``verify --json`` prints it."""
        return {"plan": self.plan, "when": self.when, "command": self.command}


@of_elsewhere()
def check_origins(found: Unpacked, store: RunStore, tell: Tell) -> tuple[PlanCommand, ...]:
    """Check that the inventory and the plans are the ones that the runs name, or that the bundle reports them missing.

    Returns the plans' commands: no plan hash depends on them, so no other check would reveal them.
    """
    from labconsole.model.inventory import load_inventory
    from labconsole.model.plan.loader import load_plan
    from labconsole.model.plan.plan import build_occasion_plans

    summaries, there = store.list(), set[str]()
    others = [each for kind in record_kinds().values() for each in select_guest_trials(store.experiments(kind))]
    fingerprints = {run.testbed_fingerprint for run in summaries} | {each.testbed_fingerprint for each in others}
    names = {*(run.plan_name for run in summaries), *(each.plan.name for each in others)}
    by_plan, others_by_plan = _group_by_plan_hash(summaries), _group_trials_by_plan_hash(others)
    inventory, commands, hashes_left = None, list[PlanCommand](), MAX_PLAN_HASHES
    path = found.path(pack.INVENTORY)
    try:
        if path is not None:
            inventory = load_inventory(path)
            there.add(inventory.fingerprint())
        for name, key in plan_names(found).items():
            plan = load_plan(found.directory / name, inventory)
            commands += _list_commands(plan, name)
            on_occasions = build_occasion_plans(plan, names)
            hashes_left -= _count_hashes(plan, 1 + len(on_occasions))
            if hashes_left < 0:
                raise StoreError(
                    f"{name}: the bundle's plans, by their points and on all occasions that its records name, are more "
                    f"than {MAX_PLAN_HASHES}"
                )
            real = plan.hash()
            if real != key:
                tell(f"{name}: means plan {real}, not {key} as the manifest says")
            if real in there:
                continue  # a copy of a plan whose records have been checked
            there.add(real)
            _points(plan, by_plan.get(real, ()), name, tell)
            for other in (plan, *on_occasions):
                there.add(other.hash())
                _trials_of_guests(other, others_by_plan.get(other.hash(), ()), name, tell)
                if other is not plan:
                    _points(other, by_plan.get(other.hash(), ()), name, tell)
                for also in other.telemetry_hashes:
                    there.add(also)
                    if also in by_plan:
                        _points(other.for_telemetry(), by_plan[also], name, tell)
    except ConfigError as exc:
        tell(found.describe(exc))
    if inventory is not None and found.manifest.get("inventory") != inventory.fingerprint():
        stated = cut(str(found.manifest.get("inventory")))
        tell(f"{MANIFEST}: inventory: says {stated}, {pack.INVENTORY} is {inventory.fingerprint()}")
    missing = {word.strip("().,;:") for text in select_strings(found.manifest.get("missing")) for word in text.split()}
    for key in sorted(fingerprints - there):
        if key not in missing:
            tell(f"{pack.INVENTORY}: is not the testbed {key} on which runs were measured")
    grids = {run.plan_hash for run in summaries if run.plan_hash and not run.plan_hash.startswith(HASH_PREFIX)}
    grids |= {each.plan.plan_hash for each in others if each.plan.plan_hash is not None}
    for key in sorted(grids - there):
        if key not in missing:
            tell(f"plans: none of them is the plan {key} of these runs")
    return tuple(commands)


def _group_by_plan_hash(runs: Iterable[RunSummary]) -> dict[str | None, list[RunSummary]]:
    found: dict[str | None, list[RunSummary]] = {}
    for run in runs:
        found.setdefault(run.plan_hash, []).append(run)
    return found


def _group_trials_by_plan_hash(trials: Iterable[GuestTrialRecord]) -> dict[str | None, list[GuestTrialRecord]]:
    found: dict[str | None, list[GuestTrialRecord]] = {}
    for trial in trials:
        found.setdefault(trial.plan.plan_hash, []).append(trial)
    return found


def _count_hashes(plan: Plan, occasions: int) -> int:
    """The share of ``MAX_PLAN_HASHES`` of one plan. ``occasions``: their number, and one for the plan itself."""
    guests = plan.guests
    points = len(plan.every_point) + (len(guests.points) if guests is not None else 0)
    trials = len(guests.points) * guests.set_ups * guests.repetitions if guests is not None else 0
    return occasions * (1 + points // 10) + trials // 10


def _list_commands(plan: Plan, name: str) -> Iterator[PlanCommand]:
    for when in ("pre", "post"):
        for command in getattr(plan, when):
            yield PlanCommand(name, when, shlex.join(command.run))


def _points(plan: Plan, runs: Sequence[RunSummary], name: str, tell: Tell) -> None:
    """Check that every run matches what its plan requests at its point."""
    if not runs:
        return
    requests = [point.request for point in plan.every_point]
    for run in runs:
        point = -1 if run.plan_point is None else run.plan_point
        request = requests[point] if 0 <= point < len(requests) else None
        if request is None:
            tell(f"{run.run_id}  plan.point: is {run.plan_point}, and {name} has {counted(len(requests), 'point')}")
            continue
        factors = request.columns()
        for key in ("platform", "frame_size_bytes", "sources", "target_bps", "background", "duration_s"):
            if getattr(run, key) != factors[key]:
                message = f"{getattr(run, key)}, and {name} asks for {factors[key]}"
                tell(f"{run.run_id}  requested.{key}: at point {point} is {message}")


def _trials_of_guests(plan: Plan, records: Iterable[GuestTrialRecord], name: str, tell: Tell) -> None:
    """Check that every trial matches what its plan requests at its point."""
    for record in records:
        place = record.plan
        if plan.guests is None or plan.guests.find_hash(place.point, place.block, place.repetition) != place.hash:
            tell(f"{name}: does not ask for the trial that began at {record.started_at}, at point {place.point}")


def select_strings(value: object) -> list[str]:
    """The strings in a list; empty if ``value`` is no list."""
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def plan_names(found: Unpacked) -> dict[str, object]:
    """Names of the plan files that the archive contained, with the hash that the manifest gives for each."""
    plans = found.manifest.get("plans")
    if not isinstance(plans, dict):
        return {}
    there = [name for name in plans if name.startswith("plans/") and name in found.names]
    if len(there) > MAX_PLANS:
        raise StoreError(f"{MANIFEST}: names {len(there)} plans; allowed: {MAX_PLANS}")
    if (together := sum((found.directory / name).stat().st_size for name in there)) > MAX_PLAN_BYTES:
        raise StoreError(f"{MANIFEST}: its plans have {together} bytes together; allowed: {MAX_PLAN_BYTES}")
    return {name: plans[name] for name in there}


# -- reproduction ------------------------------------------------------------------------------------------------------
# Makes a bundle's report again from its runs and compares it file by file with the packed one.

MAX_VERSIONS_BYTES = 1 << 20
MAX_LINE_CHARACTERS = 1 << 16
"""The length of a report's line that is compared."""

_MAX_FILE_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Reproduction:
    """How many files of a report were made again; how many are pictures or pages that other libraries drew."""

    files: int = 0
    not_drawn: int = 0


def reproduce_report(found: Unpacked, scratch: Path, tell: Tell) -> Reproduction:
    """Make the report again and compare it file by file. Empty if its numbers follow another method than ours."""
    if found.manifest.get("method") != METHOD:
        return Reproduction()  # other numbers follow from the same counts
    redo = found.manifest.get("redo")
    formats = pack.report_formats() if _has_same_packages(found, tell) else ("csv", "md", "tex")
    try:
        request = _request(found, redo if isinstance(redo, dict) else {}, scratch / "plans")
        with open_store(str(scratch / "runs.sqlite"), write=False) as store:
            made = load_report(
                request,
                store,
                report_units(outside=False),
                place="the bundle",
                on_unreadable=lambda problem: tell(str(problem)),
            )
        written = write_report(made, scratch / "report", formats)
    except LabError as exc:
        tell(f"report: cannot be reproduced: {found.describe(exc)}")
        return Reproduction()
    for name, ours in (("selection", made.selection.to_json()), ("report", counts(made))):
        theirs = found.manifest.get(name)
        if theirs != json.loads(json.dumps(ours)):
            tell(f"manifest.json: {name}: says {cut(str(theirs))}, the runs give {ours}")
    for path in written:
        packed = found.path(f"report/{path.name}")
        if packed is None:
            tell(f"report/{path.name}: is missing")
        elif not filecmp.cmp(packed, path, shallow=False):
            tell(f"report/{path.name}: {_first_difference(packed, path)}")
    made_again = {f"report/{path.name}" for path in written}
    others = sorted(name for name in found.names - made_again if name.startswith("report/"))
    not_drawn = [name for name in others if (suffix := Path(name).suffix[1:]) in FORMATS and suffix not in formats]
    why = f"cannot be made again: {'; '.join(made.failures)}" if made.failures else "is not in the report of these runs"
    for name in others:
        if name not in not_drawn:
            tell(f"{name}: {why}")
    return Reproduction(len(written), len(not_drawn))


def _request(found: Unpacked, redo: dict[str, Any], directory: Path) -> ReportRequest:
    """The report's request, which is untrusted text.

    It names no file, and a plan given as a file must be the bundle's own.
    """
    plan_hashes = redo.get("plans")
    by_hash = {key: name for name, key in plan_names(found).items() if isinstance(key, str)}
    plans = []
    for shown, key in plan_hashes.items() if isinstance(plan_hashes, dict) else ():
        if isinstance(key, str) and key in by_hash and _is_plan_file_name(shown):
            content = found.read(by_hash.pop(key), MAX_FILE_BYTES)  # each once, as a report takes it
            if content is not None:
                directory.mkdir(exist_ok=True)
                (directory / shown).write_bytes(content)
                plans.append(directory / shown)
    arguments, chosen = select_strings(redo.get("arguments")), select_strings(redo.get("filter"))
    return parse_arguments(arguments, filter=chosen, plan_files=plans)


def _is_plan_file_name(name: str) -> bool:
    """Whether a plan may be displayed under this name, which also names a file in a directory of our own."""
    is_one_file = name.isprintable() and "/" not in name and len(os.fsencode(name)) <= _MAX_FILE_NAME_BYTES
    return is_one_file and name.endswith((".yaml", ".yml"))


def _has_same_packages(found: Unpacked, tell: Tell) -> bool:
    """Whether this installation would produce the same bytes for figures and page."""
    try:
        content = found.read(pack.VERSIONS, MAX_VERSIONS_BYTES)
        theirs = parse_json(content, pack.VERSIONS) if content else {}
    except StoreError as exc:
        tell(str(exc))
        return False
    ours = pack.versions()
    packages = theirs.get("packages") if isinstance(theirs, dict) else None
    return (
        isinstance(packages, dict)
        and theirs.get("labconsole") == __version__
        and all(packages.get(name) == ours["packages"].get(name) for name in ("matplotlib", "jinja2"))
    )


SHOWN, SHOWN_BEFORE = 200, 60
"""Characters displayed of a table's line: in all, and before the first one that differs."""


def _first_difference(packed: Path, made: Path) -> str:
    if made.suffix in (".png", ".pdf", ".svg", ".html"):
        return "differs when it is made again"
    one, other = _read_lines(packed), _read_lines(made)
    for number, (left, right) in enumerate(zip_longest(one, other, fillvalue=""), 1):
        if left != right:
            differing = (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
            first = next(differing, min(len(left), len(right)))
            begin = max(0, first - SHOWN_BEFORE) if max(len(left), len(right)) > SHOWN else 0
            there = f", from character {begin + 1} on," if begin else ""
            shown, again = (line[begin : begin + SHOWN] for line in (left, right))
            return f"line {number}{there} is {shown!r}, the runs give {again!r}"
    return "differs in its line endings"


def _read_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as stream:
        while line := stream.readline(MAX_LINE_CHARACTERS):
            yield line.removesuffix("\n")
