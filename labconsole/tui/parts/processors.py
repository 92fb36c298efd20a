"""How busy a node's processors are, in words: their mean, and the busiest with what takes most of it."""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.text.cells import UNKNOWN, format_duration, safe
from labconsole.tui.parts.lines import Span
from labconsole.wire.processors import ProcessorsSampled, ProcessorUse

MIN_KIND_RATIO = 0.5
"""Of what the busiest is busy with: less than this of one kind is not told apart."""
FULL_RATIO = 0.9
LONG_NS = 2_500_000_000
"""A sample over more than this had a quiet window in it."""


def processors_span(live: NodeLive, *, short: bool = False) -> Span:
    """``34 % · busiest 98 % softirq``; a quiet node says nothing until its window is over."""
    seen = live.processors
    if live.quiet:
        return "quiet", "muted"
    if seen is None:
        return UNKNOWN, "muted"
    tone = "warn" if seen.busiest.busy >= FULL_RATIO else ""
    mean, most, kind = round(seen.mean.busy * 100), round(seen.busiest.busy * 100), _kind(seen.busiest)
    if short:
        return f"{mean} · {most}{kind}", tone
    return f"{mean} % · busiest {most} %{kind}{_format_period(seen)}", tone


def processors_line(telemetry: Telemetry, nodes: Iterable[str], width: int) -> list[Span]:
    """Those of several nodes; what finds no room is left out and counted."""
    spans: list[Span] = [(" cpu now", "muted")]
    names = list(dict.fromkeys(nodes))
    left = width - 8
    for place, name in enumerate(names):
        live = telemetry.nodes.get(name)
        words, tone = processors_span(live) if live is not None else (UNKNOWN, "muted")
        label = f"  {safe(name, 12)} "
        after = len(names) - place - 1
        if len(label) + len(words) + (len(f"  + {after} more") if after else 0) > left:
            return [*spans, (f"  + {after + 1} more"[:left], "muted")]
        spans += [(label, "strong"), (words, tone)]
        left -= len(label) + len(words)
    return spans


def _kind(busiest: ProcessorUse) -> str:
    share, word = max((busiest.softirq, " softirq"), (busiest.steal, " steal"))
    return word if busiest.busy and share >= MIN_KIND_RATIO * busiest.busy else ""


def _format_period(seen: ProcessorsSampled) -> str:
    return f", over {format_duration(seen.elapsed_ns / 1e9)}" if seen.elapsed_ns > LONG_NS else ""
