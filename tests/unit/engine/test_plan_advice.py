"""Advice on a plan from its stored blocks: spreads that are known, the price in seconds, what is refused and in which words."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from scipy import stats

from labconsole.cli.main import main
from labconsole.engine.execution.advice import plan_advice
from labconsole.errors import MeasurementError
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.file import CLAIMS, most_claims
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Fixed, RunRecord, SetUp
from labconsole.store.open import open_store
from labconsole.store.writing import RunStore
from support.fake_session import make_record
from support.plan_files import MATRIX, load

HOSTS = Path(__file__).parents[2] / "golden" / "format-1" / "hosts.yaml"
PLAN = """\
plan: dims
platforms: [raw, container]
frame_sizes: [64]
targets: [max]
duration_s: 1
set_ups: 4
repetitions: 3
settle_s: 0
"""
START = datetime(2026, 11, 22, tzinfo=UTC)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def records(plan: Plan, *, between: float, within: float, seed: int = 1, setup_s: float = 8.0) -> list[RunRecord]:
    """Every trial of every block, with log-normal rates of these deviations; a trial takes two seconds."""
    dice = random.Random(seed)
    found: list[RunRecord] = []
    second = 0.0
    for set_up in plan.planned_set_ups():
        if not set_up.block:
            continue
        begun, level = second, math.log(1000) + dice.gauss(0, between)
        second += setup_s
        for number, (point, place) in enumerate(set_up.trials, 1):
            record = make_record(plan.points[point].request, f"20261122T{len(found):06d}Z-00000{len(found) % 10}")
            rate = math.exp(level + dice.gauss(0, within))
            found.append(
                record.model_copy(
                    update={
                        "started_at": at(second),
                        "finished_at": at(second + 2),
                        "plan": plan.ref(point, place, set_up_trials=len(set_up.trials)),
                        "total": record.total.model_copy(update={"forwarding_pps": rate, "forwarding_bps": 704 * rate}),
                        "set_up": SetUp(id=at(begun), started_at=at(begun), setup_s=setup_s - 1, trial=number),
                    }
                )
            )
            second += 2
    return found


def test_the_advice_is_that_of_the_definition(tmp_path):
    """Reckoned here once more, with another library's quantiles."""
    plan = load(PLAN, tmp_path)
    held = records(plan, between=0.02, within=0.01)
    found = plan_advice(plan, held, 0.02, 1)
    for each in found.each:
        groups: dict[str, list[float]] = {}
        for record in held:
            if record.requested.platform == each.platform:
                groups.setdefault(record.set_up.id, []).append(math.log(record.total.forwarding_pps))
        within = sum(stats.tvar(values) for values in groups.values()) / 4
        means = stats.tvar([sum(values) / 3 for values in groups.values()])
        between = means - within / 3
        assert each.spread.variance_within == pytest.approx(within)
        assert each.spread.variance_between == pytest.approx(between)
        assert (each.setup_s, each.trial_s) == (8.0, 2.0)
        low, high = (within * 8 / stats.chi2.ppf(share, 8) for share in (0.9, 0.2))
        needed = {}
        for r in range(1, 11):
            more = 1 / r - 1 / 3
            upper = max(means * 3 / stats.chi2.ppf(0.2, 3) + more * (high if more > 0 else low), high / r)
            needed[r] = next(s for s in range(3, 10_000) if stats.t.ppf(0.975, s - 1) * math.sqrt(upper / s) <= 0.02)
        best = min(needed, key=lambda r: (needed[r] * (8 + r * 2), r))
        least = needed[best]
        assert (each.advised.repetitions, each.advised.set_ups) == (best, least)
        assert each.as_advised.total_s == pytest.approx(least * (8 + best * 2))
    assert found.set_ups == max(each.advised.set_ups for each in found.each)


def test_what_varies_within_set_ups_asks_for_repetitions_and_what_varies_between_for_set_ups(tmp_path):
    plan = load(PLAN.replace("set_ups: 4", "set_ups: 20"), tmp_path)
    noisy = plan_advice(plan, records(plan, between=0.002, within=0.03), 0.02, 1)
    boots = plan_advice(plan, records(plan, between=0.03, within=0.002), 0.02, 1)
    assert noisy.repetitions > 3 > 1 == boots.repetitions
    assert boots.set_ups > noisy.set_ups


def test_loads_below_the_maximum_say_nothing_of_its_spread(tmp_path):
    plan = load(PLAN.replace("[max]", "[10Mbit, max]"), tmp_path)
    held = []
    for record in records(plan, between=0.05, within=0.02):
        total = record.total
        if record.requested.target_bps != "max":
            total = total.model_copy(update={"forwarding_pps": 14204.0})
        place = record.plan.model_copy(update={"fixed": Fixed(maximum_target_bps="max")})
        held.append(record.model_copy(update={"total": total, "plan": place}))
    found = plan_advice(plan, held, 0.02, 1)
    assert {each.spread.points for each in found.each} == {1}
    assert all(each.spread.variance_of_means > 0.01**2 for each in found.each)
    assert {each.trial_s for each in found.each} == {4.0}, "one more repetition takes a trial of both loads"


def test_many_claims_make_the_smallest_change_that_is_shown_larger(tmp_path):
    plan = load(PLAN, tmp_path)
    held = records(plan, between=0.02, within=0.01)
    one, many = (plan_advice(plan, held, 0.02, claims).each[0].as_planned for claims in (1, 50))
    assert one.smallest_ratio == one.of_family_ratio == many.smallest_ratio
    assert many.of_family_ratio > 2 * one.of_family_ratio


@pytest.mark.parametrize("shape", ["set_ups: 2\nrepetitions: 3\n", "set_ups: 4\nrepetitions: 1\n"])
def test_too_few_set_ups_or_repetitions_are_refused_with_what_to_take_first(shape, tmp_path):
    plan = load(PLAN.replace("set_ups: 4\nrepetitions: 3\n", shape), tmp_path)
    with pytest.raises(
        MeasurementError, match=r"first measure it with set_ups: 3, repetitions: 2, replay it into a separate store"
    ):
        plan_advice(plan, records(plan, between=0.02, within=0.01), 0.02, 1)


def test_a_set_up_that_lost_a_trial_to_an_invalid_run_says_nothing_of_the_spread_within(tmp_path):
    plan = load(PLAN.replace("repetitions: 3", "repetitions: 2"), tmp_path)
    held = records(plan, between=0.02, within=0.01)
    invalid = held[0].verdict.model_copy(update={"status": "invalid"})
    found = plan_advice(plan, [held[0].model_copy(update={"verdict": invalid}), *held[1:]], 0.02, 1)
    assert sorted(each.spread.set_ups for each in found.each) == [3, 4]


def test_a_plan_makes_at_most_the_claims_of_its_tables(tmp_path):
    requests = [point.request for point in load(MATRIX.replace("idle,", "idle, light,"), tmp_path).points]
    assert {name: most_claims(requests, [name]) for name in CLAIMS} == {
        "table-1": 2 * 2 * 2,  # platforms x sizes: idle against none, light against idle
        "figure-5-numbers": 4,
        "ranking": 2,  # one pair of platforms for each size
        "collapse": 2 * 4 * 2,
        "table-2": 4,
        "table-3": 0,
        "streams": 0,
    }
    assert most_claims(requests) == 8 + 4 + 2 + 16 + 4
    three = [point.request for point in load(MATRIX + "sources: [3]\n", tmp_path).points]
    assert most_claims(three, ["streams"]) == 3 * 2 * 3 * 2


@pytest.fixture
def stored(tmp_path) -> tuple[Path, Path]:
    """A plan file, and a store that holds its blocks."""
    path, inventory = tmp_path / "dims.yaml", load_inventory(HOSTS)
    path.write_text(PLAN)
    plan = load_plan(path, inventory)
    where = tmp_path / "s.sqlite"
    store: RunStore
    with open_store(str(where)) as store:
        for record in records(plan, between=0.02, within=0.01):
            named = {"testbed": inventory.testbed, "testbed_fingerprint": inventory.fingerprint()}
            store.save(record.model_copy(update=named), None)
    return path, where


def advise(path: Path, store: Path, *more: str) -> int:
    return main(["plan", "advise", str(path), "--hosts", str(HOSTS), "--store", str(store), *more])


def test_the_command_advises_from_a_store(stored, capsys):
    assert advise(*stored) == 0
    text = capsys.readouterr().out
    assert "dims: for means known to ± 2 %, from its stored blocks; at most 1 claim in the report" in text
    assert "raw alone" in text and "container alone" in text
    assert "4 × 3" in text and "is enough for all of them and takes about" in text
    assert advise(*stored, "--accuracy", "0.05", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["event"], found["accuracy_ratio"], len(found["each"])) == ("advice", 0.05, 2)
    assert found["each"][0]["setup_s"] == 8.0


def test_the_advice_rests_on_the_runs_that_enter_the_report(stored, capsys):
    path, where = stored
    with sqlite3.connect(where) as connection:  # one set-up whose trials lost packets at the source, one that broke off
        connection.execute(
            "update runs set verdict = 'suspect', reason_codes = ? where block = 2 and platform = 'raw'",
            ["lost_at_source"],
        )
        connection.execute("delete from runs where block = 3 and platform = 'container' and repetition = 3")
    assert advise(path, where, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["platform"], each["spread"]["set_ups"]) for each in found["each"]] == [("raw", 3), ("container", 3)]


@pytest.mark.parametrize("accuracy", ["2", "0", "-1%", "much"])
def test_an_accuracy_that_is_no_ratio_is_refused(stored, capsys, accuracy):
    assert advise(*stored, f"--accuracy={accuracy}") == 2
    assert "--accuracy: is not a valid ratio" in capsys.readouterr().err


def test_a_plan_without_blocks_and_one_of_which_nothing_is_stored_say_what_to_take_first(stored, tmp_path, capsys):
    path, _ = stored
    assert advise(path, tmp_path / "empty.sqlite") == 1
    assert (
        "no block of it is stored for this testbed): first measure it with set_ups: 3, repetitions: 2"
        in capsys.readouterr().err
    )
    path.write_text(PLAN.replace("set_ups: 4\n", ""))
    assert advise(path, stored[1]) == 1
    assert "plan dims has no blocks: first measure it with set_ups: 3" in capsys.readouterr().err
