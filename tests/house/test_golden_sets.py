"""The golden sets of record formats stay what they are, and what their plans hash to stays, too."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from labconsole.model.plan.loader import load_plan
from support.golden_sets import GOLDEN_SETS

FORMATS = ("format-1", "format-2")


def hashes(golden: Path) -> dict[str, Any]:
    """By plan, what was written of it then."""
    return json.loads((golden / "plan-hashes.json").read_text())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_golden_set_is_what_it_was(kind: str):
    golden = GOLDEN_SETS / kind
    listed = [line.split("  ", 1) for line in (golden / "SHA256SUMS").read_text().splitlines()]
    assert {name: hashlib.sha256((golden / name).read_bytes()).hexdigest() for _, name in listed} == {
        name: digest for digest, name in listed
    }
    there = {str(path.relative_to(golden)) for path in golden.rglob("*") if path.is_file()}
    assert there == {name for _, name in listed} | {"README.md", "SHA256SUMS"}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_golden_plan_has_its_hashes(kind: str):
    golden = GOLDEN_SETS / kind
    assert sorted(hashes(golden)) == sorted(path.name for path in (golden / "plans").iterdir())


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in FORMATS for name in hashes(GOLDEN_SETS / kind)])
def test_a_plan_keeps_its_hash_its_searches_hashes_and_its_schedule(kind: str, name: str):
    golden = GOLDEN_SETS / kind
    plan = load_plan(golden / "plans" / name)
    assert {
        "hash": plan.hash(),
        "search_hashes": list(plan.search_hashes),
        "trials": plan.trials,
        "schedule": [list(trial) for trial in plan.schedule()[:40]],
    } == hashes(golden)[name]
