"""Recompute a stored boot trial: its times from marks and clocks, its sums, its verdict from the observations."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from labconsole.experiments.boot.plausibility import find_implausible
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.resolution import clock_allowed_s
from labconsole.experiments.boot.rules import RULES
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against, same
from labconsole.measure.recompute.verdict_check import codes_of, recompute_verdict, unjudged_reasons

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
    for where, (stored, again) in wanted.items():
        if not same(stored, again):
            yield Discrepancy(where=where, stored=stored, recomputed=again)


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


def UNJUDGED(record: BootRecord) -> Iterator[str]:
    """Return what of its verdict cannot be judged again."""
    return unjudged_reasons(record, RULES)
