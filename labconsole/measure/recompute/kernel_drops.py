"""Checks the drops that the unit under test's kernel reported against the loss there. Pure.

Records of other versions of the extension are not judged, and unjudged reports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from labconsole.measure.drop_causes import function_of, is_kernels
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.extensions import has_version, readable
from labconsole.model.record.extension import read_extension
from labconsole.model.record.kernel_drops import EXTENSION, HOST_EXTENSION, VERSION, DropsRecord, DropsRequest
from labconsole.model.record.run import RunRecord, StreamRecord

COST_RATIO = 0.01
"""The share of a processor over the trial above which requested counting may have changed the measurement."""

BEFORE, BEHIND = ("generator", "source_nic"), ("sink_nic", "capture")
"""Hops outside the unit under test. Packets dropped before it never got into it."""


def known(extension: Any) -> bool:
    """Whether this version can judge it."""
    return has_version(extension, VERSION)


def contradicting_drops(record: RunRecord) -> Iterator[Discrepancy]:
    """Impossible values of the extensions."""
    for extension in (EXTENSION, HOST_EXTENSION):
        yield from _contradicting(record, extension)


def _contradicting(record: RunRecord, extension: str) -> Iterator[Discrepancy]:
    content, where = record.extensions.get(extension), f"extensions.{extension}"
    if content is None or not known(content):
        return
    if "counted_ns" not in content:
        yield from readable(where, content, DropsRequest, DropsRequest)[1]
        return
    drops, problems = readable(where, content, DropsRecord, DropsRecord)
    yield from problems
    if drops is None:
        return
    left_out = drops.unlisted_packets + drops.missed_packets + drops.unreadable_packets
    if drops.complete == (drops.ended_early or left_out > 0):
        says = f"does not agree with {left_out} packets that were left out and ended_early {drops.ended_early}"
        yield against(f"{where}.complete", says)
    names = {stream.name for stream in (*record.streams, *_second(record))}
    for place, row in enumerate(drops.elsewhere):
        if row.stream is not None and row.stream not in names:
            yield against(f"{where}.elsewhere.{place}.stream", "is not one of the streams of this run", row.stream[:80])


def doubts_due(record: RunRecord) -> Iterator[tuple[str, bool, str]]:
    """For both doubts based on the extensions: the code, whether it must be there, and what the record shows."""
    read = [read_extension(record.extensions, name, DropsRecord) for name in (EXTENSION, HOST_EXTENSION)]
    drops = [each for each in read if each is not None]
    if not drops:
        return
    shares = [(each.asked, each.estimated_cost_ns / (record.requested.duration_s * 1e9)) for each in drops]
    shown = "; ".join(f"counting, {mode}, took {share:.2%} of a processor" for mode, share in shares)
    yield "tracing_cost", any(mode == "on" and share > COST_RATIO for mode, share in shares), shown
    if record.failure is not None or any(reason.code == "aborted" for reason in record.verdict.reasons):
        return
    found = [*_more_than_lost((*record.streams, *_second(record)), drops)]
    nothing = "the kernel dropped no more of any stream than was lost in the unit under test"
    yield "kernel_drops_disagree", bool(found), "; ".join(found) or nothing


def _second(record: RunRecord) -> Sequence[StreamRecord]:
    return () if record.background is None else record.background.streams


def _more_than_lost(streams: Sequence[StreamRecord], drops: Sequence[DropsRecord]) -> Iterator[str]:
    for stream in streams:
        off_way = [row for each in drops for row in each.elsewhere if row.stream == stream.name]
        hops = [hop for hop in stream.ledger if hop.hop not in BEFORE]
        dropped_at = {(hop.hop, name): n for hop in hops for name, n in hop.drops.items() if is_kernels(name)}
        labels = [name for hop in stream.ledger for name in hop.drops if is_kernels(name)]
        nameless = any(row.function is None for row in off_way) or any(function_of(name) is None for name in labels)
        if nameless or stream.uut_lost_packets is None or all(hop.hop in BEHIND for hop in hops):
            continue  # without the functions' names it is unknown which are losses
        dropped = sum(dropped_at.values()) + sum(row.packets for row in off_way)
        if dropped > max(stream.uut_lost_packets, 0):
            yield f"{stream.name}: the kernel dropped {dropped}, and the unit under test lost {stream.uut_lost_packets}"
