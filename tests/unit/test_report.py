"""From saved runs to figures, tables, findings and a page: what enters a mean, what is said, what is escaped."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tui_fake import make_record

from labconsole import cli
from labconsole.model.record import RunRecord
from labconsole.model.request import TrialRequest
from labconsole.report.evaluation import changes, design_points, maxima
from labconsole.report.figures import all_figures
from labconsole.report.findings import find_all
from labconsole.report.frame import runs_frame, sample, told_apart
from labconsole.report.tables import latex_text, relative_changes, results, to_csv, to_markdown
from labconsole.store import open_store


def taken(
    number: int, measured_mbps: float, *, target: int | str = 100_000_000, platform: str = "raw", sources: int = 1,
    background: str = "none", status: str = "valid",
) -> dict[str, Any]:  # fmt: skip
    """A run whose streams share ``measured_mbps`` equally."""
    request = TrialRequest(
        platform=platform, frame_size_bytes=1000, sources=sources, target_bps=target, duration_s=1.0  # type: ignore[arg-type]
    )  # fmt: skip
    data = make_record(request, f"20261121T000000Z-{number:06x}", status=status).to_json()
    data["requested"]["background"] = background
    wire_bits = 8 * 1024
    offered = 1e9 if target == "max" else float(target)
    for stream in data["streams"]:
        stream["offered_bps"], stream["measured_bps"] = offered, measured_mbps * 1e6 / sources
        stream["offered_pps"], stream["measured_pps"] = offered / wire_bits, stream["measured_bps"] / wire_bits
    for name in ("offered_bps", "measured_bps", "offered_pps", "measured_pps"):
        data["total"][name] = sum(stream[name] for stream in data["streams"])
    return data


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


def save(path: Path, runs: list[dict[str, Any]]) -> None:
    with open_store(str(path)) as store:
        store.import_records(runs)


def points_of(path: Path) -> Any:
    with open_store(str(path), write=False) as store:
        return design_points(told_apart(sample(runs_frame(store.list())).runs))


def test_nothing_invalid_enters_a_mean_and_the_page_says_how_much_was_left_out(store_file: Path) -> None:
    save(store_file, [taken(1, 90), taken(2, 92), taken(3, 94), taken(4, 1, status="invalid")])
    (point,) = points_of(store_file)
    assert (point.n, point.measured_bps.mean) == (3, pytest.approx(92e6))
    with open_store(str(store_file), write=False) as store:
        kept = sample(runs_frame(store.list()))
    assert len(kept.excluded) == 1
    assert kept.excluded_by_reason


def test_a_maximum_is_over_all_loads_not_at_the_highest(store_file: Path) -> None:
    high = [taken(i, 200 + i, target=400_000_000) for i in range(3)]
    beyond = [taken(10 + i, 100 + i, target="max") for i in range(3)]
    save(store_file, high + beyond)
    (best,) = maxima(points_of(store_file)).values()
    assert best.target_bps == 400_000_000
    (finding,) = [f for f in find_all(points_of(store_file), []) if f.kind == "collapse"]
    assert "collapses beyond its maximum" in finding.sentence
    assert len(finding.run_ids) == 6


def test_a_change_is_told_with_its_interval_or_as_not_detectable(store_file: Path) -> None:
    base = [taken(i, 100 + i) for i in range(4)]
    lower = [taken(10 + i, 50 + i, background="heavy") for i in range(4)]
    same = [taken(20 + i, 100 + i, background="light") for i in range(4)]
    save(store_file, base + lower + same)
    table = relative_changes(
        changes(points_of(store_file), ("light", "heavy"), ("idle", "none")), name="table-1", title="Change"
    )
    rows = {row[3]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert rows["heavy"]["change_ratio"] == pytest.approx(51.5 / 101.5 - 1)
    assert rows["heavy"]["change_ci_high_ratio"] < 0
    assert rows["heavy"]["detectable"] == "yes"
    assert rows["light"]["detectable"] == "no detectable difference"


def test_two_repetitions_have_no_interval_and_nobody_invents_one(store_file: Path) -> None:
    save(store_file, [taken(1, 90), taken(2, 92)])
    table = results(points_of(store_file))
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["measured_ci_low_bps"] is None
    assert "±" not in table.shown[0][7]
    assert next(csv.DictReader(io.StringIO(to_csv(table))))["measured_ci_low_bps"] == ""


def test_unequal_streams_are_found_by_jains_index() -> None:
    data = taken(1, 90, sources=3)
    data["streams"][0]["measured_pps"] = 1.0
    found = find_all([], [RunRecord.model_validate(data)])
    assert [f.kind for f in found] == ["unequal_streams"]


def test_streams_that_were_not_offered_the_same_are_not_called_unequal() -> None:
    data = taken(1, 300.0, sources=2)
    for name in ("offered_pps", "measured_pps"):
        data["streams"][0][name], data["streams"][1][name] = 30_000.0, 6_000.0
    assert "unequal_streams" not in {f.kind for f in find_all([], [RunRecord.model_validate(data)])}


def test_runs_of_different_testbeds_or_generators_are_no_repetitions_of_each_other(store_file: Path) -> None:
    runs = [taken(n, 90.0 + n) for n in range(4)]
    runs[1]["testbed"] = "another"
    for stream in runs[2]["streams"]:
        stream["generator"] = "pktgen"
    save(store_file, runs)
    names = {point.platform: point.n for point in points_of(store_file)}
    assert sum(names.values()) == 4
    assert len(names) == 3
    assert sorted(names.values()) == [1, 1, 2]
    assert any("another" in name for name in names)
    assert any("pktgen" in name for name in names)


def test_a_run_far_from_its_repetitions_is_named_and_stays_in_the_mean(store_file: Path) -> None:
    save(store_file, [taken(n, 90.0 + n / 100) for n in range(8)] + [taken(8, 60.0)])
    (point,) = points_of(store_file)
    assert point.n == 9
    (finding,) = (f for f in find_all([point], []) if f.kind == "outlier")
    assert finding.run_ids == ("20261121T000000Z-000008",)
    assert "60.0 Mbit/s measured in 1 of 9 runs" in finding.sentence


@pytest.mark.parametrize("drifts", [True, False])
def test_a_testbed_that_drifts_over_a_plan_is_told_with_its_interval(drifts: bool) -> None:
    records = []
    for n in range(12):
        point, measured = n % 2, 50.0 * (1 + n % 2) * (1 - (n / 500 if drifts else 0)) + (n * 7 % 5) / 1000
        data = taken(n, measured)
        data["started_at"] = f"2026-11-21T00:00:{n:02d}.000Z"
        data["plan"] = {"name": "paper", "hash": "0" * 16, "point": point, "repetition": n // 2 + 1, "seed": 1}
        records.append(RunRecord.model_validate(data))
    found = [f for f in find_all([], records) if f.kind == "order_effect"]
    assert bool(found) == drifts
    if drifts:
        assert "Plan paper: measured rates change by -2.2" in found[0].sentence
        assert len(found[0].run_ids) == 12


def test_a_generator_held_back_by_flow_control_is_told_by_the_evidence_not_by_the_words() -> None:
    data = taken(1, 90.0, status="suspect")
    evidence = {"stream": "s1", "causes": [{"cause": "flow_control", "counters": {"rx_xoff": 3}}]}
    data["verdict"]["reasons"] = [{"code": "offered_short", "detail": "s1: short", "evidence": evidence}]
    (finding,) = find_all([], [RunRecord.model_validate(data)])
    assert "in 1 of them held back by flow control" in finding.sentence
    data["verdict"]["reasons"][0] |= {"detail": "s1: no pause was seen", "evidence": None}
    (finding,) = find_all([], [RunRecord.model_validate(data)])
    assert "flow control" not in finding.sentence


def test_figures_follow_the_papers_and_say_how_many_repetitions(store_file: Path) -> None:
    runs = [
        taken(100 * s + 10 * k + i, 80 * s + i, target=t, sources=s)
        for s in (1, 2)
        for k, t in enumerate((100_000_000, 200_000_000))
        for i in range(3)
    ]
    save(store_file, runs)
    figures = {figure.name: figure for figure in all_figures(points_of(store_file))}
    assert list(figures) == ["figure-3", "figure-4", "figure-3-2-sources"]
    assert "n = 3 per point" in figures["figure-3"].caption
    (panel,) = figures["figure-4"].panels
    assert [mark.x for mark in panel.curves[0].marks] == [0, 1]


def test_text_is_escaped_for_where_it_goes() -> None:
    assert latex_text("a_b & 5 %") == r"a\_b \& 5 \%"
    save_me = results([])
    assert to_markdown(save_me).startswith("**Every design point**")


def test_the_command_writes_every_file_and_the_page_stands_alone(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [taken(i, 90 + i, platform="<script>alert(1)</script>") for i in range(3)]
    save(store_file, runs + [taken(10 + i, 60 + i, target=200_000_000) for i in range(3)])
    out = tmp_path / "out"
    assert cli.main(["report", "--store", str(store_file), "--out", str(out)]) == 0
    names = {Path(line).name for line in capsys.readouterr().out.splitlines()}
    assert {"figure-3.svg", "figure-3.pdf", "figure-3.png", "results.csv", "results.tex", "report.html"} <= names
    page = (out / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for loads in ('src="', "@import", "url(http", "<link", 'href="http'):
        assert loads not in page
    assert "Emulated testbed" in page


def test_the_same_runs_give_the_same_figures_byte_for_byte(store_file: Path, tmp_path: Path) -> None:
    save(store_file, [taken(i, 90 + i) for i in range(3)])
    for name in ("a", "b"):
        assert cli.main(["report", "--store", str(store_file), "--out", str(tmp_path / name)]) == 0
    for suffix in ("svg", "pdf", "png"):
        first, second = ((tmp_path / name / f"figure-3.{suffix}").read_bytes() for name in ("a", "b"))
        assert first == second, suffix


def test_json_gives_the_tables_as_objects(store_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(store_file, [taken(i, 90 + i) for i in range(3)])
    assert cli.main(["report", "--store", str(store_file), "--json"]) == 0
    (table,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert table["rows"][0]["n"] == 3


def test_an_empty_selection_is_said_not_reported(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(store_file, [taken(1, 90)])
    status = cli.main(["report", "--store", str(store_file), "--out", str(tmp_path / "o"), "--platforms", "xen"])
    assert status == 2
    assert "no saved run matches" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
