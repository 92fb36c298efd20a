"""The maximum with a second guest that forwards, relative to the maximum without a second guest.

Maxima that were not reached are excluded, because two lower bounds give no ratio.
"""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit
from labconsole.report.captions import build_caption, collect_platforms, collect_sizes
from labconsole.report.comparisons import NOT_REACHED, Comparison, find_paired_blocks
from labconsole.report.formatting import format_frame_size, format_noun_count
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED, FORWARDING, IDLE


def make(material: Material) -> Figure | None:
    """Build the figure: bars by platform, for the fewest sources that have a ratio."""
    made = material.evaluation
    known = [c for c in made.network_loads if c.change_ratio is not None]
    if all(c.claim.why == NOT_REACHED for c in known):
        return None
    platforms = collect_platforms(made.points)
    fewest = min(c.subject.setting.sources for c in known if c.claim.why != NOT_REACHED)
    comparisons = [c for c in known if c.subject.setting.sources == fewest]
    found = [c for c in comparisons if c.claim.why != NOT_REACHED]
    panels = []
    for size in collect_sizes(c.subject.point for c in found):
        curves = []
        for kind in FORWARDING:
            marks = [
                _mark(platforms.index(c.subject.setting.platform), c)
                for c in found
                if c.subject.setting.background == kind and c.subject.setting.frame == size
            ]
            if marks:
                curves.append(PlottedCurve(kind, tuple(marks)))
        panels.append(Panel(format_frame_size(size), tuple(curves)))
    sources = format_noun_count(fewest, "source")
    return Figure(
        name="figure-5",
        title="Maximum throughput with a forwarding second guest, relative to the dedicated maximum",
        kind="bars",
        x_label="platform",
        y_label="ratio to the dedicated maximum",
        panels=tuple(panels),
        caption=build_caption(
            f"Ratio of two maxima over the loads measured with both, {sources}, {_describe_baseline(found)}",
            panels,
            "ratio within a block",
        )
        + _describe_omitted(len(comparisons) - len(found), len(comparisons)),
        x_names=tuple(platforms),
        reference_line=1.0,
    )


def _describe_baseline(found: Sequence[Comparison]) -> str:
    descriptions = {
        DEDICATED: "the dedicated maximum (no second guest)",
        IDLE: "the maximum with an idle second guest",
    }
    names = {c.baseline.setting.background for c in found}
    return "compared with " + " or, where that is missing, ".join(
        text for name, text in descriptions.items() if name in names
    )


def _describe_omitted(missing: int, of: int) -> str:
    return f" {missing} of {of} ratios are not drawn: a maximum was not reached." if missing else ""


def _mark(x: int, change: Comparison) -> Mark:
    effect, s, b = change.claim.effect, change.subject, change.baseline
    trials, set_ups = min(s.rate.trials, b.rate.trials), min(s.rate.set_ups, b.rate.set_ups)
    if effect is None or effect.change is None:
        return Mark(x, 1 + (change.change_ratio or 0.0), None, None, trials, set_ups)
    low, high = (None if bound is None else 1 + bound for bound in (effect.ci_low, effect.ci_high))
    blocks = [block for block in find_paired_blocks(s, b) if b.means_bps[block] > 0] if effect.paired else []
    dots = tuple(s.means_bps[block] / b.means_bps[block] for block in blocks)
    return Mark(x, 1 + effect.change, low, high, trials, set_ups, dots)


UNITS = (ReportUnit(name="figure-5", place=30, paper=("schlosser", "figure 5"), make=make),)
