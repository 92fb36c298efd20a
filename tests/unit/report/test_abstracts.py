"""What a paper's abstract concludes, compared with findings: confirmed by what was decided, and by nothing less."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.model.record.boot import BootRecord
from labconsole.model.record.kinds.boot import KIND as BOOT
from labconsole.model.record.kinds.flow import KIND as FLOW
from labconsole.model.record.kinds.job import KIND as JOB
from labconsole.model.record.kinds.route import KIND as ROUTE
from labconsole.report.abstracts import KnownInterval, apart, differ, most
from labconsole.store.open import open_store
from support.flow_records import flow_record
from support.job_records import taken
from support.route_records import route_record


def test_tools_differ_where_two_decided_words_do_and_are_alike_where_all_are_decided() -> None:
    undecided = ("inconclusive",)
    assert differ({"lxc": "flat", "uml": "grows"}, undecided) == "confirmed"
    assert differ({"lxc": "flat", "uml": "grows", "qemu": "inconclusive"}, undecided) == "confirmed"
    assert differ({"lxc": "flat", "uml": "flat"}, undecided) == "not confirmed"
    assert differ({"lxc": "flat", "uml": "flat", "qemu": "inconclusive"}, undecided) == "not decided"
    assert differ({"lxc": "inconclusive", "uml": "inconclusive"}, undecided) == "not decided"
    assert differ({"lxc": "flat"}, undecided) == "not decided"


def test_the_most_is_wholly_above_all_others_by_more_than_nothing() -> None:
    def held(platform: str, **found: KnownInterval | None) -> str:
        return most(platform, found, matters_ratio=0.01)

    high, low, wide, nearly = (
        KnownInterval(9, 8, 10),
        KnownInterval(5, 4, 6),
        KnownInterval(8, 5, 11),
        KnownInterval(7.98, 7.97, 7.99),
    )
    assert held("xen", xen=high, lxc=low) == "confirmed"
    assert held("xen", xen=high, lxc=low, uml=wide) == "not decided"
    assert held("xen", xen=high, lxc=None) == "not decided"
    assert held("lxc", xen=high, lxc=low, uml=wide) == "not confirmed"
    assert held("xen", xen=high, lxc=nearly) == "not decided", "both may fill the link"
    assert held("lxc", xen=KnownInterval(8.01, 8.0, 8.02), lxc=nearly) == "not decided"
    assert held("xen", xen=high) == held("esxi", xen=high) == "not decided"
    assert apart([high, nearly, low]) == apart([high, wide, low]) == "confirmed"
    assert apart([high, wide]) == apart([low, None]) == apart([]) == "not decided"


def rows(out: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((out / f"{name}.csv").read_text().splitlines()))


def reported(store: str, out: Path, *words: str) -> Path:
    assert main(["report", "--store", store, "--out", str(out), "--formats", "csv", *words]) == 0
    return out


def jobs(path: Path, growth_of: dict[str, float]) -> str:
    """On each platform a job takes so much longer with each guest that stands beside; all keep guests apart."""
    draw, url = random.Random(2), f"sqlite:///{path}"
    with open_store(url) as opened:
        for block in range(1, 7):
            for platform, growth in {"host": 0.0, **growth_of}.items():
                for guests in (1, 2, 5):
                    for working in ("one",) if guests == 1 else ("one", "one-two"):
                        times = [1.0] if working == "one" else [2.0, 3.0, 3.0]
                        took = [4.0 * each * (1 + growth * guests) * draw.gauss(1, 0.0002) for each in times]
                        record = taken(took, platform=platform, guests=guests, working=working, cpu="same", block=block)
                        asked = record.requested.model_copy(update={"job": "cpu-sqrt2", "size": 2000})
                        opened.save_experiment(JOB, record.model_copy(update={"requested": asked}))
    return url


def test_tools_that_grow_with_intervals_that_overlap_decide_nothing_and_the_bare_host_is_none(tmp_path: Path) -> None:
    store = jobs(tmp_path / "jobs.sqlite", {"lxc": 0.1, "uml": 0.1})
    found = rows(reported(store, tmp_path / "out", "--reference", "quetier"), "quetier-abstract-jobs")
    overhead = [row for row in found if row["conclusion"].endswith("in overhead")]
    assert [row["word"] for row in overhead] == ["not decided"]
    assert "host" not in {name.partition(":")[0] for row in found for name in row["finding"].split("; ")}


@pytest.mark.parametrize(("growth", "held"), [(0.1, "confirmed"), (0.0, "not confirmed")])
def test_tools_that_grow_unlike_confirm_the_abstract_and_tools_that_are_alike_do_not(
    tmp_path: Path, growth: float, held: str
) -> None:
    store = jobs(tmp_path / "jobs.sqlite", {"lxc": 0.0, "uml": growth})
    found = rows(reported(store, tmp_path / "out", "--reference", "quetier"), "quetier-abstract-jobs")
    overhead = [row for row in found if row["conclusion"].endswith("in overhead")]
    assert [row["word"] for row in overhead] == [held]
    assert overhead[0]["about"].startswith("cpu, cpu-sqrt2 (2000 digits), one CPU for all")
    assert overhead[0]["finding"].startswith("lxc: flat, ") and "; uml: " in overhead[0]["finding"]
    isolation = [row for row in found if row["conclusion"].endswith("in isolation")]
    assert {(row["word"], row["finding"]) for row in isolation} == {
        ("not confirmed", "lxc: between guests; uml: between guests")
    }
    assert "quetier-abstract-jobs" not in {
        path.stem for path in reported(store, tmp_path / "other", "--reference", "mattos").glob("*.csv")
    }


def test_guests_that_send_confirm_or_not_what_is_said_of_xen(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'flows.sqlite'}"
    with open_store(store) as opened:
        for block in range(1, 5):
            for number, (platform, packets) in enumerate((("mine", 8000 + block), ("other", 6000 + block))):
                end = f"20260101T000000000000Z-0{number}0{block}"
                one = flow_record([[packets] * 4], platform=platform, block=block, flow_id=f"{end}1")
                uneven = 1 if platform == "mine" else 2
                two = flow_record([[2000] * 4, [2000 * uneven] * 4], platform=platform, block=block, flow_id=f"{end}2")
                for record in (one, two):
                    opened.save_experiment(FLOW, record)
    words = ("--reference", "mattos", "--reference-map", "mine=xen")
    found = rows(reported(store, tmp_path / "out", *words), "mattos-abstract-network")
    (best,) = [row for row in found if row["conclusion"].startswith("Xen introduces")]
    assert (best["about"], best["word"]) == ("mine", "confirmed")
    fair = {row["about"].partition(",")[0]: row["word"] for row in found if row["conclusion"].endswith("is fair")}
    assert fair == {"mine": "confirmed", "other": "not confirmed"}
    other = ("--reference", "mattos", "--reference-map", "other=xen")
    found = rows(reported(store, tmp_path / "worse", *other), "mattos-abstract-network")
    assert [row["word"] for row in found if row["conclusion"].startswith("Xen introduces")] == ["not confirmed"]


@pytest.mark.parametrize(("lost", "held"), [(1000, "confirmed"), (0, "not decided")])
def test_routers_whose_sum_falls_confirm_what_is_said_of_several_where_they_lost_packets(
    tmp_path: Path, lost: int, held: str
) -> None:
    store, draw = f"sqlite:///{tmp_path / 'routes.sqlite'}", random.Random(4)
    with open_store(store) as opened:
        for block in range(1, 9):
            for guests in (1, 4):
                each = round(20_000 * (1.0 if guests == 1 else 0.7 / 4) * draw.gauss(1, 0.005))
                made = route_record([each] * guests, block=block, lost_inside=[lost] * guests)
                came = (made.in_packets or 0) + lost * guests
                opened.save_experiment(ROUTE, made.model_copy(update={"in_packets": came}))
    found = rows(reported(store, tmp_path / "out", "--reference", "mattos"), "mattos-abstract-routers")
    assert [row["word"] for row in found] == [held]
    assert "4 routers" in found[0]["about"] and "different" in found[0]["finding"]


def test_memory_of_guests_that_differs_confirms_that_tools_do(tmp_path: Path, boots: Any) -> None:
    store = f"sqlite:///{tmp_path / 'boots.sqlite'}"
    with open_store(store) as opened:
        for record in boots({"lxc": 20, "uml": 60}):
            opened.save_experiment(BOOT, record)
    found = rows(reported(store, tmp_path / "out", "--reference", "quetier"), "quetier-abstract-memory")
    assert [(row["about"], row["word"]) for row in found] == [("memory of each guest, hot start", "confirmed")]


def test_memory_of_two_blocks_decides_nothing_and_says_why(tmp_path: Path, boots: Any) -> None:
    store = f"sqlite:///{tmp_path / 'boots.sqlite'}"
    with open_store(store) as opened:
        for record in boots({"lxc": 20, "uml": 60}):
            if record.plan.block < 3:
                opened.save_experiment(BOOT, record)
    found = rows(reported(store, tmp_path / "out", "--reference", "quetier"), "quetier-abstract-memory")
    assert [(row["finding"], row["word"]) for row in found] == [
        ("lxc: too few blocks; uml: too few blocks", "not decided")
    ]


@pytest.fixture
def boots() -> Any:
    """Starts of 1, 2 and 5 guests, each of which takes so many MiB; ten blocks."""
    import json

    from support.boot_records import boot_data
    from support.job_records import drawn_at

    def made(mib_of: dict[str, int]) -> list[BootRecord]:
        draw, records = random.Random(6), list[BootRecord]()
        for block in range(1, 11):
            for platform, mib in mib_of.items():
                for guests in (1, 2, 5):
                    number = len(records)
                    data = boot_data([0.1 * n for n in range(1, guests + 1)])
                    data["boot_id"] = f"20261123T0909{number % 60:02}Z-{number:06x}"
                    data["started_at"] = drawn_at(block, platform, guests)
                    data["plan"] |= {"block": block, "hash": f"boot-{number}"}
                    data["requested"] |= {"platform": platform, "start": "hot", "guests": guests}
                    data["memory"] |= {"used_bytes": round(mib * 2**20 * guests * draw.gauss(1, 0.01))}
                    records.append(BootRecord.model_validate_json(json.dumps(data), strict=True))
        return records

    return made
