"""Where a bundle's runs come from: checks its inventory and plans against the runs, and lists the plans' commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from labconsole.bundle import pack
from labconsole.bundle.archive import MANIFEST, Unpacked
from labconsole.bundle.differences import Tell, cut
from labconsole.errors import ConfigError, StoreError
from labconsole.model.generator import of_elsewhere
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kinds import record_kinds
from labconsole.model.record.summary import RunSummary
from labconsole.report.planned_trials import TrialOfPlan, select_guest_trials
from labconsole.store.writing import RunStore
from labconsole.units import counted

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
    from labconsole.model.plan.occasions import build_occasion_plans

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


def _group_trials_by_plan_hash(trials: Iterable[TrialOfPlan]) -> dict[str | None, list[TrialOfPlan]]:
    found: dict[str | None, list[TrialOfPlan]] = {}
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


def _trials_of_guests(plan: Plan, records: Iterable[TrialOfPlan], name: str, tell: Tell) -> None:
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
