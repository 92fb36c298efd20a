"""A report's tables against the runs by a path of their own: silent on what the program made, and loud on any cell."""

from __future__ import annotations

import csv
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from labconsole.bundle.verify import wrong_tables
from labconsole.cli.main import main
from labconsole.model.record.summary import RunSummary
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import evaluation, measured


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[RunSummary]]:
    """A report of three made-up platforms in four blocks, and its runs."""
    directory = tmp_path_factory.mktemp("made")
    path = directory / "runs.sqlite"
    platforms, targets = ("raw", "container", "qemu-virtio"), (10**8, 4 * 10**8, "max")
    with open_store(str(path)) as store:
        import_records(store, evaluation(4, 2, sizes=(64,), platforms=platforms, targets=targets, margin=0.02))
        runs = store.list()
    assert main(["report", "--store", str(path), "--out", str(directory / "report"), "--formats", "csv"]) == 0
    return directory / "report", runs


def said(directory: Path, runs: list[RunSummary]) -> list[str]:
    return list(wrong_tables(directory, runs, {"selection": {"pool": []}}))


def test_what_the_program_made_is_what_the_runs_give(made: tuple[Path, list[RunSummary]]) -> None:
    assert said(*made) == []


@pytest.mark.parametrize("excess", [20, 21])
def test_frames_of_its_own_are_counted_alike_on_both_paths(
    made: tuple[Path, list[RunSummary]], tmp_path: Path, excess: int
) -> None:
    path = tmp_path / "runs.sqlite"
    runs = list(evaluation(4, 2, sizes=(64,), platforms=("raw", "container"), targets=(10**8, "max")))
    for run in runs:
        if run["plan"]["block"] in (1, 2) and run["plan"]["repetition"] == 1 and run["total"]["uut_lost_packets"] == 0:
            for each in (run["streams"][0], run["total"]):
                each |= {"uut_lost_packets": -excess, "sink_lost_packets": excess}
            run["total"]["uut_loss_ratio"] = -excess / run["total"]["offered_packets"]
    with open_store(str(path)) as store:
        import_records(store, runs)
        listed = store.list()
    assert main(["report", "--store", str(path), "--out", str(tmp_path / "report"), "--formats", "csv"]) == 0
    rows = list(csv.DictReader((tmp_path / "report" / "results.csv").read_text(encoding="utf-8").splitlines()))
    told = {row["loss_trials"] for row in rows if row["loss_ratio"] == ""}
    assert told == ({"0"} if excess == 21 else set()) and any(row["loss_ratio"] for row in rows)
    assert said(tmp_path / "report", listed) == []


def test_the_evaluation_page_shows_tables_that_a_report_has(made: tuple[Path, list[RunSummary]]) -> None:
    known = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "evaluation.py"))["EVALUATIONS"]
    assert [name for name in known["forwarding"].tables if not (made[0] / f"{name}.csv").exists()] == []


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("results", "forwarding_mean_bps"),
        ("results", "forwarding_ci_low_bps"),
        ("results", "forwarding_ci_high_bps"),
        ("results", "offered_mean_bps"),
        ("results", "set_ups"),
        ("results", "trials"),
        ("results", "loss_ratio"),
        ("results", "loss_ci_low_ratio"),
        ("results", "loss_ci_high_ratio"),
        ("results", "lost_packets"),
        ("results", "loss_trials"),
        ("table-1", "change_ratio"),
        ("table-1", "p"),
        ("table-1", "adjusted_p"),
        ("figure-5-numbers", "change_ci_low_ratio"),
        ("ranking", "change_ci_high_ratio"),
        ("ranking", "blocks"),
        ("ranking", "adjusted_p"),
        ("collapse", "p"),
        ("collapse", "change_ratio"),
    ],
)
def test_a_changed_cell_is_told(made: tuple[Path, list[RunSummary]], tmp_path: Path, table: str, column: str) -> None:
    directory, runs = made
    shutil.copytree(directory, tmp_path / "report")
    path = tmp_path / "report" / f"{table}.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    number, row = next((place, row) for place, row in enumerate(rows, 2) if row[column] not in ("", "0.0", "1.0"))
    row[column] = str(float(row[column]) * 1.001 + 1e-9)
    _write(path, rows)
    assert any(f"report/{table}.csv: line {number}, {column}" in each for each in said(tmp_path / "report", runs))


def test_a_word_that_its_p_does_not_carry_is_told(made: tuple[Path, list[RunSummary]], tmp_path: Path) -> None:
    directory, runs = made
    shutil.copytree(directory, tmp_path / "report")
    path = tmp_path / "report" / "ranking.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    rows[0]["word"] = "inconclusive" if rows[0]["word"].startswith("different") else "different"
    _write(path, rows)
    assert any("report/ranking.csv: line 2, word" in each for each in said(tmp_path / "report", runs))


def test_a_row_without_runs_is_told(made: tuple[Path, list[RunSummary]]) -> None:
    directory, runs = made
    found = said(directory, [run for run in runs if run.platform != "container"])
    assert any("enters a mean, but is not among the runs" in each for each in found)
    assert any("report/results.csv" in each and "no runs that enter support it" in each for each in found)


def test_set_ups_taken_apart_are_no_pair_by_either_path(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        import_records(
            store,
            (
                measured(
                    10 * n + place,
                    base + n * n % 3 / 10,
                    block=n,
                    point=place,
                    platform=platform,
                    started="2026-11-23T00:00:00" if (n, place) == (3, 1) else f"2026-11-21T{n:02d}:0{place}:00",
                )
                for n in range(1, 6)
                for place, (platform, base) in enumerate((("raw", 80), ("lxc", 60)))
            ),
        )
        runs = store.list()
    report = tmp_path / "report"
    assert main(["report", "--store", str(tmp_path / "runs.sqlite"), "--out", str(report), "--formats", "csv"]) == 0
    (row,) = csv.DictReader((report / "ranking.csv").read_text(encoding="utf-8").splitlines())
    assert row["blocks"] == "4"
    assert said(report, runs) == []
    together = [
        replace(run, started_at="2026-11-21T03:01:00.000000Z") if run.started_at[8:10] == "23" else run for run in runs
    ]
    assert any("ranking.csv: line 2, change_ratio" in each for each in said(report, together))


@pytest.mark.parametrize("first_boot", [{}, {1: "one"}])
def test_the_block_that_chose_the_load_stays_out_of_boots_by_either_path(
    tmp_path: Path, first_boot: dict[int, str]
) -> None:
    """``first_boot``: also where both sides of that block alone are of one boot, which would pair them."""
    targets = ((0, 10**8, 0), (1, 2 * 10**8, -3))
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        import_records(
            store,
            (
                measured(
                    100 * side + 10 * n + point,
                    base + n * n % 5 + less,
                    block=n,
                    point=2 * side + point,
                    platform=platform,
                    target=target,
                    boot=first_boot.get(n, f"{platform}-{n}"),
                    trials=2,
                    set_ups=5,
                )
                for n in range(1, 6)
                for side, (platform, base) in enumerate((("raw", 80), ("lxc", 60)))
                for point, target, less in targets
            ),
        )
        runs = store.list()
    report = tmp_path / "report"
    assert main(["report", "--store", str(tmp_path / "runs.sqlite"), "--out", str(report), "--formats", "csv"]) == 0
    (row,) = csv.DictReader((report / "ranking.csv").read_text(encoding="utf-8").splitlines())
    assert row["p"]
    assert said(report, runs) == []


def test_a_collapse_is_within_set_ups_whose_boot_nobody_read_by_either_path(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        import_records(
            store,
            (
                measured(
                    10 * n + point,
                    base + n * n % 3 / 10,
                    block=n,
                    point=point,
                    target=target,
                    boot=None,
                    trials=2,
                    fixed=10**8,
                )
                for n in range(1, 4)
                for point, target, base in ((0, 10**8, 90), (1, 2 * 10**8, 60))
            ),
        )
        runs = store.list()
    report = tmp_path / "report"
    assert main(["report", "--store", str(tmp_path / "runs.sqlite"), "--out", str(report), "--formats", "csv"]) == 0
    (row,) = csv.DictReader((report / "collapse.csv").read_text(encoding="utf-8").splitlines())
    assert (row["blocks"], row["word"]) == ("3", "different")
    assert said(report, runs) == []


@pytest.mark.parametrize("read", [True, False])
def test_runs_without_a_set_up_pooled_with_set_ups_have_no_interval_by_either_path(tmp_path: Path, read: bool) -> None:
    bare = [measured(50 + n, 81, duration_s=2.0) | {"set_up": None, "plan": None} for n in range(2)]
    for run in bare if not read else ():
        for each in (run["streams"][0], run["total"]):
            each |= {"uut_lost_packets": None, "sink_lost_packets": None}
        run["total"]["uut_loss_ratio"] = None
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        import_records(store, [*(measured(n, 80 + n / 10, block=n + 1) for n in range(3)), *bare])
        runs = store.list()
    report, words = tmp_path / "report", ["--formats", "csv", "--pool", "duration"]
    assert main(["report", "--store", str(tmp_path / "runs.sqlite"), "--out", str(report), *words]) == 0
    (row,) = csv.DictReader((report / "results.csv").read_text(encoding="utf-8").splitlines())
    assert (row["set_ups"], row["trials"], row["forwarding_ci_low_bps"]) == ("3", "5", "")
    assert (row["loss_trials"], row["loss_ci_low_ratio"]) == ("5" if read else "3", "") and row["loss_ratio"]
    assert list(wrong_tables(report, runs, {"selection": {"pool": ["duration"]}})) == []


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
