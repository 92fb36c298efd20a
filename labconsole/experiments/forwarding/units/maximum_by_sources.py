"""The maximum accumulated throughput with 1, 2, … sources, no second guest."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.report import Figure, Panel, PlottedCurve, ReportUnit
from labconsole.report.captions import build_caption, build_mark, collect_platforms, collect_sizes
from labconsole.report.formatting import format_frame_size
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED, MaximumReading


def make(material: Material) -> Figure | None:
    """Build the figure: bars by number of sources, a panel per frame size."""
    made = material.evaluation
    chosen = [p for p in made.points if p.background == DEDICATED]
    readings = [reading for reading in made.maxima if reading.setting.background == DEDICATED]
    numbers = sorted({p.sources for p in chosen})
    panels = []
    for size in collect_sizes(chosen):
        curves = []
        for platform in collect_platforms(chosen):
            own = {r.setting.sources: r for r in readings if r.setting.platform == platform and r.setting.frame == size}
            marks = [
                build_mark(place, own[count].rate, list(own[count].means_bps.values()))
                for place, count in enumerate(numbers)
                if count in own
            ]
            if marks:
                curves.append(PlottedCurve(platform, tuple(marks)))
        panels.append(Panel(format_frame_size(size), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="figure-4",
        title="Maximum accumulated throughput by number of sources",
        kind="bars",
        x_label="sources",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=build_caption(f"{_describe_maximum(readings)}, summed over the streams", panels)
        + _lower_bounds(readings),
        x_names=tuple(str(count) for count in numbers),
    )


def _describe_maximum(readings: Sequence[MaximumReading]) -> str:
    said = {
        "pilot's load": "rate at the load that the pilot chose",
        "chosen on block 1, read from the others": "rate at the load that block 1 chose, read from the other blocks",
        "one load: a rate, no maximum": "rate at the one load that was measured",
        "the pilot's load was not measured": "highest mean over the loads, too high on average, as no run entered at "
        "the load that the pilot chose",
    }
    methods = dict.fromkeys(
        said.get(r.choice.method, "highest mean over the loads, which is too high on average") for r in readings
    )
    text = ", or ".join(methods)
    return text[:1].upper() + text[1:]


def _lower_bounds(readings: Sequence[MaximumReading]) -> str:
    count = sum(bool(r.at_least) for r in readings)
    if not count:
        return ""
    return f" {count} of {len(readings)} maxima were not reached: their bars are lower bounds."


UNITS = (ReportUnit(name="figure-4", place=20, paper=("schlosser", "figure 4"), make=make),)
