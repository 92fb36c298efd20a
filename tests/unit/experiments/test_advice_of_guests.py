"""Advice on plans of guests from stored trials whose deviations are known, of every kind, through the command."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from labconsole.cli.main import main
from labconsole.cli.text.advice import NO_SPREAD_FOUND, _explain, _format_spread
from labconsole.measure.statistics.components import Components, fewest_set_ups, upper_variance_of_mean
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.kind import record_kinds
from labconsole.model.record.run import Reason, SetUp, Verdict
from labconsole.store.open import open_store
from support.boot_records import started
from support.flow_records import flow_record
from support.job_records import taken
from support.measured_sides import over_link, with_disk
from support.route_records import route_record

HOSTS = Path(__file__).parents[2] / "golden" / "format-1" / "hosts.yaml"
START = datetime(2026, 11, 22, tzinfo=UTC)
SETUP_S, TRIAL_S = 8.0, 2.0

JOBS = "job: {jobs: [{job: wait, size: 3}], guests: [1], working: [one]}"
Make = Callable[[int, float], Any]


def job(block: int, factor: float) -> Any:
    return taken([4.0 * factor], platform="container", guests=1, working="one", block=block)


def boot(block: int, factor: float) -> Any:
    return started(2.0 * factor, 50.0 * factor, block=block)


def flow(block: int, factor: float) -> Any:
    record = flow_record([[1000] * 4, [1000] * 4], block=block)
    return record.model_copy(update={"sum_bps": 1e6 * factor})


def route(block: int, factor: float) -> Any:
    record = route_record([200], lost_inside=[4000], block=block)
    return record.model_copy(update={"sum_pps": 2000.0 * factor})


KINDS: dict[str, tuple[str, Make, str]] = {
    "job": (JOBS, job, "time"),
    "boot": ("boot: {guests: [1]}", boot, "start-up time"),
    "flow": ("flow: {guests: [2]}", flow, "payload of all guests"),
    "route": ("route: {guests: [1], routes: [0]}", route, "forwarding rate"),
}


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


class Stored:
    """A plan's trials in a store. ``became``: what else became of each record."""

    def __init__(
        self,
        directory: Path,
        key: str,
        make: Make,
        *,
        between: float = 0.0,
        within: float = 0.0,
        set_ups: int = 6,
        repetitions: int = 1,
        platforms: str = "container",
        seed: int = 1,
        became: Callable[[Any], Any] = lambda record: record,
    ) -> None:
        self.plan, self.store = directory / "plan.yaml", directory / "runs.sqlite"
        self.plan.write_text(
            f"plan: guests\nplatforms: [{platforms}]\nset_ups: {set_ups}\nrepetitions: {repetitions}\n{key}\n"
        )
        inventory = load_inventory(HOSTS)
        plan = load_plan(self.plan, inventory)
        assert plan.guests is not None
        dice, second = random.Random(seed), 0.0
        levels: dict[int, float] = {}
        self.factors: dict[int, list[float]] = {}
        begun: dict[tuple[Any, int], float] = {}
        trials: Any = plan.guests.trials
        with open_store(str(self.store)) as opened:
            for number, (trial, key_of) in enumerate(zip(trials, plan.guests.hashes, strict=True)):
                crew, of_its_own = (trial.point.crew, trial.block), trial.point.crew is None
                began = second  # of a start, whose guests are set up within its trial
                if crew not in begun or of_its_own:
                    begun[crew] = second
                    second += SETUP_S
                level = levels.setdefault(trial.block, dice.gauss(0, between))
                factor = math.exp(level + dice.gauss(0, within))
                self.factors.setdefault(trial.block, []).append(factor)
                record = make(trial.block, factor)
                asked = record.requested.model_copy(update={"platform": trial.point.platform})
                if hasattr(trial.point, "job"):
                    asked = asked.model_copy(update={"job": trial.point.job, "size": trial.point.size})
                ref = record.plan.model_copy(
                    update={
                        "name": "guests",
                        "hash": key_of,
                        "block": trial.block,
                        "repetition": trial.repetition,
                        "set_ups": set_ups,
                        "repetitions": repetitions,
                        "plan_hash": plan.hash(),
                    }
                )
                kind = record_kinds()[plan.guests.kind]
                update = {
                    "requested": asked,
                    "plan": ref,
                    "testbed_fingerprint": inventory.fingerprint(),
                    "started_at": at(began if of_its_own else second),
                    "finished_at": at(second + TRIAL_S),
                    f"{kind.name}_id": f"20261122T{number:06d}Z-{number:06x}",
                    "set_up": SetUp(id=f"{crew}", started_at=at(begun[crew]), setup_s=1.0, trial=1),
                    "in_force": None,
                    "attestation": {"driver": trial.point.platform},
                }
                second += TRIAL_S
                opened.save_experiment(kind, became(record.model_copy(update=update)))

    def advise(self, *words: str) -> int:
        return main(["plan", "advise", str(self.plan), "--hosts", str(HOSTS), "--store", str(self.store), *words])

    def advice(self, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert self.advise("--json", *words) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found


@pytest.mark.parametrize("name", KINDS)
def test_of_one_trial_in_each_set_up_the_set_ups_alone_are_advised(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, make, quantity = KINDS[name]
    stored = Stored(tmp_path, key, make, between=0.02)
    found = stored.advice(capsys, "--accuracy", "1%")
    (row,) = [each for each in found["each"] if each["quantity"] == quantity]
    sd = statistics.stdev(math.log(factor) for (factor,) in stored.factors.values())
    assert row["sd_ratio"] == pytest.approx(sd, rel=1e-3)
    assert (row["set_ups"], row["repetitions"], row["spread"]) == (6, 1.0, None)
    upper = sd**2 * 5 / stats.chi2.ppf(0.2, 5)
    least = next(s for s in range(3, 10_000) if stats.t.ppf(0.975, s - 1) * math.sqrt(upper / s) <= 0.01)
    assert (row["as_advised"]["set_ups"], row["as_advised"]["repetitions"]) == (least, 1)
    times = (0.0, SETUP_S + TRIAL_S) if name == "boot" else (SETUP_S, TRIAL_S)
    assert (row["setup_s"], row["trial_s"]) == times
    for change, set_ups in row["to_show"]:
        assert powers(change, upper, set_ups) >= 0.8 - 1e-6
        assert set_ups == 3 or powers(change, upper, set_ups - 1) < 0.8


def powers(change: float, variance: float, set_ups: int) -> float:
    """Of a paired t test at 5 %, by another library."""
    degrees, limit = set_ups - 1, stats.t.ppf(0.975, set_ups - 1)
    noncentrality = math.log1p(change) / math.sqrt(2 * variance / set_ups)
    return float(stats.nct.sf(limit, degrees, noncentrality) + stats.nct.cdf(-limit, degrees, noncentrality))


def test_points_without_a_valid_trial_are_not_silently_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two points, of which the second never stood: its time is not known, and the total says that it lacks it."""
    key = JOBS.replace("{job: wait, size: 3}", "{job: wait, size: 3}, {job: cpu-pi, size: 1000}")

    def spoilt(record: Any) -> Any:
        if record.requested.job != "cpu-pi":
            return record
        verdict = record.verdict.model_copy(update={"status": "invalid"})
        return record.model_copy(update={"verdict": verdict, "status": "failed", "failure": "x"})

    stored = Stored(tmp_path, key, job, between=0.02, became=spoilt)
    found = stored.advice(capsys)
    assert [each["point"] for each in found["each"]] == ["container: wait (3 s) in 1 guest"]
    assert found["without_time"] == ["container: cpu-pi (1000 digits) in 1 guest"]
    assert stored.advise() == 0
    told = capsys.readouterr().out
    assert "not advised: container: cpu-pi (1000 digits) in 1 guest: no trial enters a mean: 6 " in told
    assert "without 1 point whose time is not known" in told.splitlines()[-2]


def test_a_first_trial_that_enters_nothing_does_not_lengthen_its_set_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def doubted(record: Any) -> Any:
        if record.plan.repetition > 1:
            return record
        doubt = Reason(code="unseen_cpu", detail="x")
        return record.model_copy(update={"verdict": Verdict(status="suspect", reasons=(doubt,))})

    (row,) = Stored(tmp_path, JOBS, job, between=0.02, repetitions=2, became=doubted).advice(capsys)["each"]
    assert (row["set_ups"], row["repetitions"], row["setup_s"]) == (6, 1.0, SETUP_S)


def test_trials_left_out_of_what_is_advised_on_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def doubted(block: int, factor: float) -> Any:
        codes = ["unseen_cpu"] if block <= 2 else []
        return taken([4.0 * factor], platform="container", guests=1, working="one", block=block, codes=codes)

    stored = Stored(tmp_path, JOBS, doubted, between=0.02)
    found = stored.advice(capsys)
    assert (found["each"][0]["set_ups"], found["without_time"]) == (4, [])
    assert found["trials_left_out"] == [["container: wait (3 s) in 1 guest", "2 unseen_cpu"]]
    assert stored.advise() == 0
    told = capsys.readouterr().out
    assert "trials left out: container: wait (3 s) in 1 guest: 2 unseen_cpu" in told
    assert "whose time is not known" not in told


@pytest.mark.parametrize("name", ["job", "boot"])
def test_more_repetitions_take_a_new_plan_unless_each_trial_has_guests_of_its_own(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same store, where a crew has come to its end, a replay refuses them."""
    key, make, _ = KINDS[name]
    assert Stored(tmp_path, key, make, between=0.02).advise() == 0
    told = capsys.readouterr().out
    assert ("repetitions: 2 would show it" if name == "boot" else "repetitions: 2 in a new plan would show it") in told
    assert "start a new plan" not in told
    (place := tmp_path / "noisy").mkdir()
    assert Stored(place, key, make, within=0.05, set_ups=20, repetitions=2).advise("--accuracy", "1%") == 0
    told = capsys.readouterr().out
    assert ("to change repetitions, start a new plan" in told) == (name != "boot")
    assert "would show it" not in told


def test_where_nothing_varied_it_is_unknown_what_shows_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = Stored(tmp_path, JOBS, job)
    (row,) = stored.advice(capsys)["each"]
    assert (row["sd_ratio"], row["as_advised"]["smallest_ratio"], row["to_show"]) == (0, None, [])
    assert stored.advise() == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.endswith("unknown" + "  unknown" * 3)]
    assert line.startswith("container: wait (3 s) in 1 guest: time")


def test_of_several_trials_in_each_both_are_advised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = Stored(tmp_path, JOBS, job, between=0.01, within=0.02, set_ups=5, repetitions=3)
    (row,) = stored.advice(capsys)["each"]
    logs = [[math.log(factor) for factor in factors] for factors in stored.factors.values()]
    within = sum(stats.tvar(values) for values in logs) / 5
    between = stats.tvar([sum(values) / 3 for values in logs]) - within / 3
    assert row["spread"]["variance_within"] == pytest.approx(within)
    assert row["spread"]["variance_between"] == pytest.approx(between)
    advised = row["as_advised"]
    took = {}
    for repetitions in range(1, 11):
        upper = upper_variance_of_mean(Components(**row["spread"]), repetitions)
        took[repetitions] = fewest_set_ups(upper, 0.02) * (SETUP_S + repetitions * TRIAL_S)
    assert advised["total_s"] == min(took.values()) == took[advised["repetitions"]]
    assert (row["as_planned"]["set_ups"], row["as_planned"]["repetitions"]) == (5, 3)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_of_starts_one_repetition_is_advised_whatever_the_spread_comes_out_as(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has guests of its own: ten in each block would take more starts, not less time."""
    key, make, quantity = KINDS["boot"]
    stored = Stored(tmp_path, key, make, within=0.02, repetitions=2, seed=seed)
    found = stored.advice(capsys, "--accuracy", "1%")
    (row,) = [each for each in found["each"] if each["quantity"] == quantity]
    advised = row["as_advised"]
    assert advised["repetitions"] == 1
    upper = upper_variance_of_mean(Components(**row["spread"]), 1)
    assert advised["total_s"] == pytest.approx(fewest_set_ups(upper, 0.01) * (SETUP_S + TRIAL_S))


def test_four_in_five_pilots_advise_set_ups_that_reach_the_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many as the true deviation needs, or more: the advice rests on the upper 80 % bound."""
    sd, enough = 0.02, 0
    least = next(s for s in range(3, 10_000) if stats.t.ppf(0.975, s - 1) * sd / math.sqrt(s) <= 0.01)
    for seed in range(40):
        (place := tmp_path / str(seed)).mkdir()
        found = Stored(place, JOBS, job, between=sd, seed=seed).advice(capsys, "--accuracy", "1%")
        enough += found["set_ups"] >= least
    assert 26 <= enough <= 38  # 32 are expected


def test_what_is_measured_in_the_same_guests_shares_their_set_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "job: {jobs: [{job: wait, size: 3}, {job: cpu-pi, size: 1000}], guests: [1], working: [one]}"
    stored = Stored(tmp_path, key, job, between=0.02, within=0.01, platforms="container, raw")
    found = stored.advice(capsys)
    assert len(found["each"]) == 4
    assert {(each["setup_s"], each["trial_s"]) for each in found["each"]} == {(SETUP_S, 2 * TRIAL_S)}
    assert found["total_s"] == pytest.approx(2 * found["set_ups"] * (SETUP_S + 2 * TRIAL_S))
    assert found["claims"] == 2, "what virtualization costs either job"
    assert stored.advise() == 0
    told = capsys.readouterr().out
    assert "container: wait (3 s) in 1 guest: time" in told
    assert "set-ups of the advised repetitions that detect a change with 80 % power, alone:" in told
    assert "repetitions: 2 in a new plan would show it" in told


def test_times_that_the_link_set_are_not_advised_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = 8 * 384 * 2**20 / (1448 / 1538 * 1e9)
    key = "job: {jobs: [{job: tcp, size: 384}, {job: wait, size: 3}], guests: [1], working: [one]}"

    def make(block: int, factor: float) -> Any:
        return over_link(full * (1 + (factor - 1) / 100), block)

    found = Stored(tmp_path, key, make, between=0.02).advice(capsys)
    assert [each["point"] for each in found["each"]] == ["container: wait (3 s) in 1 guest"]
    assert found["left_out"] == [["container: tcp (384 MiB) in 1 guest: time", "held by the link"]]
    (tmp_path / "alone").mkdir()
    alone = Stored(tmp_path / "alone", key.replace(", {job: wait, size: 3}", ""), make, between=0.02)
    assert alone.advise() == 1
    assert capsys.readouterr().err == "labconsole: plan guests cannot be dimensioned: held by the link\n"


@pytest.mark.parametrize(("from_memory", "advised"), [((), 1), ((1, 2, 3, 4, 5, 6), 1), ((2,), 0)])
def test_trials_of_which_some_read_from_memory_and_some_from_a_disk_are_not_advised_on(
    from_memory: tuple[int, ...], advised: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They differ by where they read; where all do alike, they compare with their like, and are advised on."""
    key = "job: {jobs: [{job: serve-http, size: 64}], guests: [2], working: [one], disk_mib: 256}"

    def make(block: int, factor: float) -> Any:
        return with_disk(3.0 * factor, block, "serve-http", 64, (32 if block in from_memory else 80) * 2**20)

    stored = Stored(tmp_path, key, make, between=0.02)
    assert stored.advise() == (0 if advised else 1)
    said = capsys.readouterr()
    assert said.err == (
        ""
        if advised
        else "labconsole: plan guests cannot be dimensioned: some trials may have read from memory, and some did not\n"
    )


def test_trials_that_enter_no_mean_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def doubted(block: int, factor: float) -> Any:
        codes = ["unseen_cpu"] if block <= 4 else []
        return taken([4.0 * factor], platform="container", guests=1, working="one", block=block, codes=codes)

    assert Stored(tmp_path, JOBS, doubted, between=0.02).advise() == 1
    assert "advice needs 3 set-ups, there are 2; left out: 4 unseen_cpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("set_ups", "why"), [(2, "advice needs 3 set-ups, there are 2"), (0, "no trial of it is stored here")]
)
def test_too_few_are_refused_with_what_to_take_first(
    set_ups: int, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = Stored(tmp_path, JOBS, job, between=0.02, set_ups=set_ups or 1)
    if not set_ups:
        stored.store = tmp_path / "none.sqlite"
    assert stored.advise() == 1
    said = capsys.readouterr().err
    assert why in said
    assert "first measure it with set_ups: 3" in said


def test_a_variance_estimated_below_zero_is_no_negative_deviation() -> None:
    assert [_format_spread(variance) for variance in (-3e-7, 0.0, 4e-4)] == ["none", "0 %", "2 %"]
    assert (_explain([4e-4, -3e-7]), _explain([0.0])) == ([NO_SPREAD_FOUND], [])
