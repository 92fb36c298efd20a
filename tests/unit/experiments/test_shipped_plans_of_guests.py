"""The plans that come with labconsole ask for nothing that is refused of flows and routes, whatever the platform."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labconsole.cli.main import main

ROOT = Path(__file__).parents[3]
PLANS = [
    path for path in sorted((ROOT / "plans").glob("*.yaml")) if re.search(r"^(flow|route):", path.read_text(), re.M)
]


@pytest.mark.parametrize("shipped", PLANS, ids=lambda path: path.stem)
def test_nothing_of_a_shipped_plan_is_refused_on_a_link_of_its_speed(
    shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plan, hosts = tmp_path / "plan.yaml", tmp_path / "hosts.yaml"
    text, many = re.subn(r"^platforms: \[.*\]", "platforms: [container]", shipped.read_text(), flags=re.M)
    assert many == 1
    plan.write_text(text)
    hosts.write_text((ROOT / "hosts.yaml").read_text().replace("link_speed: 1Gbit", "link_speed: 100Mbit"))
    told = ["replay", str(plan), "--dry-run", "--hosts", str(hosts), "--store", str(tmp_path / "s.sqlite")]
    assert main(told) == 0
    assert "refused" not in "".join(capsys.readouterr())
