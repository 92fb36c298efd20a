"""Checks the processor activity that the unit under test reported. Pure.

Records of other versions of the extension are not judged, and unjudged reports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.extensions import has_version, readable
from labconsole.model.record.run import RunRecord
from labconsole.model.record.telemetry import EXTENSION, VERSION, WorkRecord, WorkRefused

KINDS = 7
"""The kinds of time, each rounded to ticks by itself."""

SLACK_RATIO = 0.05
SLACK_NS = 10**8
"""Both readings take a while, and time is counted in ticks that may be late."""


def known(extension: Any) -> bool:
    """Whether this version can judge it."""
    return has_version(extension, VERSION)


def contradicting_telemetry(record: RunRecord) -> Iterator[Discrepancy]:
    """Impossible values of the extension."""
    extension, where = record.extensions.get(EXTENSION), f"extensions.{EXTENSION}"
    if extension is None and record.role == "telemetry" and record.verdict.status != "invalid":
        yield against(where, "is missing in a run with the role telemetry")
    if extension is None or not known(extension):
        return
    if record.role != "telemetry":
        yield against(where, f"is given for a run with the role {record.role}")
    work, problems = readable(where, extension, WorkRecord, WorkRefused)
    yield from problems
    if work is None:
        return
    numbers = [each.number for each in work.processors]
    if len(set(numbers)) < len(numbers):
        yield against(f"{where}.processors", "has a processor twice")
    for place, each in enumerate(work.processors):
        here = f"{where}.processors.{place}"
        total = each.user_ns + each.system_ns + each.interrupt_ns + each.softirq_ns + each.steal_ns + each.idle_ns
        most = work.elapsed_ns * (1 + SLACK_RATIO) + KINDS * work.tick_ns + SLACK_NS
        if total > most:
            yield against(here, f"has {total} ns of time within {work.elapsed_ns} ns", total)
        if each.guest_ns > each.user_ns + work.tick_ns:
            yield against(f"{here}.guest_ns", f"is more than user_ns, {each.user_ns}", each.guest_ns)
