"""All findings of verify on one record, and the parts of it that could not be judged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from labconsole.measure.recompute import clocks, kernel_drops, packet_times, telemetry
from labconsole.measure.recompute.counts import contradicting_counts, flows
from labconsole.measure.recompute.derived import recompute
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.kernel_drops import contradicting_drops
from labconsole.measure.recompute.plausibility import contradicting_setting
from labconsole.measure.recompute.telemetry import contradicting_telemetry
from labconsole.measure.recompute.verdict import Weights, rejudge
from labconsole.measure.recompute.verdict import unjudged as unjudged_verdict
from labconsole.model.record.capture_stamps import EXTENSION as STAMPS
from labconsole.model.record.clocks import EXTENSION as CLOCKS
from labconsole.model.record.kernel_drops import EXTENSION as KERNEL_DROPS
from labconsole.model.record.kernel_drops import HOST_EXTENSION as HOST_KERNEL_DROPS
from labconsole.model.record.packet_times import EXTENSION as PACKET_TIMES
from labconsole.model.record.run import RunRecord
from labconsole.model.record.telemetry import EXTENSION as TELEMETRY

Known = dict[str, Callable[[Any], bool]]
"""Extensions whose meaning this version knows, each with a test for a known version."""

OF_STREAMS: Known = {CLOCKS: clocks.known, STAMPS: clocks.known_stamps, PACKET_TIMES: packet_times.known}
OF_RUNS: Known = {
    TELEMETRY: telemetry.known,
    KERNEL_DROPS: kernel_drops.known,
    HOST_KERNEL_DROPS: kernel_drops.known,
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
