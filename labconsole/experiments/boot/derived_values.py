"""The derived values of a boot trial, computed from what was observed. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from labconsole.contracts.crew import Crew, HypervisorWord, StandingMember
from labconsole.experiments.boot.memory import GuestsMemory, MemoryReading, sum_known
from labconsole.experiments.boot.record import ClockRelation, GuestBootRecord, MemoryUse
from labconsole.measure.external_timing import MarkResult, MarkSender


def mark_zero_ns(clocks: ClockRelation, started_ns: int) -> int:
    """Return the time of the first start command by the timekeeper's wall clock, in ns."""
    there_ns = started_ns - clocks.uut_offset_ns + clocks.timekeeper_offset_ns
    return there_ns - clocks.timekeeper_monotonic_ns + clocks.timekeeper_wall_ns


def clock_error_s(clocks: ClockRelation) -> float:
    """Return the error bound of mark_zero_ns() in seconds."""
    return (clocks.uut_error_ns + clocks.timekeeper_error_ns) / 1e9


def guests_booted(
    senders: Sequence[MarkSender],
    crew: Crew | None,
    found: MarkResult,
    clocks: ClockRelation | None,
    used: GuestsMemory,
    pids: dict[str, int],
    hypervisor_report: HypervisorWord | None = None,
) -> tuple[GuestBootRecord, ...]:
    """Return each guest with its times."""
    standing: dict[str, StandingMember] = {} if crew is None else {each.name: each for each in crew.members}
    zero_ns = None if crew is None or clocks is None else mark_zero_ns(clocks, crew.started_ns)
    guests = []
    for sender in senders:
        stands = standing.get(sender.name)
        marks = found.of.get(sender.name)
        mark_ns = None if marks is None else marks.start_request_ns
        started_ns, ready_ns = (None, None) if stands is None else (stands.started_ns, stands.ready_ns)
        mark_s = None if mark_ns is None or zero_ns is None else (mark_ns - zero_ns) / 1e9
        first_ns = None if crew is None else crew.started_ns
        own_s = None
        if mark_s is not None and started_ns is not None and first_ns is not None:
            own_s = mark_s - (started_ns - first_ns) / 1e9
        pid = pids.get(sender.name, 0)
        guests.append(
            GuestBootRecord(
                guest=sender.name,
                address=sender.address,
                mac=sender.mac,
                started_ns=started_ns,
                ready_ns=ready_ns,
                mark_ns=mark_ns,
                mark_s=mark_s,
                ready_s=None if ready_ns is None or first_ns is None else (ready_ns - first_ns) / 1e9,
                own_s=own_s,
                pss_bytes=used.pss_bytes.get(pid),
                cgroup_bytes=used.group_bytes.get(pid),
                cgroup_reason=used.group_reason.get(pid),
                hypervisor_bytes=None if hypervisor_report is None else hypervisor_report.guest_bytes.get(sender.name),
                way_in=None if stands is None else stands.way_in,
            )
        )
    return tuple(guests)


def memory_used(
    before: MemoryReading, after: MemoryReading, guests: GuestsMemory, members: Sequence[StandingMember], quiet_s: float
) -> MemoryUse:
    """Return the memory that the guests use, by each witness."""
    pids = [each.pid or 0 for each in members]
    free_before, free_after = (None if each.word is None else each.word.free_bytes for each in (before, after))
    own = None if after.word is None else after.word.guest_bytes
    hypervisor_bytes = None if own is None else sum_known([own.get(each.name) for each in members])
    if free_before is not None and free_after is not None:
        hypervisor_bytes = free_before - free_after
    known = before.available_bytes is not None and after.available_bytes is not None
    return MemoryUse(
        quiet_s=quiet_s,
        available_before_bytes=before.available_bytes,
        available_after_bytes=after.available_bytes,
        used_bytes=(before.available_bytes or 0) - (after.available_bytes or 0) if known else None,
        pss_bytes=sum_known([guests.pss_bytes.get(pid) for pid in pids]),
        cgroup_bytes=sum_known([guests.group_bytes.get(pid) for pid in pids]),
        ksm_run=after.ksm_run,
        ksm_pages_sharing=after.ksm_pages_sharing,
        hypervisor_command=None if after.word is None else after.word.command,
        hypervisor_free_before_bytes=free_before,
        hypervisor_free_after_bytes=free_after,
        hypervisor_bytes=hypervisor_bytes,
    )


def latest_s(times: Sequence[float | None]) -> float | None:
    """Return the latest time, or None if one of them is unknown."""
    known = [each for each in times if each is not None]
    return max(known) if known and len(known) == len(times) else None


def deviation_s(times: Sequence[float | None]) -> float | None:
    """Return the deviation between guests, or None if one time is unknown or there is only one."""
    known = [each for each in times if each is not None]
    return statistics.stdev(known) if len(known) > 1 and len(known) == len(times) else None
