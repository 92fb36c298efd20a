"""A change of the UUT's kernel is gated by four commands, and the notebook of docs/ runs, on a real lab."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.loss_injection import drop_by_queue
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import load_inventory
from support.live_lab import labconsole

DOCS = Path(__file__).parents[2] / "docs"

PLAN = """\
plan: nightly
platforms: [raw]
frame_sizes: [500]
targets: [30Mbit]
duration_s: 0.6
repetitions: 1
set_ups: 4
settle_s: 0
drain_s: 0.2
margin: 5%
"""

BEFORE_BPS, AFTER_BPS = 20_000_000, 16_000_000


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"gate{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


@pytest.mark.alone
def test_a_slower_queue_of_the_uut_is_gated_and_its_return_passes(testbed, tmp_path, monkeypatch):
    """A fifth less than before fails, naming the point; as much as before passes."""
    monkeypatch.chdir(tmp_path)
    plan, store = tmp_path / "plans" / "nightly.yaml", tmp_path / "runs.sqlite"
    plan.parent.mkdir()
    plan.write_text(PLAN)
    port = load_inventory(testbed.hosts_file).streams[0].uut_out

    def measure(occasion: str, rate_bps: int) -> None:
        queue = drop_by_queue(testbed.spec.name, "uut", port, rate_bps, limit_packets=20, burst_bytes=30_000)
        try:
            done = labconsole("replay", str(plan), "--occasion", occasion, hosts=testbed.hosts_file, store=store)
            assert done.returncode == 0, done.stderr + done.stdout
        finally:
            queue.remove()

    def gate(occasion: str, *words: str) -> tuple[int, str]:
        both = ["--occasion", f"{occasion}-1", "--occasion", f"{occasion}-2"]
        told = ["gate", str(plan), *both, "--baseline", "main", *words]
        done = labconsole(*told, hosts=testbed.hosts_file, store=store)
        return done.returncode, done.stdout + done.stderr

    for number in range(1, 4):
        measure(f"main-{number}", BEFORE_BPS)
    set_to = labconsole("baseline", "set", "main", "nightly@main-*", store=store)
    assert set_to.returncode == 0, set_to.stderr
    for number in (1, 2):
        measure(f"slower-{number}", AFTER_BPS)
    status, told = gate("slower", "--junit", str(tmp_path / "gate.xml"))
    assert status == 1, told
    assert "WORSE" in told
    assert f"Node uut: {port} qdiscs tbf rate {BEFORE_BPS // 8} " in told.replace("\n", " ")
    assert f"tbf rate {AFTER_BPS // 8} " in told
    assert "<failure" in (tmp_path / "gate.xml").read_text()
    for number in (1, 2):
        measure(f"again-{number}", BEFORE_BPS)
    status, told = gate("again")
    assert status == 0, told

    found = labconsole("compare", "plan=nightly@main-1", "plan=nightly@slower-1", "--json", store=store)
    (point,) = json.loads(found.stdout)["points"]
    assert point["change_ratio"] == pytest.approx(AFTER_BPS / BEFORE_BPS - 1, abs=0.02)

    # A bundle of an occasion has the plan's file, and can be verified by whoever has it alone.
    bundle = tmp_path / "slower.tar.gz"
    made = labconsole(
        "report",
        "plan=nightly@slower-1",
        "--plan",
        "nightly@slower-1",
        "--bundle",
        str(bundle),
        "--hosts",
        str(testbed.hosts_file),
        store=store,
    )
    assert made.returncode == 0, made.stderr
    verified = labconsole("verify", str(bundle))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    both = labconsole("compare", str(bundle), "plan=nightly@again-1", "--json", store=store)
    assert json.loads(both.stdout)["points"][0]["word"] == "different"


def test_the_notebook_of_the_documentation_runs(testbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(testbed.hosts_file, tmp_path / "hosts.yaml")
    notebook = json.loads((DOCS / "python.ipynb").read_text())
    known: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), known)
    assert known["replayed"].complete
    assert all(record.verdict.status != "invalid" for record in known["records"])
    assert len(known["runs"]) == 12
    assert known["changes"].factors == ("platform",)
