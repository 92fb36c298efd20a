"""Verdicts, and trials of guests of any kind, as lines of plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labconsole.model.plan.guest_kind import GuestKind
from labconsole.model.record.run import Reason, Verdict
from labconsole.model.record.verdict_codes import WHAT_TO_DO, depths, title_with_code
from labconsole.report.formatting import format_left_out
from labconsole.text.cells import UNKNOWN
from labconsole.verdict.crew_trial import PacketSink


def format_verdict(verdict: Verdict) -> str:
    """``valid``, or the problem in short: ``suspect (job_short)``."""
    causes = [each.code for each in verdict.reasons if each.follows is None]
    return verdict.status + (f" ({', '.join(causes)})" if causes else "")


def reason_lines(reasons: Sequence[Reason]) -> list[str]:
    """Why a run is not simply valid: each cause with its remedy, and its consequences below it."""
    lines = []
    for reason, depth in zip(reasons, depths(reasons), strict=True):
        lines.append(f"    {'  ' * depth}{'so ' if depth else ''}{title_with_code(reason.code)}: {reason.detail}")
        if not depth and reason.code in WHAT_TO_DO:
            lines.append(f"      → {WHAT_TO_DO[reason.code]}")
    return lines


def trial_id(kind: GuestKind, record: Any) -> str:
    """The id of a trial of guests."""
    return kind.record.columns(record).id


def trial_lines(kind: GuestKind, record: Any) -> list[str]:
    """A trial of guests: its request, its results, its verdict, and what else happened."""
    emulated, text = " (emulated)" if record.emulated else "", kind.text
    return [
        f"{trial_id(kind, record)}  {record.testbed}{emulated}  {text.request(record)}",
        *(f"  {line}" for line in text.lines(record)),
        f"  {record.verdict.status}",
        *reason_lines(record.verdict.reasons),
        *(f"  note: {note['detail']}" for note in record.influences if isinstance(note.get("detail"), str)),
    ]


def trial_table(kind: GuestKind, records: Sequence[Any]) -> list[str]:
    """Trials of guests, one per line."""
    text = kind.text
    return [
        f"{trial_id(kind, each)}  {text.request(each)}: {text.result(each)}, {format_verdict(each.verdict)}"
        for each in records
    ]


def format_sink(sink: PacketSink) -> str:
    """What the sink of a trial of guests captured."""
    received = UNKNOWN if sink.nic_packets is None else sink.nic_packets
    return (
        f"sink {sink.node}/{sink.interface}: {sink.captured_packets} packets captured, its NIC received {received}; "
        f"{sink.foreign_packets} of other flows, {sink.other_packets} of no flow"
    )


def describe_left_out(left_out: Mapping[str, int]) -> str:
    """``; left out: 3 guests_missing, 1 swapped``, or nothing if no trial of a point is."""
    return f"; left out: {format_left_out(left_out)}" if left_out else ""
