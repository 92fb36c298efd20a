"""A report on a plan's file has the records of what it asks of other packages' kinds, and only those."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.experiments.kinds import find_plugin_hashes
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.kind import record_kinds
from labconsole.store.open import open_store
from support.plugged_in import twice_installed

PLAN = """\
plan: toys
platforms: [raw]
frame_sizes: [64]
duration_s: 1
experiments:
  twice: {times: 3}
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The outside package's kind."""
    with twice_installed(tmp_path, monkeypatch):
        yield


def reported(capsys: Any, place: Path, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["report", "--store", str(place), "--json", *words]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {line["table"]: line["rows"] for line in lines if "table" in line}


def test_a_plans_own_steps_are_in_the_report_on_its_file_and_those_of_others_are_not(tmp_path, capsys):
    kind = record_kinds()["twice"]
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "other.yaml").write_text(PLAN.replace("times: 3", "times: 4"))
    (tmp_path / "grid.yaml").write_text(PLAN.partition("experiments")[0] + "targets: [10Mbit]\n")
    with open_store(str(tmp_path / "s.sqlite")) as store:
        for name, times in (("plan", 3), ("other", 4)):
            plan = load_plan(tmp_path / f"{name}.yaml")
            (hash,) = find_plugin_hashes(plan, store)
            made = kind.record(
                id=f"20260101T00000{times}Z-twice0",
                started_at="2026-01-01T00:00:00.000000Z",
                testbed="t",
                testbed_fingerprint="7d3f9a11c0de4b52",
                plan_name="toys",
                plan_hash=hash,
                platform="raw",
                times=times,
                runs=[],
            )
            store.save_experiment(kind, made)
        assert find_plugin_hashes(load_plan(tmp_path / "grid.yaml"), store) == []
    found = reported(capsys, tmp_path / "s.sqlite", "--plan", str(tmp_path / "plan.yaml"))
    assert found["twices"] == [{"platform": "raw", "times": 3}]
    assert len(reported(capsys, tmp_path / "s.sqlite")["twices"]) == 2
    assert main(["report", "--store", str(tmp_path / "s.sqlite"), "--plan", str(tmp_path / "grid.yaml")]) == 2
