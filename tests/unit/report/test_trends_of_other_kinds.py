"""Trends of searches, jobs, starts, flows and routers: an injected step is found, and none where there is none."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labconsole.cli.main import main
from labconsole.comparison.changes import Side
from labconsole.comparison.trends import LEAST_STEPS, find_trends
from labconsole.experiments.kinds import load_measured_kinds
from labconsole.measure.admission import Admission
from labconsole.measure.trend import Resolution, segment
from labconsole.report.digest import Digest
from labconsole.report.sample import RunSample
from support.measured_sides import FULL_S, around, boots, flows, jobs, keep, routes, searches, sent, served
from support.occasions import stored

KINDS: dict[str, tuple[Callable[..., Any], float]] = {
    "job": (jobs, 4.0),
    "boot": (boots, 2.0),
    "flow": (flows, 4000.0),
    "route": (routes, 20_000.0),
}


def on_days(kind: str, means: Sequence[float], *, kernels: Sequence[str] | None = None, seed: int = 3) -> list[Any]:
    """An occasion a day with eight set-ups on a boot of its own, what each came to varying by 0.4 % beside."""
    make, scale = KINDS[kind]
    rng, found = np.random.default_rng(seed), []
    for day, mean in enumerate(means, 1):
        values = around(mean * scale * (1 + 0.004 * rng.standard_normal()), seed=100 * seed + day)
        for record in make(f"d{day:02}", values, kernel=kernels[day - 1] if kernels else "6.1"):
            plan = record.plan.model_copy(update={"name": f"nightly@{day:02}"})
            found.append(record.model_copy(update={"plan": plan, "started_at": f"2026-10-{day:02}T01:00:00.000000Z"}))
    return found


def searches_on_days(means_pps: Sequence[float], many: int = 3) -> tuple[list[Any], list[Any]]:
    """The same of searches, whose bounds move in steps of half a per cent."""
    found, runs, seeds = [], [], count(1)
    for day, mean_pps in enumerate(means_pps, 1):
        width = 0.005 * 30_000.0
        lower = [float(np.floor(value / width) * width) for value in around(mean_pps, next(seeds), many)]
        of_day, own = searches("d" + day * "a", lower)
        found += [
            each.model_copy(
                update={
                    "plan": each.plan.model_copy(update={"name": f"nightly@{day:02}"}),
                    "started_at": f"2026-10-{day:02}T01:00:00.000000Z",
                }
            )
            for each in of_day
        ]
        runs += own
    return found, runs


def trend(place: Path, capsys: Any, *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["trend", "--store", str(place), "--json", "nightly", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_three_per_cent_is_found_with_its_direction_and_what_else_changed(
    tmp_path, capsys, monkeypatch, kind
):
    monkeypatch.setenv("COLUMNS", "160")
    keep(tmp_path / "s", on_days(kind, [1.0] * 8 + [1.03] * 8, kernels=["6.1"] * 8 + ["6.6"] * 8))
    found = trend(tmp_path / "s", capsys)
    (stepped,) = [each for each in found if each["changes"]]
    (change,) = stepped["changes"]
    assert stepped["kind"] == kind
    assert (change["occasion"], change["started_at"][:10]) == ("nightly@09", "2026-10-09")
    assert change["change_ratio"] == pytest.approx(0.03, abs=0.006)
    assert change["changed_for"] == ("worse" if stepped["better"] == "lower" else "better")
    assert stepped["smallest_step_ratio"] < 0.03
    assert [(each["before"], each["after"]) for each in change["also_changed"] if each["what"] == "kernel"] == [
        ("6.1", "6.6")
    ]
    assert [each["set_ups"] for each in stepped["results"]] == [8] * 16
    assert main(["trend", "--store", str(tmp_path / "s"), "nightly"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "since nightly@09" in shown and "kernel 6.1 → 6.6" in shown


@pytest.mark.parametrize(
    ("make", "means", "why"),
    [
        (lambda name, mean, day: sent(name, around(mean * FULL_S, day)), [1.5] * 8 + [1.0] * 8, "held by the link"),
        (
            lambda name, mean, day: served(name, around(4 * mean, day), from_memory=mean < 1),
            [1.0] * 8 + [0.8] * 8,
            "read from memory",
        ),
        (
            lambda name, mean, day: served(name, around(4 * mean, day), from_memory=mean < 1 or (1,)),
            [1.0] * 8 + [0.8] * 8,
            "read from memory in some trials, and not in others",
        ),
        (lambda name, mean, day: sent(name, around(mean * FULL_S, day)), [1.8] * 8 + [1.5] * 8, None),
    ],
)
def test_times_of_a_link_or_a_cache_are_no_change_of_what_runs_the_guests(tmp_path, capsys, make, means, why):
    records = []
    for day, mean in enumerate(means, 1):
        for record in make(f"d{day:02}", mean, day):
            plan = record.plan.model_copy(update={"name": f"nightly@{day:02}"})
            at = f"2026-10-{day:02}T01:00:00.000000Z"
            records.append(record.model_copy(update={"plan": plan, "started_at": at}))
    keep(tmp_path / "s", records)
    (found,) = trend(tmp_path / "s", capsys)
    assert (found["why"], len(found["changes"])) == (why, int(why is None))


@pytest.mark.parametrize(("after", "changes"), [(0.5, 1), (0.995, 0)])
def test_a_trial_that_lost_nothing_beside_those_that_lost_hides_no_fall(tmp_path, capsys, after, changes):
    """Of five set-ups of six days one lost nothing: what they forward is a lower bound."""
    rng, records = np.random.default_rng(2), []
    for day in range(1, 13):
        mean = 20_000 * (1.0 if day <= 6 else after) * (1 + 0.001 * rng.standard_normal())
        record: Any
        for number, record in enumerate(routes(f"d{day:02}", around(mean, day, 5, 0.002), lost=4000), 1):
            if day == number == 3:
                (router,) = record.routers
                lossless = router.model_copy(update={"sent_packets": router.packets})
                record = record.model_copy(update={"routers": (lossless,)})
            plan = record.plan.model_copy(update={"name": f"nightly@{day:02}", "set_ups": 5})
            at = f"2026-10-{day:02}T01:00:00.000000Z"
            records.append(record.model_copy(update={"plan": plan, "started_at": at}))
    keep(tmp_path / "s", records)
    (found,) = trend(tmp_path / "s", capsys)
    assert [(each["occasion"], each["changed_for"], each["at_least"]) for each in found["changes"]] == (
        [("nightly@07", "worse", True)] * changes
    )
    assert (found["why"] is None) is bool(changes)


def test_values_say_what_they_are_known_to():
    """A packet of a count, the steps in which a start's mark is looked for, and how empty jobs differ."""
    kinds = {each.kind.name: each for each in load_measured_kinds()}
    records: list[Any] = [*routes("r", [20_000.0]), *flows("f", [4e3]), *boots("b", [2.0]), *jobs("j", [4.0])]
    route, flow, boot, job = records
    known: dict[str, tuple[float | None, float | None]] = {}
    for kind, record in (("route", route), ("flow", flow), ("boot", boot), ("job", job)):
        (trial,) = kinds[kind].trials([record], {})
        known |= {quantity.name: (value.value, value.resolution) for quantity, value in trial.values.items()}
    assert known == {
        "forwarding rate": (route.sum_pps, route.sum_pps / route.routers[0].packets),
        "payload of all guests": (flow.sum_bps, flow.sum_bps / sum(each.packets for each in flow.senders)),
        "start-up time": (boot.startup_s, pytest.approx(boot.clock_error_s + 0.02)),
        "memory used": (boot.memory.used_bytes, None),
        "time": (pytest.approx(4.0, abs=0.1), job.empty.sd_s),
    }


def test_a_step_of_three_per_cent_is_found_in_searches(tmp_path, capsys):
    keep(tmp_path / "s", *searches_on_days([30_000.0] * 8 + [29_100.0] * 8))
    (found,) = trend(tmp_path / "s", capsys)
    (change,) = found["changes"]
    assert (found["kind"], found["quantity"]) == ("search", "load that meets ndr")
    assert (change["occasion"], change["changed_for"]) == ("nightly@09", "worse")


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_than_one_in_twenty_stationary_series_raises_an_alarm(kind):
    """Through the whole way from records to changes; of 60 series at most 6 with a chance of 97 % if 1 in 20 did."""
    (of_kind,) = [each for each in load_measured_kinds() if each.kind.name == kind]
    alarms = series = 0
    for seed in range(1, 61):
        trials = of_kind.trials(on_days(kind, [1.0] * 10, seed=seed), {})
        by_day: dict[str, list[Any]] = {}
        for trial in trials:
            by_day.setdefault(trial.plan_name, []).append(trial)
        for found in find_trends([side(name, held) for name, held in by_day.items()]):
            series, alarms = series + 1, alarms + bool(found.steps)
    assert series >= 60
    assert alarms <= series / 20 + 3


def side(words: str, trials: list[Any]) -> Side:
    return Side(
        words=words,
        place="",
        kept=RunSample((), (), {}),
        admission=Admission((), {}),
        digest=Digest(()),
        trials=tuple(trials),
    )


@pytest.mark.parametrize("sd_steps", [0.1, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("many", [6, 12, 24])
def test_bounds_that_move_in_steps_raise_no_alarm_either(many, sd_steps):
    """By a step more or less the same load may be found."""
    rng, alarms = np.random.default_rng(many), 0
    step = 0.5
    for _ in range(60):
        loads = 100 + step * rng.random() + sd_steps * step * rng.standard_normal(many)
        bounds = [float(each) for each in np.floor(loads / step) * step]
        alarms += len(segment(bounds, Resolution(step / np.sqrt(12), LEAST_STEPS * step)).levels) > 1
    assert alarms <= 1


def test_what_is_no_result_of_the_machine_has_no_changes(tmp_path, capsys):
    keep(tmp_path / "few", on_days("job", [1.0, 1.1, 1.2]))
    (found,) = trend(tmp_path / "few", capsys)
    assert (found["why"], found["changes"]) == ("fewer than 4 occasions", [])
    found_searches, runs = searches_on_days([30_000.0] * 3 + [20_000.0] * 3)
    full = [
        each.model_copy(update={"goals": (each.goals[0].model_copy(update={"limited_by": "line_rate"}),)})
        for each in found_searches
    ]
    keep(tmp_path / "full", full, runs)
    (found,) = trend(tmp_path / "full", capsys)
    assert (found["why"], found["changes"]) == ("nothing was lost of all that could be offered each time", [])
    none = [
        each.model_copy(
            update={
                "goals": (each.goals[0].model_copy(update={"limited_by": "below_minimum", "lower_bound_pps": None}),)
            }
        )
        for each in found_searches[:6]
    ]
    keep(tmp_path / "none", [*none, *found_searches[6:]], runs)
    (found,) = trend(tmp_path / "none", capsys)
    assert (found["why"], found["changes"]) == ("the goal was not met even at the lowest load", [])
    assert found["results"][0]["value"] is None
    assert main(["trend", "--store", str(tmp_path / "none"), "nightly"]) == 0


def test_memory_that_became_free_while_guests_started_is_not_called_zero(tmp_path, capsys):
    """What a start uses is a difference of two looks, which may be below 0."""
    records = on_days("boot", [1.0] * 4)
    memory = records[0].memory.model_copy(update={"used_bytes": -(2**20)})
    days = [each.model_copy(update={"memory": memory}) if each.plan.name == "nightly@01" else each for each in records]
    keep(tmp_path / "s", days)
    (found,) = [each for each in trend(tmp_path / "s", capsys) if each["quantity"] == "memory used"]
    assert found["results"][0]["value"] == -(2**20)
    assert (found["why"], found["changes"]) == ("it was 0 or less on one occasion at least", [])


def test_other_programs_in_the_guests_are_no_change_of_the_machine(tmp_path, capsys):
    records = on_days("job", [1.0] * 4 + [1.1] * 4)
    other = records[0].program.model_copy(update={"sha256": ("b" * 64,)})
    for place, record in enumerate(records):
        if record.plan.name > "nightly@04":
            records[place] = record.model_copy(update={"program": other})
    keep(tmp_path / "s", records)
    (found,) = trend(tmp_path / "s", capsys)
    assert found["why"] == "the programs in the guests are not the same"


def test_an_occasion_that_lacks_trials_is_left_out_whatever_the_filter(tmp_path, capsys):
    records = on_days("job", [1.0] * 5)
    keep(tmp_path / "s", records[:-1])
    assert len(trend(tmp_path / "s", capsys)[0]["results"]) == 4
    main(["trend", "--store", str(tmp_path / "s"), "--json", "nightly"])
    assert "nightly@05 is left out: 1 of its 8 trials is missing" in capsys.readouterr().err
    assert main(["trend", "--store", str(tmp_path / "s"), "--json", "nightly", "platform=none"]) == 2
    assert "no run of this plan matches the filter" in capsys.readouterr().err


def test_runs_and_trials_of_one_plan_stand_side_by_side(tmp_path, capsys):
    stored(tmp_path / "s", [60.0, 60.1, 60.2, 60.0])
    keep(tmp_path / "s", on_days("boot", [1.0] * 4))
    found = trend(tmp_path / "s", capsys)
    assert [each.get("quantity", "rate") for each in found] == ["rate", "start-up time", "memory used"]
    assert main(["trend", "--store", str(tmp_path / "s"), "--markdown", "nightly"]) == 0
    assert "Boots over occasions" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_has_them_as_a_figure_and_tables(tmp_path, kind):
    keep(tmp_path / "s", on_days(kind, [1.0] * 8 + [1.03] * 8, kernels=["6.1"] * 8 + ["6.6"] * 8)[:-1])
    out = tmp_path / "out"
    assert main(["report", "--store", str(tmp_path / "s"), "--out", str(out), "--formats", "svg,csv,md"]) == 0
    assert ">change</text>" in (out / f"trend-{kind}.svg").read_text()
    with (out / f"changes-{kind}.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["occasion"], "6.1 → 6.6" in row["also_changed"]) == ("nightly@09", True)
    with (out / f"occasions-{kind}.csv").open() as file:
        rows = [each for each in csv.DictReader(file) if each["quantity"] == row["quantity"]]
    assert [each["number"] for each in rows if each["changed"] == "True"] == ["9"]
    assert len(rows) == 15
    assert "nightly@16 is left out: 1 of its 8 trials is missing" in (out / f"trends-{kind}.md").read_text()


def test_what_else_changed_names_its_node_and_what_is_unknown_in_every_place_alike(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    records = on_days("job", [1.0] * 8 + [1.03] * 8)
    for record in records:
        new = record.started_at >= "2026-10-09"
        boot = record.environment["nodes"]["uut"]["facts"]["boot_id"]
        record.environment["nodes"] = {
            "uut": {
                "facts": {"boot_id": boot, "turbo": "on" if new else None},
                "settings": {"eth1 mtu": 1500 if new else 9000, "net.bridge.x": "1" if new else None},
            },
            "src1": {"facts": {}, "settings": {"eth1 mtu": 9000 if new else 1500}},
        }
    keep(tmp_path / "s", records)
    assert main(["trend", "--store", str(tmp_path / "s"), "nightly"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for told in (
        "Node uut: turbo unknown → on",
        "Node uut: eth1 mtu 9000 → 1500",
        "Node src1: eth1 mtu 1500 → 9000",
        "Node uut: net.bridge.x module not loaded → 1",
    ):
        assert told in shown
    (found,) = [each for each in trend(tmp_path / "s", capsys) if each["changes"]]
    assert ("Node src1", "eth1 mtu", 1500, 9000) in [
        tuple(each[name] for name in ("where", "what", "before", "after"))
        for each in found["changes"][0]["also_changed"]
    ]


def test_a_report_has_those_of_searches_by_the_set_ups_of_their_runs(tmp_path):
    keep(tmp_path / "s", *searches_on_days([30_000.0] * 8 + [29_100.0] * 8))
    out = tmp_path / "out"
    assert main(["report", "--store", str(tmp_path / "s"), "--out", str(out), "--formats", "svg,csv"]) == 0
    assert ">change</text>" in (out / "trend-search.svg").read_text()
    with (out / "changes-search.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["occasion"], row["changed_for"]) == ("nightly@09", "worse")
    with (out / "occasions-search.csv").open() as file:
        assert [each["set_ups"] for each in csv.DictReader(file)] == ["3"] * 16


def test_a_report_on_one_occasion_has_none(tmp_path):
    keep(tmp_path / "s", on_days("job", [1.0]))
    out = tmp_path / "out"
    assert main(["report", "--store", str(tmp_path / "s"), "--out", str(out), "--formats", "csv"]) == 0
    assert not [path.name for path in out.iterdir() if path.name.startswith(("trend", "occasions"))]
