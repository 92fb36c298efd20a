"""All that verify tells of one record, and what of it could not be judged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from labconsole.measure.recompute import packet_times, telemetry
from labconsole.measure.recompute.counts import contradicting_counts, flows
from labconsole.measure.recompute.derived import recompute
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.setting import contradicting_setting
from labconsole.measure.recompute.telemetry import contradicting_telemetry
from labconsole.measure.recompute.verdict import Weights, rejudge
from labconsole.measure.recompute.verdict import unjudged as unjudged_verdict
from labconsole.model.record.packet_times import EXTENSION
from labconsole.model.record.run import RunRecord
from labconsole.model.record.telemetry import EXTENSION as TELEMETRY

KNOWN_EXTENSIONS: dict[str, Callable[[Any], bool]] = {EXTENSION: packet_times.known}
"""Of streams: those whose meaning this version knows, with what says so of one."""


def examine(record: RunRecord, weights: Weights) -> Iterator[Discrepancy]:
    """Numbers that do not follow, then counts, settings and a verdict that cannot be. ``weights``: of every code."""
    checks: tuple[Callable[[], Iterable[Discrepancy]], ...] = (
        lambda: recompute(record),
        lambda: contradicting_counts(record),
        lambda: contradicting_setting(record),
        lambda: contradicting_telemetry(record),
        lambda: rejudge(record, weights),
    )
    for check in checks:
        try:
            yield from check()
        except (ArithmeticError, ValueError) as exc:  # numbers that no measurement has: infinite, or of 5000 digits
            yield against("record", f"its numbers cannot be computed with: {exc}")


def unjudged(record: RunRecord) -> Iterator[str]:
    """What of the record this version cannot judge, in words that are the same for alike records."""
    yield from unjudged_verdict(record)
    if record.requested.frame_size_bytes is None:
        yield "what follows from the frame size, which is a mix"
    held = [each for _, stream in flows(record) for each in stream.extensions.items()]
    unknown = {name for name, told in held if name not in KNOWN_EXTENSIONS or not KNOWN_EXTENSIONS[name](told)}
    judged = {TELEMETRY} if telemetry.known(record.extensions.get(TELEMETRY)) else set()
    for name in sorted({*record.extensions, *unknown} - judged):
        yield f"the extension {name[:80]}"
