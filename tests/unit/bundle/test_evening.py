"""The bounds on files from elsewhere are no bounds on what an evening measures: many runs, a long series, sixty plans.

``LABCONSOLE_EVENING_RUNS=100000 python -m pytest tests/unit/bundle/test_evening.py`` took twenty minutes and 620 MiB on two
busy processors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.contracts.ports import Series
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.run import PlanRef
from labconsole.store.open import open_store
from support.bundle_samples import HOSTS, PLAN, sample_stream_of_plan
from support.store_samples import sample_record

PLANS = 60
RUNS = int(os.environ.get("LABCONSOLE_EVENING_RUNS", "1200"))
PACKETS = 1_000_000


def write_exported_runs(directory: Path) -> None:
    """Runs of all plans, as an export has them."""
    inventory = load_inventory(directory / "hosts.yaml")
    stream = sample_stream_of_plan()
    hashes = [load_plan(path, inventory).hash() for path in sorted((directory / "plans").glob("*.yaml"))]
    assert len(set(hashes)) == PLANS
    with (directory / "runs.jsonl").open("w") as file:
        for number in range(RUNS):
            place, repetition = number % PLANS, 1 + number // PLANS
            ref = PlanRef(name=f"p{place}", hash=hashes[place], point=0, repetition=repetition, seed=1)
            run = sample_record(
                number,
                plan=ref,
                testbed="bench",
                testbed_fingerprint=inventory.fingerprint(),
                streams=(stream,),
                format=1,
                method=1,
            )
            file.write(json.dumps(run.to_json()) + "\n")


def packet_times() -> Series:
    times: list[int | float | None] = list(
        range(1_795_229_101_123_456_789, 1_795_229_101_123_456_789 + 977 * PACKETS, 977)
    )
    return Series({"packets": {"sent_ns": times, "received_ns": [None, *times[1:]], "delay_s": [0.5] * PACKETS}})


@pytest.fixture
def evening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv", "md", "tex"))
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    (tmp_path / "plans").mkdir()
    for number in range(PLANS):
        text = PLAN.replace("small", f"p{number:02d}").replace("repetitions: 2", f"repetitions: {-(-RUNS // PLANS)}")
        text = text.replace("[100Mbit]", f"[100Mbit, {101 + number}Mbit]")
        (tmp_path / "plans" / f"p{number:02d}.yaml").write_text(text)
    write_exported_runs(tmp_path)
    yield tmp_path


def test_an_evenings_runs_are_imported_verified_and_reported(evening: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "import", "runs.jsonl", "--store", "one.sqlite"]) == 0
    assert capsys.readouterr().out.startswith(f"{RUNS} runs added")
    series = packet_times()
    with open_store("one.sqlite") as store:
        first = store.list()[-1].run_id
        store.save(store.get(first), series)
    assert main(["report", "--store", "one.sqlite", "--bundle", "b.tar.gz"]) == 0
    capsys.readouterr()
    status = main(["verify", "b.tar.gz", "--json"])
    *differences, told = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (status, differences) == (0, [])
    assert (told["runs"], told["series"], told["differences"]) == (RUNS, 1, 0)
    assert main(["runs", "import", "b.tar.gz", "--store", "two.sqlite"]) == 0
    assert capsys.readouterr().out.startswith(f"{RUNS} runs added")
    assert main(["runs", "import", "two.sqlite", "--store", "three.sqlite"]) == 0
    assert main(["verify", "--store", "three.sqlite"]) == 0
    assert main(["report", "--store", "three.sqlite"]) == 0
    with open_store("three.sqlite", write=False) as store:
        assert store.series(first) == series
