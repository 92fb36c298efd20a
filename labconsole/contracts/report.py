"""The units of a report: each makes figures, tables, findings or notes on the method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from labconsole.model.record.kind import ExperimentRecord

Cell = str | int | float | None

Material = TypeVar("Material", contravariant=True)
"""What units are given; defined in report/material.py."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One point or bar: place, height, interval (None: too few set-ups), trials and set-ups behind it.

    ``dots``: the means of the set-ups, in the unit of ``y``. ``word``: the label next to it.
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
    """One set of axes.

    ``changes``: x positions where the curves are cut, each drawn as a vertical line. ``change_names``: labels for these
    lines, drawn where there is room; empty, or one per line. ``levels``: heights for comparison, each drawn as a
    horizontal line, with its label.
    """

    title: str
    curves: tuple[PlottedCurve, ...]
    changes: tuple[float, ...] = ()
    change_names: tuple[str, ...] = ()
    levels: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure. ``kind``: curves over x, or bars grouped by x with the names in ``x_names``.

    ``reference_line``: height of a line for comparison (1 for ratios). ``ideal``: for curves, whether y equal to x
    means that nothing was lost. ``from_zero``: whether the y axis begins at 0. ``y_log``: whether it is logarithmic.
    ``x_numbered``: x is an ordinal, such as an occasion's, so that its axis does not begin at 0 or have halves.
    ``joined``: whether a line joins the points of a curve; if not, points with the same x are drawn side by side.
    ``number``: the figure's number in its paper; the report takes it from the unit.
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
    """One table. ``columns``: names with units for the CSV. ``rows``: the exact values. ``shown``: the same as printed.

    ``beside_paper``: the table contains published values, so it is kept apart from tables of one's own values.
    ``number``: its number in its paper; the report takes it from the unit.
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
        """For each column, whether it contains text (aligned to the left) instead of numbers."""
        return tuple(
            place == 0 or not any(row[place][:1].isdigit() or row[place][:1] == "−" for row in self.shown)
            for place in range(len(self.headings))
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact that a reader should notice. ``run_ids`` are the evidence."""

    sentence: str
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Findings of one kind. ``kind`` is stable, for machines; ``heading`` is for people.

    ``claims``: whether each rests on a claim of the report's family; otherwise they are marks, which claim nothing.
    ``evidence``: the kind of record that the IDs refer to.
    """

    kind: str
    heading: str
    found: tuple[Finding, ...]
    claims: bool = False
    evidence: str = "run"


@dataclass(frozen=True, slots=True)
class MethodNote:
    """How a unit computes its values: a row of the page's section on the method."""

    heading: str
    words: str


Experiments = Mapping[str, Sequence[ExperimentRecord]]
"""Records of kinds other than runs, by the kind's name."""

Part = Figure | Table | Findings | MethodNote


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportUnit(Generic[Material]):
    """One subject of a report. ``make``: a part, several, or None where there is nothing to show.

    ``place``: the order of the unit's figures, tables and findings among those of other units. ``paper``: what it
    reproduces, such as ``("schlosser", "figure 3")``. ``claims``: the p values that it adds to the report's one family,
    from records of kinds other than runs, or None if it makes no claims. ``claims_beside``: the same for reports with
    the tables of its ``paper``, given the names that map one's own platforms to the paper's. ``plugin``: the plug-in
    that it comes from, which the loader writes, or empty for labconsole's own.
    """

    name: str
    place: int
    make: Callable[[Material], Part | Sequence[Part] | None]
    paper: tuple[str, str] | None = None
    claims: Callable[[Experiments], Sequence[float]] | None = None
    claims_beside: Callable[[Experiments, Mapping[str, str]], Sequence[float]] | None = None
    plugin: str = ""

    def parts(self, material: Material) -> Sequence[Part]:
        """Return the parts it makes of this material."""
        made = self.make(material)
        if made is None:
            return ()
        return made if isinstance(made, Sequence) else (made,)
