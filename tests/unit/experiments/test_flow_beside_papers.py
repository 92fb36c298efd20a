"""What of one's own flows stands beside a paper's: only what asked the same."""

from __future__ import annotations

import re
from pathlib import Path

from labconsole.cli.main import main
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.record import FlowRecord
from labconsole.store.open import open_store
from support.flow_records import flow_record, ring_record


def beside(folder: Path, paper: str, table: str, records: list[FlowRecord]) -> str:
    """The table of this name, of a report on these trials."""
    store, out = folder / "s.sqlite", folder / "out"
    with open_store(str(store)) as opened:
        for number, record in enumerate(records):
            plan = record.plan.model_copy(update={"hash": f"flow-{number}"})
            made = {"plan": plan, "flow_id": f"20260101T000000000000Z-{number:04d}"}
            opened.save_experiment(FLOW, record.model_copy(update=made))
    told = ["report", "--store", str(store), "--out", str(out), "--reference", paper, "--formats", "md"]
    assert main(told) == 0
    return (out / f"{table}.md").read_text()


def test_only_rings_without_limits_stand_beside_the_papers(tmp_path: Path):
    records = [
        ring_record([100 * 8e6] * 2, platform="uml"),
        ring_record([5 * 8e6] * 3, platform="uml", limits_bps=(50_000_000,)),
    ]
    text = beside(tmp_path, "quetier", "quetier-15-beside", records)
    assert re.findall(r"^\| uml \| (\d+) \| ([\d.]+) \|", text, re.MULTILINE) == [("2", "100.0")]
    assert "Rings whose guests have limits have no row" in text


def test_guests_that_together_fit_on_the_link_are_beside_no_sentence_on_contention(tmp_path: Path):
    def offered(bps: int, packets: int, guests: int) -> FlowRecord:
        record = flow_record([[packets] * 10] * guests)
        return record.model_copy(update={"requested": record.requested.model_copy(update={"offered_bps": bps})})

    fits, contends = offered(20_000_000, 1698, 2), offered(60_000_000, 2700, 3)
    greedy = offered(20_000_000, 1698, 2)
    greedy = greedy.model_copy(update={"requested": greedy.requested.model_copy(update={"greedy": 3})})
    text = beside(tmp_path, "adamczyk", "adamczyk-flow-beside", [fits, contends, greedy])
    assert set(re.findall(r"^\| (no limit|greedy guest) \| [^|]+ \| (\d)", text, re.MULTILINE)) == {("no limit", "3")}
    assert "guests without limits that together offer no more than the link carries have no row" in text
