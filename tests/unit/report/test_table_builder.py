"""Tables are declared by column: each cell is under its name and its heading, whatever only one of both has."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from labconsole.measure.statistics.effects import Effect
from labconsole.measure.statistics.regression import OverBlocks
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    csv_mean_columns,
    effect_columns,
    join_columns,
    line_columns,
    mean_column,
    mean_columns,
    number_column,
    p_value_column,
    percent_column,
    prefix_columns,
    printed_column,
)
from labconsole.report.tables import check_table, to_csv, to_markdown

MEAN = mean_over_set_ups({"a": [1e6], "b": [2e6], "c": [3e6]})


class Guest(NamedTuple):
    name: str
    rate: SetUpMean | None = None
    ratio: float | None = None


GUESTS = [Guest("one", MEAN, 0.125), Guest("two")]
COLUMNS: list[TableColumn[Guest]] = [
    csv_column("name", lambda guest: guest.name),
    printed_column("guest", lambda guest: f"guest {guest.name}"),
    mean_columns("rate_bps", "Mbit/s", lambda guest: guest.rate, 1e6, 1),
    percent_column("ratio", "share, %", lambda guest: guest.ratio),
]


def test_each_cell_is_under_its_name_and_its_heading() -> None:
    table = build_table("guests", "Guests", COLUMNS, GUESTS, "Measured.")
    check_table(table)
    assert table.columns == ("name", "rate_bps", "rate_bps_ci_low", "rate_bps_ci_high", "ratio")
    assert table.rows == (("one", 2e6, MEAN.ci_low, MEAN.ci_high, 0.125), ("two", None, None, None, None))
    assert table.headings == ("guest", "Mbit/s", "share, %")
    assert table.shown == (("guest one", "2.0 ± 2.5", "12.5"), ("guest two", "–", "–"))
    assert (table.name, table.title, table.note) == ("guests", "Guests", "Measured.")
    assert to_csv(table).splitlines()[2] == "two,,,,"
    assert "| guest two | – | – |" in to_markdown(table)


def test_a_value_is_printed_as_it_is_unless_its_column_says_how() -> None:
    columns: list[TableColumn[Guest]] = [
        column("name", "name", lambda guest: guest.name, lambda guest: guest.name.upper()),
        column("ratio", "ratio", lambda guest: guest.ratio),
        number_column("rounded", "rounded", lambda guest: guest.ratio, 2, 0.5),
        p_value_column("p", "p", lambda guest: guest.ratio),
        mean_column("mean_bps", "Mbit/s", lambda guest: guest.rate, 1e6),
    ]
    assert build_table("a", "A", columns, GUESTS).shown == (
        ("ONE", "0.125", "0.25", "0.125", "2 ± 2"),
        ("TWO", "–", "–", "–", "–"),
    )


def test_columns_of_a_part_have_its_name_before_theirs() -> None:
    pairs = [(GUESTS[0], GUESTS[1])]
    columns: list[TableColumn[tuple[Guest, Guest]]] = [
        prefix_columns("first_", COLUMNS[:1], lambda pair: pair[0]),
        prefix_columns("second_", COLUMNS[:1], lambda pair: pair[1]),
    ]
    joined = join_columns(columns)
    assert joined.to_json(pairs[0]) == {"first_name": "one", "second_name": "two"}
    assert (joined.headings, joined.texts(pairs[0])) == ((), [])


def test_rows_beyond_those_that_are_printed_are_in_the_csv() -> None:
    table = build_table("guests", "Guests", COLUMNS, GUESTS, most_printed=1)
    assert (len(table.rows), len(table.shown)) == (2, 1)


@pytest.mark.parametrize(
    ("made", "names", "cells", "text"),
    [
        (csv_mean_columns("m", lambda _: MEAN), "m m_ci_low m_ci_high", (MEAN.mean, MEAN.ci_low, MEAN.ci_high), None),
        (
            effect_columns("e", "e", lambda _: Effect(0.5, 0.4, 0.6, 0.01, 3, 0.1, 2.0, True)),
            "e e_ci_low e_ci_high",
            (0.5, 0.4, 0.6),
            "+50.0 % (+40.0 % to +60.0 %)",
        ),
        (
            line_columns("s", "s", lambda _: OverBlocks(2048.0, 1024.0, 3072.0), 1, 1024.0, bounds=("low", "high")),
            "s low high",
            (2048.0, 1024.0, 3072.0),
            "2.0 (1.0 to 3.0)",
        ),
        (line_columns("s", "s", lambda _: None, 1, bounds=("low", "high")), "s low high", (None, None, None), "–"),
    ],
)
def test_a_value_has_its_bounds_beside_it(
    made: TableColumn[object], names: str, cells: tuple[float | None, ...], text: str | None
) -> None:
    assert (made.names, tuple(made.values(None))) == (tuple(names.split()), cells)
    assert tuple(made.texts(None)) == (() if text is None else (text,))
