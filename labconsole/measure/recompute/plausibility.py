"""Checks whether a record's own facts can be true: times, plan, set-up, role, tolerances, conditions. Pure; format 2.

Contradictions between records are in cross_record_checks.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

from pydantic import ValidationError

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.model.design_point import FORWARDING_SHARES
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kind import CrewTrialRef
from labconsole.model.record.run import METHOD, Conditions, InForce, PlanRef, RunRecord, SetUp, Verdict, read_conditions
from labconsole.model.tolerances import Tolerances

PHASES = ("arm_s", "send_s", "drain_s", "count_s")
"""The phases of a trial, in this order; the last ones are absent if the trial did not reach them."""

MOST_ATTEMPTS = 101
"""A plan repeats a trial at most 100 times (max_redo)."""

WALL_CLOCK_S = 0.1
"""A slewed wall clock, and a time stamp in whole milliseconds, differ from a monotonic one by less."""

ASIDE_S = 60.0
"""The longest time for making a record, excluding the trial itself."""

SENDING_SLACK_RATIO, SENDING_SLACK_S = 0.01, 0.1
"""Allows for two machines' clocks, and for the delay until a console learns of an end."""

ORDERS = ("blocked-random", "full-random", "as-listed")


def contradicting_setting(record: RunRecord) -> Iterator[Discrepancy]:
    """Impossible values of the record other than its counts."""
    yield from _times(record)
    yield from _requested(record)
    if record.format == 1:
        return
    yield from _timeline(record)
    yield from _set_up(record)
    yield from _conditions(record)
    if record.plan is not None:
        yield from _plan(record, record.plan)
    if record.in_force is not None:
        yield from in_force_problems(record.in_force)
    elif record.role == "measured":
        yield against("in_force", "does not say by which tolerances and waits the run was measured")
    if not 1 < record.method <= METHOD:
        yield against("method", f"format {record.format} knows methods 2 to {METHOD}", record.method)


def moment(text: str) -> datetime | None:
    """A time stamp with its zone, or None if the text is no such stamp."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def stepped(verdict: Verdict) -> bool:
    """Whether a clock was set during the trial, so that its times cannot be compared."""
    return any(reason.code == "clock_stepped" for reason in verdict.reasons)


def time_problems(started_at: str, finished_at: str, verdict: Verdict) -> Iterator[Discrepancy]:
    """Invalid times, or an end before its begin."""
    took_s = trial_s(started_at, finished_at)
    if took_s is None:
        yield against("finished_at", "is not a time in UTC", finished_at[:80])
    elif took_s < 0 and not stepped(verdict):
        yield against("finished_at", f"is {-took_s:g} s before started_at", finished_at)


def trial_s(started_at: str, finished_at: str) -> float | None:
    """A trial's duration by the console's wall clock, or None if one of the two times is invalid."""
    started, finished = moment(started_at), moment(finished_at)
    return None if started is None or finished is None else (finished - started).total_seconds()


def _times(record: RunRecord) -> Iterator[Discrepancy]:
    yield from time_problems(record.started_at, record.finished_at, record.verdict)
    took_s, total_s = trial_s(record.started_at, record.finished_at), record.timeline.get("total_s")
    if took_s is None or took_s < 0 or stepped(record.verdict):
        return
    if record.format > 1 and isinstance(total_s, int | float):
        if took_s < total_s * (1 - SENDING_SLACK_RATIO) - WALL_CLOCK_S:
            yield against("finished_at", f"is {took_s:g} s after started_at, but the trial took {total_s:g} s")
        elif took_s > total_s * (1 + SENDING_SLACK_RATIO) + ASIDE_S:
            yield against("finished_at", f"is {took_s:g} s after started_at, but the trial took {total_s:g} s only")


def _requested(record: RunRecord) -> Iterator[Discrepancy]:
    requested, names = record.requested, [stream.name for stream in record.streams]
    kind = record.background.kind if record.background is not None else "none"
    if kind != requested.background:
        yield against("background.kind", f"is {kind}, but {requested.background} was requested", kind)
    if record.format == 1:
        return
    if len(names) != requested.sources:
        yield against(
            "requested.sources", f"is {requested.sources}, but there are {len(names)} streams", requested.sources
        )
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield against("streams", f"{name} appears more than once")
    if not 0 < requested.duration_s < math.inf:
        yield against("requested.duration_s", "is not a duration", requested.duration_s)
    if (requested.frame_size_bytes or 64) < 60 or (requested.target_bps != "max" and requested.target_bps < 1):
        yield against("requested", "asks for impossible frames or an impossible load")
    load = record.background
    due = FORWARDING_SHARES.get(kind)
    if load is not None and due is not None:
        recorded = (load.reference or {}).get("share_ratio")
        if load.reference is not None and recorded != due:
            yield against("background.reference.share_ratio", f"is {recorded}, and {kind} means {due}")


def _timeline(record: RunRecord) -> Iterator[Discrepancy]:
    timeline = record.timeline
    for name, value in timeline.items():
        if name.endswith("_s") and (not isinstance(value, int | float) or not 0 <= value < math.inf):
            yield against(f"timeline.{name}", "is not a time in seconds")
            return
    there = [name for name in PHASES if name in timeline]
    if there != list(PHASES[: len(there)]):
        yield against("timeline", f"has {', '.join(there)}: one is missing before the last")
    if len(there) < len(PHASES) and record.failure is None and not _aborted(record):
        lacking = ", ".join(name for name in PHASES if name not in timeline)
        yield against("timeline", f"lacks {lacking}, but nothing is recorded as having stopped the trial")
    total_s, parts_s = timeline.get("total_s"), sum(timeline[name] for name in there)
    if total_s is not None and parts_s > total_s + 1e-6:
        yield against("timeline.total_s", f"is {total_s}, but its parts add up to {parts_s}", total_s)
    send_s = timeline.get("send_s")
    for place, stream in enumerate(record.streams if send_s is not None else ()):
        longest_s = send_s * (1 + SENDING_SLACK_RATIO) + SENDING_SLACK_S  # type: ignore[operator]
        if stream.offered_duration_s is not None and stream.offered_duration_s > longest_s:
            says = f"sent for {stream.offered_duration_s} s in a phase of {send_s} s"
            yield against(f"streams[{place}].offered_duration_s", says, stream.offered_duration_s)
    due_s = record.in_force.drain_s if record.in_force is not None else None
    drain_s = timeline.get("drain_s")
    if due_s is not None and drain_s is not None and drain_s < due_s - 1e-3:
        yield against("timeline.drain_s", f"is {drain_s}, but the wait had to be {due_s} s", drain_s)


def _aborted(record: RunRecord) -> bool:
    return any(reason.code == "aborted" for reason in record.verdict.reasons)


def _set_up(record: RunRecord) -> Iterator[Discrepancy]:
    set_up = record.set_up
    if set_up is None:
        if record.role == "measured":
            yield against("set_up", "does not say in which set-up of the platform the run was measured")
        return
    yield from set_up_problems(set_up, record.started_at, "the trial", record.verdict)


def set_up_problems(set_up: SetUp, until: str, of: str, verdict: Verdict) -> Iterator[Discrepancy]:
    """Impossible values of a set-up. ``until``: the latest end of the set-up, which is that of ``of``."""
    if set_up.trial < 1:
        yield against("set_up.trial", "is not counted from 1", set_up.trial)
    if not 0 <= set_up.setup_s < math.inf:
        yield against("set_up.setup_s", "is not a time", set_up.setup_s)
    begun, over = moment(set_up.started_at), moment(until)
    if begun is None:
        yield against("set_up.started_at", "is not a time in UTC", set_up.started_at[:80])
    elif over is not None and not stepped(verdict):
        before_s = (over - begun).total_seconds()
        if before_s < set_up.setup_s * (1 - SENDING_SLACK_RATIO) - WALL_CLOCK_S:
            says = f"setting up began {before_s:g} s before {of} and took {set_up.setup_s:g} s"
            yield against("set_up.started_at", says, set_up.started_at)


def _conditions(record: RunRecord) -> Iterator[Discrepancy]:
    """The conditions by which runs are grouped must equal those in the environment."""
    if record.conditions is None:
        if record.role == "measured":
            yield against("conditions", "does not say under which conditions the run was measured")
        return
    uut = next((hop.node for stream in record.streams for hop in stream.ledger if hop.hop == "uut_in"), None)
    seen = read_conditions(record.environment, uut)
    for name in Conditions.model_fields:
        recorded, shown = getattr(record.conditions, name), getattr(seen, name)
        if uut is None and name.startswith("uut_"):
            continue
        if recorded != shown:
            yield against(f"conditions.{name}", f"is {recorded}, and the environment shows {shown}", recorded)


def _plan(record: RunRecord, plan: PlanRef) -> Iterator[Discrepancy]:
    yield from place_problems(plan)
    if plan.order is not None and plan.order not in ORDERS:
        yield against("plan.order", "is not a known order of plans", plan.order[:80])
    if not plan.hash.startswith(HASH_PREFIX) and (record.role == "pilot") != (plan.block == 0):
        yield against("role", f"is {record.role}, in block {plan.block}: block 0 is the pilot's", record.role)
    if plan.fixed is not None and plan.fixed.reference_pps is not None and not plan.fixed.reference_pps > 0:
        yield against("plan.fixed.reference_pps", "is not a rate", plan.fixed.reference_pps)


def place_problems(plan: PlanRef | CrewTrialRef, least_block: int = 0) -> Iterator[Discrepancy]:
    """Impossible values of a place in a plan."""
    for name, least in (
        ("point", 0),
        ("repetition", 1),
        ("warm_ups", 0),
        ("block", least_block),
        ("attempt", 1),
        ("attempts", 1),
        ("position", 1),
        ("set_ups", 1),
        ("repetitions", 1),
        ("set_up_trials", 1),
    ):
        value = getattr(plan, name, None)
        if value is not None and value < least:
            yield against(f"plan.{name}", f"is {value}, and counts from {least}", value)
    if plan.attempt > plan.attempts:
        yield against("plan.attempt", f"is {plan.attempt} of at most {plan.attempts}", plan.attempt)
    if plan.attempts > MOST_ATTEMPTS:
        yield against("plan.attempts", f"no plan repeats a trial more than {MOST_ATTEMPTS} times", plan.attempts)
    if plan.repetitions is not None and plan.repetition > plan.repetitions:
        yield against("plan.repetition", f"is {plan.repetition} of {plan.repetitions}", plan.repetition)
    if plan.block is not None and plan.set_ups is not None and plan.block > plan.set_ups:
        yield against("plan.block", f"is {plan.block} of {plan.set_ups}", plan.block)
    if plan.margin_ratio is not None and not 0 < plan.margin_ratio < 1:
        yield against("plan.margin_ratio", "is not a ratio between 0 and 1", plan.margin_ratio)


def in_force_problems(in_force: InForce) -> Iterator[Discrepancy]:
    """Impossible values of tolerances and waits."""
    known = set(Tolerances.model_fields)
    for name in sorted(set(in_force.tolerances) - known):
        yield against(f"in_force.tolerances.{name[:80]}", "is not a tolerance known to this version")
    for name in sorted(known - set(in_force.tolerances)):
        yield against(f"in_force.tolerances.{name}", "is not recorded")
    try:
        Tolerances.model_validate({name: value for name, value in in_force.tolerances.items() if name in known})
    except ValidationError as exc:
        for problem in exc.errors(include_url=False):
            name = str(problem["loc"][0])
            yield against(f"in_force.tolerances.{name}", f"cannot be: {problem['msg']}", in_force.tolerances[name])
    for name in ("settle_s", "drain_s", "sample_interval_s"):
        value = getattr(in_force, name)
        if value is not None and not 0 <= value < math.inf:
            yield against(f"in_force.{name}", "is not a time", value)
