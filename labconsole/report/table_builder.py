"""Tables declared column by column, and the columns that tables of guests and of papers' statements share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from labconsole.contracts.report import Cell, Table
from labconsole.measure.paired_blocks import PointOfGuests
from labconsole.measure.statistics.effects import Effect
from labconsole.measure.statistics.regression import OverBlocks
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.formatting import (
    UNKNOWN,
    format_effect,
    format_left_out,
    format_line_part,
    format_mean,
    format_number,
    format_p_value,
)
from labconsole.report.reference import format_printed_value

# -- columns -----------------------------------------------------------------------------------------------------------
# Tables declared column by column: the name in the CSV and the exact value, the heading and the printed cell.
#
# A table is a list of columns and the items that its rows are about. Cells cannot get under the wrong heading, and a
# column more is one line more.

Item = TypeVar("Item", contravariant=True)
"""What a row is about, such as a design point."""

Part = TypeVar("Part")

Interval = tuple[float | None, float | None, float | None]
"""A value with its lower and upper bound, each None if unknown."""


@dataclass(frozen=True, slots=True)
class TableColumn(Generic[Item]):
    """A column, or adjacent ones of one quantity.

    ``names`` and ``values``: in the CSV. ``headings`` and ``texts``: printed. Either pair may be empty.
    """

    names: tuple[str, ...]
    values: Callable[[Item], Sequence[Cell]]
    headings: tuple[str, ...]
    texts: Callable[[Item], Sequence[str]]

    def to_json(self, item: Item) -> dict[str, Cell]:
        """The exact values by name."""
        return dict(zip(self.names, self.values(item), strict=True))


def build_table(
    name: str,
    title: str,
    columns: Sequence[TableColumn[Item]],
    items: Iterable[Item],
    note: str = "",
    *,
    beside_paper: bool = False,
    most_printed: int | None = None,
) -> Table:
    """Build a table with a row for each item. ``most_printed``: the CSV has all rows, print has this many."""
    row, every = join_columns(columns), list(items)
    return Table(
        name=name,
        title=title,
        columns=row.names,
        rows=tuple(tuple(row.values(item)) for item in every),
        headings=row.headings,
        shown=tuple(tuple(row.texts(item)) for item in every[:most_printed]),
        note=note,
        beside_paper=beside_paper,
    )


def join_columns(columns: Sequence[TableColumn[Item]]) -> TableColumn[Item]:
    """Adjacent columns as one, so that tables can share them."""
    return TableColumn(
        names=tuple(name for each in columns for name in each.names),
        values=lambda item: [value for each in columns for value in each.values(item)],
        headings=tuple(heading for each in columns for heading in each.headings),
        texts=lambda item: [text for each in columns for text in each.texts(item)],
    )


def prefix_columns(
    prefix: str, columns: Sequence[TableColumn[Part]], part: Callable[[Item], Part]
) -> TableColumn[Item]:
    """Columns of the CSV about a part of the item, such as one of two compared sides, with a prefix to their names."""
    row = join_columns(columns)
    return csv_columns([f"{prefix}{name}" for name in row.names], lambda item: row.values(part(item)))


def column(
    name: str, heading: str, value: Callable[[Item], Cell], show: Callable[[Item], str] | None = None
) -> TableColumn[Item]:
    """One value. ``show``: its printed text; by default the value itself, or a dash if it is None."""
    text = show if show is not None else lambda item: format_cell(value(item))
    return TableColumn((name,), lambda item: (value(item),), (heading,), lambda item: (text(item),))


def csv_column(name: str, value: Callable[[Item], Cell]) -> TableColumn[Item]:
    """One value that only the CSV has."""
    return csv_columns((name,), lambda item: (value(item),))


def csv_columns(names: Sequence[str], values: Callable[[Item], Sequence[Cell]]) -> TableColumn[Item]:
    """Values that only the CSV has."""
    return TableColumn(tuple(names), values, (), lambda _: ())


def printed_column(heading: str, show: Callable[[Item], str]) -> TableColumn[Item]:
    """A text that the CSV lacks, because other columns there have its parts."""
    return TableColumn((), lambda _: (), (heading,), lambda item: (show(item),))


def number_column(
    name: str, heading: str, value: Callable[[Item], float | None], places: int = 1, unit: float = 1.0
) -> TableColumn[Item]:
    """A number, printed in ``unit`` with ``places`` decimals."""

    def show(item: Item) -> str:
        number = value(item)
        return format_number(None if number is None else number / unit, places)

    return column(name, heading, value, show)


def percent_column(
    name: str, heading: str, ratio: Callable[[Item], float | None], places: int = 1
) -> TableColumn[Item]:
    """A ratio, printed in percent."""

    def show(item: Item) -> str:
        number = ratio(item)
        return format_number(None if number is None else 100 * number, places)

    return column(name, heading, ratio, show)


def p_value_column(name: str, heading: str, p: Callable[[Item], float | None]) -> TableColumn[Item]:
    """A p value."""
    return column(name, heading, p, lambda item: format_p_value(p(item)))


def interval_columns(
    name: str,
    heading: str,
    interval: Callable[[Item], Interval],
    show: Callable[[Item], str],
    bounds: tuple[str, str] | None = None,
) -> TableColumn[Item]:
    """Three columns of the CSV, a value and its bounds, and one printed cell with all.

    ``bounds``: the names of the bounds, if they are not the value's with ``_ci_low`` and ``_ci_high``.
    """
    low, high = bounds or (f"{name}_ci_low", f"{name}_ci_high")
    return TableColumn((name, low, high), interval, (heading,), lambda item: (show(item),))


def csv_interval_columns(name: str, interval: Callable[[Item], Interval]) -> TableColumn[Item]:
    """A value with its bounds that only the CSV has."""
    return csv_columns((name, f"{name}_ci_low", f"{name}_ci_high"), interval)


def mean_column(
    name: str, heading: str, mean: Callable[[Item], SetUpMean | None], unit: float = 1.0, places: int = 0
) -> TableColumn[Item]:
    """A mean over set-ups: the CSV has it alone, print adds its interval as format_mean() does."""
    return column(
        name, heading, lambda item: mean_value(mean(item)), lambda item: format_mean(mean(item), unit, places)
    )


def mean_columns(
    name: str,
    heading: str,
    mean: Callable[[Item], SetUpMean | None],
    unit: float = 1.0,
    places: int = 0,
    *,
    bounds: tuple[str, str] | None = None,
    show: Callable[[Item], str] | None = None,
) -> TableColumn[Item]:
    """A mean over set-ups with its bounds, printed in ``unit`` as format_mean() does, or by ``show``."""
    text = show if show is not None else lambda item: format_mean(mean(item), unit, places)
    return interval_columns(name, heading, lambda item: mean_with_bounds(mean(item)), text, bounds)


def csv_mean_columns(name: str, mean: Callable[[Item], SetUpMean | None]) -> TableColumn[Item]:
    """A mean over set-ups with its bounds that only the CSV has."""
    return csv_interval_columns(name, lambda item: mean_with_bounds(mean(item)))


def effect_columns(
    name: str,
    heading: str,
    effect: Callable[[Item], Effect],
    show: Callable[[Effect], str] = format_effect,
) -> TableColumn[Item]:
    """A relative effect with its bounds."""
    return interval_columns(
        name, heading, lambda item: effect_with_bounds(effect(item)), lambda item: show(effect(item))
    )


def line_columns(
    name: str,
    heading: str,
    part: Callable[[Item], OverBlocks | None],
    places: int,
    unit: float = 1.0,
    *,
    bounds: tuple[str, str],
) -> TableColumn[Item]:
    """A parameter of a line with its bounds, printed in ``unit``."""

    def interval(item: Item) -> Interval:
        found = part(item)
        return (None, None, None) if found is None else (found.mean, found.low, found.high)

    return interval_columns(name, heading, interval, lambda item: format_line_part(part(item), places, unit), bounds)


def format_cell(value: Cell) -> str:
    """A value as text, or a dash if it is unknown."""
    return UNKNOWN if value is None else str(value)


def mean_value(found: SetUpMean | None) -> float | None:
    """A mean without its bounds."""
    return None if found is None else found.mean


def mean_with_bounds(found: SetUpMean | None) -> Interval:
    """A mean and its bounds."""
    return (None, None, None) if found is None else (found.mean, found.ci_low, found.ci_high)


def effect_with_bounds(found: Effect | None) -> Interval:
    """A relative change and its bounds."""
    return (None, None, None) if found is None else (found.change, found.ci_low, found.ci_high)


# -- guest columns -----------------------------------------------------------------------------------------------------
# Columns that all tables of points of guests share: excluded trials, and the environment.


def environment_columns(key: Callable[[Item], PointOfGuests], testbeds: Mapping[str, str]) -> TableColumn[Item]:
    """The environment, last in the CSV: points differ in it. ``testbeds``: fingerprint to name."""

    def values(item: Item) -> tuple[str, str | None, str | None]:
        point = key(item)
        return testbeds[point.testbed_fingerprint], point.kernel or None, point.hypervisor or None

    return csv_columns(("testbed", "kernel", "hypervisor"), values)


def left_out_column(
    left_out: Callable[[Item], Mapping[str, int]], only_csv: Callable[[Item], bool] = lambda _: False
) -> TableColumn[Item]:
    """The number of excluded trials by reason code. ``only_csv``: rows in which the printed cell is empty."""

    def value(item: Item) -> str:
        return format_left_out(left_out(item))

    return column("left_out_codes", "left out", value, lambda item: "" if only_csv(item) else value(item) or "none")


# -- paper columns -----------------------------------------------------------------------------------------------------
# Rows of one's own result and a paper's statement on the same, and the columns of the statement.

Own = TypeVar("Own")


class PaperRow(NamedTuple, Generic[Own]):
    """``own``: the own result. ``paper``: a row of a paper's table of sentences (``shape``), or of printed numbers."""

    own: Own
    paper: Mapping[str, str]


def paper_columns(heading: str = "paper's platform") -> TableColumn[PaperRow[Own]]:
    """The paper's statement, last in the table: the platform, what it says, and where. ``heading``: of the platform."""
    columns: list[TableColumn[PaperRow[Own]]] = [
        column("paper_platform", heading, lambda row: row.paper["platform"]),
        column("paper", "the paper", lambda row: row.paper.get("shape") or format_printed_value(row.paper)),
        column("where", "where", lambda row: row.paper["where"]),
    ]
    return join_columns(columns)
