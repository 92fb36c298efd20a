"""What a report may conclude, and from which runs: whole set-ups, blocks, one family of claims, nothing chosen unseen."""

from __future__ import annotations

import csv
import json
import random
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli import main
from labconsole.errors import ConfigError
from labconsole.experiments.forwarding.units.results import results
from labconsole.measure.admission import admit
from labconsole.measure.groups import find_exclusion_reason
from labconsole.model.design_point import FrameSize
from labconsole.model.plan.file import CLAIMS
from labconsole.model.record.summary import RunSummary
from labconsole.report.comparisons import NOT_IN_ONE_STRETCH
from labconsole.report.conclusions import draw_conclusions
from labconsole.report.digest import format_request
from labconsole.report.evaluation import Evaluation, evaluate
from labconsole.report.formatting import format_bounds, format_loss, format_scientific, size_cells
from labconsole.report.points import RunFacts, SettingPoints
from labconsole.report.request import Selection, outcomes, parse_filter, parse_margin, require_free
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import measured, set_ups_of, taken


def summaries(path: Path, runs: list[dict[str, Any]]) -> list[RunSummary]:
    """As a store lists them, oldest first."""
    with open_store(str(path)) as store:
        import_records(store, runs)
        return sorted(store.list(), key=lambda run: run.run_id)


@pytest.fixture
def made(tmp_path: Path) -> Any:
    def make(runs: list[dict[str, Any]], **how: Any) -> Evaluation:
        return evaluate(summaries(tmp_path / "runs.sqlite", runs), **how)

    return make


@pytest.fixture
def why(tmp_path: Path) -> Any:
    """Why each of these runs enters nothing, None where it does, in their order."""

    def judge(*runs: dict[str, Any]) -> list[str | None]:
        left_out = admit(summaries(tmp_path / "runs.sqlite", list(runs))).left_out
        return [left_out.get(run["run_id"]) for run in runs]

    return judge


def settings_of(*settings: tuple[dict[str, Any], list[float]]) -> list[dict[str, Any]]:
    """One trial of each setting in each block."""
    return [
        run
        for place, (factors, values) in enumerate(settings)
        for run in set_ups_of(values, 20 * place, point=place, **factors)
    ]


QUIET, SAME, LESS = [80.0, 80.3, 80.1, 80.2, 79.9], [80.1, 80.2, 80.2, 80.0, 80.0], [60.0, 60.2, 60.1, 60.1, 59.9]


def test_a_change_within_blocks_is_different_and_noise_is_inconclusive_or_equivalent(made: Any) -> None:
    runs = settings_of(
        ({"platform": "lxc", "kind": "idle"}, QUIET),
        ({"platform": "lxc", "kind": "light"}, SAME),
        ({"platform": "lxc", "kind": "heavy"}, LESS),
    )
    words = {c.subject.setting.background: c.claim for c in made(runs).cpu_loads}
    assert (words["heavy"].word, words["light"].word) == ("different", "inconclusive")
    assert words["heavy"].effect.change == pytest.approx(-0.25, abs=0.005)
    assert words["heavy"].adjusted_p == pytest.approx(2 * words["heavy"].p)
    assert words["light"].smallest_ratio < words["light"].smallest_of_family_ratio
    (light,) = (c.claim for c in made(runs, margin_ratio=0.02).cpu_loads if c.subject.setting.background == "light")
    assert light.word == "equivalent"


def test_one_set_up_claims_nothing_however_many_trials_it_has(made: Any) -> None:
    runs = [taken(n, 80 + n / 10) for n in range(9)] + [taken(20 + n, 60 + n / 10, platform="lxc") for n in range(9)]
    report = made(runs)
    (pair,) = report.ranking
    assert (pair.claim.why, pair.claim.word, report.claims.size) == ("one set-up", "no claim", 0)
    assert {point.rate_bps.scope for point in report.points} == {"this set-up only"}


def test_trials_of_a_set_up_are_no_replicates(made: Any) -> None:
    """Set-ups 1 % apart, trials 0.1 %: nine trials a side in three set-ups say no more than three means."""
    runs = []
    for place, (platform, base) in enumerate((("raw", (80.0, 81.0, 79.5)), ("lxc", (80.6, 79.8, 80.9)))):
        runs += [
            measured(
                100 * place + 10 * block + r,
                base[block] + r / 100,
                block=block + 1,
                repetition=r + 1,
                trials=3,
                point=place,
                platform=platform,
                repetitions=3,
            )
            for block in range(3)
            for r in range(3)
        ]
    (pair,) = made(runs).ranking
    assert (pair.claim.effect.blocks, pair.claim.word) == (3, "inconclusive")


def test_platforms_that_differ_by_noise_of_set_ups_alone_are_rarely_called_different(made: Any, tmp_path: Path) -> None:
    """F1's scenario: set-ups differ by 1 %, trials by 0.5 %, drift of 5 % over the plan, no effect."""
    backgrounds = ("none", "idle", "heavy")
    template = summaries(
        tmp_path / "t.sqlite",
        [
            measured(
                1000 * b + 10 * p + r,
                60,
                block=b,
                repetition=r,
                trials=3,
                point=p,
                platform=("lxc", "uml")[p % 2],
                kind=backgrounds[p // 2],
                repetitions=3,
            )
            for b in (1, 2, 3, 4, 5)
            for p in range(6)
            for r in (1, 2, 3)
        ],
    )
    chance, wrong, plain = random.Random(7), 0, 0
    for _ in range(200):
        rows, order = [], {}
        for block in range(1, 6):
            for rank, place in enumerate(chance.sample(range(6), 6)):
                order[block, place] = (block - 1) * 6 + rank
        shift = {key: chance.gauss(0, 0.01) for key in order}
        for run in template:
            assert run.block is not None and run.plan_point is not None
            key = (run.block, run.plan_point)
            rate = 60e6 * (1 + shift[key] + chance.gauss(0, 0.005) - 0.05 * order[key] / 30)
            rows.append(_with_rate(run, rate))
        report = evaluate(rows)
        wrong += any(claim.different for claim in report.claims.claims)
        plain += sum(claim.p is not None and claim.p <= 0.05 for claim in report.claims.claims)
    assert report.claims.size == 5
    assert wrong <= 18  # 5 % of 200 are 10, 99 % of such counts lie at or below 18
    assert 0.02 <= plain / (200 * report.claims.size) <= 0.08


def _with_rate(run: RunSummary, rate_bps: float) -> RunSummary:
    from dataclasses import replace

    return replace(run, forwarding_bps=rate_bps, forwarding_pps=rate_bps / 8192)


def test_a_background_is_compared_block_by_block_so_that_what_a_block_has_in_common_falls_out(made: Any) -> None:
    drift = [1.0, 0.9, 1.1, 0.95, 1.05]
    runs = settings_of(
        ({"platform": "lxc", "kind": "idle"}, [70 * d for d in drift]),
        ({"platform": "lxc", "kind": "heavy"}, [66.5 * d for d in drift]),
    )
    (change,) = made(runs).cpu_loads
    assert change.claim.word == "different"
    assert change.claim.effect.ci_high - change.claim.effect.ci_low < 0.001


def test_set_ups_of_several_boots_are_not_paired_and_need_three_boots_a_side(made: Any) -> None:
    def both(boots: list[str], others: list[str], start: int) -> list[dict[str, Any]]:
        return [
            measured(
                start + 20 * place + n,
                base + n / 10,
                block=n + 1,
                point=place,
                boot=boot,
                platform=platform,
                plan_hash=f"{start:016d}",
                set_up=f"{start}-{platform}-{n}",
            )
            for place, (platform, base, held) in enumerate((("kvm", 80, boots), ("xen", 60, others)))
            for n, boot in enumerate(held)
        ]

    (pair,) = made(both(["a", "b", "c"], ["d", "e", "f"], 0)).ranking
    assert (pair.claim.effect.paired, pair.claim.word) == (False, "different")


def _taken_at(platform: str, block: int, started: str, base: float, **how: Any) -> dict[str, Any]:
    number = 30 * (platform == "lxc") + block
    return measured(
        number, base + block / 10, block=block, point=platform == "lxc", platform=platform, started=started, **how
    )


def test_set_ups_of_a_block_that_were_taken_days_apart_are_no_pair(made: Any) -> None:
    runs = [_taken_at("raw", n, f"2026-11-21T00:{n:02d}:00", 80) for n in range(1, 6)]
    runs += [_taken_at("lxc", n, f"2026-11-22T00:{n:02d}:00", 78) for n in range(1, 6)]
    report = made(runs)
    (pair,) = report.ranking
    assert (pair.claim.word, pair.claim.why) == ("no claim", NOT_IN_ONE_STRETCH)
    assert NOT_IN_ONE_STRETCH.startswith("set-ups of one block were taken at different times: raise set_ups and replay")
    assert report.claims.size == 0


def test_a_block_that_was_only_interrupted_stays_paired(made: Any) -> None:
    runs = [_taken_at("raw", n, f"2026-11-{20 + n}T00:00:00", 80) for n in range(1, 6)]
    runs += [_taken_at("lxc", n, f"2026-11-{20 + n}T23:00:00", 60) for n in range(1, 6)]
    (pair,) = made(runs).ranking
    assert (pair.claim.word, pair.claim.effect.blocks) == ("different", 5)


@pytest.mark.parametrize("blocks", [3, 5])
def test_a_set_up_that_broke_off_and_was_taken_again_after_other_blocks_is_no_pair(made: Any, blocks: int) -> None:
    runs = [_taken_at("raw", n, f"2026-11-21T{n:02d}:00:00", 80) for n in range(1, blocks + 1)]
    runs += [_taken_at("lxc", n, f"2026-11-21T{n:02d}:30:00", 60) for n in range(2, blocks + 1)]
    runs += [
        _taken_at("lxc", 1, "2026-11-22T00:00:00", 60, set_up="again"),
        measured(99, 60, block=1, point=9, platform="lxc", started="2026-11-21T01:30:00", set_up="broken", trials=2),
    ]
    (pair,) = made(runs).ranking
    if blocks == 3:
        assert pair.claim.why == NOT_IN_ONE_STRETCH
    else:
        assert pair.claim.effect.blocks == blocks - 1


LISTED_WHY = "the plan lists the order instead of drawing it: set order: blocked-random, raise set_ups and replay"
DRAWN_PLAN = """\
plan: made-up
platforms: [raw, lxc]
frame_sizes: [1000]
targets: [100Mbit]
duration_s: 1
set_ups: {set_ups}
seed: {seed}
order: {order}
"""


def _a_day_each(
    tmp_path: Path,
    set_ups: int,
    late: Callable[[int], Sequence[str]],
    seed: int = 1,
    order: str = "blocked-random",
    repetitions: int = 1,
    more: str = "",
) -> list[dict[str, Any]]:
    """Two equal platforms on a machine that is 2 % slower every day, block after block, a day for each set-up.

    ``late``: in which order a block's are taken by hand, () for the plan's.
    """
    from labconsole.model.plan.loader import load_plan

    file = tmp_path / "plan.yaml"
    file.write_text(DRAWN_PLAN.format(set_ups=set_ups, seed=seed, order=order) + f"repetitions: {repetitions}\n{more}")
    plan = load_plan(file)
    runs, day = [], 0
    blocks: dict[int, list[tuple[str, Any]]] = {}
    for held in plan.planned_set_ups():
        blocks.setdefault(held.block, []).append((held.configuration[0], plan.ref(*held.trials[0])))
    for block in range(1, set_ups + 1):
        in_order = sorted(blocks[block], key=lambda each: late(block).index(each[0]) if late(block) else 0)
        for platform, ref in in_order:
            day += 1
            run = measured(
                60 * day,
                80 * 0.98**day,
                block=block,
                platform=platform,
                point=ref.point,
                plan_hash=ref.hash,
                started=f"2026-11-{day:02d}T12:00:00",
            )
            run["plan"] |= {"position": ref.position, "seed": ref.seed, "order": ref.order, "set_ups": set_ups}
            run["plan"]["repetitions"] = ref.repetitions
            runs.append(run)
    return runs


def _concluded(store: Path, runs: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one row of the ranking that the real command prints."""
    assert main.main(["report", "--store", str(saved(store, runs)), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (row,) = next(line["rows"] for line in lines if line.get("table") == "ranking")
    return dict(row)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("set_ups", [3, 4, 5, 9])
def test_platforms_taken_one_after_the_other_in_each_block_are_not_compared(
    tmp_path: Path, set_ups: int, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--set-ups 1 --platforms raw`, next day `lxc`, then `--set-ups 2`, …: drift is on one side in every block."""
    runs = _a_day_each(tmp_path, set_ups, lambda block: ("raw", "lxc"), seed)
    told = _concluded(tmp_path / "r.sqlite", runs, capsys)
    assert told["word"] == "no claim"
    assert told["why"] == (
        "set-ups of one block were not taken in the order that the plan drew: raise set_ups and replay the whole plan"
    )
    runs = _a_day_each(tmp_path, set_ups, lambda block: (), seed)
    told = _concluded(tmp_path / "drawn.sqlite", runs, capsys)
    assert (told["word"], told["blocks"]) == ("inconclusive", set_ups)


def test_an_order_that_nobody_drew_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = _a_day_each(tmp_path, 4, lambda block: (), order="as-listed")
    told = _concluded(tmp_path / "r.sqlite", runs, capsys)
    assert told["why"] == LISTED_WHY


def _worn(order: str) -> list[dict[str, Any]]:
    """Equal loads in five blocks, the higher one after the lower, on a machine that is slower the longer it stands."""
    runs = two_loads([90.1, 90.2, 90.3, 90.4, 90.5], [80.1, 80.2, 80.3, 80.4, 80.5], 200_000_000)
    for position, run in enumerate(runs, 1):
        run["plan"] |= {"order": order, "position": position, "set_ups": 5}
    return runs


@pytest.mark.parametrize(
    ("order", "word", "why"), [("as-listed", "no claim", LISTED_WHY), ("blocked-random", "different", "")]
)
def test_loads_that_always_have_the_same_place_in_a_set_up_show_no_collapse(
    tmp_path: Path, order: str, word: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["report", "--store", str(saved(tmp_path / "r.sqlite", _worn(order))), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (row,) = next(line["rows"] for line in lines if line.get("table") == "collapse")
    assert (row["word"], row["why"] or "") == (word, why)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("set_ups", [3, 4, 6])
def test_repetitions_lowered_in_the_midst_of_a_block_are_no_other_order(
    tmp_path: Path, set_ups: int, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The places of what comes after are then of another count: too low by a trial for each earlier set-up."""
    runs = _a_day_each(tmp_path, set_ups, lambda block: (), seed, repetitions=2)
    runs[-1]["plan"] |= _a_day_each(tmp_path, set_ups, lambda block: (), seed)[-1]["plan"] | {"repetition": set_ups}
    first, last = (run["plan"] for run in runs[-2:])
    assert (first["repetitions"], last["repetitions"]) == (2, 1) and last["position"] < first["position"]
    assert _concluded(tmp_path / "r.sqlite", runs, capsys)["blocks"] == set_ups


@pytest.mark.parametrize("drawn", [True, False])
def test_platforms_that_a_plan_repeats_unequally_are_held_to_its_order(
    tmp_path: Path, drawn: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "overrides: {raw: {repetitions: 2}}\n"
    runs = _a_day_each(tmp_path, 4, lambda block: () if drawn else ("raw", "lxc"), more=more)
    assert {(run["requested"]["platform"], run["plan"]["repetitions"]) for run in runs} == {("raw", 2), ("lxc", 1)}
    assert (_concluded(tmp_path / "r.sqlite", runs, capsys)["word"] != "no claim") is drawn


def test_boots_of_what_was_taken_as_listed_are_not_compared_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = _a_day_each(tmp_path, 4, lambda block: (), order="as-listed")
    for run in runs:
        run |= json.loads(json.dumps(run).replace("boot-1", f"boot-{run['run_id'][-4:]}"))
    assert _concluded(tmp_path / "r.sqlite", runs, capsys)["why"] == LISTED_WHY


def test_a_guest_that_did_not_boot_at_its_turn_of_one_block_in_four_spoils_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = _a_day_each(tmp_path, 4, lambda block: ())
    first, last = runs[-2:]
    first["started_at"] = "2026-11-09T00:00:00.000000Z"
    assert first["plan"]["position"] < last["plan"]["position"] and first["started_at"] > last["started_at"]
    assert _concluded(tmp_path / "r.sqlite", runs, capsys)["blocks"] == 4


def test_a_set_up_that_broke_off_stands_where_it_was_begun_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = _a_day_each(tmp_path, 3, lambda block: ())
    first = runs[-2]
    broken = {**first, "run_id": "20261121T000000Z-ffffff", "set_up": {**first["set_up"], "id": "broken"}}
    broken["plan"] = {**first["plan"], "set_up_trials": 2}
    first["started_at"] = "2026-11-09T00:00:00.000000Z"
    assert _concluded(tmp_path / "r.sqlite", [*runs, broken], capsys)["blocks"] == 3


def test_runs_that_enter_nothing_part_a_block_too(made: Any, tmp_path: Path) -> None:
    runs = [
        _taken_at(name, n, f"2026-11-21T{n:02d}:{minute}:00", base)
        for n in range(1, 4)
        for name, minute, base in (("raw", "00", 80), ("lxc", "30", 60))
    ]
    broken = [
        measured(
            90 + n,
            60,
            block=n % 3 + 1,
            point=7,
            platform="lxc",
            set_up=f"broken-{n}",
            trials=2,
            started=f"2026-11-21T{n:02d}:15:00",
        )
        for n in range(1, 4)
    ]
    assert made(runs).ranking[0].claim.word == "different"
    (pair,) = evaluate(summaries(tmp_path / "other.sqlite", runs + broken)).ranking
    assert pair.claim.why == NOT_IN_ONE_STRETCH


def test_two_boots_a_side_claim_nothing(made: Any) -> None:
    runs = [
        measured(
            20 * place + n, base + n / 10, block=n + 1, point=place, boot=f"{platform}-{n // 2}", platform=platform
        )
        for place, (platform, base) in enumerate((("kvm", 80), ("xen", 60)))
        for n in range(4)
    ]
    (pair,) = made(runs).ranking
    assert pair.claim.why == "no blocks in common, and fewer than 3 boots a side"


def test_where_a_maximum_was_not_reached_there_is_no_effect_only_at_least(made: Any) -> None:
    runs = settings_of(({"platform": "raw"}, [100.0] * 5), ({"platform": "lxc"}, LESS))
    report = made(runs)
    (pair,) = report.ranking
    assert (pair.claim.effect, pair.claim.why) == (None, "a maximum was not reached")
    assert pair.subject.at_least and not pair.baseline.at_least


def test_what_comes_late_is_no_rate_and_a_queue_is_not_carried(made: Any) -> None:
    runs = [measured(n, 100.0, block=n + 1, late=3000) for n in range(3)]
    (point,) = made(runs).points
    assert point.rate_bps.mean < 0.85 * 100e6
    assert made(runs).maxima[0].at_least is False


def two_loads(low: list[float], high: list[float], fixed: int | str | None) -> list[dict[str, Any]]:
    return [
        measured(
            10 * block + place,
            mbps,
            block=block + 1,
            point=place,
            trials=2,
            target=target,
            fixed=fixed,
            platform="lxc",
            offered_mbps=offered,
        )
        for block, pair in enumerate(zip(low, high, strict=True))
        for place, (mbps, target, offered) in enumerate(zip(pair, (200_000_000, "max"), (200, 400), strict=True))
    ]


def test_a_maximum_is_read_at_the_pilots_load_and_a_collapse_is_a_contrast_with_it(made: Any, tmp_path: Path) -> None:
    runs = two_loads([180, 181, 180.5], [90, 90.4, 91], 200_000_000)
    report = evaluate(summaries(tmp_path / "a.sqlite", runs), fixed={("lxc", 1000, 1, "none"): 200_000_000})
    (reading,) = report.maxima
    assert (reading.choice.method, reading.point.target_bps, reading.at_least) == ("pilot's load", 200_000_000, False)
    (fallen,) = report.collapses
    assert fallen.claim.different and fallen.claim.effect is not None
    assert fallen.claim.effect.change == pytest.approx(-0.5, abs=0.01)


@pytest.mark.parametrize("others", [(100,), (100, 200)])
def test_a_pilots_load_at_which_no_run_entered_is_said_and_no_other_is_chosen_for_it(
    others: tuple[int, ...], made: Any
) -> None:
    beyond: dict[str, Any] = {"status": "suspect", "reasons": [{"code": "lost_at_sink", "detail": "ring"}]}
    loads: list[tuple[Any, int, dict[str, Any]]] = [(mbps * 1_000_000, mbps, {}) for mbps in others]
    known: dict[str, Any] = {"fixed": "max", "trials": len(others) + 1}
    runs = settings_of(
        *(
            ({"platform": platform, "target": target, "offered_mbps": offered, **known, **more}, values)
            for platform, values in (("lxc", QUIET), ("raw", LESS))
            for target, offered, more in (*loads, ("max", 400, beyond))
        )
    )
    report = made(runs, fixed={(platform, 1000, 1, "none"): "max" for platform in ("lxc", "raw")})
    assert {(r.choice.method, r.can_claim, r.is_maximum) for r in report.maxima} == {
        ("the pilot's load was not measured", False, False)
    }
    (row,) = report.ranking
    assert (row.claim.effect, row.claim.why) == (None, "no run entered at the load that the pilot chose")


def test_loads_that_two_settings_share_without_the_pilots_are_chosen_among_on_block_1(made: Any) -> None:
    runs = settings_of(*(({"target": n * 100_000_000, "offered_mbps": 100 * n, "trials": 3}, QUIET) for n in (1, 2, 3)))
    points = made(runs).points
    setting = SettingPoints(points[0].key, points, 3e8)
    assert setting.read().choice.method == "pilot's load"
    assert setting.read(frozenset({1e8, 2e8})).choice.method == "chosen on block 1, read from the others"


def test_without_a_pilot_block_1_chooses_and_the_others_say_and_three_set_ups_are_too_few(made: Any) -> None:
    runs = two_loads([180, 181, 180.5, 180.1], [90, 90.4, 91, 90], None)
    (reading,) = made(runs).maxima
    assert reading.choice.method == "chosen on block 1, read from the others"
    assert reading.rate.trials == 3 and reading.rate.mean == pytest.approx((181 + 180.5 + 180.1) / 3 * 1e6, rel=1e-3)
    (few,) = evaluate(_again(runs, 3)).maxima
    assert (few.can_claim, few.is_maximum) == (False, False)


def _again(runs: list[dict[str, Any]], blocks: int) -> list[RunSummary]:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        held = summaries(Path(name) / "r.sqlite", runs)
    return [run for run in held if (run.block or 0) <= blocks]


def test_what_differs_in_its_conditions_stands_apart_named_by_what_differs(made: Any) -> None:
    runs = set_ups_of(QUIET, 0) + set_ups_of(LESS, 10, kernel="6.6.0", plan_hash="b" * 16, set_up=None)
    for number, run in enumerate(runs):
        run["set_up"]["id"] = f"s{number}"
    report = made(runs)
    assert [point.platform for point in report.points] == ["raw (kernel 6.1.0-28-amd64)", "raw (kernel 6.6.0)"]
    assert [point.platform for point in made(runs, pool=("kernel",)).points] == ["raw"]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"duration_s": 60.0}, {"raw (1 s)", "raw (60 s)"}),
        ({"testbed_fingerprint": "another0"}, {"raw (testbed 7d3f9a11)", "raw (testbed another0)"}),
        ({"testbed": "another", "testbed_fingerprint": "x"}, {"raw (wuerzburg)", "raw (another)"}),
    ],
)
def test_durations_and_testbeds_are_never_pooled_unasked(made: Any, change: dict[str, Any], names: set[str]) -> None:
    runs = [taken(n, 90.0 + n) for n in range(4)]
    for run in runs[:2]:
        run.update({key: value for key, value in change.items() if key in run})
        run["requested"].update({key: value for key, value in change.items() if key in run["requested"]})
    assert {point.platform for point in made(runs).points} == names


def test_an_old_run_is_told_apart_from_one_that_knows_its_forwarding_rate(made: Any) -> None:
    points = made([*set_ups_of(QUIET), *(taken(50 + n, 90.0) for n in range(3))]).points
    assert {(p.platform, p.loss_of) for p in points} == {("raw (method 1)", "all"), ("raw (method 2)", "uut")}


def test_a_set_up_that_broke_off_enters_nothing_and_its_successor_does(why: Any) -> None:
    broken = [measured(n, 80, point=n, trials=3, set_up="first") for n in range(2)]
    whole = [measured(10 + n, 80, point=n, trials=3, set_up="second") for n in range(3)]
    assert why(*broken, *whole) == ["set_up_broke_off"] * 2 + [None] * 3


def test_an_invalid_last_attempt_fills_its_place_and_an_earlier_one_does_not(why: Any) -> None:
    attempts = [measured(n, 80, point=1, trials=2, status="invalid", attempt=n) for n in (1, 2, 3)]  # of at most 3
    assert why(measured(0, 80, trials=2), *attempts[:2]) == ["set_up_broke_off", "invalid", "invalid"]
    assert why(measured(0, 80, trials=2), *attempts) == [None, "invalid", "invalid", "invalid"]


def test_a_set_up_with_a_bare_place_that_was_taken_again_was_not_whole(why: Any) -> None:
    first = [measured(0, 80, trials=2, set_up="a"), measured(1, 80, point=1, trials=2, set_up="a", status="invalid")]
    again = [measured(5 + n, 80, point=n, trials=2, set_up="b") for n in range(2)]
    assert why(*first, *again) == ["set_up_broke_off", "invalid", None, None]


def test_pilots_and_telemetry_enter_nothing(why: Any) -> None:
    runs = [measured(0, 80, block=0, role="pilot"), measured(1, 80), measured(2, 80, block=2, role="telemetry")]
    assert why(*runs) == ["pilot", None, "telemetry"]


def test_what_was_lost_beside_the_unit_under_test_enters_no_mean(why: Any) -> None:
    reasons = [
        [{"code": code, "detail": "x", "evidence": None}]
        for code in ("lost_at_source", "lost_at_sink", "instrument_limited", "not_calibrated")
    ]
    runs = [measured(n, 80, block=n + 1, status="suspect", reasons=held) for n, held in enumerate(reasons)]
    assert why(*runs) == ["lost_at_source", "lost_at_sink", "instrument_limited", None]


def test_of_several_attempts_the_one_that_stands_enters(why: Any) -> None:
    runs = [measured(0, 80, status="invalid"), measured(1, 80, attempt=2)]
    assert why(*runs) == ["invalid", None]


def test_doubled_places_absurd_attempts_and_forged_set_ups_are_never_averaged(why: Any) -> None:
    doubled = [measured(0, 80), measured(1, 90)]
    later = [measured(2, 80, block=2, attempt=7)]
    forged = [measured(3, 80, block=3, set_up="f"), measured(4, 80, block=3, set_up="f", platform="lxc", point=1)]
    many = [measured(5 + n, 80, block=4, point=n, trials=1) for n in range(2)]
    assert why(*doubled, *later, *forged, *many) == [
        "doubled_place",
        "doubled_place",
        "attempts_missing",
        "set_up_contradicts",
        "set_up_contradicts",
        "set_up_contradicts",
        "set_up_contradicts",
    ]


def test_two_whole_set_ups_of_one_block_are_listed_both(why: Any) -> None:
    runs = [measured(n, 80 + n, set_up=f"s{n}") for n in range(2)]
    assert why(*runs) == ["doubled_place"] * 2


def test_a_boot_that_was_not_read_contradicts_nothing_and_two_boots_do(why: Any) -> None:
    runs = [measured(n, 80, repetition=n + 1, trials=3, boot=None if n else "boot-1", repetitions=3) for n in range(3)]
    assert why(*runs) == [None] * 3
    again = [
        measured(10 + n, 80, block=2, repetition=n + 1, trials=3, boot=(None, "boot-1", "boot-2")[n], repetitions=3)
        for n in range(3)
    ]
    assert why(*again) == ["set_up_contradicts"] * 3


def test_a_set_up_is_paired_by_the_boot_that_any_of_its_runs_knows(made: Any) -> None:
    runs = [
        measured(
            20 * b + 2 * p + r,
            80 + b / 10 + r / 100 - p,
            block=b,
            point=p,
            repetition=r + 1,
            trials=2,
            repetitions=2,
            platform=("lxc", "uml")[p],
            boot=None if (b + p) % 2 == r else "boot-1",
        )
        for b in (1, 2, 3)
        for p in (0, 1)
        for r in (0, 1)
    ]
    (pair,) = made(runs).ranking
    assert pair.claim.effect is not None and pair.claim.effect.blocks == 3


def test_set_ups_of_unknown_boots_are_no_pair_and_no_replicates(made: Any) -> None:
    """One platform a boot, and the boots a day apart: nobody read which boot it was."""
    runs = settings_of(({"boot": None}, QUIET), ({"platform": "lxc", "boot": None}, LESS))
    (pair,) = made(runs).ranking
    assert (pair.claim.word, pair.claim.why) == (
        "no claim",
        "which boots of the machine the set-ups belong to is not known",
    )


def test_runs_beside_blocks_are_no_set_up_of_their_own(why: Any) -> None:
    loose = measured(9, 50)
    loose["plan"], loose["set_up"] = None, None
    assert why(*set_ups_of(QUIET), loose)[-1] == "outside_blocks"


def test_a_run_without_its_forwarding_rate_has_no_rate_but_of_none_that_arrived_it_is_zero(why: Any, made: Any) -> None:
    unknown, nothing = measured(0, 80), measured(1, 0.0, block=2)
    for run in (unknown, nothing):
        run["total"]["forwarding_pps"] = run["total"]["forwarding_bps"] = None
    assert why(unknown, nothing) == ["no_rate", None]
    (point,) = made([unknown, nothing]).points
    assert point.rate_bps.mean == 0


def test_runs_without_a_set_up_pooled_with_set_ups_are_no_set_up_and_there_is_no_interval(made: Any) -> None:
    (point,) = made(_mixed([80, 80.1, 80.2], [81] * 2), pool=("duration",)).points
    assert (point.n, point.set_ups, point.rate_bps.scope) == (5, 3, "too few")
    assert (point.rate_bps.ci_low, point.rate_bps.ci_high, point.rate_bps.sd) == (None, None, None)


def _mixed(in_blocks: list[float], bare: list[float], trials: int = 1) -> list[dict[str, Any]]:
    """Set-ups of as many trials each, and runs without one, of another duration."""
    runs = [
        measured(10 * n + r, mbps + r / 100, block=n + 1, repetition=r + 1, trials=trials, repetitions=trials)
        for n, mbps in enumerate(in_blocks)
        for r in range(trials)
    ]
    return runs + [
        measured(90 + n, mbps, duration_s=2.0) | {"set_up": None, "plan": None} for n, mbps in enumerate(bare)
    ]


def test_runs_without_a_set_up_bring_no_bounds_of_packets_into_a_loss(made: Any) -> None:
    """Set-ups 300-fold apart: bounds of the packets would be 0.25 to 0.27 %."""
    runs = _mixed([100.0] * 3, [100.0])
    for run, lost in zip(runs, (10, 3000, 100, 0), strict=True):
        _counts(run, 300_000, lost)
    (point,) = made(runs, pool=("duration",)).points
    assert (point.loss.ratio, point.loss.low, point.loss.high) == (3110 / 1_200_000, None, None)
    assert format_loss(point.loss) == "0.26 %"


def test_where_none_lost_runs_without_a_set_up_count_as_so_many_trials(made: Any) -> None:
    evaluation = made(_mixed([100.0] * 3, [100.0] * 3, trials=3), pool=("duration",))
    (point,) = evaluation.points
    assert point.loss.upper_share_of_lossy_trials == pytest.approx(0.2209, abs=1e-4)
    assert (point.loss.low, point.loss.high) == (None, None)
    assert "22 % after 12" in results(evaluation.points, {}).note


def test_runs_without_a_set_up_are_none_in_the_spread_of_set_ups(made: Any, tmp_path: Path) -> None:
    assert made(_mixed([80.0, 80.1, 80.2], [70.0, 90.0], trials=2), pool=("duration",)).spread == {}
    runs = summaries(tmp_path / "other.sqlite", _mixed([80.0, 80.1, 80.2], [], trials=2))
    assert evaluate(runs).spread["raw"].set_ups == 3


def test_frames_of_several_sizes_are_a_reason_of_their_own() -> None:
    from types import SimpleNamespace

    known = {
        "verdict": "valid",
        "role": "measured",
        "offered_pps": 1.0,
        "offered_bps": 1.0,
        "reason_codes": (),
        "forwarding_pps": 1.0,
        "forwarding_bps": 1.0,
    }
    assert find_exclusion_reason(SimpleNamespace(**known, frame=None)) == "mixed_sizes"
    assert find_exclusion_reason(SimpleNamespace(**known, frame=FrameSize(64))) is None
    asked = {
        "platform": "raw",
        "frame_size_bytes": None,
        "frame_size_includes_fcs": False,
        "background": "none",
        "target_bps": "max",
        "sources": 1,
    }
    assert format_request({"requested": asked})[0] == "raw, mixed sizes"
    assert size_cells(None) == (None, None)


def test_the_loss_of_a_source_is_not_the_platforms(made: Any) -> None:
    (point,) = made(set_ups_of([100.0] * 3, at_source=5000)).points
    assert point.loss.lost_packets == 0 and point.loss.offered_packets > 30_000


def _came_out_more(run: dict[str, Any], excess: int) -> dict[str, Any]:
    """The unit under test put so many frames of its own on the wire beside the stream."""
    for each in (run["streams"][0], run["total"]):
        each |= {"uut_lost_packets": -excess, "sink_lost_packets": excess}
    run["total"]["uut_loss_ratio"] = -excess / run["total"]["offered_packets"]
    return run


def _counts(run: dict[str, Any], offered: int, lost: int) -> dict[str, Any]:
    """The total says so many packets offered, and lost at the unit under test less what it sent itself."""
    run["total"] |= {"offered_packets": offered, "uut_lost_packets": lost, "uut_loss_ratio": lost / offered}
    return run


def test_a_few_frames_of_its_own_are_no_loss_and_do_not_take_it_away(made: Any) -> None:
    runs = set_ups_of([100.0] * 3)
    assert runs[0]["total"]["offered_packets"] == 12_207
    (point,) = made([_came_out_more(runs[0], 20), *runs[1:]]).points
    assert (point.loss.lost_packets, point.loss.offered_packets, point.loss_trials) == (0, 36_621, 3)
    assert point.loss.low == 0 and point.missing_ratio == 0


@pytest.mark.parametrize("lost", [[400, *[0] * 8], [0, 250, 0, 250, 0, 250, 0, 250, 0]])
def test_more_in_one_trial_make_the_loss_of_the_point_unknown_and_is_told(made: Any, lost: list[int]) -> None:
    """100 frames of its own in every trial: where only what shows as lost entered, 0.04 % would be told as 0.30 %."""
    runs = [_counts(run, 100_000, some - 100) for run, some in zip(set_ups_of([100.0] * 9), lost, strict=True)]
    points = made(runs).points
    assert (points[0].loss, points[0].loss_trials, points[0].missing_ratio, points[0].n) == (None, 0, None, 9)
    told = results(points, {})
    assert told.shown[0][8] == "–" and "more came out" in told.note and "Left out" not in told.note
    assert [told.rows[0][told.columns.index(name)] for name in ("loss_trials", "loss_ratio")] == [0, None]


def test_where_frames_of_its_own_hide_the_loss_nothing_is_claimed_of_a_maximum(made: Any) -> None:
    runs = settings_of(({}, [99.9, 99.8, 99.9]), ({"platform": "lxc"}, [80.0, 80.2, 80.1]))
    for run, some in zip(runs, (300, -100, -100), strict=False):
        _counts(run, 100_000, some)
    (pair,) = made(runs).ranking
    assert (pair.claim.word, pair.claim.why) == ("no claim", "whether the maximum was reached is not known")


def test_a_trial_whose_counter_was_not_read_is_left_out_alone_and_is_told(made: Any) -> None:
    runs = set_ups_of([99.0] * 4)
    for each in (runs[0]["streams"][0], runs[0]["total"]):
        each |= {"uut_lost_packets": None, "sink_lost_packets": None}
    runs[0]["total"]["uut_loss_ratio"] = None
    points = made(runs).points
    assert (points[0].loss.offered_packets, points[0].loss_trials, points[0].loss.set_ups) == (36_621, 3, 3)
    assert points[0].loss.low is not None and points[0].missing_ratio == pytest.approx(0.01, rel=0.01)
    told = results(points, {})
    assert told.shown[0][8].endswith("; 3 of 4 trials") and "not read: 1 of 4 trials." in told.note
    assert told.rows[0][told.columns.index("loss_trials")] == 3


def test_none_lost_is_an_upper_bound_and_little_lost_a_power_of_ten(made: Any) -> None:
    (point,) = made(set_ups_of([100.0] * 3)).points
    assert format_loss(point.loss) == "none of 36\u2009621: below 8·10⁻⁵"
    (some,) = evaluate(_again([measured(n, 99.995, block=n + 1, point=5) for n in range(3)], 9)).points
    assert "10⁻⁵" in format_loss(some.loss) and "0.000" not in format_loss(some.loss)
    assert format_scientific(3.3e-6) == "3.3·10⁻⁶"


def test_two_set_ups_have_a_loss_and_no_interval_and_one_run_has_bounds_that_are_marked(made: Any) -> None:
    two, alone = made([*set_ups_of([99.0, 95.0]), measured(5, 97.0, platform="lxc", point=1)]).points
    assert format_loss(two.loss) == "3.00 %"
    assert format_loss(alone.loss) == "3.00 % (2.70 % to 3.32 %, of this run)"


def test_bounds_have_digits_enough_to_tell_their_side_of_zero() -> None:
    assert format_bounds(-0.009, -0.0004) == "−0.9 to −0.04"


def test_every_claim_of_a_report_is_of_one_family_and_a_plan_may_name_the_tables_that_claim(made: Any) -> None:
    runs = settings_of(
        ({"platform": "lxc"}, QUIET),
        ({"platform": "lxc", "kind": "idle"}, SAME),
        ({"platform": "lxc", "kind": "heavy"}, LESS),
        ({"platform": "uml"}, LESS),
    )
    report = made(runs)
    assert report.claims.size == 3
    heavy, _ = report.cpu_loads[0], report.idle[0]
    assert heavy.claim.adjusted_p == pytest.approx(3 * heavy.claim.p, rel=0.5)
    only = made(runs, claims=("ranking",))
    assert only.claims.size == 1
    assert only.cpu_loads[0].claim.why == "the plan claims nothing here"
    assert only.cpu_loads[0].claim.effect.ci_low is not None
    assert only.ranking[0].claim.adjusted_p == pytest.approx(only.ranking[0].claim.p)
    assert {claim.table for claim in report.claims.claims} <= set(CLAIMS)


def saved(path: Path, runs: list[dict[str, Any]]) -> Path:
    with open_store(str(path)) as store:
        import_records(store, runs)
    return path


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    runs = settings_of(({"platform": "raw"}, QUIET), ({"platform": "lxc"}, LESS))
    return saved(tmp_path / "runs.sqlite", runs)


@pytest.mark.parametrize(
    "words",
    [
        "loss<0.001",
        "verdict=valid",
        "measured>1",
        "reason~lost",
        "note~warm",
        "run~2026",
        "attempt=1",
        "repetition=1",
        "block<=3",
        "block<2",
        "block=1,2",
        "block!=3",
        "block>1",
        "block>=2",
        "block=",
        "block~1",
        "lost=0",
        "set_up=x",
        "late=0",
        "forwarding>1",
        "raw",
        "offered>1",
    ],
)
def test_a_filter_on_an_outcome_is_refused_with_what_to_do(
    store_file: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["report", "--store", str(store_file), words]) == 2
    said = capsys.readouterr().err
    assert "--select-by-outcome" in said and "platform" in said


@pytest.mark.parametrize(
    "words",
    [
        "platform=raw",
        "size=1000 background=none",
        "verdict!=invalid",
        "verdict=valid,suspect",
        "kernel~6.1 duration=1",
        "plan=made-up point=0",
        "started>2020",
        "method=2 role=measured emulated=yes",
    ],
)
def test_factors_and_conditions_are_free_to_choose_by(store_file: Path, words: str) -> None:
    with open_store(str(store_file), write=False) as store:
        assert outcomes(parse_filter(words.split()), store.list()) == ()


def test_a_time_that_cuts_a_plan_is_an_outcome_within_a_block_and_between_two(tmp_path: Path) -> None:
    runs = summaries(
        tmp_path / "r.sqlite",
        [
            measured(60 * b + p, 80, block=b, point=p, trials=2, started=f"2026-11-21T00:0{b}:0{p}")
            for b in (1, 2)
            for p in (0, 1)
        ],
    )
    for time in ("started<2026-11-21T00:02:01", "started<2026-11-21T00:02", "started>=2026-11-21T00:02"):
        with pytest.raises(ConfigError, match="cuts plan 3b1f7a90c4d2e865") as refused:
            require_free(parse_filter([time]), runs, allowed=False)
        assert "block<=" not in str(refused.value) and "--select-by-outcome" in str(refused.value)


@pytest.mark.parametrize(
    ("block", "role", "cut"),
    [
        (0, "pilot", "the pilot (block 0) of plan 3b1f7a90c4d2e865:"),
        (None, "measured", "plan 3b1f7a90c4d2e865:"),
    ],
)
def test_a_time_that_cuts_a_pilot_or_a_plan_without_blocks_says_which(
    tmp_path: Path, block: int | None, role: str, cut: str
) -> None:
    runs = summaries(
        tmp_path / "r.sqlite",
        [measured(p, 80, block=block, point=p, role=role, started=f"2026-11-21T00:00:0{p}") for p in (0, 1)],
    )
    with pytest.raises(ConfigError, match=re.escape(f"this time cuts {cut}")):
        require_free(parse_filter(["started<2026-11-21T00:00:01"]), runs, allowed=False)


def test_a_time_that_cuts_no_plan_is_free(tmp_path: Path) -> None:
    """Not one between two plans, nor one between a pilot and its blocks: the pilot enters nothing."""
    runs = summaries(
        tmp_path / "r.sqlite",
        [
            measured(1, 80, block=0, role="pilot", started="2026-11-20T23:00:00"),
            *(measured(60 * b, 80, block=b, started=f"2026-11-21T00:0{b}:00") for b in (1, 2, 3)),
            *(measured(600 + b, 80, block=b, plan_hash="0" * 16, started=f"2026-11-22T00:0{b}:00") for b in (1, 2, 3)),
        ],
    )
    for time in ("started>2020", "started>2030", "started>=2026-11-21", "started<2026-11-22"):
        assert require_free(parse_filter([time]), runs, allowed=False) == ()


def test_a_search_for_the_block_to_stop_at_is_told_in_every_caption(store_file: Path, tmp_path: Path) -> None:
    """Of nine blocks there are seven first ones to choose from, and the report that pleases can be among them."""
    out = tmp_path / "out"
    words = ["block<=3", "--select-by-outcome", "--out", str(out)]
    assert main.main(["report", "--store", str(store_file), *words]) == 0
    told = "Runs were chosen by their outcome (block; filter: block&lt;=3)."
    assert (out / "report.html").read_text().count(told) >= 4


def test_a_time_beside_select_by_outcome_is_an_outcome_whatever_runs_are_there(tmp_path: Path) -> None:
    """A bundle holds the runs that were meant: from them nobody can tell what the time cut."""
    query = parse_filter(["started<2026-11-21T00:02:01"])
    runs = summaries(tmp_path / "r.sqlite", [measured(60 * b, 80, block=b) for b in (1, 2, 3)])
    for there in (runs, runs[:1], []):
        assert require_free(query, there, allowed=True) == ("started",)


def test_a_selection_by_outcome_stands_in_head_captions_tables_and_json(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["loss<0.3", "note!~<b>", "--select-by-outcome", "--pool", "duration"]
    assert main.main(["report", "--store", str(store_file), "--out", str(out), "--json", *words]) == 0
    head = json.loads(capsys.readouterr().out.splitlines()[0])
    assert head["selection"]["by_outcome"] == ["loss", "note"] and head["selection"]["pool"] == ["duration"]
    page = (out / "report.html").read_text()
    told = "Runs were chosen by their outcome (loss, note; filter: loss&lt;0.3 note!~&lt;b&gt;)."
    assert page.count(told) >= 4 and "<b>)" not in page
    assert "Pooled although they may differ: duration." in (out / "results.md").read_text()
    assert "chosen by their outcome" in (out / "results.md").read_text()


def test_the_page_tells_how_many_set_ups_the_plan_asked_for_first_and_last(tmp_path: Path) -> None:
    runs = [measured(60 * b, 80 + b / 10, block=b, set_ups=3 if b < 4 else 5) for b in (1, 2, 3, 4, 5)]
    store, out = saved(tmp_path / "r.sqlite", runs), tmp_path / "out"
    assert main.main(["report", "--store", str(store), "--out", str(out), "--formats", "html"]) == 0
    page = (out / "report.html").read_text()
    assert "plan made-up: 3 by the oldest of these runs, 5 by the newest" in page
    assert "more frequent than stated here" in page


def test_the_filter_stands_in_the_page_also_where_it_is_free(store_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main.main(["report", "--store", str(store_file), "--out", str(out), "platform=raw"]) == 0
    assert "Selection:</b> filter platform=raw." in (out / "report.html").read_text()


@pytest.mark.parametrize(("text", "ratio"), [("2%", 0.02), ("0.05", 0.05), (None, None)])
def test_a_margin_is_a_ratio(text: str | None, ratio: float | None) -> None:
    assert parse_margin(text) == ratio


@pytest.mark.parametrize("text", ["0", "-1%", "100%", "much", "nan", ""])
def test_a_margin_that_is_no_ratio_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid margin"):
        parse_margin(text)


def test_a_condition_that_is_none_cannot_be_pooled(store_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["report", "--store", str(store_file), "--pool", "colour"]) == 2
    assert "is not a condition" in capsys.readouterr().err


def test_a_plans_margin_holds_where_all_its_blocks_declare_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def declared(name: str, last: float, *words: str) -> Any:
        runs = settings_of(({"platform": "lxc", "margin": 0.02}, QUIET), ({"platform": "uml", "margin": last}, SAME))
        store = saved(tmp_path / name, [*runs, taken(99, 50, platform="old")])
        assert main.main(["report", "--store", str(store), "--json", *words]) == 0
        lines = capsys.readouterr().out.splitlines()
        differ = "the plans' margins differ between runs, and none is used, so that nothing is called equivalent"
        head = json.loads(lines[0])
        assert (differ in " ".join(head["conclusions"])) == (differ in lines[1].replace("The plans", "the plans"))
        return {**head["claims"], "differ": differ in lines[0]}

    same, other = declared("a.sqlite", 0.02), declared("b.sqlite", 0.05)
    assert (same["margin_ratio"], same["margin_declared"]) == (0.02, "plan")
    assert other["margin_ratio"] is None
    assert (same["differ"], other["differ"]) == (False, True)
    given = declared("c.sqlite", 0.05, "--margin", "3%")
    assert (given["margin_ratio"], given["margin_declared"], given["differ"]) == (0.03, "option", False)


def test_a_plan_that_gained_claims_lets_all_tables_claim_and_the_report_says_so(made: Any) -> None:
    runs = settings_of(
        ({"platform": "lxc"}, QUIET),
        ({"platform": "lxc", "kind": "heavy"}, LESS),
        ({"platform": "uml", "claims": ("ranking",)}, LESS),
    )
    known = {
        run["run_id"]: RunFacts(claims=tuple(run["plan"]["claims"]) if run["plan"]["claims"] else None) for run in runs
    }
    found = made(runs, facts=known)
    assert (found.claims.tables, found.claims.differ, found.claims.size) == (None, ("claims",), 2)
    assert "plans differ in which tables may make claims" in " ".join(draw_conclusions(found, (), Selection()))


@pytest.mark.parametrize(
    ("words", "smaller"), [((), False), (("size<9000",), True), (("--platforms", "raw,lxc"), True)]
)
def test_a_choice_that_makes_the_family_smaller_is_told(
    store_file: Path, words: tuple[str, ...], smaller: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["report", "--store", str(store_file), "--json", *words]) == 0
    head = json.loads(capsys.readouterr().out.splitlines()[0])
    assert head["claims"]["tested"] > 0
    assert (
        any("the family of claims is smaller than that of all runs" in sentence for sentence in head["conclusions"])
        is smaller
    )


def test_a_run_whose_record_cannot_be_read_is_named_before_anything_is_concluded(
    store_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = sqlite3.connect(store_file)
    (run_id,) = connection.execute("SELECT min(run_id) FROM runs").fetchone()
    connection.execute("UPDATE runs SET record = '{' WHERE run_id = ?", (run_id,))
    connection.commit()
    connection.close()
    assert main.main(["report", "--store", str(store_file), "--json"]) == 0
    said = capsys.readouterr()
    first = json.loads(said.out.splitlines()[0])["conclusions"][0]
    assert run_id in first and "could not be read" in first and "verify" in first
    assert run_id in said.err


def test_a_margin_chosen_afterwards_is_called_so(store_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["report", "--store", str(store_file), "--margin", "2%"]) == 0
    assert "chosen afterwards" in capsys.readouterr().out


PLAN = """\
plan: small
platforms: [raw, lxc]
frame_sizes: [1000]
targets: [100Mbit]
duration_s: 1
repetitions: 3
"""


def test_what_was_planned_and_is_missing_is_told_point_by_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from labconsole.model.plan.loader import load_plan

    file = tmp_path / "small.yaml"
    file.write_text(PLAN)
    key = load_plan(file).hash()
    runs = [
        measured(0, 80, plan_hash=key, status="invalid"),
        measured(1, 80, plan_hash=key, attempt=2),
        measured(2, 80, plan_hash=key, block=2),
    ]
    store, out = saved(tmp_path / "r.sqlite", runs), tmp_path / "out"
    words = ["--store", str(store), "--out", str(out), "--formats", "csv", "--json"]
    assert main.main(["report", *words]) == 0
    counts = ("planned", "taken", "retaken", "entered", "missing")
    with (out / "runs-by-point.csv").open(newline="") as lines:
        (row,) = csv.DictReader(lines)
    assert [row[name] for name in counts] == ["3", "3", "1", "2", "1"]
    capsys.readouterr()
    assert main.main(["report", *words, "--plan", str(file)]) == 0
    head = json.loads(capsys.readouterr().out.splitlines()[0])
    assert head["planned"] == 6
    assert any("lxc: 3 trials of 1 point, 1 of them without any run" in words for words in head["missing_of_plans"])
    assert any("Missing of what was planned" in sentence for sentence in head["conclusions"])


def test_a_filter_does_not_make_set_ups_look_broken(store_file: Path, tmp_path: Path) -> None:
    runs = [
        measured(
            200 + 10 * b + p, 80, block=b, point=p, trials=2, size=(64, 1500)[p], plan_hash="c" * 16, set_up=f"c{b}"
        )
        for b in (1, 2, 3)
        for p in (0, 1)
    ]
    saved(store_file, runs)
    out = tmp_path / "out"
    words = ["report", "--store", str(store_file), "--out", str(out), "--formats", "csv", "size=64"]
    assert main.main(words) == 0
    with (out / "runs.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["enters"] for row in rows] == ["True"] * 3


def test_streams_that_fare_unequally_are_a_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [measured(n, 160 + n / 10, block=n + 1, sources=2) for n in range(5)]
    for number, run in enumerate(runs):
        for place, share in enumerate((0.7 + number / 1000, 1.3)):
            run["streams"][place]["forwarding_pps"] *= share
    store = saved(tmp_path / "r.sqlite", runs)
    assert main.main(["report", "--store", str(store), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (finding,) = (line for line in lines if line.get("finding") == "unequal_streams")
    assert "s1 has 35.1 % of what is forwarded" in finding["sentence"]


def test_a_second_guest_that_loses_a_little_in_every_block_is_found_by_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In and out overlap between blocks, and every block loses 3 %."""
    offered = (60.0, 70.0, 80.0, 65.0)
    runs = [
        measured(n, 80, block=n + 1, platform="lxc", kind="forwarding-95", second_mbps=(rate, rate * (0.97 + n / 5000)))
        for n, rate in enumerate(offered)
    ]
    store = saved(tmp_path / "r.sqlite", runs)
    assert main.main(["report", "--store", str(store), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["claim"] for line in lines if line.get("finding") == "second_guest_loses"] == [True]


def test_witnesses_mixed_in_one_mean_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = set_ups_of(QUIET)
    runs[0]["streams"][0]["measured_from"] = "counters"
    store = saved(tmp_path / "r.sqlite", runs)
    assert main.main(["report", "--store", str(store), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["claim"] for line in lines if line.get("finding") == "mixed_witnesses"] == [False]


def test_delays_stand_in_results_and_over_load(tmp_path: Path) -> None:
    quantiles = {"p50": 5_000, "p99": 20_000, "p999": 30_000, "max": 40_000}
    runs = set_ups_of(QUIET)
    for run in runs:
        run["streams"][0]["delay"] = {
            "packets": 1000,
            "pair_every_packets": 64,
            "one_way": True,
            "reason": None,
            "clock_bound_ns": 0,
            "one_way_ns": {**quantiles, "min": 1_000, "mean": 6_000.0},
            "pdv_ns": quantiles,
            "ipdv_ns": None,
            "sampling": "random",
        }
    out = tmp_path / "out"
    store = saved(tmp_path / "r.sqlite", runs)
    assert main.main(["report", "--store", str(store), "--out", str(out), "--formats", "csv,md,svg"]) == 0
    with (out / "results.csv").open(newline="") as lines:
        (row,) = csv.DictReader(lines)
    assert (row["delay_kind"], float(row["delay_p50_ns"]), float(row["delay_p99_ns"])) == ("one way", 5000, 20_000)
    assert "packets that arrived" in (out / "results.md").read_text()
    assert (out / "delay.svg").exists()


def test_a_selection_repeats_what_was_typed() -> None:
    chosen = Selection(text="loss<1", by_outcome=("loss",), pool=("kernel",), options=("testbed t",))
    assert chosen.description == "testbed t; filter loss<1"
    assert len(chosen.warnings) == 2
