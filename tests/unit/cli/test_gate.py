"""A plan that is measured again by occasion, baselines, and the gate that compares them, over runs whose truth is known."""

import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from labconsole.api.plan_files import load_plan_on_occasion
from labconsole.cli.main import main
from labconsole.comparison.effects import derive_unpaired_effect
from labconsole.comparison.points import SideSetUps
from labconsole.experiments.kinds import kinds
from labconsole.measure.statistics.effects import fall_p
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import measured

PLAN = """
plan: nightly
platforms: [raw]
frame_sizes: [1000]
targets: [100Mbit, 200Mbit]
duration_s: 1
repetitions: 1
set_ups: {set_ups}
order: blocked-random
margin: 2%
"""


class Lab:
    """A plan, and a store into which its occasions are put without measuring."""

    def __init__(self, directory: Path) -> None:
        self.plan, self.store = directory / "nightly.yaml", directory / "runs.sqlite"
        self.plan.write_text(PLAN.format(set_ups=8))
        self._number = 0

    def measure(
        self,
        occasion: str | None,
        mbps: Sequence[float],
        *,
        seed: int = 1,
        set_ups: int = 8,
        offered_mbps: Sequence[float] | None = None,
        fingerprint: str | None = None,
        said: Sequence[int] | None = None,
        suspect: int = 0,
        full: int = 0,
        **how: Any,
    ) -> None:
        """Saturated points of these rates, four times of which is offered; ``offered_mbps``: all of it arrives at most.
        ``suspect``: of the first blocks; ``full``: of these nothing is lost. ``said``: how many set-ups the plan asked for by then, block by block.
        """
        plan = load_plan_on_occasion(self.plan, occasion, None)
        rng = np.random.default_rng(seed)
        records = []
        for block in range(1, set_ups + 1):
            for point, rate in enumerate(mbps):
                self._number += 1
                offered = 4 * max(mbps) if offered_mbps is None else offered_mbps[point]
                noisy = rate * (1 + 0.003 * rng.standard_normal()) if offered_mbps is None else rate
                if block <= full:
                    offered = noisy
                record = measured(
                    self._number,
                    noisy,
                    block=block,
                    point=point,
                    set_ups=said[block - 1] if said else 8,
                    plan_hash=plan.hash(),
                    target=(100_000_000, 200_000_000)[point],
                    offered_mbps=offered,
                    trials=2,
                    set_up=f"{plan.name}-{block}{fingerprint or ''}",
                    margin=0.02,
                    **how,
                )
                if fingerprint is not None:
                    record["testbed_fingerprint"] = fingerprint
                if block <= suspect:
                    reason = {"code": "lost_at_source", "detail": "d", "evidence": None, "follows": None}
                    record["verdict"] = {"status": "suspect", "reasons": [reason]}
                record["plan"]["name"] = plan.name
                records.append(record)
        with open_store(str(self.store)) as store:
            import_records(store, records)

    def occasions(self, name: str, mbps: Sequence[float], many: int = 6, **how: Any) -> None:
        """Several of one name, ``NAME-1`` and so on, and a baseline ``main`` of all of them."""
        for number in range(1, many + 1):
            self.measure(f"{name}-{number}", mbps, **{"seed": 10 * number} | how)
        assert self("baseline", "set", "main", f"nightly@{name}-*") == 0

    def __call__(self, *words: str) -> int:
        return main([words[0], "--store", str(self.store), *words[1:]])

    def gate(self, capsys: Any, *words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        status = self("gate", "--json", str(self.plan), "--baseline", "main", *words)
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return status, found


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path)
    lab.occasions("main", [60, 120])
    return lab


def outcomes(found: dict[str, Any]) -> list[str]:
    return [each["outcome"] for each in found["judged"]]


def test_what_is_as_good_as_the_baseline_passes(lab, capsys):
    lab.measure("today", [60, 120], seed=2)
    status, found = lab.gate(capsys, "--occasion", "today")
    assert (status, found["outcome"], outcomes(found)) == (0, "passed", ["passed", "passed"])


def test_a_fall_of_five_per_cent_at_one_point_is_told_for_it(lab, capsys, tmp_path):
    lab.measure("today", [60, 114], seed=2, kernel="6.6")
    status, found = lab.gate(
        capsys, "--occasion", "today", "--junit", str(tmp_path / "gate.xml"), "--markdown", str(tmp_path / "gate.md")
    )
    assert (status, found["outcome"], outcomes(found)) == (1, "worse", ["passed", "worse"])
    cases = ElementTree.parse(tmp_path / "gate.xml").findall(".//testcase")
    assert [case.find("failure") is None for case in cases] == [True, False]
    assert "raw, 1000 B, 1 × 200 Mbit/s" in (cases[1].get("name") or "")
    failure = cases[1].find("failure")
    assert failure is not None and "\nWhat else differs: Runs: kernel 6.1.0-28-amd64 → 6.6." in (failure.text or "")
    assert (tmp_path / "gate.md").read_text().startswith("### nightly@today against baseline main: worse")


def test_what_is_shown_neither_way_is_no_pass_unless_that_is_asked_for(lab, capsys):
    lab.measure("today", [60 * 0.981, 120 * 0.981], seed=2)
    assert lab.gate(capsys, "--occasion", "today")[0] == 4
    for status in (0, 125):
        told = lab.gate(capsys, "--occasion", "today", "--undecided", str(status))
        assert told[0] == status
        assert "undecided" in outcomes(told[1])


@pytest.mark.parametrize(("suspect", "outcome"), [(0, "passed"), (4, "undecided")])
def test_what_forwarded_all_passes_only_where_every_trial_shows_it(lab, capsys, suspect, outcome):
    """Also of one occasion: nothing varies there."""
    lab.occasions("before", [50, 100], many=1, offered_mbps=[50, 100])
    lab.measure("today", [50, 100], offered_mbps=[50, 100], suspect=suspect)
    assert outcomes(lab.gate(capsys, "--occasion", "today")[1]) == [outcome, outcome]


@pytest.mark.parametrize(
    ("full", "fall", "full_today", "outcome", "words"),
    [
        (0, 0.0, 0, "passed", "over occasions"),
        (2, 0.0, 0, "undecided", "the baseline lost nothing in some trials, and may have had more to give"),
        (2, 0.5, 0, "worse", "where some trials lost nothing of what they were offered, and others did"),
        (2, 0.5, 2, "undecided", "some trials lost nothing of what they were offered, and others did"),
        (8, 0.5, 0, "worse", "where one side forwarded all that it was offered"),
    ],
)
def test_a_run_that_lost_nothing_among_others_that_did_hides_no_fall(
    lab, capsys, full, fall, full_today, outcome, words
):
    """What it forwarded is the least that it could: such runs read as exact passed falls of the margin in one of six."""
    lab.occasions("before", [60, 120], full=full)
    lab.measure("today", [59.8 * (1 - fall), 119.6 * (1 - fall)], seed=2, full=full_today)
    _, found = lab.gate(capsys, "--occasion", "today")
    assert outcomes(found) == [outcome, outcome], found["judged"]
    assert words in found["judged"][0]["detail"]


@pytest.mark.parametrize(("offered", "outcome"), [(99.0, "passed"), (95.0, "undecided"), (400.0, "passed")])
def test_what_was_all_forwarded_passes_only_where_no_less_was_offered(lab, capsys, offered, outcome):
    """A rate that was merely offered is the sender's: 5 % less of it shows nothing."""
    lab.occasions("before", [100, 100], many=3, offered_mbps=[100, 100])
    lab.measure("today", [offered, offered], offered_mbps=[offered, offered])
    _, found = lab.gate(capsys, "--occasion", "today")
    assert outcomes(found) == [outcome, outcome]
    told = "and that is less than before by more than the margin" in found["judged"][0]["detail"]
    assert told is (outcome == "undecided")


def test_what_was_offered_otherwise_than_to_the_baseline_is_told(lab, capsys):
    told = []
    for occasion, offered in (("today", 470), ("starved", 250)):
        lab.measure(occasion, [40, 80], offered_mbps=[offered, offered])
        told += lab.gate(capsys, "--occasion", occasion)[1]["judged"][:1]
        lab("compare", "--markdown", "plan=nightly@main-1", f"plan=nightly@{occasion}")
        assert ("offered 480 Mbit/s → 250 Mbit/s" in capsys.readouterr().out) is (occasion == "starved")
    assert [each["outcome"] for each in told] == ["worse", "worse"]
    assert ["; offered 480 Mbit/s → 250 Mbit/s" in each["detail"] for each in told] == [False, True]


def test_half_a_measurement_is_not_judged(lab, capsys):
    lab.measure("today", [60, 114], seed=2, set_ups=5)
    status, found = lab.gate(capsys, "--occasion", "today", "--undecided", "0")
    assert (status, outcomes(found)) == (4, ["not measured", "not measured"])
    assert found["judged"][0]["detail"] == "5 of 8 trials have been measured: replay resumes where it ended"


def test_a_baseline_is_moved_on_purpose_and_says_by_whom(lab, capsys, monkeypatch):
    later = ("today", "tonight", "at-dawn", "at-noon", "at-six", "at-nine")
    for seed, occasion in enumerate(later, 2):
        lab.measure(occasion, [57, 114], seed=seed)
        assert lab.gate(capsys, "--occasion", occasion)[0] == 1
    named = [word for occasion in later for word in ("--occasion", occasion)]
    assert lab("baseline", "set", "main", str(lab.plan), *named) == 0
    capsys.readouterr()
    assert lab("baseline", "show", "main", "--json") == 0
    history = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    former = [f"nightly@main-{number}" for number in (6, 5, 4, 3, 2, 1)]
    assert [each["plan_name"] for each in history] == [*(f"nightly@{name}" for name in reversed(later)), *former]
    assert all(each["author"] and each["set_at"] for each in history)
    for action in (["list"], ["show", "main"]):
        assert lab("baseline", *action) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"main: {', '.join(f'nightly@{name}' for name in later)} on wuerzburg, set by ")
        # How far its occasions scatter, that all are of one boot, and where it was before.
        assert len(lines) == (1 if action == ["list"] else 4)
    lab.measure("tomorrow", [57, 114], seed=9)
    assert lab.gate(capsys, "--occasion", "tomorrow")[0] == 0


@pytest.mark.parametrize(
    ("boots", "words"),
    [
        ("abcdef", None),
        ("aaaa", "all of them are of one boot, and do not show how far boots differ"),
        (
            "aabb",
            "occasions of one boot count as one, which makes 2 of these 4; fewer than three occasions do not show",
        ),
        ("abc-", "the boot of some trials is not known"),
        ("ab", "fewer than three occasions do not show"),
    ],
)
def test_a_baseline_says_at_once_where_its_boots_leave_a_gate_undecided(lab, capsys, boots, words):
    for number, boot in enumerate(boots):
        lab.measure(f"b-{number}", [60, 120], seed=number, boot=None if boot == "-" else boot)
    for action in (["set", "main", "nightly@b-*"], ["show", "main"]):
        capsys.readouterr()
        assert lab("baseline", *action) == 0
        told = capsys.readouterr().out
        assert ("boot" in told or "fewer than" in told) if words else ("boot" not in told and "fewer" not in told)
        assert (words or "") in told
    lab.measure("today", [60, 120], seed=9, boot="z")
    assert (lab.gate(capsys, "--occasion", "today")[1]["outcome"] == "undecided") is (words is not None)


def drifting(lab: Lab, rng: np.random.Generator, name: str, factor: float = 1.0, **how: Any) -> None:
    """An occasion of a testbed whose occasions differ by 3 %, and its set-ups by a tenth of that."""
    by = factor * float(np.exp(0.03 * rng.standard_normal()))
    lab.measure(name, [60 * by, 120 * by], seed=int(rng.integers(1 << 30)), **how)


def test_what_occasions_differ_by_is_no_alarm_where_several_show_it_nor_where_one_does_not(lab, capsys):
    """Set-ups of one occasion show a tenth of what the next occasion differs by, and would alarm in one case of three."""
    rng = np.random.default_rng(5)
    for number in range(6):
        drifting(lab, rng, f"old-{number}")
    one: list[str] = []
    six: list[str] = []
    for number in range(12):
        drifting(lab, rng, f"day-{number}")
        for names, found in ((["nightly@old-0"], one), (["nightly@old-*"], six)):
            assert lab("baseline", "set", "main", *names) == 0
            found += outcomes(lab.gate(capsys, "--occasion", f"day-{number}")[1])
    assert set(one) == {"undecided"}
    assert six.count("worse") <= 1
    drifting(lab, rng, "slow", 0.7)
    status, found = lab.gate(capsys, "--occasion", "slow")
    assert (status, outcomes(found)) == (1, ["worse", "worse"])
    assert "over occasions" in found["judged"][0]["detail"]
    assert any(each.startswith("Over 6 occasions before and 1 after") for each in found["comparison"]["sentences"])


def test_a_fall_that_one_occasion_shows_is_undecided_and_says_what_is_lacking(lab, capsys):
    for names, warned in ((["nightly@main-*"], False), (["nightly@main-1", "nightly@main-2"], True)):
        capsys.readouterr()
        assert lab("baseline", "set", "main", *names) == 0
        assert ("fewer than three occasions do not show" in capsys.readouterr().out) is warned
    lab.measure("today", [6, 12], seed=2)
    status, found = lab.gate(capsys, "--occasion", "today", "--undecided", "125")
    assert (status, outcomes(found)) == (125, ["undecided", "undecided"])
    assert "how far occasions differ is not known: set the baseline from three of them" in found["judged"][0]["detail"]


@pytest.mark.parametrize(
    ("before", "today", "outcome"),
    [
        (["a", "a", "a"], "b", "undecided"),  # how far boots differ is not shown by occasions of one
        (["a", "a", "c"], "b", "undecided"),
        (["a", "b", "c"], "d", "undecided"),  # one beside three may be of another kind
        (["a", "b", "c", "d", "e", "f"], "g", "worse"),
        (["a", "a", "b", "c", "d", "e", "f"], "f", "worse"),
        (["a", "a", "a", "a", "a", "a"], "a", "worse"),
    ],
)
def test_occasions_of_one_boot_do_not_show_how_far_boots_differ(lab, capsys, before, today, outcome):
    for number, boot in enumerate(before):
        lab.measure(f"boot-{number}", [60, 120], seed=number + 20, boot=boot)
    assert lab("baseline", "set", "main", "nightly@boot-*") == 0
    lab.measure("today", [50, 100], seed=2, boot=today)
    _, found = lab.gate(capsys, "--occasion", "today")
    assert outcomes(found) == [outcome, outcome]
    told = [each for each in found["comparison"]["sentences"] if each.startswith("Over ")]
    if outcome == "worse":
        merged = " (7 and 1; those of one boot are one)" if len(before) > 6 else ""
        assert told == [
            f"Over 6 occasions before and 1 after, each as the mean of its set-ups{merged}: a change is judged by how far "
            "occasions of a side differ from each other."
        ]


def side_of(logs: np.ndarray, boots: Sequence[str]) -> SideSetUps:
    """Occasions in rows, their set-ups in columns."""
    means: dict[Hashable, float] = {(row, place): float(np.exp(value)) for (row, place), value in np.ndenumerate(logs)}
    rows: dict[Hashable, int] = {(row, place): row for row, place in np.ndindex(logs.shape)}
    return SideSetUps(means, {each: boots[row] for each, row in rows.items()}, rows)


@pytest.mark.parametrize(
    ("boots", "nights", "set_ups", "later", "boot_sd", "night_sd", "set_up_sd"),
    [
        (4, 5, 1, 1, 0.0, 0.03, 0.0),  # nights of one boot are averaged, and today is one night
        (4, 5, 1, 1, 0.03, 0.02, 0.0),
        (5, 1, 8, 8, 0.0, 0.0, 0.01),
        (5, 1, 8, 1, 0.0, 0.0, 0.01),  # and today has fewer set-ups
        (5, 1, 8, 2, 0.0, 0.01, 0.01),
        (9, 1, 9, 1, 0.0, 0.03, 0.03),
    ],
)
def test_nothing_is_alarmed_or_passed_by_chance_more_often_than_is_said(
    boots, nights, set_ups, later, boot_sd, night_sd, set_up_sd
):
    """At a fall of just the margin; 800 gates, of which 5 % are 40, and 60 are not seen once in a thousand times."""
    rng, worse, passed = np.random.default_rng(boots * nights + later), 0, 0
    for _ in range(800):
        noise = rng.standard_normal
        before = np.repeat(boot_sd * noise(boots), nights)[:, None] + night_sd * noise((boots * nights, 1))
        before = before + set_up_sd * noise((boots * nights, set_ups))
        after = boot_sd * noise() + night_sd * noise() + set_up_sd * noise((1, later)) - np.log(1.02)
        named = [f"b{number}" for number in np.repeat(np.arange(boots), nights)]
        effect, scope, _ = derive_unpaired_effect(side_of(after, ["today"]), side_of(before, named), lambda _: None)
        assert scope == "occasions" and effect is not None
        fall = fall_p(effect, 0.02)
        assert fall is not None
        worse, passed = worse + (fall[0] <= 0.05), passed + (fall[1] <= 0.05)
    assert worse < 60 and passed < 60


def put(lab, occasion, mbps, boots):
    """One point, a set-up of each rate, each of its boot; the other point is the same."""
    lab.plan.write_text(PLAN.format(set_ups=len(mbps)))
    plan, records = load_plan_on_occasion(lab.plan, occasion, None), []
    for block, (rate, boot) in enumerate(zip(mbps, boots, strict=True), 1):
        for point, target in enumerate((100_000_000, 200_000_000)):
            lab._number += 1
            record = measured(
                lab._number,
                rate,
                block=block,
                point=point,
                set_ups=len(mbps),
                plan_hash=plan.hash(),
                target=target,
                offered_mbps=400.0,
                trials=2,
                set_up=f"{plan.name}-{block}",
                margin=0.02,
                boot=boot,
            )
            record["plan"]["name"] = plan.name
            records.append(record)
    with open_store(str(lab.store)) as store:
        import_records(store, records)


def test_boots_of_one_evening_do_not_tell_how_far_evenings_differ(lab, capsys):
    """Three boots a side of one occasion each are as little as three set-ups of one boot."""
    put(lab, "one", [120, 120.5, 119.6], "abc")
    put(lab, "today", [115, 115.4, 114.8], "def")
    assert lab("baseline", "set", "main", "nightly@one") == 0
    status, found = lab.gate(capsys, "--occasion", "today")
    assert (status, set(outcomes(found))) == (4, {"undecided"})
    detail = found["judged"][0]["detail"]
    assert "over boots; how far occasions differ is not known: set the baseline from three of them" in detail
    assert "three boots a side" not in detail
    assert {each["over"] for each in found["comparison"]["points"]} == {"boots"}


@pytest.mark.parametrize("fall", [1.0, 0.95])
def test_a_set_up_that_is_off_today_is_named_and_no_alarm(lab, capsys, fall):
    nights = ([120, 120.4, 119.7], [120.6, 120.2, 120.9], [119.5, 119.9, 119.2])
    for number, mbps in enumerate(nights * 2, 1):
        put(lab, f"night-{number}", mbps, [str(number)] * 3)
    assert lab("baseline", "set", "main", "nightly@night-*") == 0
    put(lab, "today", [96 if fall == 1 else 114, 120.2 * fall, 119.9 * fall], ["t"] * 3)
    status, found = lab.gate(capsys, "--occasion", "today")
    assert (status, set(outcomes(found))) == ((4, {"undecided"}) if fall == 1 else (1, {"worse"}))
    outlier = found["judged"][0]["outlier"]
    if fall == 1:
        assert outlier == (
            "block 1 of nightly@today is 20.0 % below the other set-ups of its occasion, which scatter by 0.28 %"
        )
        detail = found["judged"][0]["detail"]
        assert detail.endswith(f"; {outlier}: look at its trials, or judge by another occasion")
        assert found["judged"][0]["passing_margin_ratio"] is None  # it is the one set-up that makes the spread
    else:
        assert outlier is None


def test_an_occasion_of_the_baseline_that_is_off_is_named_where_nothing_is_decided(lab, capsys):
    """Its spread would else ask for a hundred occasions."""
    for number in range(6):
        lab.measure(f"old-{number}", [60, 120], seed=number)
    lab.measure("old-6", [54, 108], seed=6)
    assert lab("baseline", "set", "main", "nightly@old-*") == 0
    lab.measure("today", [57, 114], seed=7)
    found = lab.gate(capsys, "--occasion", "today")[1]
    assert outcomes(found) == ["undecided", "undecided"]
    assert "nightly@old-6 is 10." in found["judged"][0]["outlier"]
    assert found["judged"][0]["detail"].endswith("look at its trials, or set the baseline without it")
    assert found["judged"][0]["deciding_occasions"] is None


def test_a_fall_of_about_the_margin_is_said_to_be_one(lab, capsys):
    for number in range(6):
        lab.measure(f"old-{number}", [60, 120], seed=number)
    assert lab("baseline", "set", "main", "nightly@old-*") == 0
    lab.measure("today", [60 * 0.981, 120 * 0.981], seed=7)
    judged = lab.gate(capsys, "--occasion", "today")[1]["judged"]
    assert [each["outcome"] for each in judged] == ["undecided", "undecided"]
    assert all("already: this is a change of about the margin" in each["detail"] for each in judged)
    assert all(each["passing_margin_ratio"] < 0.02 and each["deciding_occasions"] is None for each in judged)


def test_where_no_number_of_occasions_is_of_use_that_is_said(lab, capsys):
    lab.measure("today", [60, 120], seed=7)
    judged = lab.gate(capsys, "--occasion", "today", "--margin", "0.01%")[1]["judged"]
    assert any("or at this margin with more than 60 occasions of a side" in each["detail"] for each in judged)


def test_a_baseline_says_how_far_its_occasions_scatter_and_which_is_off(lab, capsys):
    for number, mbps in enumerate(
        ([120, 120.4, 119.7], [120.6, 96.2, 120.9], [119.5, 119.9, 119.2], [120, 120, 120.3])
    ):
        put(lab, f"night-{number}", mbps, [str(number)] * 3)
    capsys.readouterr()
    assert lab("baseline", "set", "main", "nightly@night-*") == 0
    told = capsys.readouterr().out
    assert lab("baseline", "show", "main") == 0
    assert told.splitlines()[1:] == capsys.readouterr().out.splitlines()[1 : len(told.splitlines())]
    assert (
        "4 occasions scatter by at most 3.1" in told
        and "two later occasions pass there 8 times in 10 within a margin" in told
    )
    assert "nightly@night-1 is 6.1 % below the other occasions" in told
    assert "block 2 of nightly@night-1 is 20.3 % below the other set-ups of its occasion" in told
    lab("baseline", "show", "main", "--json")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(line.get("scatter", ())) for line in lines] == [2] * 4 + [0] * 6
    assert lines[0]["scatter"][0]["sd_ratio"] == pytest.approx(0.0315, abs=2e-4)


def test_several_occasions_are_one_side_and_the_gate_says_how_many_would_do(lab, capsys, tmp_path):
    for number, mbps in enumerate((120, 121.5, 119, 118.6, 120.9)):
        put(lab, f"night-{number}", [mbps, mbps + 0.5, mbps - 0.4], [f"b{number}"] * 3)
    assert lab("baseline", "set", "main", "nightly@night-*") == 0
    for number, mbps in enumerate((119, 121, 120)):
        put(lab, f"c-{number}", [mbps + 0.3, mbps + 0.5, mbps - 0.4], [f"c{number}"] * 3)
    files = ["--junit", str(tmp_path / "g.xml"), "--markdown", str(tmp_path / "g.md")]
    status, found = lab.gate(capsys, "--occasion", "c-0", *files)
    assert (status, outcomes(found)) == (4, ["undecided", "undecided"])
    first = found["judged"][0]
    assert first["passing_margin_ratio"] is None
    assert first["deciding_occasions"] == {"baseline": 5, "later": 4}
    words = (
        "one occasion compared with fewer than 6 cannot distinguish a change from an unusual occasion: judge by several; what "
        "has not changed passes 8 times in 10 with 5 occasions of the baseline and 4 later"
    )
    assert all(
        words in text for text in (first["detail"], *((tmp_path / f"g.{end}").read_text() for end in ("xml", "md")))
    )
    three = [word for number in range(3) for word in ("--occasion", f"c-{number}")]
    status, found = lab.gate(capsys, *three)
    assert (status, found["plan"]) == (0, "nightly@c-0, nightly@c-1, nightly@c-2")
    assert found["comparison"]["points"][0]["after_occasions"] == 3
    assert all(each["passing_margin_ratio"] is None for each in found["judged"])


def test_every_one_of_several_occasions_has_to_be_measured(lab, capsys):
    lab.measure("one", [60, 120], seed=2)
    lab.measure("half", [60, 120], seed=3, set_ups=5)
    for other, told in (
        ("half", "nightly@half: 5 of 8 trials have been measured"),
        ("never", "nightly@never: it has not"),
    ):
        status, found = lab.gate(capsys, "--occasion", "one", "--occasion", other)
        assert (status, outcomes(found)) == (4, ["not measured", "not measured"])
        assert found["judged"][0]["detail"].startswith(told)
    assert lab("gate", str(lab.plan), "--baseline", "main", "--occasion", "one", "--occasion", "one") == 2
    assert "--occasion: is given twice" in capsys.readouterr().err


def test_occasions_of_another_testbed_are_no_hindrance_to_a_pattern(lab, capsys):
    lab.measure("main-7", [60, 120], seed=2, fingerprint="0123456789abcdef")
    assert lab("baseline", "set", "main", "nightly@main-*") == 2
    assert "was measured on several testbeds, but a baseline covers one; use --testbed" in capsys.readouterr().err
    assert lab("baseline", "set", "main", "nightly@main-*", "--testbed", "7d3f9a11c0de4b52") == 0
    assert (
        "main: nightly@main-1, nightly@main-2, nightly@main-3, nightly@main-4, nightly@main-5, nightly@main-6 on"
        in capsys.readouterr().out
    )
    assert lab("baseline", "set", "main", "nightly@main-*", "--testbed", "paris") == 2
    assert "--testbed: was measured on no such testbed, got 'paris'" in capsys.readouterr().err


def test_a_store_that_is_not_there_is_not_made_for_a_baseline(tmp_path, capsys):
    store = tmp_path / "none.sqlite"
    assert main(["baseline", "set", "main", "nightly", "--store", str(store)]) == 2
    assert "none.sqlite" in capsys.readouterr().err
    assert not store.exists()


def test_what_was_measured_after_a_baseline_was_set_is_not_of_it(lab, capsys):
    with open_store(str(lab.store)) as store:
        before = store.baselines()[-1]
        store.set_baseline(
            type(before)(**{**before.to_json(), "name": "early", "set_at": "2026-11-23T00:00:00.000000Z"})
        )
    lab.measure("today", [60, 120], seed=2)
    capsys.readouterr()
    assert lab("gate", str(lab.plan), "--baseline", "early", "--occasion", "today", "--json") == 4
    found = json.loads(capsys.readouterr().out)
    assert found["comparison"]["points"][0]["before_set_ups"] == 2  # block after block, a day each


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["gate", "{plan}", "--baseline", "nowhere"], "there is no such baseline"),
        (["gate", "{plan}", "--baseline", "main", "--occasion", "main-2"], "measure it again with replay --occasion"),
        (["gate", "{plan}", "--baseline", "main", "--occasion", "a b"], "is not a name"),
        (["gate", "{plan}", "--baseline", "main", "--occasion", "x", "--margin", "200%"], "is not a valid margin"),
        (["gate", "{plan}", "--baseline", "main", "--occasion", "x", "--undecided", "300"], "is not a status"),
        (["gate", "nowhere.yaml", "--baseline", "main"], "nowhere.yaml"),
        (["baseline", "set", "main"], "needs a name and a plan"),
        (["baseline", "set", "a/b", "nightly@main"], "is not a name"),
        (["baseline", "set", "main", "weekly"], "no run of this plan"),
        (["baseline", "set", "main", "weekly@*"], "nothing of this name is saved in"),
        (["baseline", "set", "main", "nightly@main-1", "weekly"], "no run of this plan"),
        (["baseline", "set", "main", "nightly@main-1", "--testbed", "paris"], "no run of this plan"),
        (["baseline", "set", "main", "nightly@main-1", "--occasion", "x"], "is for a plan's file"),
        (
            ["gate", "{stopping}", "--baseline", "main", "--occasion", "x"],
            "leaves out trials depending on the results of others",
        ),
        (["baseline", "show", "mean"], "there is no baseline of this name"),
        (["baseline", "list", "main"], "takes no name"),
        (["baseline", "show", "main", "--testbed", "x"], "only valid with set"),
    ],
)
def test_what_makes_no_sense_is_said(lab, capsys, words, problem):
    stopping = lab.plan.with_name("stopping.yaml")
    stopping.write_text(lab.plan.read_text().replace("set_ups: 8\n", "") + "stop: {raising: {loss_ratio: 0.1}}\n")
    assert lab(*(word.format(plan=lab.plan, stopping=stopping) for word in words)) == 2
    told = capsys.readouterr()
    assert problem in told.err
    assert "Traceback" not in told.err


def test_a_store_of_before_there_were_baselines_is_read_and_gets_them(tmp_path, capsys):
    place = tmp_path / "old.sqlite"
    with open_store(str(place)) as store:
        import_records(store, [measured(1, 60.0)])
    import sqlite3

    with sqlite3.connect(place) as connection:
        connection.execute("DROP TABLE baselines")
    assert main(["baseline", "--store", str(place)]) == 0
    assert "no baseline has been set" in capsys.readouterr().out
    assert main(["baseline", "set", "main", "made-up", "--store", str(place)]) == 0
    assert "main: made-up on wuerzburg, set by" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["quetier", "quetier-boot", "mattos-flow", "mattos-route", "rfc2544"])
def test_searches_and_what_guests_do_are_of_their_occasion_alone(name):
    """By the hashes that plans know them by, and by those of the steps that are taken and stored."""
    path = Path(__file__).parents[3] / "plans" / f"{name}.yaml"
    plans = [load_plan_on_occasion(path, occasion, None) for occasion in (None, "today", "tomorrow")]
    hashes = [{*plan.search_hashes, *plan.step_hashes} for plan in plans]
    assert len(set.union(*hashes)) == sum(map(len, hashes)) > 0
    assert len({plan.hash() for plan in plans}) == 3
    for plan, own in zip(plans, hashes, strict=True):
        steps = [step for kind in kinds(None) for step in kind.steps(plan)]
        assert {step.hash for step in steps} == own


def test_a_platform_that_forwards_nothing_any_more_is_worse_and_not_undecided(lab, capsys):
    lab.measure("dead", [60, 0.0], seed=2)
    status, found = lab.gate(capsys, "--occasion", "dead", "--undecided", "0")
    assert (status, outcomes(found)) == (1, ["passed", "worse"])
    assert found["judged"][1]["detail"].startswith("nothing was forwarded in 8 of 8 set-ups")


def test_another_testbed_is_no_ground_for_a_verdict(lab, capsys):
    lab.measure("elsewhere", [60, 120], seed=2, fingerprint="0123456789abcdef")
    assert lab("gate", str(lab.plan), "--baseline", "main", "--occasion", "elsewhere") == 2
    assert "was measured on testbed wuerzburg (0123456789abcdef)" in capsys.readouterr().err


def test_the_file_of_another_testbed_is_refused(lab, capsys, tmp_path):
    lab.measure("today", [60, 120], seed=2)
    other = tmp_path / "other.yaml"
    example = Path(__file__).parents[3] / "hosts.yaml"
    other.write_text(example.read_text())
    assert lab("gate", str(lab.plan), "--baseline", "main", "--occasion", "today", "--hosts", str(other)) == 2
    said = capsys.readouterr().err
    assert "other.yaml" in said and "baseline main was measured on wuerzburg (7d3f9a11c0de4b52)" in said
    assert len(said.splitlines()) == 1


def test_a_plan_that_has_changed_since_it_was_measured_is_said_to_have(lab, capsys):
    lab.measure("today", [60, 120], seed=2)
    former = load_plan_on_occasion(lab.plan, "today", None).hash()
    lab.plan.write_text(lab.plan.read_text().replace("frame_sizes: [1000]", "frame_sizes: [1000, 1500]"))
    status, found = lab.gate(capsys, "--occasion", "today")
    assert (status, found["outcome"]) == (4, "not measured")
    now = load_plan_on_occasion(lab.plan, "today", None).hash()
    for each in found["judged"]:
        assert "the plan has changed since nightly@today was measured" in each["detail"]
        assert f"(hash {former}, now {now})" in each["detail"]
    assert (
        lab.gate(capsys, "--occasion", "never")[1]["judged"][0]["detail"]
        == "it has not been measured: replay measures it"
    )
    assert "on occasions: name those that are to be judged by --occasion" in lab.gate(capsys)[1]["judged"][0]["detail"]


def test_another_point_is_not_taken_for_the_baselines(lab, capsys):
    """A factor that was edited in the plan leaves nothing to compare with."""
    lab.plan.write_text(lab.plan.read_text().replace("frame_sizes: [1000]", "frame_sizes: [1500]"))
    lab.measure("today", [60, 120], seed=2, size=1500)
    status, found = lab.gate(capsys, "--occasion", "today")
    assert (status, outcomes(found)) == (4, ["undecided", "undecided"])
    assert {each["detail"] for each in found["judged"]} == {"the baseline has no such design point"}


def test_what_was_lossless_before_and_is_not_now_does_not_pass(lab, capsys):
    lab.occasions("carried", [60, 120], offered_mbps=[60, 120])
    lab.measure("again", [60, 120], seed=2, offered_mbps=[60, 120])
    assert lab.gate(capsys, "--occasion", "again")[0] == 0
    lab.measure("lossy", [59.7, 119.4], seed=3, offered_mbps=[60, 120])
    status, found = lab.gate(capsys, "--occasion", "lossy")
    assert (status, set(outcomes(found))) == (4, {"undecided"})
    assert "the baseline lost nothing here" in found["judged"][0]["detail"]


def test_junit_skips_the_undecided_unless_it_is_as_bad_as_worse(lab, capsys, tmp_path):
    lab.measure("today", [60 * 0.981, 120 * 0.981], seed=2)
    for undecided, tag in (("0", "skipped"), ("4", "skipped"), ("1", "failure")):
        lab.gate(capsys, "--occasion", "today", "--undecided", undecided, "--junit", str(tmp_path / "gate.xml"))
        cases = ElementTree.parse(tmp_path / "gate.xml").findall(".//testcase")
        assert any(case.find(tag) is not None for case in cases)


def test_points_that_differ_in_what_is_averaged_over_are_refused(lab, capsys):
    text = """
plan: nightly
duration_s: 1
set_ups: 8
margin: 2%
points:
  - {platform: raw, frame_size: 1000, target: 100Mbit, generator: pktgen}
  - {platform: raw, frame_size: 1000, target: 100Mbit, generator: afpacket}
"""
    lab.plan.write_text(text)
    lab.measure("today", [60, 60], seed=2)
    assert lab("gate", str(lab.plan), "--baseline", "main", "--occasion", "today") == 2
    assert "points 0 and 1 of the plan differ in generator or observe alone" in capsys.readouterr().err


def test_set_ups_that_were_added_after_a_look_are_told(lab, capsys):
    lab.measure("today", [60, 120], seed=2, set_ups=8, said=[4, 4, 4, 4, 8, 8, 8, 8])
    _, found = lab.gate(capsys, "--occasion", "today")
    assert any("requested 4 set-ups at first and 8 later" in each for each in found["comparison"]["sentences"])


def test_words_of_nodes_are_no_markdown(lab, capsys, tmp_path):
    lab.measure("today", [60, 120], seed=2, kernel="6.1\n\n![x](https://evil.example/p) @team <b>")
    lab.gate(capsys, "--occasion", "today", "--markdown", str(tmp_path / "gate.md"))
    text = (tmp_path / "gate.md").read_text()
    assert "!\\[x\\](https:\u200b/\u200b/\u200bevil.example/p)" in text
    assert "<b>" not in text.replace("\\<b>", "")
    assert " @team" not in text


def test_what_is_stored_of_a_plan_is_named_where_a_baseline_is_asked_for_of_what_is_not(lab, capsys):
    lab.measure("today", [60, 120], seed=2)
    for plan in (["nightly@never"], [str(lab.plan), "--occasion", "never"]):
        assert lab("baseline", "set", "other", *plan) == 2
        assert capsys.readouterr().err.endswith(
            f"; allowed: {', '.join(f'nightly@main-{number}' for number in range(1, 7))}, nightly@today\n"
        )
    assert lab("baseline", "set", "bad name", "nightly@today") == 2
    assert "name of the baseline: is not a name, got 'bad name'" in capsys.readouterr().err


def test_a_filter_need_not_be_given(lab, capsys):
    for words in (["compare", "plan=nightly@main-1"], ["trend"]):
        with pytest.raises(SystemExit):
            lab(*words)
        assert "FILTER" not in capsys.readouterr().err.splitlines()[-1]
    assert lab("trend", "nightly") == 0


def test_a_name_that_means_two_measurements_is_told_with_what_tells_them_apart(lab, capsys):
    lab.measure("main-1", [60, 120], seed=2, fingerprint="0123456789abcdef")
    assert lab("baseline", "set", "both", "nightly@main-1") == 2
    said = capsys.readouterr().err
    assert "on wuerzburg (0123456789abcdef)" in said
    assert "p, l, a" not in said
    assert lab("baseline", "set", "one", "nightly@main-1", "--testbed", "0123456789abcdef") == 0
    assert lab("baseline", "set", "other", str(lab.plan), "--occasion", "main-1", "--testbed", "7d3f9a11c0de4b52") == 0


def test_what_was_never_measured_is_told_for_every_point(lab, capsys, tmp_path):
    for undecided, status in (("0", 4), ("1", 1), ("125", 125)):
        told = lab.gate(
            capsys,
            "--occasion",
            "never",
            "--undecided",
            undecided,
            "--junit",
            str(tmp_path / "gate.xml"),
            "--markdown",
            str(tmp_path / "gate.md"),
        )
        assert (told[0], outcomes(told[1])) == (status, ["not measured", "not measured"])
    assert len(ElementTree.parse(tmp_path / "gate.xml").findall(".//failure")) == 2
    capsys.readouterr()
    assert lab("gate", str(lab.plan), "--baseline", "main", "--occasion", "never") == 4
    assert "NOT MEASURED  raw, 1000 B, 1 × 100 Mbit/s: it has not been measured" in capsys.readouterr().out
