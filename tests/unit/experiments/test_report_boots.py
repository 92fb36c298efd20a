"""Reports of starts of guests, through the command, from a store of trials whose truth is known."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.experiments.boot.record import RECORD as BOOT
from labconsole.experiments.boot.record import BootRecord
from labconsole.store.open import open_store
from support.boot_records import boot_data
from support.job_records import drawn_at

EACH_S = {"uml": 0.8, "lxc": 0.05}
COLD_S = 1.0
SAID_BYTES = 32 * 2**20
"""By the word of a hypervisor, of each guest on one platform."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One guest after the other is up, and from cold all of them a second later."""
    url = f"sqlite:///{tmp_path_factory.mktemp('report')}/boots.sqlite"
    draw, number = random.Random(1), 0
    with open_store(url) as opened:
        for platform, each_s in EACH_S.items():
            for start, more_s in (("cold", COLD_S), ("hot", 0.0)):
                for guests in (1, 2, 5):
                    for block in (1, 2, 3):
                        number += 1
                        data = boot_data([more_s + each_s * n * draw.gauss(1, 0.01) for n in range(1, guests + 1)])
                        data["boot_id"] = f"20261123T0909{number:02}Z-{number:06x}"
                        data["started_at"] = drawn_at(block, platform, start, guests)
                        data["plan"] |= {"block": block, "hash": f"boot-{number}"}
                        data["requested"] |= {"platform": platform, "start": start, "guests": guests}
                        for guest in data["guests"] if platform == "uml" else ():
                            guest["hypervisor_bytes"] = SAID_BYTES
                            data["memory"] |= {"hypervisor_command": "c", "hypervisor_bytes": SAID_BYTES * guests}
                        opened.save_experiment(BOOT, BootRecord.model_validate_json(json.dumps(data), strict=True))
    return url


def test_start_up_times_and_memory_are_reported_beside_the_papers(store: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    assert main(["report", "--store", store, "--out", str(out), "--reference", "quetier"]) == 0
    assert {path.stem for path in out.glob("*.svg")} == {"quetier-2"}
    times = list(csv.DictReader((out / "quetier-2-times.csv").read_text().splitlines()))
    found = {(row["platform"], row["start"], row["guests"]): float(row["startup_s"]) for row in times}
    assert found["uml", "hot", "5"] == pytest.approx(5 * EACH_S["uml"], rel=0.05)
    assert found["lxc", "cold", "1"] - found["lxc", "hot", "1"] == pytest.approx(COLD_S, rel=0.05)
    assert {row["resolution_s"] for row in times} == {"0.0205"}, "half a ms of the clocks, and 20 in which guests ask"
    memory = {row["platform"]: row for row in csv.DictReader((out / "quetier-memory.csv").read_text().splitlines())}
    assert float(memory["lxc"]["processes_guest_bytes"]) == pytest.approx(20 * 2**20)
    assert float(memory["uml"]["hypervisor_guest_bytes"]) == pytest.approx(SAID_BYTES)
    assert memory["lxc"]["hypervisor_guest_bytes"] == "", "it has no hypervisor with a word of its own"
    beside = list(csv.DictReader((out / "quetier-2-beside.csv").read_text().splitlines()))
    assert {
        (row["platform"], row["start"], row["guests"], row["paper_s"]) for row in beside if row["platform"] == "uml"
    } == {("uml", "cold", "5", "1040.0"), ("uml", "hot", "5", "160.0")}
    memory_beside = list(csv.DictReader((out / "quetier-memory-beside.csv").read_text().splitlines()))
    assert {row["paper"] for row in memory_beside if row["platform"] == "uml"} >= {
        "memory of one kernel: about 2 MB, with 1 guest",
        "memory of all kernels: about 500 MB, with 100 guests",
    }
    assert not [row for row in memory_beside if row["platform"] == "lxc"], "VServer's guests have no kernel"


def test_cold_is_held_against_hot_and_platform_against_platform(store: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    assert main(["report", "--store", store, "--out", str(out)]) == 0
    rows = list(csv.DictReader((out / "quetier-2-compared.csv").read_text().splitlines()))
    assert len(rows) == 2 * 3 + 2 * 3  # of each platform and number; of each start and number
    (cold,) = [
        row
        for row in rows
        if (row["platform"], row["than_platform"], row["start"], row["guests"]) == ("lxc", "lxc", "cold", "5")
    ]
    truth = (COLD_S + 5 * EACH_S["lxc"]) / (5 * EACH_S["lxc"])
    assert 1 + float(cold["longer_ratio"]) == pytest.approx(truth, rel=0.03)
    assert cold["word"] == "different"
    assert "times as long to start as of lxc (hot): different" in (out / "report.html").read_text()


def test_starts_under_two_kernels_are_two_curves(store: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    url, out = f"sqlite:///{tmp_path}/two.sqlite", tmp_path / "out"
    with open_store(url) as opened:
        for number, (kernel, startup_s) in enumerate([("6.1", 1.0), ("6.1", 1.1), ("6.18", 3.0), ("6.18", 3.1)]):
            data = boot_data([startup_s])
            data["boot_id"] = f"20261123T0909{number:02}Z-{number:06x}"
            data["plan"] |= {"block": 1 + number % 2, "hash": f"boot-{number}"}
            data["environment"] = {"nodes": {"uut": {"facts": {"kernel": kernel}}, "snk1": {"facts": {"kernel": "5"}}}}
            opened.save_experiment(BOOT, BootRecord.model_validate_json(json.dumps(data), strict=True))
    assert main(["report", "--store", url, "--out", str(out)]) == 0
    times = list(csv.DictReader((out / "quetier-2-times.csv").read_text().splitlines()))
    assert [row["kernel"] for row in times] == ["6.1", "6.18"]
    assert [float(row["startup_s"]) for row in times] == pytest.approx([1.05, 3.05])
    assert "uml, Linux 6.18" in (out / "report.html").read_text()
