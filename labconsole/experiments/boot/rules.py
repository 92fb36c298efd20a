"""The rules for each reason of a boot trial, written a second time: code to condition on its record. Pure.

They share no code with verdict.py, which judged it. docs/boot.md and docs/data-format.md explain the codes.
"""

from __future__ import annotations

from labconsole.experiments.boot.record import BootRecord
from labconsole.measure.recompute import verdict_check as common
from labconsole.measure.recompute.verdict_check import VerdictRules
from labconsole.model.tolerances import Tolerances

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
    return common.is_clock_set(record.timekeeper, times_s, limits)


RULES: VerdictRules[BootRecord] = VerdictRules(
    only={
        "mark_lost": _is_mark_lost,
        "ready_disagrees": _is_disagreeing,
        "not_cold": _is_warm,
        "not_hot": _is_cool,
        "mark_forged": lambda record, limits: common.is_mark_forged(record.timekeeper),
        "swapped": common.is_swapped,
        "clock_coarse": _is_coarse,
    },
    also={
        "guests_missing": lambda record, limits: any(each.ready_ns is None for each in record.guests),
        "not_observed": lambda record, limits: common.is_mark_dropped(record.timekeeper),
        "clock_stepped": _is_clock_set,
    },
    excused={},
)
