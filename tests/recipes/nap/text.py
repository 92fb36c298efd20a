"""Naps as lines of text."""

from __future__ import annotations

from labconsole.model.plan.guest_kind import GuestText

from .plan import NapPoint
from .record import NapRecord


def _point(record: NapRecord) -> NapPoint:
    return NapPoint.from_request(record.requested, cpu="any")


TEXT = GuestText(
    request=lambda record: _point(record).words(),
    result=lambda record: f"{record.longest_s} s",
    columns=lambda record: _point(record).format_factors(),
    lines=lambda record: [f"g{number} slept {each:g} s" for number, each in enumerate(record.slept_s, 1)],
    summarize=lambda records: [record.longest_s for record in records if record.verdict.status == "valid"],
    summary_lines=lambda summary: [f"longest: {', '.join(map(str, summary))} s"],
    summary_json=lambda summary: {"longest_s": summary},
)
