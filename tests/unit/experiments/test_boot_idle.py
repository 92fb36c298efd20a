"""Context switches of the unit under test while nothing is asked of it: read, computed again, summed up, reported."""

from __future__ import annotations

import asyncio
import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.errors import Aborted
from labconsole.experiments.boot.kind import KIND as BOOT_KIND
from labconsole.experiments.boot.measurement import BootMeasurement, measure_idle, quiet_time
from labconsole.experiments.boot.plan import BootPoint
from labconsole.experiments.boot.record import RECORD as BOOT
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.steps import Boots
from labconsole.experiments.boot.summary import summarize_boots
from labconsole.experiments.boot.text import summary_lines
from labconsole.experiments.boot.verify import recompute_boot
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.report.trial_text import trial_lines
from labconsole.store.open import open_store
from support.boot_records import boot_data, boot_record
from support.job_records import drawn_at
from support.testbeds import GOOD

TOOK_NS = 5_000_000_000


def idle(before_per_s: int, standing_per_s: int) -> dict[str, Any]:
    sides = {"before": before_per_s, "standing": standing_per_s}
    return {
        side: {"took_ns": TOOK_NS, "switches": 5 * per_s, "switches_per_s": float(per_s)}
        for side, per_s in sides.items()
    }


def trial(before_per_s: int, standing_per_s: int, *, guests: int, block: int, platform: str = "uml") -> BootRecord:
    data = boot_data([1.0] * guests)
    data["boot_id"] = f"20261123T0909{block:02}Z-{platform}{guests}"
    data["started_at"] = drawn_at(block, platform, guests)
    data["plan"] |= {"block": block, "hash": data["boot_id"]}
    data["requested"] |= {"platform": platform}
    return boot_record(data | {"idle": idle(before_per_s, standing_per_s)})


TRIALS = [
    trial(100 + block, 100 + block + each * guests, guests=guests, block=block, platform=platform)
    for platform, each in (("uml", 200), ("lxc", -3))
    for block in (1, 2, 3)
    for guests in (1, 4)
]


@pytest.mark.parametrize(
    ("before", "after", "took_ns", "found"),
    [
        ("ctxt 1000\n", "cpu 1\nctxt 3000\n", 4_000_000_000, (2000, 500.0)),
        ("ctxt 1000\n", "ctxt 1000\n", 4_000_000_000, (0, 0.0)),
        ("ctxt 3000\n", "ctxt 1000\n", 4_000_000_000, None),
        ("", "ctxt 1000\n", 4_000_000_000, None),
        ("ctxt 1\n", "ctxt many\n", 4_000_000_000, None),
        ("ctxt 1\n", "ctxt 2\n", 0, None),
    ],
)
def test_switches_are_told_over_the_time_that_passed_or_not_at_all(
    before: str, after: str, took_ns: int, found: tuple[int, float] | None
) -> None:
    quiet = quiet_time(before, after, took_ns)
    assert (None if quiet is None else (quiet.switches, quiet.switches_per_s)) == found


def test_a_changed_rate_is_found_and_one_that_is_not_known_is_no_difference() -> None:
    data = boot_data() | {"idle": idle(8, 400)}
    assert recompute_boot(boot_record(data)) == []
    data["idle"]["standing"]["switches_per_s"] = 40.0
    assert [each.where for each in recompute_boot(boot_record(data))] == ["idle.standing.switches_per_s"]
    data["idle"]["standing"] = None
    assert recompute_boot(boot_record(data)) == []


def test_a_trial_tells_both_sides_and_one_from_before_this_was_counted_tells_none() -> None:
    (line,) = [
        line for line in trial_lines(BOOT_KIND, boot_record(boot_data() | {"idle": idle(8, 400)})) if "switches" in line
    ]
    assert "before the start 8.0/s in 5.0 s of quiet, with all guests idle 400.0/s" in line
    old = boot_record(boot_data())
    assert old.idle is None
    assert not any(
        "switches" in line for line in (*trial_lines(BOOT_KIND, old), *summary_lines(summarize_boots([old])))
    )


def test_each_guests_share_is_a_mean_over_set_ups_and_may_be_negative() -> None:
    points = {(each.key.platform, each.guests): each for each in summarize_boots(TRIALS).points}
    for (platform, guests), each_per_s in {("uml", 1): 200, ("uml", 4): 200, ("lxc", 4): -3}.items():
        found = points[platform, guests]
        before, standing, share = (
            found.before_switches_per_s,
            found.standing_switches_per_s,
            found.guest_switches_per_s,
        )
        assert before is not None and standing is not None and share is not None
        assert (before.mean, standing.mean) == (102.0, 102.0 + guests * each_per_s)
        assert (share.mean, share.set_ups, share.half_width) == (each_per_s, 3, 0.0)
        assert before.half_width == pytest.approx(4.30 / 3**0.5, rel=0.01)
    words = "\n".join(summary_lines(summarize_boots(TRIALS)))
    assert "with all idle 902.0 ± 2.5 (3 trials in 3 set-ups), more for each guest 200.0 ± 0.0" in words


def test_a_report_has_them_beside_what_the_paper_says(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    url, out = f"sqlite:///{tmp_path}/idle.sqlite", tmp_path / "out"
    with open_store(url) as opened:
        for record in TRIALS:
            opened.save_experiment(BOOT, record)
    assert main(["report", "--store", url, "--out", str(out), "--reference", "quetier"]) == 0
    rows = list(csv.DictReader((out / "boot-idle.csv").read_text().splitlines()))
    shares = {(row["platform"], row["guests"]): float(row["guest_switches_per_s"]) for row in rows}
    assert shares == {("uml", "1"): 200.0, ("uml", "4"): 200.0, ("lxc", "1"): -3.0, ("lxc", "4"): -3.0}
    beside = list(csv.DictReader((out / "boot-idle-beside.csv").read_text().splitlines()))
    said = [
        (row["guests"], row["switches_per_s"], row["paper_platform"], row["paper"].rpartition(": ")[2])
        for row in beside
        if row["platform"] == "uml"
    ]
    assert said == [
        ("0", "102.0 ± 2.5", "host", "about 4 per second"),
        ("0", "102.0 ± 2.5", "host", "about 8 per second"),
        ("1", "302.0 ± 2.5", "uml", "about 400 per second, with 1 guest"),
    ]
    assert {row["paper_platform"] for row in beside if row["platform"] == "lxc"} == {"host"}, "it leaves VServer out"


def test_both_quiet_times_are_reckoned_with(tmp_path: Path) -> None:
    (hosts := tmp_path / "hosts.yaml").write_text(GOOD)
    (path := tmp_path / "plan.yaml").write_text("plan: p\nplatforms: [lxc]\nboot: {guests: [2], start: [hot]}\n")
    (step,) = Boots(None).steps(load_plan(path))  # type: ignore[arg-type]
    assert step.durations_s(load_inventory(hosts)) == [3 * 5.0 + 2 * 5.0]


class Quiet:
    """A unit under test that switches ten times a second, and says what it was asked and when."""

    def __init__(self) -> None:
        self.now_s, self.told = 100.0, list[tuple[float, str]]()

    async def ask(self, request: Any, **_: Any) -> Any:
        self.told.append((self.now_s, type(request).__name__))
        return SimpleNamespace(stdout=f"ctxt {self.now_s * 10:.0f}", monotonic_ns=round(self.now_s * 1e9))

    async def sleep(self, wait_s: float) -> None:
        self.now_s += wait_s


def test_what_goes_on_from_before_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    uut: Any = Quiet()
    monkeypatch.setattr("labconsole.experiments.boot.measurement.asyncio.sleep", uut.sleep)
    found = asyncio.run(measure_idle(uut, 5.0))
    assert found is not None
    assert (found.took_ns, found.switches, found.switches_per_s) == (3_000_000_000, 30, 10.0)
    assert min(uut.told)[0] == 102.0, "nothing is asked while it settles"


def test_files_are_made_cold_after_the_quiet_and_right_before_the_start(monkeypatch: pytest.MonkeyPatch):
    done: list[str] = []

    async def quiet(*_: Any) -> None:
        done.append("quiet")

    async def made_ready(*_: Any) -> Any:
        done.append("cold")
        raise Aborted("that is enough")

    monkeypatch.setattr("labconsole.experiments.boot.measurement.measure_idle", quiet)
    monkeypatch.setattr(BootMeasurement, "_prepare_files", made_ready)
    stage = SimpleNamespace(offer=lambda *_: None)
    bench: Any = SimpleNamespace(stage=stage, show=lambda picture: None)
    taking = BootMeasurement(BootPoint(0, "uml", 1, "any", "cold"), 10.0, (), bench, "turn")
    with pytest.raises(Aborted):
        asyncio.run(taking._begin(SimpleNamespace(uut=None), SimpleNamespace(paths=("f",))))  # type: ignore[arg-type]
    assert done == ["quiet", "cold"]
