"""Checks whether the trials of a store are possible: in their set-ups, and on their testbeds. Pure.

This applies to runs and guest trials alike. One set-up has one value of each of its facts, and its trials do not
overlap. A unit under test that was not restarted has one trial at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.plausibility import WALL_CLOCK_S

RecordDiscrepancy = tuple[str, Discrepancy]
"""(record id, what is wrong)."""

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
