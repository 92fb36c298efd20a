"""The verdict on a trial of guests judged again by its kind's own rules, from what its record holds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.setting import in_force_problems
from labconsole.model.record.run import InForce, Reason, Verdict
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances

CAME_TO_NOTHING = frozenset({"guests_missing", "not_measured", "no_memory", "no_space"})
"""Codes of a trial whose guests did not come, or of which no attempt came to anything."""

INVALID_CODES = frozenset(code for code, weight in WEIGHT.items() if weight == "invalid")


class Judged(Protocol):
    """What its record has."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def in_force(self) -> InForce | None: ...
    @property
    def status(self) -> str: ...


def limits_of(in_force: InForce | None) -> Tolerances:
    """By which it was judged; the usual ones where a record does not say, or says what cannot be."""
    if in_force is None or any(in_force_problems(in_force)):
        return Tolerances()
    return Tolerances.model_validate(in_force.tolerances)


def codes_of(record: Judged) -> set[str]:
    """Of its verdict's reasons."""
    return {each.code for each in record.verdict.reasons}


def nothing_seen(record: Judged, seen: Collection[object]) -> Iterator[Discrepancy]:
    """Of a trial of guests without a set-up: nothing was ``seen`` in it, and the verdict says why."""
    if seen or not codes_of(record) & CAME_TO_NOTHING:
        yield against("set_up", "is not told, and neither is why nothing was seen")


def judged_again(record: Judged, again: Sequence[Reason], shown_only: Collection[str]) -> Iterator[Discrepancy]:
    """``again``: what the record shows; of the codes ``shown_only`` it has no other. The status goes with it."""
    if record.in_force is not None:
        yield from in_force_problems(record.in_force)
    codes, shown = codes_of(record), {each.code for each in again}
    for code in sorted(shown - codes):
        yield against("verdict.reasons", f"lacks {code}, which the record shows")
    for code in sorted((codes & set(shown_only)) - shown):
        yield against("verdict.reasons", f"has {code}, which the record does not show")
    status = "invalid" if codes & INVALID_CODES else "suspect" if codes else "valid"
    if record.verdict.status != status:
        yield Discrepancy(where="verdict.status", stored=record.verdict.status, recomputed=status)
    if (record.status == "failed") != (status == "invalid"):
        yield against("status", f"is {record.status}, but the verdict is {status}")
