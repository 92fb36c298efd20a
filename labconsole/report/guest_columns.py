"""Columns that all tables of points of guests share: excluded trials, and the environment. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from labconsole.report.formatting import format_left_out
from labconsole.report.table_builder import Item, TableColumn, column, csv_columns


class PointOfGuests(Protocol):
    """A point of guests, whatever they did."""

    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def hypervisor(self) -> str: ...


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
