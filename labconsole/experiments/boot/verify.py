"""Recompute a stored boot trial: its times from marks and clocks, its sums, its verdict from the observations."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from labconsole.experiments.boot.derived_values import clock_allowed_s
from labconsole.experiments.boot.record import BootRecord
from labconsole.measure.recompute import guest_trial as trial
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against, differences
from labconsole.measure.recompute.guest_trial import VerdictRules, codes_of, recompute_verdict, unjudged_reasons
from labconsole.measure.recompute.plausibility import SENDING_SLACK_RATIO, WALL_CLOCK_S, stepped
from labconsole.model.tolerances import Tolerances

# -- plausibility ------------------------------------------------------------------------------------------------------
# Values that no boot trial can have: marks before their cause, times outside the trial, memory beyond the host's.
# Pure.

PAGE_BYTES = 4096
"""The size of a kernel's smallest pages."""


def find_implausible(record: BootRecord) -> Iterator[Discrepancy]:
    """Find the values of a record that no boot trial can have."""
    yield from trial.common_problems(record, is_start=True)
    yield from trial.duplicate_problems("guests", record.guests, {"guest": lambda each: each.guest})
    yield from trial.address_problems(record, "guests", record.guests)
    yield from _times(record)
    yield from _memory(record)
    requested = record.requested
    if requested.limit_s <= 0 or (requested.memory_mib is not None and requested.memory_mib < 1):
        yield against("requested", "asks for an impossible limit or memory")


def _times(record: BootRecord) -> Iterator[Discrepancy]:
    """Find times before their cause, or outside the trial."""
    error_s = record.clock_error_s or 0.0
    for place, each in enumerate(record.guests):
        where = f"guests[{place}]"
        if each.own_s is not None and each.own_s < -error_s and not stepped(record.verdict):
            yield against(f"{where}.mark_ns", "its mark came before its own start command", each.own_s)
        of = ((f"{where}.mark_s", each.mark_s), (f"{where}.ready_s", each.ready_s))
        yield from trial.duration_problems(record, of)
        yield from trial.duration_problems(
            record, [(f"{where}.way_in.joined_s", None if each.way_in is None else each.way_in.joined_s)]
        )
    if record.set_up is not None:
        if record.set_up.trial != 1:
            yield against("set_up.trial", "a set-up of guests is started once", record.set_up.trial)
        setup_s = record.set_up.setup_s * (1 + SENDING_SLACK_RATIO) + WALL_CLOCK_S
        if record.ready_s is not None and record.ready_s > setup_s:
            says = f"setting up took {record.set_up.setup_s:.3f} s, and its guests were up after {record.ready_s:.3f} s"
            yield against("set_up.setup_s", says, record.set_up.setup_s)
    yield from trial.duration_problems(record, _parts(record))
    clocks = record.clocks
    if clocks is not None:
        errors = (("uut_error_ns", clocks.uut_error_ns), ("timekeeper_error_ns", clocks.timekeeper_error_ns))
        yield from trial.sign_problems((f"clocks.{name}", value) for name, value in errors)


def _parts(record: BootRecord) -> Iterator[tuple[str, float | None]]:
    """Return (place, seconds) of the successive parts of a start."""
    idle, memory = record.idle, record.memory
    for side in ("before", "standing"):
        quiet = None if idle is None else getattr(idle, side)
        yield f"idle.{side}.took_ns", None if quiet is None else quiet.took_ns / 1e9
    if memory is not None:
        yield "memory.quiet_s", memory.quiet_s
        if record.ready_s is not None:
            yield "ready_s", record.ready_s + memory.quiet_s


def _memory(record: BootRecord) -> Iterator[Discrepancy]:
    """Find memory values above those of the unit under test's kernel."""
    memory = record.memory
    used: list[tuple[str, int | None]] = []
    if memory is not None:
        names = ("available_before_bytes", "available_after_bytes", "pss_bytes", "cgroup_bytes")
        used += [(f"memory.{name}", getattr(memory, name)) for name in names]
        yield from trial.sign_problems(
            (
                ("memory.quiet_s", memory.quiet_s),
                ("memory.ksm_run", memory.ksm_run),
                ("memory.ksm_pages_sharing", memory.ksm_pages_sharing),
            )
        )
    cached = sum(each.cached_pages for each in record.files or ())
    used.append(("files", cached * PAGE_BYTES))
    yield from trial.memory_problems(record, used)
    names_of = {"path": lambda each: (each.option, each.path)}
    yield from trial.duplicate_problems("files", record.files or (), names_of)


# -- rules -------------------------------------------------------------------------------------------------------------
# The rules for each reason of a boot trial, written a second time: code to condition on its record. Pure.
#
# They share no code with verdict.py, which judged it. docs/boot.md and docs/data-format.md explain the codes.

WITNESSES_S, WITNESSES_RATIO = 0.1, 0.02
"""Mark and ready time of one guest may differ by this, plus a share of the time, plus the error of the clocks."""


def _is_mark_lost(record: BootRecord, limits: Tolerances) -> bool:
    return any(each.ready_ns is not None and each.mark_ns is None for each in record.guests)


def _is_disagreeing(record: BootRecord, limits: Tolerances) -> bool:
    error_s = record.clock_error_s or 0.0
    return any(
        abs(each.ready_s - each.mark_s) > WITNESSES_S + WITNESSES_RATIO * abs(each.mark_s) + error_s
        for each in record.guests
        if each.ready_s is not None and each.mark_s is not None
    )


def _pages(record: BootRecord) -> tuple[int, int]:
    """Return the pages of all files, and how many of them were in memory."""
    files = record.files or ()
    return sum(each.pages for each in files), sum(each.cached_pages for each in files)


def _is_warm(record: BootRecord, limits: Tolerances) -> bool:
    pages, cached = _pages(record)
    return record.requested.start == "cold" and record.files is not None and (not pages or cached > 0)


def _is_cool(record: BootRecord, limits: Tolerances) -> bool:
    pages, cached = _pages(record)
    return record.requested.start == "hot" and record.files is not None and (not pages or cached < pages)


def _is_coarse(record: BootRecord, limits: Tolerances) -> bool:
    error_s, allowed_s = record.clock_error_s, record.clock_error_allowed_s
    return error_s is not None and allowed_s is not None and error_s > allowed_s


def _is_clock_set(record: BootRecord, limits: Tolerances) -> bool:
    times_s = [each.mark_s for each in record.guests if each.mark_s is not None]
    return trial.is_clock_set(record.timekeeper, times_s, limits)


RULES: VerdictRules[BootRecord] = VerdictRules(
    only={
        "mark_lost": _is_mark_lost,
        "ready_disagrees": _is_disagreeing,
        "not_cold": _is_warm,
        "not_hot": _is_cool,
        "mark_forged": lambda record, limits: trial.is_mark_forged(record.timekeeper),
        "swapped": trial.is_swapped,
        "clock_coarse": _is_coarse,
    },
    also={
        "guests_missing": lambda record, limits: any(each.ready_ns is None for each in record.guests),
        "not_observed": lambda record, limits: trial.is_mark_dropped(record.timekeeper),
        "clock_stepped": _is_clock_set,
    },
    excused={},
)


# -- recomputation -----------------------------------------------------------------------------------------------------

SEEN_NOTHING = frozenset({"not_measured", "no_memory"})
"""Codes of a trial without a measurement, which has no guests."""


def recompute_boot(record: BootRecord) -> list[Discrepancy]:
    """Return what of a trial does not follow from its data, or contradicts itself."""
    found = [*_differences(record), *_guests(record), *find_implausible(record)]
    if record.requested.start == "cold" and record.files is None and record.memory is not None:
        found.append(against("files", "says nothing of the page cache, but the start is cold"))
    return [*found, *recompute_verdict(record, RULES)]


def _differences(record: BootRecord) -> Iterator[Discrepancy]:
    first_ns = _first_ns(record)
    clocks, zero_ns, error_s = record.clocks, None, None
    if clocks is not None:
        error_s = (clocks.uut_error_ns + clocks.timekeeper_error_ns) / 1e9
        if first_ns is not None:
            moved_ns = clocks.timekeeper_offset_ns - clocks.uut_offset_ns
            zero_ns = first_ns + moved_ns + (clocks.timekeeper_wall_ns - clocks.timekeeper_monotonic_ns)
    marks = [_since(each.mark_ns, zero_ns) for each in record.guests]
    ready_s = [_since(each.ready_ns, first_ns) for each in record.guests]
    known = [each for each in marks if each is not None]
    whole = len(known) == len(marks)
    wanted: dict[str, tuple[Number, Number]] = {
        "mark_zero_ns": (record.mark_zero_ns, zero_ns),
        "clock_error_s": (record.clock_error_s, error_s),
        "startup_s": (record.startup_s, max(known, default=None) if whole else None),
        "ready_s": (record.ready_s, None if None in ready_s else max((each or 0.0 for each in ready_s), default=None)),
        "sd_s": (record.sd_s, statistics.stdev(known) if whole and len(known) > 1 else None),
    }
    if record.clock_error_allowed_s is not None:
        allowed_s = clock_allowed_s(max(known, default=None) if whole else None)
        wanted["clock_error_allowed_s"] = record.clock_error_allowed_s, allowed_s
    for index, guest in enumerate(record.guests):
        where = f"guests[{index}]"
        own_s = None
        if marks[index] is not None and guest.started_ns is not None and first_ns is not None:
            own_s = (marks[index] or 0.0) - (guest.started_ns - first_ns) / 1e9
        wanted[f"{where}.mark_s"] = guest.mark_s, marks[index]
        wanted[f"{where}.ready_s"] = guest.ready_s, ready_s[index]
        wanted[f"{where}.own_s"] = guest.own_s, own_s
    memory = record.memory
    if memory is not None:
        before, after = memory.available_before_bytes, memory.available_after_bytes
        wanted["memory.used_bytes"] = memory.used_bytes, None if before is None or after is None else before - after
        wanted["memory.pss_bytes"] = memory.pss_bytes, _sum([each.pss_bytes for each in record.guests])
        wanted["memory.cgroup_bytes"] = memory.cgroup_bytes, _sum([each.cgroup_bytes for each in record.guests])
        free = memory.hypervisor_free_before_bytes, memory.hypervisor_free_after_bytes
        less = _sum([each.hypervisor_bytes for each in record.guests])
        if free[0] is not None and free[1] is not None:
            less = free[0] - free[1]
        wanted["memory.hypervisor_bytes"] = memory.hypervisor_bytes, less
    idle = record.idle
    for side, quiet in () if idle is None else (("before", idle.before), ("standing", idle.standing)):
        if quiet is not None:
            wanted[f"idle.{side}.switches_per_s"] = quiet.switches_per_s, quiet.switches / (quiet.took_ns / 1e9)
    yield from differences(wanted)


def _first_ns(record: BootRecord) -> int | None:
    return min((each.started_ns for each in record.guests if each.started_ns is not None), default=None)


def _since(moment_ns: int | None, zero_ns: int | None) -> float | None:
    return None if moment_ns is None or zero_ns is None else (moment_ns - zero_ns) / 1e9


def _sum(values: Sequence[int | None]) -> int | None:
    return None if None in values or not values else sum(each or 0 for each in values)


def _guests(record: BootRecord) -> Iterator[Discrepancy]:
    if record.set_up is None and not record.guests and codes_of(record) & SEEN_NOTHING:
        return
    if len(record.guests) != record.requested.guests:
        yield Discrepancy(where="guests", stored=len(record.guests), recomputed=record.requested.guests)
    for index, guest in enumerate(record.guests):
        way = guest.way_in
        if way is not None and (way.tries > 1) != (way.gap_s is not None):
            yield against(f"guests[{index}].way_in", "has a gap before its first try, or none after it", way.tries)
        if guest.ready_ns is not None and guest.started_ns is not None and guest.ready_ns < guest.started_ns:
            yield against(f"guests[{index}]", "was up before it was started")
    for index, each in enumerate(record.files or ()):
        if each.cached_pages > each.pages:
            yield against(f"files[{index}]", "has more pages in memory than in all", each.cached_pages)


RECOMPUTE = recompute_boot
UNJUDGED = partial(unjudged_reasons, rules=RULES)
