"""Checks whether the records of a store or a bundle can all be true together: runs and guest trials. Pure.

A few fields of every record are kept, never the record: a store has tens of thousands. One plan hash, set-up, testbed
fingerprint, boot or capture cannot have two meanings. For runs, format 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labconsole.measure.paired_blocks import uut_facts
from labconsole.measure.recompute.counts import flows
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.guest_trial import GuestTrial, boot_of
from labconsole.measure.recompute.plausibility import moment, stepped
from labconsole.measure.recompute.references import ReferenceCheck, setting_of
from labconsole.measure.recompute.set_ups import Place, RecordDiscrepancy, SetUpChecks, SetUpTrial, Testbed, short
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kind import RecordKind
from labconsole.model.record.run import PlanRef, RunRecord

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

    def add_trial(self, kind: RecordKind[Any], record: GuestTrial) -> Iterator[RecordDiscrepancy]:
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

    def _testbed(self, record: RunRecord | GuestTrial, record_id: str) -> Iterator[Discrepancy]:
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

    def _trial_request(self, kind: RecordKind[Any], record: GuestTrial, record_id: str) -> Iterator[Discrepancy]:
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


def _trial_taken(kind: RecordKind[Any], record: GuestTrial, record_id: str) -> SetUpTrial:
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


def _trial_facts(record: GuestTrial) -> dict[str, Any]:
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
