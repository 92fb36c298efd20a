"""A testbed for trials that are made up by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.model.inventory import Inventory, load_inventory
from support.testbeds import GOOD


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    path = tmp_path / "hosts.yaml"
    path.write_text(GOOD)
    return load_inventory(path)
