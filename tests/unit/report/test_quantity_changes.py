"""What a comparison says of searches, jobs, starts, flows and routers, over records whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.measure.statistics.effects import holm
from support.job_records import taken
from support.measured_sides import (
    FULL_S,
    around,
    boots,
    compared,
    flows,
    jobs,
    keep,
    of_side,
    routes,
    searches,
    sent,
    served,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


@pytest.mark.parametrize(
    ("make", "mean", "quantity", "better"),
    [
        (jobs, 4.0, "time", "lower"),
        (boots, 2.0, "start-up time", "lower"),
        (flows, 6000.0, "payload of all guests", "higher"),
        (routes, 20000.0, "forwarding rate", "higher"),
    ],
)
@pytest.mark.parametrize(("factor", "word"), [(1.03, "different"), (0.97, "different"), (1.0, "equivalent")])
def test_a_change_is_found_with_its_size_and_none_where_there_is_none(
    place: Path, capsys: Any, make: Any, mean: float, quantity: str, better: str, factor: float, word: str
) -> None:
    old, new = make("old", around(mean, 1)), make("new", around(mean * factor, 2), kernel="6.6")
    keep(place, [*old, *new])
    found = compared(place, capsys, "plan=old", "plan=new", "--margin", "2%")
    (row,) = [each for each in found["quantities"] if each["quantity"] == quantity]
    assert (row["word"], row["over"], row["before_set_ups"], row["better"]) == (word, "set-ups", 8, better)
    assert row["change_ratio"] == pytest.approx(factor - 1, abs=0.006)
    assert row["change_ci_low_ratio"] < factor - 1 < row["change_ci_high_ratio"]
    if word == "different":
        assert row["changed_for"] == ("better" if (factor > 1) is (better == "higher") else "worse")
    told = {(each["what"], each["before"], each["after"]) for each in found["differences"]}
    assert ("kernel", "6.1", "6.6") in told
    assert any("may be one of the boots" in sentence for sentence in found["sentences"])


def test_the_load_that_a_search_finds_is_compared_over_set_ups(place: Path, capsys: Any) -> None:
    for name, mean, seed, kernel in (("old", 30_000.0, 1, "6.1"), ("new", 28_500.0, 2, "6.6")):
        keep(place, *searches(name, around(mean, seed), kernel=kernel))
    found = compared(place, capsys)
    (row,) = found["quantities"]
    assert (row["kind"], row["quantity"], row["unit"]) == ("search", "load that meets ndr", "pps")
    assert (row["word"], row["changed_for"], row["over"]) == ("different", "worse", "set-ups")
    assert row["change_ratio"] == pytest.approx(-0.05, abs=0.006)
    assert found["points"] == []
    assert "Of searches 1 quantity on both sides: 1 different (worse) between these set-ups." in found["sentences"]


def test_bounds_that_all_fall_on_one_step_are_not_known_better_than_it(place: Path, capsys: Any) -> None:
    """No spread at all: where the loads lie within their steps of 0.5 % is not known, however many searches there are."""
    for name in ("old", "new"):
        keep(place, *searches(name, [30_000.0] * 20))
    for margin, word in (("2%", "equivalent"), ("0.2%", "inconclusive")):
        (row,) = compared(place, capsys, "plan=old", "plan=new", "--margin", margin)["quantities"]
        assert row["word"] == word
        assert row["change_ci_high_ratio"] == pytest.approx(0.0041, abs=0.0005)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (("generator", "generator"), "both sides forwarded all that they were offered"),
        (("line_rate", "line_rate"), "both sides forwarded all that they were offered"),
        (("uut", "below_minimum"), "the goal was not met even at the lowest load"),
        (("generator", "uut"), None),
    ],
)
def test_a_bound_that_says_less_than_the_platform_can_claims_no_more(
    place: Path, capsys: Any, limits: tuple[str, str], why: str | None
) -> None:
    for name, limit, mean, seed in (("old", limits[0], 30_000.0, 1), ("new", limits[1], 28_000.0, 2)):
        values = [None] * 8 if limit == "below_minimum" else around(mean, seed)
        keep(place, *searches(name, values, limited_by=limit))
    (row,) = compared(place, capsys)["quantities"]
    assert row["why"] == why
    assert (row["word"], row["at_least"]) == (("no claim", False) if why else ("different", True))


def test_a_side_of_which_only_some_searches_reach_the_generators_limit_claims_nothing(place: Path, capsys: Any) -> None:
    keep(place, *searches("old", around(30_000.0, 1)))
    found, runs = searches("new", around(28_000.0, 2))
    half = [
        each.model_copy(update={"goals": (each.goals[0].model_copy(update={"limited_by": "generator"}),)})
        for each in found[:4]
    ]
    keep(place, [*half, *found[4:]], runs)
    (row,) = compared(place, capsys)["quantities"]
    assert row["why"] == "some trials lost nothing of all that could be offered, and others did"


@pytest.mark.parametrize(
    ("before", "after", "why", "word"),
    [
        (1.0, 1.0, "held by the link", "no claim"),
        (1.0, 1.02, "held by the link", "no claim"),
        (1.0, 1.5, None, "different"),
        (1.5, 1.0, None, "different"),
        (1.057, 1.048, None, "different"),  # and not within the margin: by how much the faster one is held is not known
        (1.067, 1.058, None, "different, within the margin"),
        (0.5, 1.0, "held by the link on the side that was slower", "no claim"),
        (1.5, 1.5, None, "equivalent"),
    ],
)
def test_times_that_the_link_set_are_neither_equivalent_nor_changed(
    place: Path, capsys: Any, before: float, after: float, why: str | None, word: str
) -> None:
    sides = [
        sent(name, around(mean * FULL_S, seed, sd=0.001))
        for name, mean, seed in (("old", before, 1), ("new", after, 2))
    ]
    keep(place, [*sides[0], *sides[1]])
    found = compared(place, capsys, "plan=old", "plan=new", "--margin", "2%")
    (row,) = found["quantities"]
    assert (row["why"], row["word"]) == (why, word)
    held = [row[f"{side}_bound"] == "held by the link" for side in ("before", "after")]
    assert held == [before in (1.0, 1.02, 1.048), after in (1.0, 1.02, 1.048)]
    assert row["at_least"] is (why is None and any(held))


@pytest.mark.parametrize(
    ("cached", "word"),
    [
        ((False, False), "equivalent"),
        ((True, True), "equivalent"),
        ((True, False), "no claim"),
        ((False, True), "no claim"),
    ],
)
def test_files_of_which_one_side_had_some_in_memory_are_not_compared(
    place: Path, capsys: Any, cached: tuple[bool, bool], word: str
) -> None:
    sides = [
        served(name, around(4.0, seed), from_memory=of)
        for name, seed, of in (("old", 1, cached[0]), ("new", 2, cached[1]))
    ]
    keep(place, [*sides[0], *sides[1]])
    (row,) = compared(place, capsys, "plan=old", "plan=new", "--margin", "2%")["quantities"]
    assert (row["word"], row["why"]) == (word, "read from memory" if word == "no claim" else None)


@pytest.mark.parametrize(("before", "after"), [((8,), True), (True, (1,)), ((8,), (1,)), ((1, 2), False)])
def test_a_side_of_which_some_files_were_in_memory_is_like_no_other_one(
    place: Path, capsys: Any, before: Any, after: Any
) -> None:
    """Three times as fast from memory: a difference would be that of the cache."""
    sides = []
    for name, cached, seed in (("old", before, 1), ("new", after, 2)):
        blocks = range(1, 9) if cached is True else cached or ()
        seconds = [value / 3 if n in blocks else value for n, value in enumerate(around(3.0, seed), 1)]
        sides += served(name, seconds, from_memory=cached)
    keep(place, sides)
    (row,) = compared(place, capsys, "plan=old", "plan=new", "--margin", "5%")["quantities"]
    assert (row["word"], row["why"]) == ("no claim", "read from memory in some trials, and not in others")
    assert (row["p"], row["change_ci_low_ratio"]) == (None, None)


def test_searches_of_one_set_up_or_that_did_not_end_claim_nothing(place: Path, capsys: Any) -> None:
    keep(place, *searches("old", around(30_000.0, 1)))
    keep(place, *searches("new", around(28_000.0, 2), set_up="the one"))
    keep(place, *searches("early", around(28_000.0, 3), complete=False))
    (row,) = compared(place, capsys)["quantities"]
    assert (row["word"], row["why"]) == ("no claim", "fewer than 3 set-ups a side")
    found = compared(place, capsys, "plan=old", "plan=early")
    assert found["quantities"] == []
    assert "8 of 8 trials after of kind search enter no mean: not finished 8." in found["sentences"]


def test_platforms_of_the_same_blocks_are_paired(place: Path, capsys: Any) -> None:
    """What both share in a block, here a drift of 30 %, falls out; trials with a doubt enter nothing."""
    drift = [1.0, 1.1, 0.9, 1.2, 1.05, 0.95, 1.3, 0.85]
    records = []
    for block, share in enumerate(drift, 1):
        for platform, seconds in (("lxc", 4.0), ("uml", 4.4 * (1 + 0.001 * (-1) ** block))):
            records.append(taken([seconds * share] * 2, platform=platform, block=block))
        records.append(taken([40.0] * 2, platform="uml", block=block, repetition=2, codes=["clock_moved"]))
    keep(place, records)
    found = compared(place, capsys, "platform=lxc", "platform=uml")
    (row,) = found["quantities"]
    assert (row["over"], row["word"], row["changed_for"]) == ("blocks", "different", "worse")
    assert row["change_ratio"] == pytest.approx(0.1, abs=0.001)
    assert row["change_ci_high_ratio"] - row["change_ci_low_ratio"] < 0.01
    assert "Compared by platform: jobs." in found["sentences"]
    assert "8 of 16 trials after of kind job enter no mean: clock_moved 8." in found["sentences"]


def test_blocks_of_two_stores_are_not_taken_for_one(tmp_path: Path, capsys: Any) -> None:
    for name, mean in (("before", 4.0), ("after", 4.1)):
        trials = [taken([value] * 2, block=n) for n, value in enumerate(around(mean, 7, 5), 1)]
        keep(
            tmp_path / f"{name}.sqlite",
            [each.model_copy(update={"job_id": f"{name}-{n}"}) for n, each in enumerate(trials)],
        )
    words = [str(tmp_path / f"{name}.sqlite") for name in ("before", "after")]
    (row,) = compared(tmp_path / "before.sqlite", capsys, *words)["quantities"]
    assert row["over"] == "set-ups"


def test_three_boots_a_side_are_what_is_compared_and_shared_ones_are_no_ground(place: Path, capsys: Any) -> None:
    records = []
    for name, letters in (("old", "abc"), ("new", "def"), ("mixed", "cgh")):
        for number, seconds in enumerate(around(4.0, len(name) + ord(name[0]), 9), 1):
            trial = taken([seconds] * 2, block=number)
            records.append(of_side(trial, name, number, boot=letters[(number - 1) // 3]))
    keep(place, records)
    (row,) = compared(place, capsys)["quantities"]
    assert (row["over"], row["before_boots"], row["after_boots"]) == ("boots", 3, 3)
    (row,) = compared(place, capsys, "plan=old", "plan=mixed")["quantities"]
    assert (row["word"], row["why"]) == (
        "no claim",
        "some boots of the machine are on both sides, and the others may differ",
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"testbed_fingerprint": "e" * 64}, "the trials are of several testbeds"),
        ({"program": {"name": "busybox", "sha256": ("b" * 64,)}}, "the programs in the guests are not the same"),
    ],
)
def test_other_testbeds_and_other_programs_claim_nothing(place: Path, capsys: Any, change: Any, why: str) -> None:
    new = [type(each).model_validate({**each.model_dump(), **change}) for each in jobs("new", around(5.0, 2))]
    keep(place, [*jobs("old", around(4.0, 1)), *new])
    (row,) = compared(place, capsys)["quantities"]
    assert (row["word"], row["why"]) == ("no claim", why)
    assert row["change_ratio"] == pytest.approx(0.25, abs=0.02)


def test_too_few_set_ups_claim_nothing(place: Path, capsys: Any) -> None:
    keep(place, [*jobs("old", [4.0, 4.1]), *jobs("new", [5.0, 5.1])])
    (row,) = compared(place, capsys)["quantities"]
    assert (row["word"], row["why"]) == ("no claim", "fewer than 3 set-ups a side")


def test_all_kinds_of_a_comparison_are_one_family(place: Path, capsys: Any) -> None:
    old = [*jobs("old", around(4.0, 1)), *boots("old", around(2.0, 3)), *routes("old", around(20_000.0, 5))]
    new = [*jobs("new", around(4.02, 2)), *boots("new", around(2.01, 4)), *routes("new", around(20_100.0, 6))]
    keep(place, [*old, *new])
    found = compared(place, capsys)
    rows = [each for each in found["quantities"] if each["p"] is not None]
    assert {each["kind"] for each in rows} == {"job", "boot", "route"}
    assert [each["adjusted_p"] for each in rows] == pytest.approx(holm([each["p"] for each in rows]))
    assert found["claims"] == len(rows)


def test_guests_that_fill_the_link_and_routers_that_lose_nothing_are_not_ranked(place: Path, capsys: Any) -> None:
    keep(place, [*flows("old", [8120.0] * 5), *flows("new", [8126.0] * 5)])
    keep(place, [*routes("old", around(20_000.0, 5), lost=0), *routes("new", around(20_100.0, 6), lost=0)])
    rows = compared(place, capsys)["quantities"]
    assert {each["kind"]: each["why"] for each in rows} == dict.fromkeys(
        ("flow", "route"), "both sides forwarded all that they were offered"
    )


def test_people_and_pull_requests_read_the_same(place: Path, capsys: Any) -> None:
    keep(place, [*jobs("old", around(4.0, 1)), *jobs("new", around(4.2, 2), kernel="6.6")])
    assert main(["compare", "--store", str(place), "plan=old", "plan=new"]) == 0
    assert "Of jobs 1 quantity on both sides: 1 different (worse) between these set-ups." in capsys.readouterr().out
    assert main(["compare", "--store", str(place), "--markdown", "plan=old", "plan=new"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("| lxc: wait (3 s) in all 2 guests | time, s | 4") for line in lines)


def test_trials_are_chosen_by_what_they_have_and_are_on_one_side_only(place: Path, capsys: Any) -> None:
    keep(place, jobs("old", around(4.0, 1)))
    for words, problem in (
        (["plan=old", "plan=old"], "8 trials would be on both sides"),
        (["plan=old", "plan=new"], "no saved trial"),
        (["plan=old", "size=64"], "no saved trial"),
    ):
        assert main(["compare", "--store", str(place), *words]) == 2
        told = capsys.readouterr()
        assert problem in told.err
        assert "Traceback" not in told.err
