"""Curves over saved runs: measured over offered with intervals, the maximum per number of sources. Pure, on summaries.

Repetitions are runs of one design point under the same conditions (groups.py), so that a point of a curve never mixes
two targets, two kernels or two durations. Measured means the forwarding rate if a run has it; a mean is over set-ups if
there are several. Runs without meaning for the platform are left out and counted. Runs can be added as they arrive: a
design point is summarized again only after it has received another run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from labconsole.measure.groups import Alike, DesignPoints, GroupConditions, Repetitions, disambiguate_platforms, maxima
from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.set_ups import SetUpMean, finite, mean_of
from labconsole.model.design_point import format_target_per_source

Quantity = Literal["offered", "measured", "loss"]
X = Literal["offered", "measured", "sources", "size"]
Y = Literal["measured", "loss", "offered", "maximum"]
Unit = Literal["pps", "bit/s"]
Factor = Literal["platform", "size", "sources", "background", "generator", "testbed"]

X_FACTORS = ("sources", "size")

LINES_BY: dict[str, tuple[Factor, ...]] = {
    "platform, size": ("platform", "size"),
    "platform, sources": ("platform", "sources"),
    "platform": ("platform",),
    "size": ("size",),
    "sources": ("sources",),
    "background": ("background",),
    "generator": ("generator",),
    "testbed": ("testbed",),
    "platform, backgr.": ("platform", "background"),
}
"""The factors that may distinguish lines, under the names that a choice displays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSpec:
    """Selects curves: the quantities on both axes, the unit, and the factors that distinguish lines."""

    x: X = "offered"
    y: Y = "measured"
    unit: Unit = "pps"
    lines_by: tuple[Factor, ...] = ("platform", "size")

    @property
    def effective_x(self) -> X:
        """A maximum is drawn over a factor: over the number of sources unless the frame size is chosen."""
        return "sources" if self.y == "maximum" and self.x not in X_FACTORS else self.x


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The repetitions of one design point: its position, and their mean. Rates are in the unit of the spec.

    ``replicates``: the values that ``y`` is the mean of, the means of set-ups or the trials of the only one.
    """

    x: float
    y: SetUpMean
    design: Alike
    replicates: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Curve:
    """One line with its points in the order of x."""

    label: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """The curves to draw, and what is not in them.

    ``pooled``: factors that vary within a line, with their values. ``suspect``: the number of suspect ones among
    ``runs``.
    """

    spec: CurveSpec
    curves: tuple[Curve, ...]
    runs: int
    left_out: dict[str, int]
    unknown: int
    pooled: dict[str, tuple[str, ...]]
    suspect: int = 0


class CurveData:
    """Runs by design point. ``add`` adds runs; ``curves`` returns the curves for a spec."""

    def __init__(self, runs: Iterable[RunRow] = ()) -> None:
        self._grouped = DesignPoints(runs)

    def add(self, runs: Iterable[RunRow]) -> None:
        """Add runs. Those that do not stand are only counted."""
        self._grouped.add(runs)

    def curves(self, spec: CurveSpec) -> Curves:
        """The curves of a spec, in the order of their labels' meaning."""
        x = spec.effective_x
        lines: dict[tuple[object, ...], list[CurvePoint]] = {}
        runs, suspect, unknown = 0, 0, self._grouped.unknown
        apart = _apart(self._grouped.points)
        for design, repetitions in self._grouped.points.items():
            where = _x_value(design, repetitions, x, spec.unit)
            quantity = _column("measured" if spec.y == "maximum" else spec.y, spec.unit)
            what = repetitions.summary(quantity)
            if where is None or what is None:
                unknown += repetitions.runs
                continue
            runs += what.trials
            suspect += len(repetitions.suspect)
            unknown += repetitions.runs - what.trials
            key: tuple[object, ...] = tuple(_FACTORS[factor](design) for factor in spec.lines_by if factor != x)
            key += (apart[design.platform, _label_conditions(design)],)
            if x in X_FACTORS and spec.y != "maximum":  # else a line would jump between targets
                key += (_target_order(design.frame.wish(design.target_bps)),)
            lines.setdefault(key, []).append(CurvePoint(where, what, design, _replicates(repetitions.values[quantity])))
        made = [
            Curve(_label(spec, key, points[0].design), _arranged(spec, points)) for key, points in sorted(lines.items())
        ]
        left_out, pooled = dict(self._grouped.left_out), self._pooled(spec, x)
        return Curves(spec, tuple(made), runs, left_out, unknown, pooled, suspect)

    def _pooled(self, spec: CurveSpec, x: X) -> dict[str, tuple[str, ...]]:
        """Factors that neither distinguish lines nor are drawn over, and that vary."""
        found: dict[str, tuple[str, ...]] = {}
        for name, of in _FACTORS.items():
            if name in spec.lines_by or name == x:
                continue
            values = sorted({of(design) for design in self._grouped.points})
            if len(values) > 1:
                found[name] = tuple(_format_factor(name, value) for value in values)
        return found


_FACTORS: dict[Factor, Callable[[Alike], tuple[int | str, ...]]] = {
    "platform": lambda d: (d.platform,),
    "size": lambda d: (d.frame.bytes, int(d.frame.includes_fcs)),
    "sources": lambda d: (d.sources,),
    "background": lambda d: (d.background,),
    "generator": lambda d: (d.conditions.generator or "",),
    "testbed": lambda d: (d.conditions.testbed or "",),
}


def _format_factor(factor: str, value: tuple[int | str, ...]) -> str:
    if factor == "size":
        return f"{value[0]} B" + (" with FCS" if value[1] else "")
    if factor == "sources":
        return f"{value[0]} source" + ("s" if value[0] != 1 else "")
    return str(value[0])


def _target_order(target: int | str) -> tuple[int, int]:
    """Sort key that orders targets by their rate, then 1ns, which is one target at all sizes, then max."""
    return (1, int(target == "max")) if isinstance(target, str) else (0, target)


def _label(spec: CurveSpec, key: tuple[object, ...], design: Alike) -> str:
    factors = [factor for factor in spec.lines_by if factor != spec.effective_x]
    parts = [_format_factor(factor, _FACTORS[factor](design)) for factor in factors]
    if len(key) > len(factors) + 1:
        parts.append(f"at {format_target_per_source(design.target_bps, design.frame)}")
    parts += [str(key[len(factors)])] if key[len(factors)] else []
    return " ".join(parts) or "all"


def _column(quantity: Quantity, unit: Unit) -> str:
    return "loss_ratio" if quantity == "loss" else f"{quantity}_{'pps' if unit == 'pps' else 'bps'}"


def _replicates(values: Mapping[Hashable, Sequence[float]]) -> tuple[float, ...]:
    by_set_up = {set_up: finite(trials) for set_up, trials in values.items() if trials}
    if len(by_set_up) == 1:
        return tuple(next(iter(by_set_up.values())))
    return tuple(mean_of(trials) for trials in by_set_up.values())


def _x_value(design: Alike, repetitions: Repetitions, x: X, unit: Unit) -> float | None:
    if x == "sources":
        return float(design.sources)
    if x == "size":
        return float(design.frame.bytes)
    summary = repetitions.summary(_column(x, unit))
    return None if summary is None else summary.mean


def _arranged(spec: CurveSpec, points: list[CurvePoint]) -> tuple[CurvePoint, ...]:
    """The points in the order of x; for a maximum only the best design point at each x."""
    if spec.y == "maximum":
        points = list(maxima(points, lambda point: point.x, lambda point: point.y.mean).values())
    return tuple(sorted(points, key=lambda point: (point.x, point.y.mean)))


def _label_conditions(design: Alike) -> GroupConditions:
    """Conditions that no choice of lines distinguishes: all except generator and testbed."""
    return design.conditions._replace(generator=None, testbed=None)


def _apart(designs: Iterable[Alike]) -> dict[tuple[str, GroupConditions], str]:
    """The text that distinguishes runs of one platform besides the factors: ``(kernel 6.1.0)``, usually empty."""
    known = list(designs)
    beds = {(design.conditions.testbed, design.conditions.fingerprint) for design in known}
    if len(beds) == len({testbed for testbed, _ in beds}):  # then its name identifies a testbed
        named = {d: d._replace(conditions=_label_conditions(d)._replace(fingerprint=None)) for d in known}
    else:
        named = {d: d._replace(conditions=_label_conditions(d)) for d in known}
    names = disambiguate_platforms(named.values())
    return {
        (d.platform, _label_conditions(d)): names[d.platform, other.conditions].removeprefix(d.platform).strip()
        for d, other in named.items()
    }
