"""docs/data-format.md and docs/plans.md against the code: the example is a record, and no field or code is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from labconsole.measure.recompute.record import examine
from labconsole.model.plan.file import PLAN_FILE
from labconsole.model.plan.loader import load_plan
from labconsole.model.record import run as record
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances
from labconsole.store.records import parse_record

DOCS = Path(__file__).parents[3] / "docs"
FORMAT = (DOCS / "data-format.md").read_text()
PLANS = (DOCS / "plans.md").read_text()
EXAMPLE = FORMAT.partition("```json\n")[2].partition("```")[0]


def test_the_example_is_a_record_and_its_numbers_agree():
    run = parse_record(EXAMPLE, "docs")
    assert run.to_json() == json.loads(EXAMPLE)
    (stream,) = run.streams
    assert stream.delay_ns == run.requested.point.delay_ns
    assert stream.offered_pps == pytest.approx(stream.offered_packets / stream.offered_duration_s)
    assert stream.measured_bps == pytest.approx(run.requested.frame.rate_bps(stream.measured_pps))
    assert stream.loss_packets == stream.offered_packets - stream.measured_packets
    assert stream.loss_packets == sum(int(k) * n for k, n in stream.sequence.lost_runs.items())
    assert list(examine(run, WEIGHT)) == []
    losses = sum(hop.lost_packets or 0 for hop in stream.ledger)
    assert stream.ledger[0].packets - losses - stream.unplaced_packets == stream.measured_packets


PARTS = [value for value in vars(record).values() if isinstance(value, type) and issubclass(value, BaseModel)]


@pytest.mark.parametrize("part", [p for p in PARTS if p.__module__ == record.__name__], ids=lambda p: p.__name__)
def test_every_field_of_a_record_is_explained(part):
    missing = [name for name in part.model_fields if not re.search(rf"\b{name}\b", FORMAT.partition("## Fields")[2])]
    assert missing == []


def test_every_tolerance_is_explained_with_its_default():
    part = FORMAT.partition("| tolerance |")[2].partition("\n\n")[0]
    table = dict(re.findall(r"^\| `([a-z_]+)` \| ([0-9.]+)", part, re.MULTILINE))
    assert {name: float(value) for name, value in table.items()} == Tolerances().model_dump()


def test_every_key_of_a_plan_is_explained():
    for name in [*PLAN_FILE.model_fields, *Tolerances.model_fields]:
        assert f"`{name}`" in PLANS


def test_the_example_plan_is_a_plan(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(PLANS.partition("```yaml\n")[2].partition("```")[0])
    assert load_plan(path).trials == 2 * 4 * 9 * 3 * (1 + 5 * 2), "the pilot, and five blocks of two"
