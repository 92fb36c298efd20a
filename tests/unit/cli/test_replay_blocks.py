"""``labconsole replay`` on plans in blocks, before anything is touched: dry runs, and what is refused in which words."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.run import RunRecord, SetUp
from labconsole.store.open import open_store
from support.plan_files import MATRIX
from support.store_samples import sample_record

GOLDEN = Path(__file__).parents[2] / "golden" / "format-1"
HOSTS = GOLDEN / "hosts.yaml"
PLAN = MATRIX.replace(", forwarding-50", "") + "set_ups: 3\nrepetitions: 2\n"


@pytest.fixture
def replay(tmp_path, capsys):
    """Write a plan and call replay on it; gives exit status, stdout and stderr."""

    def call(text: str, *more: str) -> tuple[int, str, str]:
        path = tmp_path / "p.yaml"
        path.write_text(text)
        store = str(tmp_path / "s.sqlite")
        status = main(["replay", str(path), "--hosts", str(HOSTS), "--store", store, "--dry-run", *more])
        return (status, *capsys.readouterr())

    return call


def test_a_dry_run_shows_the_pilot_the_blocks_and_their_order_and_time(replay):
    status, out, _ = replay(PLAN)
    assert status == 0
    heads = [line for line in out.splitlines() if line.startswith(("pilot:", "block "))]
    assert [head.split(":")[0] for head in heads] == ["pilot"] * 4 + [
        f"block {b} of 3" for b in (1, 2, 3) for _ in "1234"
    ]
    assert {head.partition(": ")[2] for head in heads} == {
        "raw alone",
        "raw with background idle",
        "container alone",
        "container with background idle",
    }
    assert "blocks: 3 blocks of 2 repetitions; pilot: 16 trials, about 0:00:" in out
    assert "next block: 32 trials, about 0:01:" in out
    assert "112 of 112 trials to measure (0 already stored)" in out and "16 set-ups" in out


def test_a_dry_run_for_machines_names_every_trials_block(replay):
    status, out, _ = replay(PLAN, "--json")
    told = [json.loads(line) for line in out.splitlines()]
    trials = [line for line in told if line["event"] == "trial"]
    assert (status, len(trials), sorted({line["block"] for line in trials})) == (0, 112, [0, 1, 2, 3])
    assert (told[-1]["blocks"], told[-1]["pilot"], told[-1]["remaining"]) == (3, 16, 112)


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        (PLAN + "order: as-listed\n", True),
        (PLAN, False),
        (PLAN.replace("set_ups: 3\n", "") + "order: as-listed\n", False),
    ],
)
def test_that_a_plan_as_listed_will_be_compared_with_nothing_is_said_before_it_is_taken(replay, text, warns):
    words = (
        "order: as-listed does not randomise the order, so the report will not compare platforms, backgrounds or loads"
    )
    assert (words in replay(text)[1]) is warns
    told = json.loads(replay(text, "--json")[1].splitlines()[-1])
    assert words in (told["warning"] or "") if warns else told["warning"] is None


def test_platforms_and_first_blocks_can_be_chosen(replay):
    status, out, _ = replay(PLAN, "--platforms", "raw", "--set-ups", "1")
    assert status == 0
    assert "24 of 24 trials to measure" in out and "container" not in out.partition("raw, on")[0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--set-ups", "4"), "--set-ups: plan blocks has no such number of blocks; raise its set_ups"),
        (("--set-ups", "0"), "allowed: 1 to 3"),
        (("--points", "0"), "--points: selects only some points of a set-up.*allowed: also 1,2,3"),
        (("--points", "0-4"), "also 5,6,7"),
    ],
)
def test_what_is_no_whole_set_up_or_no_block_is_refused(replay, more, words):
    status, _, err = replay(PLAN, *more)
    assert status == 2
    assert re.search(words, err), err


def test_whole_set_ups_can_be_chosen_by_their_points(replay):
    status, out, _ = replay(PLAN, "--points", "0-3,12-15")
    assert (status, "56 of 56 trials" in out) == (0, True)


def test_set_ups_of_which_none_fits_before_the_end_are_refused_with_what_to_do(replay):
    status, _, err = replay(PLAN + "stop: {after_s: 60}\n")
    assert status == 2
    assert "stop.after_s: leaves 0:01:00 to plan blocks, and its next block takes about 0:0" in err
    assert "stop later, or make a block shorter" in err
    assert replay(PLAN + "stop: {after_s: 3600}\n")[0] == 0


def test_set_ups_in_a_plan_without_blocks_are_refused_with_what_is_missing(replay):
    status, _, err = replay(PLAN.replace("set_ups: 3\n", ""), "--set-ups", "1")
    assert (status, "has no blocks; give it set_ups" in err) == (2, True)


def in_block(plan, number: int, point: int, place: int, **own: object) -> RunRecord:
    ref = plan.ref(point, place, set_up_trials=4).model_copy(update=own)
    record = sample_record(number)
    stood = SetUp(
        id=f"{ref.block}-{plan.points[point].request.platform}", started_at=record.started_at, setup_s=1, trial=1
    )
    asked = plan.points[point].request
    requested = record.requested.model_copy(update={"platform": asked.platform, "background": asked.background})
    return record.model_copy(update={"plan": ref, "set_up": stood, "requested": requested})


def test_the_store_tells_every_run_of_a_block_and_the_newest_that_stands_of_a_plan_without(tmp_path):
    inventory = load_inventory(HOSTS)
    (tmp_path / "p.yaml").write_text(PLAN)
    plan = load_plan(tmp_path / "p.yaml", inventory)
    invalid = sample_record(9).verdict.model_copy(update={"status": "invalid"})
    with open_store(str(tmp_path / "s.sqlite")) as store:
        runs = [
            in_block(plan, 0, 0, 1).model_copy(update={"verdict": invalid}),
            in_block(plan, 1, 0, 1, attempt=2),
            in_block(plan, 2, 0, 2),
            in_block(plan, 3, 0, 0).model_copy(update={"role": "pilot", "set_up": None}),
        ]
        for run in runs:
            store.save(run, None)
        told = store.plan_runs(plan.hash(), runs[0].testbed_fingerprint)
    assert [(t.block, t.repetition, t.status, t.attempt, t.attempts, t.set_up, t.set_up_trials) for t in told] == [
        (1, 1, "invalid", 1, 3, "1-raw", 4),
        (1, 1, runs[1].verdict.status, 2, 3, "1-raw", 4),
        (0, 1, runs[3].verdict.status, 1, 3, None, 4),
        (1, 2, runs[2].verdict.status, 1, 3, "1-raw", 4),
    ]
    assert [t.final for t in told] == [False, True, True, True]
    assert {t.rate_pps for t in told} == {runs[0].total.forwarding_pps or runs[0].total.measured_pps}


def test_an_older_store_that_is_only_read_tells_its_runs_without_blocks(tmp_path):
    shutil.copy(GOLDEN / "runs.sqlite", tmp_path)
    with open_store(str(tmp_path / "runs.sqlite"), write=False) as store:
        plan = load_plan(GOLDEN / "plans" / "golden-matrix.yaml", load_inventory(HOSTS))
        told = store.plan_runs(plan.hash(), load_inventory(HOSTS).fingerprint())
    assert len(told) == 30
    assert {(t.block, t.set_up, t.attempt) for t in told} == {(None, None, None)}
