"""All findings of verify on one record, and the parts of it that could not be judged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from labconsole.measure.recompute import extensions
from labconsole.measure.recompute.counts import contradicting_counts, flows
from labconsole.measure.recompute.derived import recompute
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.extensions import contradicting_drops, contradicting_telemetry
from labconsole.measure.recompute.plausibility import contradicting_setting
from labconsole.measure.recompute.verdict import Weights, rejudge
from labconsole.measure.recompute.verdict import unjudged as unjudged_verdict
from labconsole.model.record.extensions import CAPTURE_STAMPS as STAMPS
from labconsole.model.record.extensions import CLOCKS, HOST_KERNEL_DROPS, KERNEL_DROPS, PACKET_TIMES, TELEMETRY
from labconsole.model.record.run import RunRecord

Known = dict[str, Callable[[Any], bool]]
"""Extensions whose meaning this version knows, each with a test for a known version."""

OF_STREAMS: Known = {
    CLOCKS: extensions.known_clocks,
    STAMPS: extensions.known_stamps,
    PACKET_TIMES: extensions.known_packet_times,
}
OF_RUNS: Known = {
    TELEMETRY: extensions.known_telemetry,
    KERNEL_DROPS: extensions.known_kernel_drops,
    HOST_KERNEL_DROPS: extensions.known_kernel_drops,
}


def examine(record: RunRecord, weights: Weights) -> Iterator[Discrepancy]:
    """Numbers that do not follow, then impossible counts, settings and verdicts. ``weights``: of every code."""
    checks: tuple[Callable[[], Iterable[Discrepancy]], ...] = (
        lambda: recompute(record),
        lambda: contradicting_counts(record),
        lambda: contradicting_setting(record),
        lambda: contradicting_telemetry(record),
        lambda: contradicting_drops(record),
        lambda: rejudge(record, weights),
    )
    for check in checks:
        try:
            yield from check()
        except (ArithmeticError, ValueError) as exc:  # numbers that no measurement gives: infinite, or with 5000 digits
            yield against("record", f"its numbers cannot be computed with: {exc}")


def unjudged(record: RunRecord) -> Iterator[str]:
    """The parts of the record that this version cannot judge, with the same description for similar records."""
    yield from unjudged_verdict(record)
    if record.requested.frame_size_bytes is None:
        yield "what follows from the frame size, which is a mix"
    of_streams = [each for _, stream in flows(record) for each in stream.extensions.items()]
    for name in sorted(_unknown(record.extensions.items(), OF_RUNS) | _unknown(of_streams, OF_STREAMS)):
        yield f"the extension {name[:80]}"


def _unknown(extensions: Iterable[tuple[str, Any]], known: Known) -> set[str]:
    return {name for name, extension in extensions if name not in known or not known[name](extension)}
