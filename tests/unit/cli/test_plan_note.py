"""``labconsole plan note``: written, shown and removed, and found again in the report on the plan's runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labconsole.api.plan_files import load_plan_on_occasion
from labconsole.cli.main import main
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.run import PlanRef
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import measured
from support.store_samples import sample_record

HOSTS = """\
testbed: bench
nodes:
  src1: {address: 10.9.8.7, roles: [source]}
  uut: {address: 10.9.8.8, roles: [uut]}
  snk1: {address: 10.9.8.9, roles: [sink]}
streams:
  - {name: s1, source: src1/eth1, uut_in: eth1, uut_out: eth5, sink: snk1/eth1, source_ip: 198.18.1.1, sink_ip: 198.19.1.1}
platforms: {raw: {driver: raw}}
"""
PLAN = "plan: small\nplatforms: [raw]\nframe_sizes: [64]\ntargets: [100Mbit]\nduration_s: 5\nrepetitions: 2\n"
WORDS = "after the fan \x1b[31mwas replaced"


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command, in a directory with a testbed, two files of one plan, and a store with a run of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "same.yaml").write_text(f"# the same plan\n{PLAN}")
    (tmp_path / "other.yaml").write_text(PLAN.replace("64", "1500"))
    inventory = load_inventory(tmp_path / "hosts.yaml")
    ref = PlanRef(name="small", hash=load_plan(tmp_path / "plan.yaml", inventory).hash(), point=0, repetition=1, seed=1)
    record = sample_record(plan=ref, testbed="bench", testbed_fingerprint=inventory.fingerprint())
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        store.save(record, None)
    return ["plan", "note", "--store", "runs.sqlite"]


def test_a_note_belongs_to_what_the_plan_means_and_is_shown_and_removed(
    note: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: str) -> str:
        assert main([*note, *words]) == 0
        return capsys.readouterr().out

    assert told("plan.yaml") == "no note\n"
    for words in (("plan.yaml", WORDS), ("plan.yaml",), ("same.yaml",)):
        shown = told(*words)
        assert "after the fan" in shown and "note by " in shown and "\x1b" not in shown
    assert told("other.yaml") == "no note\n"
    assert json.loads(told("plan.yaml", "--json"))["note"]["text"] == WORDS
    assert told("same.yaml", "") == "no note\n"
    assert json.loads(told("plan.yaml", "--json"))["note"] is None


def test_a_note_that_is_too_long_is_refused_in_one_sentence(
    note: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*note, "plan.yaml", "x" * 10_001]) == 2
    assert "a note has at most 10000 characters, this one has 10001" in capsys.readouterr().err


def test_the_report_on_the_plans_runs_shows_it(note: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--store", "runs.sqlite"]) == 0
    assert "Note on plan" not in capsys.readouterr().out
    assert main([*note, "plan.yaml", f"{WORDS} <b>\nby hand"]) == 0
    capsys.readouterr()
    assert main(["report", "--store", "runs.sqlite"]) == 0
    shown = capsys.readouterr().out
    assert "Note on plan small: after the fan" in shown and "\x1b" not in shown
    assert main(["report", "--store", "runs.sqlite", "--out", "out", "--formats", "html"]) == 0
    page = Path("out/report.html").read_text()
    assert "<td>Note on plan small</td><td>after the fan" in page
    assert "&lt;b&gt; by hand (" in page


def test_advice_is_on_one_occasion_and_occasions_are_named(note: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    plan, hosts = Path("blocks.yaml"), Path("hosts.yaml")
    plan.write_text(PLAN.replace("small", "nightly") + "set_ups: 3\n")
    records = [
        measured(
            2 * block + repetition,
            60 + block / 10 + repetition / 20,
            block=block,
            repetition=repetition,
            trials=2,
            plan_hash=load_plan_on_occasion(plan, occasion, hosts).hash(),
            set_up=f"{occasion}-{block}",
            repetitions=2,
            size=64,
        )
        | {"testbed_fingerprint": load_inventory(hosts).fingerprint()}
        for occasion in ("c1", "main")
        for block in (1, 2, 3)
        for repetition in (1, 2)
    ]
    for number, record in enumerate(records):
        record["plan"]["name"] = "nightly@c1" if number < 6 else "nightly@main"
        record["run_id"] = f"20260727T14{number:04}Z-{number:06x}"
    with open_store("runs.sqlite") as store:
        import_records(store, records)
    command = ["plan", "advise", "--store", "runs.sqlite", "blocks.yaml"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "--occasion: is missing" in said and "allowed: c1, main" in said
    assert main([*command, "--occasion", "main", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plan"] == "nightly@main" and told["each"][0]["spread"]["set_ups"] == 3
