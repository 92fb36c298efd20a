"""The verdict on one trial of a job, from its marks, its guests and its surroundings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labconsole.experiments.job.disk_verdict import disk_reasons
from labconsole.experiments.job.record import CopyRecord, DiskRecord
from labconsole.model.inventory import Inventory
from labconsole.model.record.kind import EmptyJobs, ProgramRecord, TimekeeperRecord
from labconsole.model.record.run import Figures, Reason, Verdict
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.changes import Port
from labconsole.verdict.crew_trial import judged
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import program_reasons, reason, swap_reasons, timekeeper_reasons

EMPTY_RATIO = 0.05
"""The largest unknown share of the shortest copy's time, half the error that a ratio of 2 or 3 allows."""

HOST_ERROR = 0.01
"""The largest relative difference between two clocks."""

START_SKEW_RATIO = 0.01
"""Guests that work together begin within this share of the shortest job."""

LEAST_JOB_SD = 100.0
"""The least duration of a job, in standard deviations of one that does nothing."""

CLOCK_RATIO_ERROR = 0.01
"""A larger error of a guest's clock is reported. It is never judged, because no time depends on it."""

UPTIME_ERROR_S = 0.02
"""The error of an uptime difference: a guest's uptime has two digits, and is read twice."""

NOT_FOUND, NOT_RUNNABLE = 127, 126
SAID_NOT_FOUND = re.compile(r"\bsh: (?:line )?(?:\d+: )?[^ :]+: (?:command )?not found\b")


def judge(
    seen: TrialObservations,
    copies: Sequence[CopyRecord],
    *,
    empty: EmptyJobs | None,
    timekeeper: TimekeeperRecord | None,
    start_skew_s: float | None,
    swapped_pages: int | None,
    guest_problems: Sequence[str],
    disk: DiskRecord | None = None,
    program: ProgramRecord | None = None,
    ports: Sequence[Port] = (),
    limits: Tolerances,
    inventory: Inventory,
) -> Verdict:
    """Judge a trial.

    ``guest_problems``: a sentence for every guest that did not answer or does not match its set-up. ``ports``: the
    interfaces on the path of the marks and of a job's traffic.
    """
    shown = derive_reasons(
        copies,
        empty=empty,
        timekeeper=timekeeper,
        start_skew_s=start_skew_s,
        swapped_pages=swapped_pages,
        disk=disk,
        program=program,
        limits=limits,
    )
    return judged(seen, shown, guest_problems, limits=limits, inventory=inventory, ports=ports)


def derive_reasons(
    copies: Sequence[CopyRecord],
    *,
    empty: EmptyJobs | None,
    timekeeper: TimekeeperRecord | None,
    start_skew_s: float | None,
    swapped_pages: int | None,
    disk: DiskRecord | None,
    program: ProgramRecord | None,
    limits: Tolerances,
) -> list[Reason]:
    """Return the reasons derived from the record alone, so that anyone can re-evaluate it."""
    found: list[Reason] = []
    for copy in copies:
        found += _copy(copy)
    found += _together(copies, start_skew_s)
    ended = [copy for copy in copies if copy.exit_status == 0]
    found += _short(ended, empty)
    found += _judge_empty_jobs(ended, empty)
    found += _clocks(copies)
    found += program_reasons(program)
    if timekeeper is not None:
        times = [abs(copy.outside_s) for copy in copies if copy.outside_s is not None]
        found += timekeeper_reasons(timekeeper, min(times, default=0.0), limits)
    found += swap_reasons(swapped_pages)
    if disk is not None:
        found += disk_reasons(disk, copies)
    return found


def _copy(copy: CopyRecord) -> Iterator[Reason]:
    if copy.exit_status is None and copy.end_request_ns is not None:
        detail = f"{copy.guest}: its report on the end of the job is unreadable"
        yield reason("guests_missing", detail, guest=copy.guest)
    if copy.outside_s is not None and copy.outside_s < 0:
        yield reason("mark_forged", f"{copy.guest}: the end mark came before the start mark", guest=copy.guest)
    if copy.exit_status is not None and copy.exit_status != 0:
        # The status is that of the last program in a pipe; for an earlier one the shell reports that it is missing.
        status = NOT_FOUND if SAID_NOT_FOUND.search(copy.output) else copy.exit_status
        why = {NOT_FOUND: "its program does not exist there", NOT_RUNNABLE: "its program cannot be run"}.get(status)
        said = f": {copy.output}" if copy.output else ""
        yield reason(
            "job_failed",
            f"{copy.guest}: the job ended with status {copy.exit_status}" + (f", {why}" if why else "") + said,
            guest=copy.guest,
            exit_status=copy.exit_status,
        )
    start = copy.start_request_ns is None or copy.start_reply_ns is None
    missing = [name for name, lost in (("start", start), ("end", copy.end_request_ns is None)) if lost]
    if missing:
        why = (
            "; busybox, which sends them, cannot be run there" if copy.ping_status in (NOT_FOUND, NOT_RUNNABLE) else ""
        )
        detail = f"{copy.guest}: the timekeeper did not see the {' and the '.join(missing)} mark{why}"
        yield reason("mark_lost", detail, guest=copy.guest, marks=missing)
    elif copy.ping_status:
        # The guest waited for a reply that did not arrive, and began its job later than the timekeeper saw.
        detail = f"{copy.guest}: the answer to its start mark did not come in time"
        yield reason("mark_lost", detail, guest=copy.guest, marks=["start"], ping_status=copy.ping_status)


def _together(copies: Sequence[CopyRecord], start_skew_s: float | None) -> Iterator[Reason]:
    times = [copy.outside_s for copy in copies if copy.outside_s is not None]
    if start_skew_s is None or not times or start_skew_s <= START_SKEW_RATIO * min(times):
        return
    detail = f"the guests began {start_skew_s:.3f} s apart; their shortest job took {min(times):.3f} s"
    yield reason("start_skew", detail, start_skew_s=start_skew_s, shortest_s=min(times))


def _short(copies: Sequence[CopyRecord], empty: EmptyJobs | None) -> Iterator[Reason]:
    times = [copy.seconds for copy in copies if copy.seconds is not None]
    if empty is None or not times or min(times) >= LEAST_JOB_SD * empty.sd_s:
        return
    yield reason(
        "job_short",
        f"the job took {min(times):.3f} s; one that does nothing varies by {empty.sd_s:.4f} s (standard deviation)",
        shortest_s=min(times),
        empty_sd_s=empty.sd_s,
    )


def _judge_empty_jobs(copies: Sequence[CopyRecord], empty: EmptyJobs | None) -> Iterator[Reason]:
    """Judge the copies by the time of a job that does nothing, which is measured for one alone and subtracted once.

    Copies that work together take longer for it: on one processor, as many times as long as there are copies.
    """
    times = [copy.seconds for copy in copies if copy.seconds is not None]
    if empty is None or not times or (len(copies) - 1) * empty.mean_s <= EMPTY_RATIO * min(times):
        return
    yield reason(
        "job_short",
        f"the shortest of {len(copies)} copies took {min(times):.3f} s, and one that does nothing {empty.mean_s:.3f} s "
        "alone: what it takes next to the others is not known well enough",
        shortest_s=min(times),
        empty_s=empty.mean_s,
    )


def _clocks(copies: Sequence[CopyRecord]) -> Iterator[Reason]:
    """Judge the clocks: the UUT's interval contains that of the clock outside, so it must not be shorter."""
    for copy in copies:
        if copy.host_s is None or copy.outside_s is None or copy.outside_s <= (1 + HOST_ERROR) * copy.host_s:
            continue
        detail = (
            f"{copy.guest}: {copy.outside_s:.3f} s by the clock outside, and {copy.host_s:.3f} s by that of the unit "
            "under test, which began before and ended after"
        )
        yield reason("witnesses_disagree", detail, guest=copy.guest, outside_s=copy.outside_s, host_s=copy.host_s)


def clock_notes(copies: Sequence[CopyRecord]) -> Iterator[Figures]:
    """Report an influence if guests' clocks and the one outside differ by more than their digits allow."""
    off: dict[str, float] = {}
    for copy in copies:
        if copy.clock_ratio is None or not copy.outside_s:
            continue
        error = abs(copy.clock_ratio - 1)
        if error > max(CLOCK_RATIO_ERROR + UPTIME_ERROR_S / copy.outside_s, abs(off.get(copy.guest, 1.0) - 1)):
            off[copy.guest] = copy.clock_ratio
    if not off:
        return
    worst = max(off, key=lambda guest: abs(off[guest] - 1))
    many = f"the clocks of {len(off)} guests" if len(off) > 1 else "the clock of one guest"
    yield {
        "node": worst,
        "kind": "clock_distorted",
        "detail": f"{many} disagreed with the one outside; {worst}'s {off[worst]:.3f} times as long (one that "
        "waits for a processor between its clock and its mark looks so too)",
        "clock_ratios": off,
    }
