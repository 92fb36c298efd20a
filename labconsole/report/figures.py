"""The papers' figures as data: panels of curves and bars with their intervals. draw.py puts them on paper.

Figure 3: forwarded over offered bandwidth, one panel per frame size, one curve per platform. Figure 4: the maximum
accumulated throughput by number of sources. Figure 5: the maximum beside a forwarding second guest, relative to the
dedicated maximum. Rates are in Mbit/s on the wire, as in the papers. Where records have delays: delay over load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from labconsole.measure.setups import SetUpMean, set_up_means
from labconsole.report.comparisons import NOT_REACHED, Comparison, pairs_of
from labconsole.report.evaluation import Evaluation
from labconsole.report.findings import size_words
from labconsole.report.points import DEDICATED, FORWARDING, IDLE, Point, Reading, RunFacts, platform_order
from labconsole.report.result_tables import NS_PER_US, delay_at

MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Mark:
    """One point or bar: place, height, interval (None: too few set-ups), trials and set-ups behind it.

    ``dots``: the means of the set-ups, in the unit of ``y``.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    n: int
    set_ups: int = 1
    dots: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Curve:
    """One platform in one panel."""

    label: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes."""

    title: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure. ``kind``: curves over x, or bars grouped by x with the names in ``x_names``."""

    name: str
    title: str
    kind: str
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    caption: str
    x_names: tuple[str, ...] = ()
    reference_line: float | None = None
    """A horizontal line to compare with (1 for ratios)."""

    ideal: bool = True
    """Of curves: whether y equal to x means that nothing was lost."""


def _sizes(points: Sequence[Point]) -> list[tuple[int, bool]]:
    return sorted({(p.frame_size_bytes, p.frame_size_includes_fcs) for p in points})


def _platforms(points: Sequence[Point]) -> list[str]:
    return sorted({p.platform for p in points}, key=platform_order)


def _mark(x: float, summary: SetUpMean, dots: Sequence[float] = (), scale: float = MEGA) -> Mark:
    low, high = summary.ci_low, summary.ci_high
    return Mark(
        x,
        summary.mean / scale,
        None if low is None else low / scale,
        None if high is None else high / scale,
        summary.trials,
        summary.set_ups,
        tuple(dot / scale for dot in dots) if len(dots) > 1 else (),
    )


def _dots(point: Point) -> list[float]:
    return list(set_up_means(point.values_bps).values())


def _behind(marks: Sequence[Mark]) -> str:
    """``5 set-ups of 3 trials per point``; with one set-up the trials, and that it is one."""
    if not marks:
        return "no runs"
    set_ups, trials = sorted({mark.set_ups for mark in marks}), sorted({mark.n for mark in marks})
    runs = f"n = {_span(trials)} per point"
    return f"{runs}, one set-up" if set_ups == [1] else f"{_span(set_ups)} set-ups, {runs}"


def _span(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _sources(count: int) -> str:
    return f"{count} source{'' if count == 1 else 's'}"


def _compared_with(found: Sequence[Comparison]) -> str:
    words = {DEDICATED: "the dedicated maximum (no second guest)", IDLE: "the maximum beside an idle second guest"}
    names = {c.baseline.setting.background for c in found}
    return "compared with " + " or, where that is missing, ".join(text for name, text in words.items() if name in names)


def _caption(text: str, panels: Sequence[Panel], of: str = "mean") -> str:
    marks = [mark for panel in panels for curve in panel.curves for mark in curve.marks]
    bars = f"error bars: 95 % confidence interval of the {of}"
    if marks and all(mark.low is None for mark in marks):
        bars = "no error bars: an interval needs three set-ups, or three trials of one"
    elif any(mark.set_ups > 1 for mark in marks):
        bars += " over set-ups (Student's t)"
    else:
        bars += " of this set-up only (Student's t over its trials)"
    dots = "; dots: means of the set-ups" if any(mark.dots for mark in marks) else ""
    return f"{text}; {_behind(marks)}; {bars}{dots}."


def throughput_over_load(points: Sequence[Point], *, sources: int = 1) -> Figure | None:
    """Figure 3, for trials with this many sources and no second guest. None when there are none."""
    chosen = [p for p in points if p.sources == sources and p.background == DEDICATED]
    panels = []
    for size, fcs in _sizes(chosen):
        here = [p for p in chosen if (p.frame_size_bytes, p.frame_size_includes_fcs) == (size, fcs)]
        curves = []
        for platform in _platforms(chosen):
            own = sorted((p for p in here if p.platform == platform), key=lambda p: p.offered_bps.mean)
            if own:
                marks = tuple(_mark(p.offered_bps.mean / MEGA, p.rate_bps, _dots(p)) for p in own)
                curves.append(Curve(platform, marks))
        panels.append(Panel(size_words(size, fcs), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="figure-3" if sources == 1 else f"figure-3-{sources}-sources",
        title=f"Forwarding rate over offered bandwidth, {_sources(sources)}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=_caption(f"Mean {_rate_words(chosen)} over mean offered bandwidth", panels),
    )


def _rate_words(points: Sequence[Point]) -> str:
    methods = {p.design.conditions.method for p in points}
    if methods <= {1, None}:
        return "measured throughput (method 1: over the sending time)"
    return "forwarding rate" + (" (method 1: measured over the sending time)" if methods & {1, None} else "")


def maximum_by_sources(made: Evaluation) -> Figure | None:
    """Figure 4: the maximum accumulated throughput with 1, 2, … sources, no second guest."""
    chosen = [p for p in made.points if p.background == DEDICATED]
    readings = [reading for reading in made.maxima if reading.setting.background == DEDICATED]
    numbers = sorted({p.sources for p in chosen})
    panels = []
    for size, fcs in _sizes(chosen):
        curves = []
        for platform in _platforms(chosen):
            own = {
                r.setting.sources: r for r in readings
                if (r.setting.platform, r.setting.frame_size_bytes, r.setting.frame_size_includes_fcs)
                == (platform, size, fcs)
            }  # fmt: skip
            marks = [
                _mark(place, own[count].rate, list(own[count].means_bps.values()))
                for place, count in enumerate(numbers)
                if count in own
            ]
            if marks:
                curves.append(Curve(platform, tuple(marks)))
        panels.append(Panel(size_words(size, fcs), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="figure-4",
        title="Maximum accumulated throughput by number of sources",
        kind="bars",
        x_label="sources",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=_caption(f"{_maximum_words(readings)}, summed over the streams", panels) + _lower_bounds(readings),
        x_names=tuple(str(count) for count in numbers),
    )


def _maximum_words(readings: Sequence[Reading]) -> str:
    said = {
        "pilot's load": "Rate at the load that the pilot chose",
        "chosen on block 1, read from the others": "rate at the load that block 1 chose, read from the other blocks",
        "one load: a rate, no maximum": "rate at the one load that was measured",
        "the pilot's load was not measured": "highest mean over the loads, too high on average, as no run entered at "
        "the load that the pilot chose",
    }
    methods = dict.fromkeys(
        said.get(r.choice.method, "highest mean over the loads, which is too high on average") for r in readings
    )
    words = ", or ".join(methods)
    return words[:1].upper() + words[1:]


def _lower_bounds(readings: Sequence[Reading]) -> str:
    count = sum(bool(r.at_least) for r in readings)
    if not count:
        return ""
    return f" {count} of {len(readings)} maxima were not reached: their bars are lower bounds."


def maximum_beside_forwarding(made: Evaluation) -> Figure | None:
    """Figure 5: the maximum beside a second guest that forwards, relative to the maximum beside none.

    Not of maxima that were not reached: of two lower bounds there is no ratio.
    """
    known = [c for c in made.figure_5 if c.change_ratio is not None]
    if all(c.claim.why == NOT_REACHED for c in known):
        return None
    platforms = _platforms(made.points)
    fewest = min(c.subject.setting.sources for c in known if c.claim.why != NOT_REACHED)
    asked = [c for c in known if c.subject.setting.sources == fewest]
    found = [c for c in asked if c.claim.why != NOT_REACHED]
    panels = []
    for size, fcs in _sizes([c.subject.point for c in found]):
        curves = []
        for kind in FORWARDING:
            marks = [
                _change_mark(platforms.index(c.subject.setting.platform), c)
                for c in found
                if c.subject.setting.background == kind
                and (c.subject.setting.frame_size_bytes, c.subject.setting.frame_size_includes_fcs) == (size, fcs)
            ]
            if marks:
                curves.append(Curve(kind, tuple(marks)))
        panels.append(Panel(size_words(size, fcs), tuple(curves)))
    return Figure(
        name="figure-5",
        title="Maximum throughput beside a forwarding second guest, relative to the dedicated maximum",
        kind="bars",
        x_label="platform",
        y_label="ratio to the dedicated maximum",
        panels=tuple(panels),
        caption=_caption(
            f"Ratio of two maxima over the loads measured with both, {_sources(fewest)}, {_compared_with(found)}",
            panels,
            "ratio within a block",
        )
        + _not_drawn(len(asked) - len(found), len(asked)),
        x_names=tuple(platforms),
        reference_line=1.0,
    )


def _not_drawn(missing: int, of: int) -> str:
    return f" {missing} of {of} ratios are not drawn: a maximum was not reached." if missing else ""


def _change_mark(x: int, change: Comparison) -> Mark:
    effect, s, b = change.claim.effect, change.subject, change.baseline
    trials, set_ups = min(s.rate.trials, b.rate.trials), min(s.rate.set_ups, b.rate.set_ups)
    if effect is None or effect.change is None:
        return Mark(x, 1 + (change.change_ratio or 0.0), None, None, trials, set_ups)
    low, high = (None if bound is None else 1 + bound for bound in (effect.ci_low, effect.ci_high))
    blocks = [block for block in pairs_of(s, b) if b.means_bps[block] > 0] if effect.paired else []
    dots = tuple(s.means_bps[block] / b.means_bps[block] for block in blocks)
    return Mark(x, 1 + effect.change, low, high, trials, set_ups, dots)


def delay_over_load(points: Sequence[Point], facts: Mapping[str, RunFacts], *, sources: int = 1) -> Figure | None:
    """Median and 99th percentile of the delay over the offered bandwidth, where trials recorded delays."""
    chosen = [
        (p, delay) for p in points if p.sources == sources and p.background == DEDICATED
        if (delay := delay_at(p, facts)) is not None
    ]  # fmt: skip
    one_way = [pair for pair in chosen if pair[1].kind == "one way"]
    chosen = one_way or chosen
    if not chosen:
        return None
    kind = chosen[0][1].kind
    panels = []
    for size, fcs in _sizes([p for p, _ in chosen]):
        curves = []
        for platform in _platforms([p for p, _ in chosen]):
            own = sorted(
                (
                    (p, delay) for p, delay in chosen
                    if (p.platform, p.frame_size_bytes, p.frame_size_includes_fcs) == (platform, size, fcs)
                ),
                key=lambda pair: pair[0].offered_bps.mean,
            )  # fmt: skip
            for name, of in (("median", "p50_ns"), ("99 %", "p99_ns")):
                marks = tuple(_mark(p.offered_bps.mean / MEGA, getattr(delay, of), scale=NS_PER_US) for p, delay in own)
                if marks:
                    curves.append(Curve(f"{platform}, {name}", marks))
        panels.append(Panel(size_words(size, fcs), tuple(curves)))
    return Figure(
        name="delay",
        title=f"Delay ({kind}) over offered bandwidth, {_sources(sources)}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="delay in µs",
        panels=tuple(panels),
        caption=_caption(
            "Mean of the trials' medians and 99th percentiles, of packets that arrived: what was lost has no delay",
            panels,
        ),
        ideal=False,
    )


EMULATED = "Emulated testbed: it shows the method, not the speed of hardware."
"""What every caption says of runs that were taken on machines made of software."""


def all_figures(
    made: Evaluation, facts: Mapping[str, RunFacts], *, emulated: bool, told: Sequence[str] = ()
) -> list[Figure]:
    """Every figure that these points allow, the paper's first. ``told``: what every caption repeats."""
    points = made.points
    extra = sorted({p.sources for p in points if p.background == DEDICATED} - {1})
    drawn = [
        throughput_over_load(points),
        maximum_by_sources(made),
        maximum_beside_forwarding(made),
        *(throughput_over_load(points, sources=count) for count in extra),
        delay_over_load(points, facts),
    ]
    more = "".join(f" {words}" for words in (*told, *([EMULATED] if emulated else [])))
    return [replace(figure, caption=figure.caption + more) for figure in drawn if figure is not None]
