"""The derived values of a boot trial: times with their resolution, and memory by four witnesses. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from labconsole.contracts.crew import Crew, HypervisorWord, StandingMember
from labconsole.contracts.ports import AgentLink
from labconsole.experiments.boot.record import ClockRelation, GuestBootRecord, MemoryUse
from labconsole.measure.external_timing import MarkResult, MarkSender
from labconsole.model.record.run import Figures, Reason
from labconsole.platforms.base.guest_shell import SEEK_STEP_S
from labconsole.verdict.reasons import reason
from labconsole.wire.execution import Execute
from labconsole.wire.memory import ReadMemory

# -- memory ------------------------------------------------------------------------------------------------------------
# The guests' use of the UUT's memory, by four witnesses: available memory, processes, control groups, hypervisor.

KIB = 1024
_ASK_S = 60.0
_FIGURE = re.compile(r"^(MemAvailable|pswpin|pswpout|ksm_run|ksm_pages_sharing):?\s+(\d{1,19})\b", re.MULTILINE)

_LOOK = """\
cat /proc/meminfo /proc/vmstat
for file in run pages_sharing; do echo "ksm_$file $(cat /sys/kernel/mm/ksm/$file)"; done 2>/dev/null
:"""


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """The UUT's memory at one moment, with None for what it does not report.

    ``swapped_pages``: pages moved since the UUT started. ``word``: the report of its hypervisor.
    """

    available_bytes: int | None = None
    swapped_pages: int | None = None
    ksm_run: int | None = None
    ksm_pages_sharing: int | None = None
    word: HypervisorWord | None = None


@dataclass(frozen=True, slots=True)
class GuestsMemory:
    """The memory of each process with its descendants, in bytes, or why that of its control group is unknown. By
    PID.
    """

    pss_bytes: dict[int, int] = field(default_factory=dict)
    group_bytes: dict[int, int] = field(default_factory=dict)
    group_reason: dict[int, str] = field(default_factory=dict)


async def read_memory(uut: AgentLink) -> MemoryReading:
    """Read the UUT's memory. Raises NodeError."""
    return parse_memory_reading(
        (await uut.ask(Execute(argv=["sh", "-c", _LOOK], timeout_s=_ASK_S), timeout_s=_ASK_S + 10)).stdout
    )


async def read_guest_memory(uut: AgentLink, pids: Iterable[int]) -> GuestsMemory:
    """Read the memory of guests by their processes. Raises NodeError."""
    if not (wanted_pids := list(pids)):
        return GuestsMemory()
    found = GuestsMemory()
    for each in (await uut.ask(ReadMemory(pids=wanted_pids), timeout_s=_ASK_S)).processes:
        if each.pss_bytes is not None:
            found.pss_bytes[each.pid] = each.pss_bytes
        if each.group_bytes is not None:
            found.group_bytes[each.pid] = each.group_bytes
        elif each.group_reason is not None:
            found.group_reason[each.pid] = each.group_reason
    return found


def parse_memory_reading(text: str) -> MemoryReading:
    """Parse the output of read_memory()'s command. Pure."""
    found = {key: int(value) for key, value in _FIGURE.findall(text)}
    swapped = [found.get("pswpin"), found.get("pswpout")]
    available = found.get("MemAvailable")
    return MemoryReading(
        available_bytes=None if available is None else available * KIB,
        swapped_pages=sum_known(swapped),
        ksm_run=found.get("ksm_run"),
        ksm_pages_sharing=found.get("ksm_pages_sharing"),
    )


def sum_known(values: Sequence[int | None]) -> int | None:
    """Return the sum, or None if a value is unknown or there are none."""
    known = [each for each in values if each is not None]
    return sum(known) if known and len(known) == len(values) else None


# -- resolution --------------------------------------------------------------------------------------------------------
# The resolution of start-up times: the error of the clock comparison, and the delay from a guest's start to its mark.

LEAST_ERROR_S, ERROR_RATIO = 0.001, 0.01
"""The error that the clocks may leave in a time: this many seconds, or this share of the time if that is more."""

MARK_TRY_S = 1.0
"""Duration of an installed guest's ping that does not find the timekeeper; the next one may be its mark."""


def clock_allowed_s(startup_s: float | None) -> float | None:
    """Return the error that the clocks may leave in this time, or None without a time."""
    return None if startup_s is None else max(LEAST_ERROR_S, ERROR_RATIO * startup_s)


def clock_reasons(clock_error_s: float | None, allowed_s: float | None) -> Iterator[Reason]:
    """Judge the clocks' error. ``allowed_s``: None in records that are older than this check, which are not judged."""
    if clock_error_s is None or allowed_s is None or clock_error_s <= allowed_s:
        return
    detail = f"the clocks leave {clock_error_s * 1e3:.1f} ms of the time open; {allowed_s * 1e3:.1f} ms are allowed"
    yield reason("clock_coarse", detail, clock_error_s=clock_error_s, clock_error_allowed_s=allowed_s)


def earlier_s(guest: GuestBootRecord) -> float | None:
    """Return how long before its mark the guest may have been up at most, or None if unknown.

    A guest asks for the timekeeper's address in steps. The way into an installed guest is tried in steps, too.
    """
    way = guest.way_in
    if way is None:
        return SEEK_STEP_S
    if way.mark_tries is None:
        return None
    return (way.gap_s or 0.0) + (MARK_TRY_S if way.mark_tries > 1 else SEEK_STEP_S)


def resolution_s(guests: Sequence[GuestBootRecord], clock_error_s: float | None) -> float | None:
    """Return the error bound of a trial's time from these causes, or None if unknown."""
    earlier = [earlier_s(each) for each in guests]
    known = [each for each in earlier if each is not None]
    if clock_error_s is None or not known or len(known) < len(earlier):
        return None
    return clock_error_s + max(known)


def coarse_notes(guests: Sequence[GuestBootRecord], uut: str) -> Iterator[Figures]:
    """Report an influence if installed guests may have been up clearly before their marks."""
    marked = [each for each in guests if each.mark_s is not None]
    unknown = [each.guest for each in marked if earlier_s(each) is None]
    earlier = {each.guest: found for each in marked if (found := earlier_s(each) or 0.0) > SEEK_STEP_S}
    if not earlier and not unknown:
        return
    sentences = []
    if earlier:
        worst = max(earlier, key=lambda guest: earlier[guest])
        sentences.append(
            f"{worst} may have been there {earlier[worst]:.3f} s before its mark: the way to it was tried in steps"
        )
    if unknown:
        sentences.append(f"{', '.join(unknown)} did not say how often the timekeeper was looked for before the mark")
    yield {
        "node": uut,
        "kind": "mark_coarse",
        "detail": "; ".join(sentences),
        "earlier_s": earlier,
        "unknown": unknown,
    }


# -- derived values ----------------------------------------------------------------------------------------------------
# The derived values of a boot trial, computed from what was observed.


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
