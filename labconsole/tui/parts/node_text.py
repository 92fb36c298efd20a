"""A node as text: its state, and the load of its processors."""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.text.cells import UNKNOWN, format_duration, safe
from labconsole.tui.parts.lines import Span
from labconsole.wire.processors import ProcessorsSampled, ProcessorUse

# -- node state --------------------------------------------------------------------------------------------------------
# Glyph and tone of a node's state.

STATE_LOOKS = {
    NodeState.IDLE: ("○", "muted"),
    NodeState.CONNECTING: ("◌", "warn"),
    NodeState.CONNECTED: ("●", "good"),
    NodeState.LOST: ("✗", "bad"),
    NodeState.FAILED: ("✗", "bad"),
}


# -- processors --------------------------------------------------------------------------------------------------------
# Processor load of a node as text: the mean, and the busiest processor with its main kind of work.

MIN_KIND_RATIO = 0.5
"""Minimum share of one kind in the work of the busiest processor. Smaller kinds are not named."""
FULL_RATIO = 0.9
LONG_NS = 2_500_000_000
"""A longer sample contains a quiet window."""


def processors_span(live: NodeLive, *, short: bool = False) -> Span:
    """Format ``34 % · busiest 98 % softirq``. A quiet node has no text until its window is over."""
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
    """Format the load of several nodes. Nodes without room are left out and counted."""
    spans: list[Span] = [(" cpu now", "muted")]
    names = list(dict.fromkeys(nodes))
    left = width - 8
    for place, name in enumerate(names):
        live = telemetry.nodes.get(name)
        text, tone = processors_span(live) if live is not None else (UNKNOWN, "muted")
        label = f"  {safe(name, 12)} "
        after = len(names) - place - 1
        if len(label) + len(text) + (len(f"  + {after} more") if after else 0) > left:
            return [*spans, (f"  + {after + 1} more"[:left], "muted")]
        spans += [(label, "strong"), (text, tone)]
        left -= len(label) + len(text)
    return spans


def _kind(busiest: ProcessorUse) -> str:
    share, word = max((busiest.softirq, " softirq"), (busiest.steal, " steal"))
    return word if busiest.busy and share >= MIN_KIND_RATIO * busiest.busy else ""


def _format_period(seen: ProcessorsSampled) -> str:
    return f", over {format_duration(seen.elapsed_ns / 1e9)}" if seen.elapsed_ns > LONG_NS else ""
