"""What each shipped plan would measure is what it would have measured: its dry run, as text and as JSON.

The testbed is golden/kinds/hosts.yaml, which has every platform; of long lists the ends are kept, and a digest of all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.golden_outputs import printed, same
from support.golden_sets import GOLDEN_SETS

SHIPPED = sorted((Path(__file__).parents[2] / "plans").glob("*.yaml"))
HOSTS = GOLDEN_SETS / "kinds" / "hosts.yaml"
PLANS = GOLDEN_SETS / "plans"
WHOLE_LINES = 24


@pytest.fixture(autouse=True)
def plain_surroundings(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns without colours."""
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC", "HOME": str(own_home)}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("plan", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_plan_would_measure_what_it_would_have_measured(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["replay", str(plan), "--dry-run", "--hosts", str(HOSTS), "--store", str(tmp_path / "runs.sqlite")]
    places = {tmp_path: "TMP", GOLDEN_SETS: "GOLDEN", plan.parent: "plans"}
    text = "\n".join(printed([*words, *form], capsys, places, whole_lines=WHOLE_LINES) for form in ((), ("--json",)))
    same(PLANS / f"{plan.stem}.txt", text)


def test_each_plan_has_one() -> None:
    assert {path.stem for path in PLANS.iterdir()} == {path.stem for path in SHIPPED}
