"""What a report is put together from: units, each of which makes figures, tables, findings or words on the method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from labconsole.model.record.kind import ExperimentRecord

Cell = str | int | float | None

Material = TypeVar("Material", contravariant=True)
"""What units are given; report/material.py says what that is."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One point or bar: place, height, interval (None: too few set-ups), trials and set-ups behind it.

    ``dots``: the means of the set-ups, in the unit of ``y``. ``word``: stands beside it.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    n: int
    set_ups: int = 1
    dots: tuple[float, ...] = ()
    word: str = ""


@dataclass(frozen=True, slots=True)
class PlottedCurve:
    """One platform in one panel."""

    label: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes. ``changes``: where along x the curves are cut, each drawn as an upright line.

    ``change_names``: what stands above these lines where there is room for it; empty, or as many. ``levels``: heights
    to compare the curves with, each a line across, with what it is.
    """

    title: str
    curves: tuple[PlottedCurve, ...]
    changes: tuple[float, ...] = ()
    change_names: tuple[str, ...] = ()
    levels: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure. ``kind``: curves over x, or bars grouped by x with the names in ``x_names``.

    ``reference_line``: height of a line to compare with (1 for ratios). ``ideal``: of curves, whether y equal to x
    means that nothing was lost. ``from_zero``: whether the y axis begins at 0; ``y_log``: whether it is logarithmic.
    ``x_numbered``: x is a number in a row, such as an occasion's, so that no axis begins at 0 or has halves.
    ``joined``: whether the points of a curve are joined by a line; where they are not, those of one x stand side by
    side. ``number``: in its paper; the report takes it from the unit.
    """

    name: str
    title: str
    kind: str
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    caption: str
    x_names: tuple[str, ...] = ()
    reference_line: float | None = None
    ideal: bool = True
    from_zero: bool = True
    y_log: bool = False
    x_numbered: bool = False
    joined: bool = True
    number: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``columns``: names with units for the CSV; ``rows``: the exact values; ``shown``: the same for paper.

    ``beside_paper``: published values stand in it, so that it is kept apart from the tables of one's own. ``number``:
    in its paper; the report takes it from the unit.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    headings: tuple[str, ...]
    shown: tuple[tuple[str, ...], ...]
    note: str = ""
    beside_paper: bool = False
    number: str = ""

    @property
    def left(self) -> tuple[bool, ...]:
        """For each column whether it holds words, which stand at its left, and not numbers."""
        return tuple(
            place == 0 or not any(row[place][:1].isdigit() or row[place][:1] == "−" for row in self.shown)
            for place in range(len(self.headings))
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What a reader should be pointed to. ``run_ids`` are the evidence."""

    sentence: str
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Findings of one kind. ``kind`` is stable, for machines; ``heading`` for people.

    ``claims``: each rests on a claim of the report's family; else they are marks, which claim nothing. ``evidence``:
    what its ids are of.
    """

    kind: str
    heading: str
    found: tuple[Finding, ...]
    claims: bool = False
    evidence: str = "run"


@dataclass(frozen=True, slots=True)
class MethodNote:
    """How a unit's values are reckoned: a row of the page's section on the method."""

    heading: str
    words: str


Experiments = Mapping[str, Sequence[ExperimentRecord]]
"""Records of kinds that are no runs, by the kind's name."""

Part = Figure | Table | Findings | MethodNote


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportUnit(Generic[Material]):
    """One subject of a report. ``make``: a part, several, or None where there is nothing to say.

    ``place``: figures, tables and findings of a report each stand in the order of their units' places. ``paper``: what
    it reproduces, such as ``("schlosser", "figure 3")``. ``claims``: the p values that it adds to the report's one
    family, from the records of kinds that are no runs; None: it claims nothing of its own. ``claims_beside``: likewise,
    where the tables of its ``paper`` are asked for, with one's own platforms to the paper's.
    ``plugin``: the plug-in that it is from, which the loader writes; empty for labconsole's own.
    """

    name: str
    place: int
    make: Callable[[Material], Part | Sequence[Part] | None]
    paper: tuple[str, str] | None = None
    claims: Callable[[Experiments], Sequence[float]] | None = None
    claims_beside: Callable[[Experiments, Mapping[str, str]], Sequence[float]] | None = None
    plugin: str = ""

    def parts(self, material: Material) -> Sequence[Part]:
        """What it makes of this material."""
        made = self.make(material)
        if made is None:
            return ()
        return made if isinstance(made, Sequence) else (made,)
