"""All that one report claims of jobs and of starts is one family, and a bundle's is reckoned again as one."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from labconsole.bundle.verify import wrong_tables
from labconsole.cli.main import main
from labconsole.experiments.boot.record import RECORD as BOOT
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.measure.statistics.effects import holm
from labconsole.store.open import open_store
from support.boot_records import boot_data
from support.flow_records import flow_record
from support.job_records import drawn_at, taken

TABLES = ("job-overheads", "quetier-2-compared")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a store in which no platform differs from another in anything, with four blocks."""
    pytest.importorskip("matplotlib")
    where, draw = tmp_path_factory.mktemp("family"), random.Random(3)
    url = f"sqlite:///{where}/all.sqlite"
    with open_store(url) as opened:
        for block in range(1, 5):
            for platform in ("host", "lxc", "uml", "qemu"):
                for guests in (1, 2) if platform != "host" else (1,):
                    times = [4.0 * draw.gauss(1, 0.01)]
                    opened.save_experiment(
                        JOB, taken(times, platform=platform, guests=guests, working="one", block=block)
                    )
            for number, platform in enumerate(("lxc", "uml")):
                data = boot_data([draw.gauss(1, 0.01)])
                data["boot_id"] = f"20261123T0909{block}{number}Z-{block:03x}{number:03x}"
                data["started_at"] = drawn_at(block, platform)
                data["plan"] |= {"block": block, "hash": f"boot-{block}-{number}"}
                data["requested"] |= {"platform": platform, "start": "hot", "guests": 1}
                opened.save_experiment(BOOT, BootRecord.model_validate_json(json.dumps(data), strict=True))
    assert main(["report", "--store", url, "--out", str(where / "out")]) == 0
    return where / "out"


def rows(report: Path) -> list[dict[str, str]]:
    return [row for name in TABLES for row in csv.DictReader((report / f"{name}.csv").read_text().splitlines())]


def test_jobs_and_starts_are_adjusted_over_all_that_the_report_claims(report: Path) -> None:
    found = [row for row in rows(report) if row["p"]]
    assert len(found) == 7  # six guests over the bare host, one platform over another
    adjusted = holm([float(row["p"]) for row in found])
    assert [float(row["adjusted_p"]) for row in found] == pytest.approx(adjusted)
    page = (report / "report.html").read_text()
    assert "7 claims were tested as one family" in page


def test_what_says_different_without_the_familys_leave_is_found(report: Path, tmp_path: Path) -> None:
    assert list(wrong_tables(report, [], {})) == []
    for name in TABLES:
        text = (report / f"{name}.csv").read_text()
        said = next(word for word in ("inconclusive", "different") if word in text)
        other = "different" if said == "inconclusive" else "inconclusive"
        (tmp_path / f"{name}.csv").write_text(text.replace(said, other, 1))
    (tmp_path / "runs.csv").write_text("run_id,enters\n")
    wrong = list(wrong_tables(tmp_path, [], {}))
    assert [each.partition(":")[0] for each in wrong] == [f"report/{name}.csv" for name in TABLES]


def test_flows_are_put_beside_the_bare_host_in_the_same_family(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw, url = random.Random(5), f"sqlite:///{tmp_path}/flows.sqlite"
    with open_store(url) as opened:
        for block in range(1, 7):
            opened.save_experiment(
                JOB, taken([4.0 * draw.gauss(1, 0.01)], platform="host", guests=1, working="one", block=block)
            )
            opened.save_experiment(
                JOB, taken([4.0 * draw.gauss(1, 0.01)], platform="lxc", guests=1, working="one", block=block)
            )
            for number, (platform, share) in enumerate((("host", 0.8), ("lxc", 0.8), ("uml", 0.6))):
                each = round(8127 * share * draw.gauss(1, 0.003))
                record = flow_record(
                    [[each] * 6],
                    platform=platform,
                    block=block,
                    flow_id=f"20260101T0000{block:02d}000000Z-{number:04d}",
                    started_at=drawn_at(block, platform),
                    attestation={"driver": "raw" if platform == "host" else platform},
                )
                opened.save_experiment(FLOW, record)
    assert main(["report", "--store", url, "--out", str(tmp_path / "out")]) == 0
    found = list(csv.DictReader((tmp_path / "out" / "flow-overheads.csv").read_text().splitlines()))
    assert [(row["way"], row["platform"], row["word"]) for row in found] == [
        ("from the guest", "lxc", "inconclusive"),
        ("from the guest", "uml", "different"),
    ]
    assert float(found[1]["change"]) == pytest.approx(-0.25, abs=0.01) and int(found[1]["blocks"]) == 6
    jobs = list(csv.DictReader((tmp_path / "out" / "job-overheads.csv").read_text().splitlines()))
    both = [row for row in jobs + found if row["p"]]
    assert len(both) == 3
    adjusted = holm([float(row["p"]) for row in both])
    assert [float(row["adjusted_p"]) for row in both] == pytest.approx(adjusted), "one family"
    assert list(wrong_tables(tmp_path / "out", [], {})) == []
    table = tmp_path / "out" / "flow-overheads.csv"
    table.write_text(table.read_text().replace("inconclusive", "different"))
    assert [each.partition(":")[0] for each in wrong_tables(tmp_path / "out", [], {})] == ["report/flow-overheads.csv"]


def test_what_confirms_an_abstract_is_in_the_reports_family(tmp_path: Path) -> None:
    """Beside a paper's tables a report claims more, and each claim costs as much more."""
    draw, url = random.Random(11), f"sqlite:///{tmp_path}/jobs.sqlite"
    with open_store(url) as opened:
        for block in range(1, 7):
            for platform in ("host", "lxc", "uml"):
                for guests in (1, 2) if platform != "host" else (1,):
                    seconds = [4.0 * (1.02 if platform == "uml" else 1.0) * draw.gauss(1, 0.006)]
                    opened.save_experiment(
                        JOB, taken(seconds, platform=platform, guests=guests, working="one", cpu="same", block=block)
                    )
    for words, tested in (((), 4), (("--reference", "quetier"), 6)):  # one guest's job, and how that grows
        out = tmp_path / f"out{tested}"
        assert main(["report", "--store", url, "--out", str(out), "--formats", "csv", *words]) == 0
        overheads = list(csv.DictReader((out / "job-overheads.csv").read_text().splitlines()))
        abstract = out / "quetier-abstract-jobs.csv"
        beside = list(csv.DictReader(abstract.read_text().splitlines())) if abstract.exists() else []
        p_values = [float(row["p"]) for row in overheads] + [
            float(p) for row in beside for p in row["claims_p"].split()
        ]
        assert len(p_values) == tested
        adjusted = holm(p_values)
        assert [float(row["adjusted_p"]) for row in overheads] == pytest.approx(adjusted[:4])
        for row in beside:
            own = [adjusted[p_values.index(float(p))] for p in row["claims_p"].split()]
            assert not own or (row["word"] == "confirmed") == all(p <= 0.05 for p in own)
        assert list(wrong_tables(out, [], {})) == [], "reckoned again, with what the abstracts claim"
