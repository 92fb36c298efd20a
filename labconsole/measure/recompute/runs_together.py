"""Whether the records of a store or a bundle can all be true beside each other. Pure; format 2.

Of every run a few words are kept, never the record: a store holds tens of thousands. What one plan hash, one set-up,
one testbed fingerprint or one capture stands for cannot be two things.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from labconsole.measure.recompute.counts import flows
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.rests import Rests, setting_of
from labconsole.measure.recompute.setting import moment, stepped
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.run import PlanRef, RunRecord

Told = tuple[str, Discrepancy]
"""(run id, what is wrong)."""

Place = tuple[str, str, int | None, int, int]
"""(plan hash, testbed fingerprint, block, point, repetition).

Stated again on purpose, beside measure/admission.py's: a check that took its notion of a place from what it checks
would share its errors.
"""


@dataclass(frozen=True, slots=True)
class _Taken:
    """One run in its set-up."""

    run_id: str
    trial: int
    begun: datetime | None
    ended: datetime | None
    place: Place | None
    attempt: int
    enters: bool
    final: bool


@dataclass(slots=True)
class _SetUp:
    """One setting-up: what its first run said of it, and its runs."""

    run_id: str
    facts: dict[str, Any]
    holds: int | None = None
    taken: list[_Taken] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether as many of its trials came to their end as it should hold; without a plan of blocks, always."""
        places = {each.place for each in self.taken if each.final and _in_block(each.place)}
        return self.holds is None or len(places) >= self.holds


class Together:
    """Takes record after record, and tells what contradicts an earlier one; ``ending`` what shows only at the end."""

    def __init__(self) -> None:
        self._set_ups: dict[str, _SetUp] = {}
        self._said: dict[tuple[str, ...], tuple[str, Any]] = {}
        self._digests: dict[bytes, str] = {}
        self._rests = Rests()

    @property
    def elsewhere(self) -> int:
        """How many runs rest on stored runs that are not among these."""
        return self._rests.elsewhere

    def add(self, record: RunRecord) -> Iterator[Told]:
        """One more record."""
        if record.format == 1:
            return
        for found in (*self._testbed(record), *self._plan(record), *self._captures(record), *self._in_set_up(record)):
            yield record.run_id, found
        self._rests.add(record)

    def ending(self) -> Iterator[Told]:
        """When all are there."""
        for name, held in self._set_ups.items():
            yield from _order(name, held)
        yield from self._doubled()
        yield from self._rests.ending()

    def _once(
        self, key: tuple[str, ...], value: Any, record: RunRecord, where: str, what: str
    ) -> Iterator[Discrepancy]:
        """Of one key, every record says the same."""
        run_id, first = self._said.setdefault(key, (record.run_id, value))
        if first != value:
            yield against(where, f"{what} {_word(value)} here and {_word(first)} in {run_id}", _word(value))

    def _testbed(self, record: RunRecord) -> Iterator[Discrepancy]:
        key = ("testbed", record.testbed_fingerprint)
        what = f"the testbed {record.testbed_fingerprint[:40]} has emulated"
        yield from self._once(key, record.emulated, record, "emulated", what)

    def _plan(self, record: RunRecord) -> Iterator[Discrepancy]:
        """What a plan's hash means, and what its pilot fixed for all of it."""
        plan = record.plan
        if plan is None or plan.hash.startswith(HASH_PREFIX):
            return
        named = f"the plan {plan.hash[:40]} has"
        if record.role != "pilot":
            key = ("point", plan.hash, str(plan.point))
            asked = record.requested.model_dump_json(exclude={"generator", "observe"})
            yield from self._once(key, asked, record, "requested", f"{named} at point {plan.point}")
        yield from self._fixed(record, plan)

    def _fixed(self, record: RunRecord, plan: PlanRef) -> Iterator[Discrepancy]:
        fixed, asked = plan.fixed, record.requested
        if fixed is None or record.role == "pilot":
            return
        bed = (plan.hash, record.testbed_fingerprint, asked.platform, str(asked.includes_fcs))
        if fixed.reference_pps is not None:
            what = f"the pilot fixed for {asked.platform} a reference of"
            key = ("reference", *bed)
            yield from self._once(key, fixed.reference_pps, record, "plan.fixed.reference_pps", what)
        what = "the pilot fixed for this setting a load of"
        where = "plan.fixed.maximum_target_bps"
        yield from self._once(("load", *bed, setting_of(record)), fixed.maximum_target_bps, record, where, what)

    def _captures(self, record: RunRecord) -> Iterator[Discrepancy]:
        """Every capture holds the times of its packets, so that no two that hold any are alike."""
        for where, stream in flows(record):
            capture = stream.capture
            if capture is None or capture.sha256 is None or capture.captured_packets < 1:
                continue
            digest = capture.sha256.encode()[:64]
            first = self._digests.setdefault(digest, f"{where} of {record.run_id}")
            if first != f"{where} of {record.run_id}":
                yield against(f"{where}.capture.sha256", f"is the same capture as that of {first}")

    def _in_set_up(self, record: RunRecord) -> Iterator[Discrepancy]:
        if record.set_up is None:
            return
        plan, facts = record.plan, _facts(record)
        held = self._set_ups.setdefault(record.set_up.id, _SetUp(record.run_id, facts))
        if plan is not None and plan.block:
            held.holds = plan.set_up_trials if held.holds is None else held.holds
        stands = record.verdict.status != "invalid"
        for name, value in facts.items():
            first = held.facts.setdefault(name, value)
            if first is None:
                held.facts[name] = value
            elif value is not None and value != first:
                told = f"{_word(value)} here and {_word(first)} in {held.run_id}"
                says = f"the set-up {record.set_up.id[:40]} has {name} {told}"
                yield against("set_up.id", says)
        held.taken.append(
            _Taken(
                run_id=record.run_id,
                trial=record.set_up.trial,
                begun=None if stepped(record) else moment(record.started_at),
                ended=None if stepped(record) else moment(record.finished_at),
                place=_place(record),
                attempt=plan.attempt if plan is not None else 1,
                enters=stands and record.role == "measured",
                final=stands or (plan is not None and plan.attempt >= plan.attempts),
            )
        )

    def _doubled(self) -> Iterator[Told]:
        """One place of a plan, taken twice in set-ups that are whole."""
        first: dict[Place, str] = {}
        for held in self._set_ups.values():
            for each in held.taken if held.whole else ():
                if each.place is None or not each.enters:
                    continue
                other = first.setdefault(each.place, each.run_id)
                if other != each.run_id:
                    _, _, block, point, repetition = each.place
                    where = f"block {block}, " if block is not None else ""
                    says = f"{where}point {point}, repetition {repetition} was already measured in {other}"
                    yield each.run_id, against("plan", says)


def _facts(record: RunRecord) -> dict[str, Any]:
    """What every run of one set-up has in common. None: not known."""
    held, plan, conditions = record.set_up, record.plan, record.conditions
    assert held is not None
    found: dict[str, Any] = {
        "testbed": record.testbed_fingerprint,
        "platform": record.requested.platform,
        "second guest": record.requested.background != "none",
        "started_at": held.started_at,
        "setup_s": held.setup_s,
    }
    if conditions is not None:
        found |= conditions.model_dump()
    if plan is not None and plan.block:
        # In a plan of blocks a set-up serves one background; else what runs in a guest does not change what stands.
        found |= {"plan": plan.hash, "block": plan.block, "background": record.requested.background}
        found["set_up_trials"] = plan.set_up_trials
    return found


def _in_block(place: Place | None) -> bool:
    return place is not None and bool(place[2])


def _place(record: RunRecord) -> Place | None:
    plan = record.plan
    if plan is None or plan.hash.startswith(HASH_PREFIX) or record.role != "measured":
        return None
    return plan.hash, record.testbed_fingerprint, plan.block, plan.point, plan.repetition


def _order(name: str, held: _SetUp) -> Iterator[Told]:
    """The trials of one set-up, one after the other."""
    entered = {each.place for each in held.taken if each.final and _in_block(each.place)}
    if held.holds is not None and len(entered) > held.holds:
        says = f"{name[:40]} holds {len(entered)} trials of its plan, and is said to hold {held.holds}"
        yield held.run_id, against("plan.set_up_trials", says)
    before: _Taken | None = None
    attempts: dict[Place, tuple[int, bool]] = {}
    for each in sorted(held.taken, key=lambda taken: taken.trial):
        if before is not None and each.trial == before.trial:
            yield each.run_id, against("set_up.trial", f"{each.trial} of {name[:40]} is that of {before.run_id} too")
        elif before is not None and before.ended and each.begun and each.begun < before.ended:
            says = f"is after trial {before.trial}, {before.run_id}, which had not ended when this one began"
            yield each.run_id, against("set_up.trial", says)
        if each.place is not None:
            last, entered_before = attempts.get(each.place, (0, False))
            if each.attempt <= last:
                says = f"is {each.attempt}, after attempt {last} of the same trial in one set-up"
                yield each.run_id, against("plan.attempt", says)
            if entered_before and each.enters:
                yield each.run_id, against("plan", "repeats a trial that was already complete in this set-up")
            attempts[each.place] = (max(last, each.attempt), entered_before or each.enters)
        before = each


def _word(value: Literal["max"] | Any) -> str:
    return "none" if value is None else str(value)[:200]
