"""The environment of a point of guests, as the last columns of all their tables: points differ in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from labconsole.contracts.report import Cell

ENVIRONMENT_COLUMNS = ("testbed", "kernel", "hypervisor")


class PointOfGuests(Protocol):
    """A point of guests, whatever they did."""

    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def hypervisor(self) -> str: ...


def build_environment_cells(key: PointOfGuests, testbeds: Mapping[str, str]) -> tuple[Cell, ...]:
    """Cells of the environment. ``testbeds``: fingerprint to name; a cell is None if unknown."""
    return testbeds[key.testbed_fingerprint], key.kernel or None, key.hypervisor or None
