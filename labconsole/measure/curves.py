"""Curves over saved runs: measured over offered with intervals, the maximum per number of sources. Pure, on summaries.

Repetitions are runs of one design point (design_points.py), so that a point of a curve never mixes two targets or two
frame sizes. Only runs that stand (valid, suspect) enter; the others are counted by verdict. Runs can be added as they
come: what is known of a design point is summarized again only when it got another run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from labconsole.measure.design_points import DesignPoint, DesignPoints, Repetitions, RunLike, maxima
from labconsole.measure.statistics import Summary
from labconsole.units import format_target

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
"""What may make the lines, under the name that a choice shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSpec:
    """Which curves: what is drawn over what, in which unit, and which factors make the lines."""

    x: X = "offered"
    y: Y = "measured"
    unit: Unit = "pps"
    lines_by: tuple[Factor, ...] = ("platform", "size")

    @property
    def effective_x(self) -> X:
        """A maximum is over a factor: over the number of sources unless the frame size is asked for."""
        return "sources" if self.y == "maximum" and self.x not in X_FACTORS else self.x


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Repetitions of one design point: where it lies, and what they say. Rates in the unit of the spec."""

    x: float
    y: Summary
    design: DesignPoint


@dataclass(frozen=True, slots=True)
class Curve:
    """One line with its points in the order of x."""

    label: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """What to draw, and what is not in it. ``pooled``: factors that vary within a line, with their values."""

    spec: CurveSpec
    curves: tuple[Curve, ...]
    runs: int
    left_out: dict[str, int]
    unknown: int
    pooled: dict[str, tuple[str, ...]]


class CurveData:
    """Runs by design point. ``add`` takes more of them; ``curves`` answers a spec."""

    def __init__(self, runs: Iterable[RunLike] = ()) -> None:
        self._grouped = DesignPoints(runs)

    def add(self, runs: Iterable[RunLike]) -> None:
        """Take more runs. Those that do not stand are only counted."""
        self._grouped.add(runs)

    def curves(self, spec: CurveSpec) -> Curves:
        """The curves of a spec, in the order of their labels' meaning."""
        x = spec.effective_x
        lines: dict[tuple[object, ...], list[CurvePoint]] = {}
        runs, unknown = 0, self._grouped.unknown
        for design, repetitions in self._grouped.points.items():
            where = _x_of(design, repetitions, x, spec.unit)
            what = repetitions.summary(_column("measured" if spec.y == "maximum" else spec.y, spec.unit))
            if where is None or what is None:
                unknown += repetitions.runs
                continue
            runs += what.n
            unknown += repetitions.runs - what.n
            key: tuple[object, ...] = tuple(_FACTORS[factor](design) for factor in spec.lines_by if factor != x)
            if x in X_FACTORS and spec.y != "maximum":  # else a line would jump between targets
                key += (_by_rate(design.target_bps),)
            lines.setdefault(key, []).append(CurvePoint(where, what, design))
        made = [Curve(_label(spec, key, points[0].design), _arranged(spec, points)) for key, points in _sorted(lines)]
        return Curves(spec, tuple(made), runs, dict(self._grouped.left_out), unknown, self._pooled(spec, x))

    def _pooled(self, spec: CurveSpec, x: X) -> dict[str, tuple[str, ...]]:
        """Factors that neither make the lines nor are drawn over, and that are not the same everywhere."""
        found: dict[str, tuple[str, ...]] = {}
        for name, of in _FACTORS.items():
            if name in spec.lines_by or name == x:
                continue
            values = sorted({of(design) for design in self._grouped.points})
            if len(values) > 1:
                found[name] = tuple(_words(name, value) for value in values)
        return found


_FACTORS: dict[Factor, Callable[[DesignPoint], tuple[int | str, ...]]] = {
    "platform": lambda d: (d.platform,),
    "size": lambda d: (d.frame_size_bytes, int(d.includes_fcs)),
    "sources": lambda d: (d.sources,),
    "background": lambda d: (d.background,),
    "generator": lambda d: (d.generator,),
    "testbed": lambda d: (d.testbed,),
}


def _words(factor: str, value: tuple[int | str, ...]) -> str:
    if factor == "size":
        return f"{value[0]} B" + (" with FCS" if value[1] else "")
    if factor == "sources":
        return f"{value[0]} source" + ("s" if value[0] != 1 else "")
    return str(value[0])


def _by_rate(target: int | str) -> tuple[int, int]:
    """Sorts targets by their rate, max last."""
    return (1, 0) if isinstance(target, str) else (0, target)


def _label(spec: CurveSpec, key: tuple[object, ...], design: DesignPoint) -> str:
    factors = [factor for factor in spec.lines_by if factor != spec.effective_x]
    words = [_words(factor, _FACTORS[factor](design)) for factor in factors]
    if len(key) > len(factors):
        words.append(f"at {format_target(design.target_bps)}")
    return " ".join(words) or "all"


def _column(quantity: Quantity, unit: Unit) -> str:
    return "loss_ratio" if quantity == "loss" else f"{quantity}_{'pps' if unit == 'pps' else 'bps'}"


def _x_of(design: DesignPoint, repetitions: Repetitions, x: X, unit: Unit) -> float | None:
    if x == "sources":
        return float(design.sources)
    if x == "size":
        return float(design.frame_size_bytes)
    summary = repetitions.summary(_column(x, unit))
    return None if summary is None else summary.mean


def _arranged(spec: CurveSpec, points: list[CurvePoint]) -> tuple[CurvePoint, ...]:
    """In the order of x; for a maximum only the best design point at each x."""
    if spec.y == "maximum":
        points = list(maxima(points, lambda point: point.x, lambda point: point.y.mean).values())
    return tuple(sorted(points, key=lambda point: (point.x, point.y.mean)))


def _sorted(lines: dict[tuple[object, ...], list[CurvePoint]]) -> list[tuple[tuple[object, ...], list[CurvePoint]]]:
    return sorted(lines.items(), key=lambda item: item[0])
