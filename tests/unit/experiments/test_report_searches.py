"""Searches in a report: tables with bounds and whose limit they are; their trials in no other mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.contracts.report import Table
from labconsole.experiments.search.report_data import select_newest
from labconsole.experiments.units import report_units
from labconsole.measure.admission import admit
from labconsole.model.record.run import RunRecord
from labconsole.model.record.search import SEARCH, SearchRecord
from labconsole.report.assembly import assemble_report
from labconsole.report.digest import Digest
from labconsole.report.evaluation import evaluate
from labconsole.report.sample import select_sample
from labconsole.report.tables import to_csv, to_json, to_latex, to_markdown
from labconsole.store.open import open_store
from support.fake_session import make_record
from support.search_script import EVERYTHING, REQUEST, Script, make, searching


@pytest.fixture(scope="module")
def session() -> Script:
    script = Script()
    make(script, searching(EVERYTHING))
    return script


@pytest.fixture
def record(session: Script) -> SearchRecord:
    return session.store.searches[0]


def tables_of(*searches: SearchRecord) -> tuple[Table, ...]:
    """Of a report on nothing but these searches."""
    return assemble_report(
        select_sample([], admit([])), Digest(()), evaluate([]), report_units(), searches=searches
    ).tables


def report(store: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, Any]]]:
    assert main(["report", "--store", str(store), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["table"]: line["rows"] for line in lines if "table" in line}


def test_every_test_has_its_table_in_every_format(record: SearchRecord) -> None:
    tables = {table.name: table for table in tables_of(record)}
    assert list(tables) == ["throughput", "frame-loss-rate", "back-to-back", "latency"]
    (row,) = to_json(tables["throughput"])["rows"]
    assert row["lower_bound_pps"] == record.goals[0].lower_bound_pps
    assert (row["limited_by"], row["complete"]) == ("uut", True)
    for table in tables.values():
        assert table.columns[:6] == tables["throughput"].columns[:6]
        assert {len(each) for each in table.rows} == {len(table.columns)}
        assert {len(each) for each in table.shown} == {len(table.headings)}
        for write in (to_csv, to_markdown, to_latex):
            assert write(table)


def test_of_searches_of_one_meaning_the_newest_that_ended_is_shown(record: SearchRecord) -> None:
    failed = record.model_copy(
        update={"search_id": "later", "started_at": "2027-01-01T00:00:00Z", "status": "failed", "failure": "x"}
    )
    older = record.model_copy(update={"search_id": "older", "started_at": "2020-01-01T00:00:00Z"})
    assert select_newest([failed, record, older]) == [record]
    assert select_newest([failed]) == [failed]


def test_a_search_that_ended_early_is_marked(record: SearchRecord) -> None:
    early = record.model_copy(update={"goals": (record.goals[0].model_copy(update={"complete": False}),)})
    (table, *_) = tables_of(early)
    assert table.shown[0][-1].endswith("†")
    assert "ended before" in table.note


def forwarded(run: RunRecord) -> RunRecord:
    """The same run with a forwarding rate: without one it would enter no mean."""
    known = {"forwarding_pps": run.total.measured_pps, "forwarding_bps": run.total.measured_bps}
    return run.model_copy(update={"total": run.total.model_copy(update=known)})


def test_the_trials_of_a_search_enter_no_table_of_runs(
    session: Script, record: SearchRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(str(tmp_path / "s.sqlite")) as store:
        for run in session.store.runs:
            store.save(forwarded(run), None)
        store.save(forwarded(make_record(REQUEST, "20261121T000000Z-aaaaaa")), None)
        store.save_experiment(SEARCH, record)
    tables = report(tmp_path / "s.sqlite", capsys)
    assert len(tables["throughput"]) == 1
    assert sum(row["trials"] for row in tables["results"]) == 1


def test_where_there_is_nothing_but_a_search_its_trials_are_the_runs(
    session: Script, record: SearchRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(str(tmp_path / "s.sqlite")) as store:
        for run in session.store.runs:
            store.save(forwarded(run), None)
        store.save_experiment(SEARCH, record)
    tables = report(tmp_path / "s.sqlite", capsys)
    assert len(tables["throughput"]) == 1
    assert sum(row["trials"] for row in tables["results"]) == len(record.trials)


def test_a_bundle_takes_the_trials_of_its_searches_along_and_is_verified_with_them(
    session: Script, record: SearchRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(str(tmp_path / "s.sqlite")) as store:
        for run in session.store.runs:
            there = {"testbed_fingerprint": record.testbed_fingerprint}
            store.save(forwarded(run).model_copy(update=there), None)
        store.save(forwarded(make_record(REQUEST, "20261121T000000Z-aaaaaa")), None)
        store.save_experiment(SEARCH, record)
    bundle = tmp_path / "b.tar.gz"
    assert main(["report", "--store", str(tmp_path / "s.sqlite"), "--bundle", str(bundle)]) == 0
    capsys.readouterr()
    main(["verify", str(bundle), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["searches"] == 1
    assert lines[-1]["runs"] == len(record.trials) + 1
    # What a made-up run's record does not follow from is no concern here.
    assert not [line for line in lines if record.search_id in str(line) or "search-" in str(line)]
