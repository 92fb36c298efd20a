"""Reports of jobs in guests, through the command, from a store of trials whose truth is known."""

from __future__ import annotations

import csv
import json
import random
import re
import tarfile
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.model.plan.loader import load_plan
from labconsole.store.open import open_store
from support.job_records import taken

BLOCKS = 4
JOB_S = 4.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """On ``lxc`` a job takes a quarter longer than on the bare host, however many guests stand; all are kept apart."""
    url = f"sqlite:///{tmp_path_factory.mktemp('report')}/jobs.sqlite"
    draw = random.Random(1)
    with open_store(url) as opened:
        for block in range(1, BLOCKS + 1):
            for platform, seconds in (("host", JOB_S), ("lxc", 1.25 * JOB_S)):
                for guests in (1, 2, 5):
                    for working in ("one",) if guests == 1 else ("one", "all", "one-two"):
                        times = {"one": [1.0], "all": [float(guests)] * guests, "one-two": [2.0, 3.0, 3.0]}[working]
                        took = [seconds * each * draw.gauss(1, 0.002) for each in times]
                        record = taken(took, platform=platform, guests=guests, working=working, cpu="same", block=block)
                        asked = record.requested.model_copy(update={"job": "cpu-sqrt2", "size": 2000})
                        opened.save_experiment(JOB, record.model_copy(update={"requested": asked}))
    return url


def reported(store: str, out: Path, *words: str) -> Path:
    pytest.importorskip("matplotlib")
    assert main(["report", "--store", store, "--out", str(out), *words]) == 0
    return out


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_store_of_jobs_alone_has_a_report_of_the_papers_figures(store: str, tmp_path: Path) -> None:
    out = reported(store, tmp_path / "out")
    figures = {path.stem for path in out.glob("*.svg")}
    assert figures == {"mattos-1", "quetier-3", "quetier-7", "quetier-11"}
    page = (out / "report.html").read_text()
    assert "Work in guests of" in page
    assert "Forwarding performance" not in page
    assert "cpu-sqrt2 (2000 digits) takes 25" in page


def test_the_overhead_growth_and_isolation_that_were_put_in_are_found(store: str, tmp_path: Path) -> None:
    out = reported(store, tmp_path / "out")
    alone = next(row for row in rows(out / "job-overheads.csv") if (row["platform"], row["guests"]) == ("lxc", "1"))
    assert float(alone["added_ratio_ci_low"]) < 0.25 < float(alone["added_ratio_ci_high"])
    assert float(alone["added_s"]) == pytest.approx(JOB_S / 4, rel=0.02)
    assert alone["word"] == "different"
    lines = {(row["platform"], row["working"]): row for row in rows(out / "job-guests.csv")}
    assert float(lines["lxc", "all work"]["slope_s_per_guest"]) == pytest.approx(1.25 * JOB_S, rel=0.02)
    assert float(lines["lxc", "all work"]["jain"]) == pytest.approx(1, abs=0.001)
    assert {row["word"] for row in rows(out / "job-isolation.csv")} == {"between guests"}
    times = rows(out / "job-trials.csv")
    apart = next(row for row in times if (row["platform"], row["working"], row["guests"]) == ("host", "one-two", "2"))
    assert (apart["seconds"], apart["set_ups"]) == ("", str(BLOCKS)), "a mean over both guests' copies is of neither"
    assert float(apart["first_guest_s"]) == pytest.approx(2 * JOB_S, rel=0.01)
    assert float(apart["second_guest_s"]) == pytest.approx(3 * JOB_S, rel=0.01)
    assert {row["first_guest_s"] for row in times if row["working"] != "one-two"} == {""}
    assert "first guest 8.0" in (out / "job-trials.md").read_text()


def test_the_paper_stands_beside_what_was_found(store: str, tmp_path: Path) -> None:
    out = reported(store, tmp_path / "out", "--reference", "quetier")
    beside = rows(out / "quetier-beside.csv")
    assert {(row["topic"], row["paper_platform"]) for row in beside} >= {
        ("isolation", "vserver"),
        ("overhead", "vserver"),
    }
    assert {row["finding"] for row in beside if row["topic"] == "isolation"} == {
        "between guests, of 2 guests",
        "between guests, of 5 guests",
    }
    mapped = reported(store, tmp_path / "mapped", "--reference", "quetier", "--reference-map", "lxc=xen")
    assert {row["paper_platform"] for row in rows(mapped / "quetier-beside.csv")} == {"xen"}
    other = reported(store, tmp_path / "other", "--reference", "mattos")
    (row,) = rows(other / "mattos-beside.csv")
    assert (row["platform"], row["paper_platform"], row["job_from"]) == ("lxc", "all", "Quétier et al., 3.1")
    assert row["finding"].startswith("different: +2")


def test_a_bundle_has_all_jobs_and_its_report_is_made_again(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    bundle, jobs = tmp_path / "jobs.tar.gz", BLOCKS * 2 * 7
    assert main(["report", "--store", store, "--bundle", str(bundle)]) == 0
    with tarfile.open(bundle) as packed:
        lines = packed.extractfile("labconsole-bundle/jobs.jsonl")
        assert lines is not None
        assert len(lines.read().splitlines()) == jobs
    capsys.readouterr()
    assert main(["verify", str(bundle), "--json"]) == 1  # times that were made up do not follow from marks
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[-1]["jobs"] == jobs
    assert not any("report" in each.get("difference", "") for each in told)


def test_a_report_of_another_plan_says_what_there_is(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--store", store, "--plan", "nothing"]) == 2
    assert "labconsole:" in capsys.readouterr().err


PLAN = """\
plan: waits
platforms: [lxc, uml]
set_ups: 2
repetitions: 2
job: {jobs: [{job: wait, size: 3}], guests: [2], working: [all]}
"""


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Path, str]:
    """A plan of eight trials, of which five places on one platform of four are filled: one trial of them is suspect,
    and one was taken twice. On the plan and its testbed there is a note.
    """
    path, url = tmp_path / "waits.yaml", f"sqlite:///{tmp_path}/jobs.sqlite"
    path.write_text(PLAN)
    plan = load_plan(path)
    jobs = plan.guests
    assert jobs is not None
    with open_store(url) as opened:
        number = 0
        for trial, key in zip(jobs.trials, jobs.hashes, strict=True):
            if trial.point.platform == "uml" and trial.block == 2:
                continue
            doubted = (trial.point.platform, trial.block, trial.repetition) == ("uml", 1, 1)
            twice = (trial.point.platform, trial.block, trial.repetition) == ("lxc", 1, 1)
            for _ in range(2 if twice else 1):
                number += 1
                record = taken([3.0, 3.0], platform=trial.point.platform, codes=["swapped"] if doubted else [])
                update = {
                    "name": plan.name,
                    "hash": key,
                    "block": trial.block,
                    "repetition": trial.repetition,
                    "set_ups": 2,
                    "repetitions": 2,
                    "plan_hash": plan.hash(),
                    "point": trial.point.index,
                }
                ref = record.plan.model_copy(update=update)
                changes = {"job_id": f"20261123T0909{number:02}Z-a0964d", "plan": ref}
                opened.save_experiment(JOB, record.model_copy(update=changes))
        opened.set_plan_note(plan.hash(), "f" * 64, "with the old disk", author="op")
    return path, url


@pytest.mark.parametrize("by_file", [True, False])
def test_what_a_plan_asks_for_and_is_missing_is_told_and_so_is_its_note(
    planned: tuple[Path, str], by_file: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path, store = planned
    assert main(["report", "--store", store, *(["--plan", str(path)] if by_file else [])]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Missing of what was planned: plan waits, uml: 3 trials of 1 point, 1 of them taken and left out." in said
    assert "Note on plan waits: with the old disk" in said


def test_a_bundle_of_a_plan_of_jobs_has_its_note_and_says_what_is_missing(
    planned: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, store = planned
    bundle = tmp_path / "b.tar.gz"
    assert main(["report", "--store", store, "--plan", str(path), "--bundle", str(bundle)]) == 0
    with tarfile.open(bundle) as packed:
        files = {each.name.partition("/")[2]: packed.extractfile(each) for each in packed}
        manifest = json.loads(files["manifest.json"].read())  # type: ignore[union-attr]
        noted = [json.loads(line) for line in files["runs.jsonl"].read().splitlines()]  # type: ignore[union-attr]
    assert manifest["report"]["trials"] == {"job": {"planned": 8, "taken": 7, "retaken": 1, "entered": 5}}
    assert manifest["report"]["missing_of_plans"] == [
        "plan waits, uml: 3 trials of 1 point, 1 of them taken and left out"
    ]
    assert list(manifest["plans"]) == ["plans/waits.yaml"]
    assert [each["plan_note"]["text"] for each in noted] == ["with the old disk"]
    capsys.readouterr()
    main(["verify", str(bundle), "--json"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not [
        each for each in told if "report" in each.get("difference", "") or "manifest" in each.get("difference", "")
    ]


def test_plans_are_reported_in_one_order_so_that_a_bundle_verifies_however_they_were_listed(
    planned: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, store = planned
    first = tmp_path / "first.yaml"
    first.write_text(PLAN.replace("waits", "first").replace("size: 3", "size: 4"))
    bundle = tmp_path / "b.tar.gz"
    assert main(["report", "--store", store, "--plan", str(path), "--plan", str(first), "--bundle", str(bundle)]) == 0
    capsys.readouterr()
    main(["verify", str(bundle), "--json"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not [
        each for each in told if "report" in each.get("difference", "") or "manifest" in each.get("difference", "")
    ]


def test_a_trial_that_its_plan_does_not_ask_for_is_found_by_who_verifies(
    planned: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, store = planned
    with open_store(store) as opened:
        (*_, last) = opened.experiments(JOB)
        ref = last.plan.model_copy(update={"repetition": 9})
        opened.save_experiment(JOB, last.model_copy(update={"job_id": "20261123T101010Z-a0964d", "plan": ref}))
    bundle = tmp_path / "b.tar.gz"
    assert main(["report", "--store", store, "--plan", str(path), "--bundle", str(bundle)]) == 0
    capsys.readouterr()
    assert main(["verify", str(bundle), "--json"]) == 1
    told = [json.loads(line).get("difference", "") for line in capsys.readouterr().out.splitlines()]
    (wrong,) = (each for each in told if each.startswith("plans/"))
    assert "does not ask for the trial that began at" in wrong


def test_plans_that_ask_for_other_work_or_other_guests_are_other_plans(tmp_path: Path) -> None:
    """And one that asks for the same more often is the same."""
    other = [
        ("size: 3", "size: 4"),
        ("guests: [2]", "guests: [1, 50]"),
        ("job: wait, size: 3", "job: cpu-pi"),
        ("working: [all]", "working: [all], memory_mib: 64"),
    ]
    hashes = []
    for number, (old, new) in enumerate(
        [("", ""), *other, ("set_ups: 2", "set_ups: 5"), ("repetitions: 2", "seed: 7")]
    ):
        path = tmp_path / f"{number}.yaml"
        path.write_text(PLAN.replace(old, new) if old else PLAN)
        hashes.append(load_plan(path).hash())
    assert len(set(hashes[:5])) == 5
    assert hashes[5:] == [hashes[0]] * 2


def words_in(svg: Path) -> str:
    """What a figure says: titles are in several lines where they are long."""
    return " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text()))


def test_jobs_under_two_kernels_are_two_panels(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/two.sqlite"
    with open_store(url) as opened:
        for number, kernel in enumerate(("6.1", "6.18")):
            record = taken([3.0], guests=1, working="one", block=1 + number)
            nodes = {"nodes": {"uut": {"facts": {"kernel": kernel}}, "snk1": {"facts": {"kernel": "5"}}}}
            asked = record.requested.model_copy(update={"job": "cpu-sqrt2", "size": 2000})
            opened.save_experiment(JOB, record.model_copy(update={"environment": nodes, "requested": asked}))
    reported(url, tmp_path / "out")
    assert {row["kernel"] for row in rows(tmp_path / "out" / "job-trials.csv")} == {"6.1", "6.18"}
    drawn = words_in(tmp_path / "out" / "mattos-1.svg")
    assert "Linux 6.1" in drawn
    assert "Linux 6.18" in drawn


def test_the_bare_host_stands_in_one_panel_with_guests_of_one_memory(tmp_path: Path) -> None:
    guests = {
        "one": (("lxc", 256), ("uml", 256)),
        "two": (("lxc", 256), ("uml", 512)),
        "both": (("lxc", 256), ("lxc", None)),
    }
    for name, sizes in guests.items():
        url = f"sqlite:///{tmp_path}/{name}.sqlite"
        with open_store(url) as opened:
            for number, (platform, memory_mib) in enumerate((("host", None), *sizes), start=1):
                record = taken([3.0], platform=platform, guests=1, working="one", block=number)
                changed = {"job": "cpu-sqrt2", "size": 2000, "memory_mib": memory_mib}
                asked = record.requested.model_copy(update=changed)
                opened.save_experiment(JOB, record.model_copy(update={"requested": asked}))
            # another job in guests of no set memory is another panel, and changes nothing in this one
            other = taken([3.0], platform="qemu-virtio", guests=1, working="one", block=9)
            asked = other.requested.model_copy(update={"job": "cpu-sqrt2", "size": 3000})
            opened.save_experiment(JOB, other.model_copy(update={"requested": asked}))
        drawn = words_in(reported(url, tmp_path / name) / "mattos-1.svg")
        assert ("MiB each" in drawn) == (name != "one")
        assert "256 MiB each" in (tmp_path / name / "job-trials.md").read_text()


def test_requests_to_guests_that_serve_stand_beside_the_papers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/served.sqlite"
    with open_store(url) as opened:
        for block in (1, 2, 3):
            for job, factor in (("serve-http", 1.0), ("serve-https", 2.0)):
                seconds = [factor * (each + block / 100) for each in (1.0, 2.0, 2.2)]
                record = taken(seconds, working="one-two", block=block)
                asked = record.requested.model_copy(update={"job": job, "size": 572})
                ref = record.plan.model_copy(update={"hash": f"{job}{block}"})
                changes = {"requested": asked, "plan": ref, "job_id": f"{record.job_id}{job}"}
                opened.save_experiment(JOB, record.model_copy(update=changes))
    out = reported(url, tmp_path / "out", "--reference", "quetier")
    assert "quetier-1" in {path.stem for path in out.glob("*.svg")}
    found = {(row["job"], row["request"]): row for row in rows(out / "quetier-1-times.csv")}
    assert float(found["serve-https", "the only one"]["seconds"]) == pytest.approx(2.04)
    assert float(found["serve-http", "second of two"]["seconds"]) == pytest.approx(2.22)
    assert [found["serve-http", each]["paper_s"] for each in ("the only one", "first of two", "second of two")] == [
        "23.0",
        "22.0",
        "21.0",
    ]


def test_a_filter_chooses_among_jobs_by_what_they_have(
    planned: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, store = planned
    assert main(["report", "--store", store, "--plan", str(path), "platform=lxc"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Missing of what was planned" not in said
    assert "uml" not in said
    assert main(["report", "--store", store, "testbed!=t"]) == 2
    assert main(["report", "--store", store, "size=64"]) == 2
    bundle = tmp_path / "b.tar.gz"
    capsys.readouterr()
    assert main(["report", "--store", store, "platform=uml", "--bundle", str(bundle)]) == 0
    main(["verify", str(bundle), "--json"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert told[-1]["jobs"] == 2
    assert not [each for each in told if "report" in each.get("difference", "")]
