"""Judges the verdict on a guest trial again, by rules stated a second time: code to condition. Pure.

A kind's rules are in the module that checks its record. They share no code with those that judged the trial (verdict/,
and each kind's verdict.py), so that errors in those show. A reason without a rule rests on what the record does not
contain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.evidence import number
from labconsole.measure.recompute.guest_trial import GuestTrial
from labconsole.measure.recompute.plausibility import in_force_problems
from labconsole.model.record.crew_trial import ProgramRecord
from labconsole.model.record.run import InForce
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances

R = TypeVar("R", bound=GuestTrial)
Condition = Callable[[R, Tolerances], bool]

EMPTY_TRIAL_CODES = frozenset({"guests_missing", "not_measured", "no_memory", "no_space"})
"""Codes of a trial whose guests are missing, or in which no attempt gave a result."""

INVALID_CODES = frozenset(code for code, weight in WEIGHT.items() if weight == "invalid")

CONTROL_PACKETS, CONTROL_RATIO = 20, 1e-4
"""Control traffic at a sink that causes no doubt, in packets or as a share of all."""

LEAST_STEP_S, STEP_RATIO = 0.001, 0.001
"""The allowed change of a clock, absolute or as a share of the shortest measured time."""

ROUNDED = 1.05
"""A process's time is rounded to thousandths of a second."""

NOT_OURS = ("other", "labconsole", "guest")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRules(Generic[R]):
    """The rules for one kind of record.

    ``only``: codes that follow from the record alone: one is there if and only if its condition is true. ``also``:
    codes that other observations cause as well: one is there if its condition is true. ``excused``: codes of ``only``
    that a record may have without it, because it gives the reason itself.
    """

    only: Mapping[str, Condition[R]]
    also: Mapping[str, Condition[R]]
    excused: Mapping[str, Condition[R]]


def recompute_verdict(record: R, rules: VerdictRules[R]) -> Iterator[Discrepancy]:
    """Parts of the verdict that do not follow by these rules, and a status that does not match its codes."""
    if record.in_force is not None:
        yield from in_force_problems(record.in_force)
    codes, limits = codes_of(record), limits_of(record.in_force)
    shown = {code for of in (HOST_ACTIVITY, rules.also) for code, holds in of.items() if holds(record, limits)}
    shown |= {code for code, holds in rules.only.items() if holds(record, limits)}
    excused = {code for code, holds in rules.excused.items() if holds(record, limits)}
    for code in sorted(shown - codes):
        yield against("verdict.reasons", f"lacks {code}, which the record shows")
    for code in sorted((codes & set(rules.only)) - shown - excused):
        yield against("verdict.reasons", f"has {code}, which the record does not show")
    yield from status_problems(record)


def status_problems(record: GuestTrial) -> Iterator[Discrepancy]:
    """The status must be the worst that its reasons cause; each code occurs once, with all its places."""
    codes = [each.code for each in record.verdict.reasons]
    for place, code in enumerate(codes):
        if code not in WEIGHT:
            yield against(f"verdict.reasons[{place}].code", "is not a code known to this version", code[:80])
        if code in codes[:place]:
            yield against("verdict.reasons", f"{code} appears more than once: one reason lists all its places")
        follows = record.verdict.reasons[place].follows
        if follows is not None and (follows == code or follows not in codes):
            says = "does not name another reason of this verdict"
            yield against(f"verdict.reasons[{place}].follows", says, follows[:80])
    status = "invalid" if set(codes) & INVALID_CODES else "suspect" if codes else "valid"
    if record.verdict.status != status:
        yield Discrepancy(where="verdict.status", stored=record.verdict.status, recomputed=status)
    if (record.status == "failed") != (status == "invalid"):
        yield against("status", f"is {record.status}, but the verdict is {status}")


def unjudged_reasons(record: R, rules: VerdictRules[R]) -> Iterator[str]:
    """The parts of the verdict that cannot be judged again, with the same description for similar records."""
    if record.in_force is None:
        yield "the verdict by its tolerances, which are not recorded"
    limits = limits_of(record.in_force)
    shown = {code for of in (HOST_ACTIVITY, rules.also) for code, holds in of.items() if holds(record, limits)}
    for code in sorted(codes_of(record) - set(rules.only)):
        if code not in shown:
            yield f"the reason {code[:80]}, which rests on what the record does not hold"


def limits_of(in_force: InForce | None) -> Tolerances:
    """The record's tolerances; the default ones if a record lacks them, or has impossible ones."""
    if in_force is None or any(in_force_problems(in_force)):
        return Tolerances()
    return Tolerances.model_validate(in_force.tolerances)


def codes_of(record: GuestTrial) -> set[str]:
    """The codes of its verdict's reasons."""
    return {each.code for each in record.verdict.reasons}


def empty_trial_problems(record: GuestTrial, seen: Collection[object]) -> Iterator[Discrepancy]:
    """A guest trial without a set-up must have nothing ``seen``, and a verdict that gives the reason."""
    if seen or not codes_of(record) & EMPTY_TRIAL_CODES:
        yield against("set_up", "is missing, and so is the reason why nothing was observed")


# Conditions that several kinds have -----------------------------------------------------------------------------------


def is_swapped(record: GuestTrial, limits: Tolerances) -> bool:
    """Whether pages went in or out of swap."""
    return bool(record.swapped_pages)


def is_start_apart(record: Any, limits: Tolerances) -> bool:
    """Whether guests that were to begin together began more than a hundredth of the duration apart."""
    return record.start_skew_s is not None and record.start_skew_s > 0.01 * record.requested.duration_s


def is_program_unlike(program: ProgramRecord | None) -> bool:
    """Whether guests had several files of one program."""
    return program is not None and len(program.sha256) > 1


def is_program_unknown(program: ProgramRecord | None) -> bool:
    """Whether the program's file is unknown for a guest."""
    return program is not None and program.unknown > 0


def is_capture_short(sink: Any) -> bool:
    """Whether the sink's kernel dropped packets, or the capture lacks packets that its NIC received."""
    if sink is None:
        return False
    seen = sink.captured_packets + (sink.dropped_packets or 0)
    return bool(sink.dropped_packets) or (sink.nic_packets is not None and sink.nic_packets > seen)


def is_beyond_nic(sink: Any) -> bool:
    """Whether more of the crew's packets were captured than the sink's NIC received in all."""
    if sink is None or sink.nic_packets is None:
        return False
    return bool(sink.captured_packets - sink.foreign_packets - sink.other_packets > sink.nic_packets)


def has_foreign_packets(sink: Any, limits: Tolerances) -> bool:
    """Whether there are more foreign packets than usual control traffic and the tolerance."""
    if sink is None:
        return False
    control = min(sink.control_packets or 0, sink.other_packets)
    usual = int(max(CONTROL_PACKETS, CONTROL_RATIO * sink.captured_packets))
    strange = sink.foreign_packets + sink.other_packets - control
    return bool(strange + max(0, control - usual) > limits.foreign_packets)


def is_nic_unread(sink: Any) -> bool:
    """Whether the sink NIC's count is missing."""
    return sink is not None and sink.nic_packets is None


def is_mark_forged(timekeeper: Any) -> bool:
    """Whether there are duplicate marks, or pings that match no sender."""
    return timekeeper is not None and bool(timekeeper.doubled or timekeeper.strange_packets)


def is_mark_dropped(timekeeper: Any) -> bool:
    """Whether the timekeeper's kernel dropped packets that may have been marks."""
    return timekeeper is not None and bool(timekeeper.dropped_packets)


def is_clock_set(timekeeper: Any, times_s: Collection[float], limits: Tolerances) -> bool:
    """Whether the timekeeper's wall clock was set by more than the shortest of these times allows."""
    if timekeeper is None:
        return False
    allowed_s = max(LEAST_STEP_S, STEP_RATIO * min(map(abs, times_s), default=0.0))
    return bool(abs(timekeeper.wall_moved_ns) > min(limits.clock_step_s, allowed_s) * 1e9)


def _is_silent(record: GuestTrial, limits: Tolerances) -> bool:
    return any(each.get("kind") == "not_observed" for each in record.influences)


def _is_stolen(record: GuestTrial, limits: Tolerances) -> bool:
    ratios = [number(each.get("steal_ratio")) for each in record.influences if each.get("kind") == "cpu"]
    return not record.emulated and any(each > limits.steal_ratio for each in ratios)


def _is_busy(record: GuestTrial, limits: Tolerances) -> bool:
    processes = [each for each in record.influences if each.get("kind") == "process" and each.get("whose") in NOT_OURS]
    return any(number(each.get("cpu_ratio")) > ROUNDED * limits.other_cpu_ratio for each in processes)


def _is_hidden(record: GuestTrial, limits: Tolerances) -> bool:
    ratios = [number(each.get("unseen_ratio")) for each in record.influences if each.get("kind") == "cpu"]
    return any(each > limits.other_cpu_ratio for each in ratios)


HOST_ACTIVITY: Mapping[str, Condition[Any]] = {
    "not_observed": _is_silent,
    "cpu_stolen": _is_stolen,
    "other_cpu": _is_busy,
    "unseen_cpu": _is_hidden,
}
"""Rules for the influences of guest trials of any kind. Rules of a kind for the same code apply in addition."""
