"""On what a point of guests was measured, as the last columns of every table of theirs: points differ in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from labconsole.contracts.report import Cell

ENVIRONMENT_COLUMNS = ("testbed", "kernel", "hypervisor")


class PointOfGuests(Protocol):
    """A point, of whatever the guests did."""

    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def hypervisor(self) -> str: ...


def build_environment_cells(key: PointOfGuests, testbeds: Mapping[str, str]) -> tuple[Cell, ...]:
    """``testbeds``: fingerprint to name. None: it is not known."""
    return testbeds[key.testbed_fingerprint], key.kernel or None, key.hypervisor or None
