"""Checks whether the records of a store or a bundle can all be true together: runs, set-ups and guest trials. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from labconsole.measure.paired_blocks import uut_facts
from labconsole.measure.recompute.counts import flows
from labconsole.measure.recompute.discrepancy import Discrepancy, against, same
from labconsole.measure.recompute.guest_trial import boot_of
from labconsole.measure.recompute.plausibility import WALL_CLOCK_S, moment, stepped
from labconsole.model.design_point import BACKGROUND_FRAME_BYTES
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kind import GuestTrialRecord, RecordKind
from labconsole.model.record.run import PlanRef, RunRecord

# -- references --------------------------------------------------------------------------------------------------------
# Checks the runs that other runs rest on: a pilot's trials, and the maximum that a load is a share of. Pure; format 2.
#
# A few fields of every run are kept. A pilot belongs to its plan, so it must be there and must have given the results
# that others derive from it. A maximum that was stored before may be elsewhere.

RecordDiscrepancy = tuple[str, Discrepancy]
"""(record id, what is wrong)."""


IDLE_BACKGROUND = "idle"
"""The background of the second guest when the maximum for a forwarding guest's load is measured."""


def setting_of(record: RunRecord) -> str:
    """The request without the load."""
    return record.requested.model_dump_json(exclude={"target_bps"})


@dataclass(frozen=True, slots=True)
class _ReferenceRun:
    """One run, as others may rest on it."""

    role: str
    testbed: str
    platform: str
    is_idle_reference: bool
    setting: int
    target_bps: int | str
    rates_pps: tuple[float | None, float | None]
    """Forwarding rate, measured rate."""

    @property
    def rate_pps(self) -> float | None:
        """The rate that the pilot compares."""
        return self.rates_pps[0] if self.rates_pps[0] is not None else self.rates_pps[1]


@dataclass(frozen=True, slots=True)
class _Fixed:
    """One run's values that the pilot, or runs stored before, fixed for it."""

    run_id: str
    role: str
    run_ids: tuple[str, ...]
    testbed: str
    platform: str
    setting: int
    maximum_target_bps: int | str | None
    reference_pps: float | None


@dataclass(frozen=True, slots=True)
class _Share:
    """The maximum of which one run's second guest forwarded a share."""

    run_id: str
    of: str
    testbed: str
    platform: str
    runs: Any
    measured_pps: Any
    target_bps: Any


class ReferenceCheck:
    """Takes record after record; when all are there, ``ending`` yields wrong references."""

    def __init__(self) -> None:
        self.elsewhere = 0
        self._runs: dict[str, _ReferenceRun] = {}
        self._fixed: list[_Fixed] = []
        self._shares: list[_Share] = []

    def add(self, record: RunRecord) -> None:
        """Add one more record."""
        requested, total, bed = record.requested, record.total, record.testbed_fingerprint
        setting = hash(setting_of(record))
        idle = (requested.background, requested.frame_size_bytes, requested.sources) == (
            IDLE_BACKGROUND,
            BACKGROUND_FRAME_BYTES,
            1,
        )
        rates = (total.forwarding_pps, total.measured_pps)
        self._runs[record.run_id] = _ReferenceRun(
            record.role, bed, requested.platform, idle, setting, requested.target_bps, rates
        )
        fixed = record.plan.fixed if record.plan is not None else None
        if fixed is not None and fixed.run_ids and record.role != "pilot":
            role = "pilot" if fixed.source == "pilot" else ""
            self._fixed.append(
                _Fixed(
                    record.run_id,
                    role,
                    fixed.run_ids,
                    bed,
                    requested.platform,
                    setting,
                    fixed.maximum_target_bps,
                    fixed.reference_pps,
                )
            )
        reference = record.background.reference if record.background is not None else None
        if reference is not None and isinstance(reference.get("run_id"), str):
            figures = [reference.get(name) for name in ("runs", "measured_pps", "target_bps")]
            self._shares.append(_Share(record.run_id, str(reference["run_id"]), bed, requested.platform, *figures))

    def ending(self) -> Iterator[RecordDiscrepancy]:
        """Yield references to missing runs, and references whose values do not follow."""
        for fixed in self._fixed:
            for found in self._check_pilot(fixed):
                yield fixed.run_id, found
        for share in self._shares:
            for found in self._check_share(share):
                yield share.run_id, found

    def _check_pilot(self, fixed: _Fixed) -> Iterator[Discrepancy]:
        where = "plan.fixed.run_ids"
        absent = [each for each in fixed.run_ids if each not in self._runs]
        if absent:
            if fixed.role:
                yield against(where, f"{absent[0][:80]} is not among these runs")
            else:
                self.elsewhere += 1
            return
        runs = {each: self._runs[each] for each in fixed.run_ids}
        for name, run in runs.items():
            if (run.testbed, run.platform) != (fixed.testbed, fixed.platform):
                yield against(where, f"{name} was measured on another testbed or platform")
            elif fixed.role and run.role != fixed.role:
                yield against(where, f"{name} is not a trial of the pilot but {run.role}")
        known = [run for run in runs.values() if run.setting == fixed.setting and run.rate_pps is not None]
        best = min(known, key=lambda run: (-(run.rate_pps or 0.0), _load(run.target_bps)), default=None)
        if best is not None and fixed.maximum_target_bps not in (None, best.target_bps):
            says = f"is {fixed.maximum_target_bps}, and these runs forwarded most at {best.target_bps}"
            yield against("plan.fixed.maximum_target_bps", says, fixed.maximum_target_bps)
        rates = [run.rate_pps for run in runs.values() if run.is_idle_reference and run.rate_pps is not None]
        if fixed.reference_pps is not None and rates and not same(fixed.reference_pps, max(rates)):
            says = f"is {fixed.reference_pps}, and the highest of these runs with an idle guest is {max(rates)}"
            yield against("plan.fixed.reference_pps", says, fixed.reference_pps)

    def _check_share(self, share: _Share) -> Iterator[Discrepancy]:
        run, where = self._runs.get(share.of), "background.reference"
        if run is None:
            self.elsewhere += 1
            return
        if (run.testbed, run.platform) != (share.testbed, share.platform):
            yield against(f"{where}.run_id", f"{share.of[:80]} was measured on another testbed or platform")
        elif not run.is_idle_reference:
            yield against(f"{where}.run_id", f"{share.of[:80]} was not one stream of 64 B with an idle second guest")
        elif run.target_bps != share.target_bps:
            yield against(f"{where}.target_bps", f"is not the load of {share.of[:80]}, {run.target_bps}")
        elif share.runs == 1 and not any(same(share.measured_pps, rate) for rate in run.rates_pps):
            yield against(f"{where}.measured_pps", f"is {share.measured_pps}, which {share.of[:80]} did not forward")


def _load(target_bps: int | str) -> float:
    return target_bps if isinstance(target_bps, int) else float("inf")


# -- set ups -----------------------------------------------------------------------------------------------------------
# Checks whether the trials of a store are possible: in their set-ups, and on their testbeds.
#
# This applies to runs and guest trials alike. One set-up has one value of each of its facts, and its trials do not
# overlap. A unit under test that was not restarted has one trial at a time.

Place = tuple[str, str, int | None, int, int]
"""(plan hash, testbed fingerprint, block, point, repetition).

Stated again on purpose, in addition to measure/admission.py: a check that took its definition of a place from what it
checks would share its errors.
"""

Testbed = tuple[str, str, str]
"""(fingerprint, boot of the unit under test, operator).

Consoles have clocks of their own, so only records written by one of them are compared.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUpTrial:
    """One trial in its set-up.

    ``begun`` and ``ended`` are None if a clock was set meanwhile, ``testbed`` if a part of it is unknown, ``place``
    without a plan. ``enters``: whether it is measured and not invalid. ``final``: whether it is not tried again.
    ``set_up_trials``: the number of trials that the set-up should have, or None if unknown. ``is_of_whole``: whether
    only whole set-ups may not repeat its place.
    """

    record_id: str
    set_up: str
    trial: int
    begun: datetime | None
    ended: datetime | None
    testbed: Testbed | None
    place: Place | None
    attempt: int
    enters: bool
    final: bool
    set_up_trials: int | None = None
    is_of_whole: bool = False


@dataclass(slots=True)
class _SetUp:
    """One set-up: the facts of its first trial, and its trials."""

    record_id: str
    facts: dict[str, Any]
    holds: int | None = None
    taken: list[SetUpTrial] = field(default_factory=list)

    @property
    def entered(self) -> int:
        """The number of places of a plan of blocks whose trials are final."""
        return len({each.place for each in self.taken if each.final and each.place is not None and each.place[2]})

    @property
    def whole(self) -> bool:
        """Whether as many of its trials are final as it should have; without a plan of blocks, always."""
        return self.holds is None or self.entered >= self.holds


class SetUpChecks:
    """Takes trials one by one and yields contradictions to earlier ones; ``ending`` yields those known at the end."""

    def __init__(self) -> None:
        self._set_ups: dict[str, _SetUp] = {}

    def add(self, trial: SetUpTrial, facts: Mapping[str, Any]) -> Iterator[Discrepancy]:
        """Check one more trial.

        ``facts``: the common facts of every trial of the set-up, None if unknown. They are kept once for all trials.
        """
        set_up = self._set_ups.setdefault(trial.set_up, _SetUp(trial.record_id, dict(facts)))
        if set_up.holds is None:
            set_up.holds = trial.set_up_trials
        for name, value in facts.items():
            first = set_up.facts.setdefault(name, value)
            if first is None:
                set_up.facts[name] = value
            elif value is not None and value != first:
                difference = f"{short(value)} here and {short(first)} in {set_up.record_id}"
                yield against("set_up.id", f"the set-up {trial.set_up[:40]} has {name} {difference}")
        set_up.taken.append(trial)

    def ending(self) -> Iterator[RecordDiscrepancy]:
        """Check what needs all trials."""
        for name, set_up in self._set_ups.items():
            yield from _order(name, set_up)
        yield from self._doubled()
        yield from self._find_overlaps()

    def _doubled(self) -> Iterator[RecordDiscrepancy]:
        """A place of a plan that is filled twice in whole set-ups."""
        first: dict[Place, str] = {}
        for set_up in self._set_ups.values():
            for each in set_up.taken if set_up.whole else ():
                if each.place is None or not each.enters or not each.is_of_whole:
                    continue
                other = first.setdefault(each.place, each.record_id)
                if other != each.record_id:
                    _, _, block, point, repetition = each.place
                    where = f"block {block}, " if block is not None else ""
                    says = f"{where}point {point}, repetition {repetition} was already measured in {other}"
                    yield each.record_id, against("plan", says)

    def _find_overlaps(self) -> Iterator[RecordDiscrepancy]:
        """Two trials of different set-ups at one time on one testbed."""
        of: dict[Testbed, list[tuple[datetime, datetime, str, str]]] = {}
        for name, set_up in self._set_ups.items():
            for each in set_up.taken:
                if each.testbed is not None and each.begun is not None and each.ended is not None:
                    of.setdefault(each.testbed, []).append((each.begun, each.ended, each.record_id, name))
        for taken in of.values():
            last: tuple[datetime, datetime, str, str] | None = None
            for one in sorted(taken):
                if last is not None and one[3] != last[3] and (last[1] - one[0]).total_seconds() > WALL_CLOCK_S:
                    says = f"is within {last[2]}, a trial of another set-up on the same testbed"
                    yield one[2], against("started_at", says, one[0].isoformat())
                if last is None or one[1] > last[1]:
                    last = one


def _order(name: str, set_up: _SetUp) -> Iterator[RecordDiscrepancy]:
    """Check that the trials of one set-up follow each other."""
    if set_up.holds is not None and set_up.entered > set_up.holds:
        says = f"{name[:40]} contains {set_up.entered} trials of its plan, but should contain {set_up.holds}"
        yield set_up.record_id, against("plan.set_up_trials", says)
    before: SetUpTrial | None = None
    attempts: dict[Place, tuple[int, bool]] = {}
    for each in sorted(set_up.taken, key=lambda taken: taken.trial):
        if before is not None and each.trial == before.trial:
            says = f"{each.trial} of {name[:40]} is that of {before.record_id} too"
            yield each.record_id, against("set_up.trial", says)
        elif before is not None and before.ended and each.begun and each.begun < before.ended:
            says = f"is after trial {before.trial}, {before.record_id}, which had not ended when this one began"
            yield each.record_id, against("set_up.trial", says)
        if each.place is not None:
            last, entered_before = attempts.get(each.place, (0, False))
            if each.attempt <= last:
                says = f"is {each.attempt}, after attempt {last} of the same trial in one set-up"
                yield each.record_id, against("plan.attempt", says)
            if entered_before and each.enters:
                yield each.record_id, against("plan", "repeats a trial that was already complete in this set-up")
            attempts[each.place] = (max(last, each.attempt), entered_before or each.enters)
        before = each


def short(value: Any) -> str:
    """A value, shortened for a sentence."""
    return "none" if value is None else str(value)[:200]


# -- all records -------------------------------------------------------------------------------------------------------
# A few fields of every record are kept, never the record: a store has tens of thousands. One plan hash, set-up, testbed
# fingerprint, boot or capture cannot have two meanings. For runs, format 2.

UNHASHED = frozenset({"command", "limit_s"})
"""Parts of a guest trial's request that its hash does not cover: a job's command, and the time limit for it."""


class CrossRecordChecks:
    """Takes records one by one and yields contradictions to earlier ones; ``ending`` yields those known at the end."""

    def __init__(self) -> None:
        self._set_ups = SetUpChecks()
        self._said: dict[tuple[str, ...], tuple[str, Any]] = {}
        self._digests: dict[bytes, str] = {}
        self._rests = ReferenceCheck()

    @property
    def elsewhere(self) -> int:
        """The number of runs that rest on stored runs which are not among these."""
        return self._rests.elsewhere

    def add(self, record: RunRecord) -> Iterator[RecordDiscrepancy]:
        """Check one more run."""
        if record.format == 1:
            return
        for found in (
            *self._testbed(record, record.run_id),
            *self._kernel(record),
            *self._plan(record),
            *self._captures(record),
        ):
            yield record.run_id, found
        if record.set_up is not None:
            yield from ((record.run_id, found) for found in self._set_ups.add(_run_taken(record), _run_facts(record)))
        self._rests.add(record)

    def add_trial(self, kind: RecordKind[Any], record: GuestTrialRecord) -> Iterator[RecordDiscrepancy]:
        """Check one more guest trial of this kind."""
        record_id = kind.columns(record).id
        kernel, where = uut_facts(record).get("kernel"), "environment.nodes.uut.facts.kernel"
        found = [*self._testbed(record, record_id), *self._trial_request(kind, record, record_id)]
        found += self._booted(boot_of(record), kernel, record_id, where)
        if record.set_up is not None:
            found += self._set_ups.add(_trial_taken(kind, record, record_id), _trial_facts(record))
        yield from ((record_id, each) for each in found)

    def ending(self) -> Iterator[RecordDiscrepancy]:
        """Check what needs all records."""
        yield from self._set_ups.ending()
        yield from self._rests.ending()

    def _once(self, key: tuple[str, ...], value: Any, record_id: str, where: str, what: str) -> Iterator[Discrepancy]:
        """Check that all records have the same value for a key."""
        run_id, first = self._said.setdefault(key, (record_id, value))
        if first != value:
            yield against(where, f"{what} {short(value)} here and {short(first)} in {run_id}", short(value))

    def _testbed(self, record: RunRecord | GuestTrialRecord, record_id: str) -> Iterator[Discrepancy]:
        key = ("testbed", record.testbed_fingerprint)
        what = f"the testbed {record.testbed_fingerprint[:40]} has emulated"
        yield from self._once(key, record.emulated, record_id, "emulated", what)

    def _kernel(self, record: RunRecord) -> Iterator[Discrepancy]:
        conditions = record.conditions
        if conditions is not None:
            yield from self._booted(
                conditions.uut_boot_id, conditions.uut_kernel, record.run_id, "conditions.uut_kernel"
            )

    def _booted(self, boot: str | None, kernel: object, record_id: str, where: str) -> Iterator[Discrepancy]:
        """A boot of the unit under test has one kernel, whatever is set up meanwhile."""
        if boot is not None and kernel is not None:
            yield from self._once(("boot", boot), kernel, record_id, where, f"the boot {boot[:40]} has kernel")

    def _plan(self, record: RunRecord) -> Iterator[Discrepancy]:
        """The meaning of a plan's hash, and what its pilot fixed for all of it."""
        plan = record.plan
        if plan is None or plan.hash.startswith(HASH_PREFIX):
            return
        named = f"the plan {plan.hash[:40]} has"
        if record.role != "pilot":
            key = ("point", plan.hash, str(plan.point))
            request = record.requested.model_dump_json(exclude={"generator", "observe"})
            yield from self._once(key, request, record.run_id, "requested", f"{named} at point {plan.point}")
        yield from self._fixed(record, plan)

    def _fixed(self, record: RunRecord, plan: PlanRef) -> Iterator[Discrepancy]:
        fixed, requested = plan.fixed, record.requested
        if fixed is None or record.role == "pilot":
            return
        bed = (plan.hash, record.testbed_fingerprint, requested.platform, str(requested.includes_fcs))
        if fixed.reference_pps is not None:
            what = f"the pilot fixed for {requested.platform} a reference of"
            key = ("reference", *bed)
            yield from self._once(key, fixed.reference_pps, record.run_id, "plan.fixed.reference_pps", what)
        what = "the pilot fixed for this setting a load of"
        where = "plan.fixed.maximum_target_bps"
        yield from self._once(("load", *bed, setting_of(record)), fixed.maximum_target_bps, record.run_id, where, what)

    def _captures(self, record: RunRecord) -> Iterator[Discrepancy]:
        """Every capture contains the times of its packets, so no two non-empty ones are equal."""
        for where, stream in flows(record):
            capture = stream.capture
            if capture is None or capture.sha256 is None or capture.captured_packets < 1:
                continue
            digest = capture.sha256.encode()[:64]
            first = self._digests.setdefault(digest, f"{where} of {record.run_id}")
            if first != f"{where} of {record.run_id}":
                yield against(f"{where}.capture.sha256", f"is the same capture as that of {first}")

    def _trial_request(self, kind: RecordKind[Any], record: GuestTrialRecord, record_id: str) -> Iterator[Discrepancy]:
        """A trial's hash means one design point of one plan, on one testbed."""
        plan = record.plan
        request = record.requested.model_dump_json(exclude=UNHASHED)
        at = f"{request}, block {plan.block}, repetition {plan.repetition}"
        key = ("trial", kind.name, plan.hash, record.testbed_fingerprint)
        yield from self._once(key, at, record_id, "requested", f"the trial {plan.hash[:40]} asks for")


def _run_taken(record: RunRecord) -> SetUpTrial:
    set_up, plan, is_stepped = record.set_up, record.plan, stepped(record.verdict)
    assert set_up is not None
    stands, boot = record.verdict.status != "invalid", None
    if record.conditions is not None:
        boot = record.conditions.uut_boot_id
    return SetUpTrial(
        record_id=record.run_id,
        set_up=set_up.id,
        trial=set_up.trial,
        begun=None if is_stepped else moment(record.started_at),
        ended=None if is_stepped else moment(record.finished_at),
        testbed=_testbed_of(record.testbed_fingerprint, boot, record.operator),
        place=_place(record),
        attempt=plan.attempt if plan is not None else 1,
        enters=stands and record.role == "measured",
        final=stands or (plan is not None and plan.attempt >= plan.attempts),
        set_up_trials=plan.set_up_trials if plan is not None and plan.block else None,
        is_of_whole=True,
    )


def _trial_taken(kind: RecordKind[Any], record: GuestTrialRecord, record_id: str) -> SetUpTrial:
    set_up, plan, is_stepped = record.set_up, record.plan, stepped(record.verdict)
    assert set_up is not None
    stands, boot = record.verdict.status != "invalid", boot_of(record)
    return SetUpTrial(
        record_id=record_id,
        set_up=set_up.id,
        trial=set_up.trial,
        begun=None if is_stepped else moment(record.started_at),
        ended=None if is_stepped else moment(record.finished_at),
        testbed=_testbed_of(record.testbed_fingerprint, boot, record.operator),
        place=(f"{kind.name} {plan.hash}", record.testbed_fingerprint, None, plan.point, plan.repetition),
        attempt=plan.attempt,
        enters=stands,
        final=stands or plan.attempt >= plan.attempts,
    )


def _testbed_of(fingerprint: str, boot: str | None, operator: str) -> Testbed | None:
    return None if boot is None else (fingerprint, boot, operator)


def _trial_facts(record: GuestTrialRecord) -> dict[str, Any]:
    """The common facts of every guest trial of one set-up; None means unknown."""
    set_up, plan = record.set_up, record.plan
    assert set_up is not None
    return {
        "testbed": record.testbed_fingerprint,
        "boot": boot_of(record),
        "operator": record.operator,
        "plan": plan.name,
        "block": plan.block,
        "platform": record.requested.platform,
        "guests": record.requested.guests,
        "memory_mib": record.requested.memory_mib or "as set up",
        "attestation": record.attestation or None,
        "started_at": set_up.started_at,
        "setup_s": set_up.setup_s,
    }


def _run_facts(record: RunRecord) -> dict[str, Any]:
    """The common facts of every run of one set-up; None means unknown."""
    set_up, plan, conditions = record.set_up, record.plan, record.conditions
    assert set_up is not None
    found: dict[str, Any] = {
        "testbed": record.testbed_fingerprint,
        "platform": record.requested.platform,
        "second guest": record.requested.background != "none",
        "started_at": set_up.started_at,
        "setup_s": set_up.setup_s,
    }
    if conditions is not None:
        found |= conditions.model_dump()
    if plan is not None and plan.block:
        # In a plan of blocks a set-up has one background; otherwise the load in a guest does not change the set-up.
        found |= {"plan": plan.hash, "block": plan.block, "background": record.requested.background}
        found["set_up_trials"] = plan.set_up_trials
    return found


def _place(record: RunRecord) -> Place | None:
    plan = record.plan
    if plan is None or plan.hash.startswith(HASH_PREFIX) or record.role != "measured":
        return None
    return plan.hash, record.testbed_fingerprint, plan.block, plan.point, plan.repetition
