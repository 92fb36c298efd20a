"""docs/platforms.md says of the drivers what they say themselves. RENEW_GOLDEN_WORDS=1 prints the table anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from labconsole.platforms.loading import known_drivers
from support.driver_table import TABLE, table

MANUAL = Path(__file__).parents[3] / "docs" / "platforms.md"
CAPABILITIES = ("pin", "statistics", "nic_models", "exec", "idle_nics")
"""In the order of the columns of what each driver can do."""


def test_the_table_of_drivers_is_theirs() -> None:
    text = MANUAL.read_text()
    found = TABLE.search(text)
    assert found is not None
    if os.environ.get("RENEW_GOLDEN_WORDS"):
        MANUAL.write_text(text[: found.start()] + table() + text[found.end() :])
    assert TABLE.search(MANUAL.read_text())[0] == table()  # type: ignore[index]


@pytest.mark.parametrize("name", ["esxi", "lxc", "openvz", "virtualbox", "vserver", "xl"])
def test_the_table_of_what_each_can_do_agrees_with_them(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| (?:yes|–).*$", MANUAL.read_text(), re.MULTILINE)
    assert row is not None
    cells = [cell.strip() for cell in row[0].split("|")[2:7]]
    able = known_drivers()[name].capabilities
    assert [not cell.startswith("–") for cell in cells] == [getattr(able, each) for each in CAPABILITIES]
