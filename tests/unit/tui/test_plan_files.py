"""Which files the console offers as plans."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labconsole.tui.parts.plan_files import scan
from support.fake_session import make_inventory

PLAN = "plan: quick\nplatforms: [raw]\nframe_sizes: [64]\ntargets: [5Mbit]\nduration_s: 1\n"


def test_plans_here_and_yaml_files_in_plans_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert scan(make_inventory(), {}) == []
    Path("plans").mkdir()
    Path("plans/night.yaml").write_text(PLAN)
    Path("plans/broken.yml").write_text("nothing: here\n")
    Path("quick.yaml").write_text("# mine\n" + PLAN)
    Path("hosts.yaml").write_text("testbed: t\n# plan: none\n")
    Path("compose.yaml").write_text("services: {plan: x}\n")
    Path("wrong.yaml").write_text("plan: w\nplatfroms: [raw]\nduration_s: -1\n")
    os.mkfifo("pipe.yaml")
    os.mkfifo("plans/pipe.yaml")
    found = scan(make_inventory(), {})
    assert [str(entry.path) for entry in found] == ["plans/broken.yml", "plans/night.yaml", "quick.yaml", "wrong.yaml"]
    assert [entry.plan is not None for entry in found] == [False, True, True, False]
    assert [line.split(": ")[1] for line in found[3].problem.splitlines()] == ["platfroms", "duration_s"]
