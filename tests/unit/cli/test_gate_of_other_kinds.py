"""Baselines and gates of plans that have guests do something, or search, over records whose truth is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from labconsole.api.plan_files import load_plan_on_occasion
from labconsole.cli.main import main
from labconsole.comparison.changes import Side, find_changes
from labconsole.comparison.effects import derive_unpaired_effect
from labconsole.comparison.gate import PlannedPointTrials, judge_gate
from labconsole.comparison.points import UNIFORM, SideSetUps
from labconsole.experiments.kinds import load_measured_kinds
from labconsole.measure.admission import Admission
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Verdict
from labconsole.report.digest import Digest
from labconsole.report.sample import RunSample
from labconsole.verdict.reasons import reason
from support.boot_records import started
from support.job_records import taken
from support.measured_sides import FULL_S, around, goal, keep, of_side, over_link, searches, unseen, with_disk
from support.route_records import route_record

JOBS = """
plan: nightly
platforms: [lxc]
job: {jobs: [{job: wait, size: 3}], guests: [2], working: [all], cpu: [any]}
set_ups: 8
margin: 2%
"""
BOOTS = """
plan: nightly
platforms: [uml]
boot: {guests: [2], start: [hot]}
set_ups: 8
margin: 2%
"""
CAPPED = """
plan: nightly
platforms: [raw, lxc]
job: {jobs: [{job: wait, size: 3}], guests: [1], working: [one], cpu: [any], memory_mib: 256}
set_ups: 8
margin: 2%
"""
SENT = """
plan: nightly
platforms: [lxc]
job: {jobs: [{job: tcp, size: 384}], guests: [1], working: [one], cpu: [any]}
set_ups: 8
margin: 2%
"""
BONNIE = """
plan: nightly
platforms: [lxc]
job: {jobs: [{job: disk-bonnie, size: 512}], guests: [1], working: [one], cpu: [any]}
set_ups: 8
margin: 2%
"""
SEARCH = """
plan: nightly
platforms: [raw]
frame_sizes: [1000]
sources: [1]
search: {goals: [ndr], repetitions: 8}
margin: 2%
"""


ROUTES = """
plan: nightly
platforms: [container]
route: {guests: [1], routes: [0], destinations: [1], filters: [0], targets: [max], frame_sizes: [64], duration_s: 2}
set_ups: 3
margin: 2%
"""
STATUS = {"passed": 0, "worse": 1, "undecided": 4}


class Nightly:
    """A plan, and a store into which its occasions are put without measuring."""

    def __init__(self, directory: Path, text: str) -> None:
        self.plan, self.store = directory / "nightly.yaml", directory / "runs.sqlite"
        self.plan.write_text(text)

    def on(self, occasion: str) -> Plan:
        return load_plan_on_occasion(self.plan, occasion, None)

    def jobs(self, occasion: str, seconds: Sequence[float], codes: Sequence[str] = ()) -> None:
        """A trial in each set-up."""
        self._trials(occasion, [taken([each] * 2, block=n, codes=codes) for n, each in enumerate(seconds, 1)])

    def capped(self, occasion: str, seconds: Mapping[str, Sequence[float]], *, voids: Collection[int] = ()) -> None:
        """The same of one guest with 256 MiB on several platforms; ``voids``: blocks in which none of raw came."""
        records = []
        for platform, values in seconds.items():
            for n, each in enumerate(values, 1):
                trial = taken([each], guests=1, working="one", block=n, platform=platform)
                asked = trial.requested.model_copy(update={"memory_mib": 256})
                trial = trial.model_copy(update={"requested": asked})
                records.append(unseen(trial) if platform == "raw" and n in voids else trial)
        self._trials(occasion, records)

    def sent(self, occasion: str, seconds: Sequence[float]) -> None:
        """The same of jobs that send over a link of 1 Gbit/s."""
        self._trials(occasion, [over_link(each, n) for n, each in enumerate(seconds, 1)])

    def read(self, occasion: str, seconds: Sequence[float], device_ratio: float) -> None:
        """The same of jobs of a disk, of which the device gave this share of what they read."""
        read_bytes = round(device_ratio * 2 * 512 * 2**20)
        trials = [with_disk(each, n, "disk-bonnie", 512, read_bytes) for n, each in enumerate(seconds, 1)]
        self._trials(occasion, trials)

    def boots(self, occasion: str, seconds: Sequence[float], mib: Sequence[float]) -> None:
        """The same of starts."""
        values = enumerate(zip(seconds, mib, strict=True), 1)
        self._trials(occasion, [started(time, used, guests=2, block=n) for n, (time, used) in values])

    def _trials(self, occasion: str, records: Sequence[Any]) -> None:
        plan = self.on(occasion)
        assert plan.guests is not None
        trials: Sequence[Any] = plan.guests.trials
        hashes = {
            (trial.block, trial.point.platform): key for trial, key in zip(trials, plan.guests.hashes, strict=True)
        }
        found = []
        for number, record in enumerate(records, 1):
            own, block = of_side(record, f"{plan.name.replace('@', '-')}", number), record.plan.block
            key = hashes[block, record.requested.platform]
            ref = own.plan.model_copy(update={"name": plan.name, "hash": key, "plan_hash": plan.hash(), "block": block})
            found.append(own.model_copy(update={"plan": ref}))
        keep(self.store, found)

    def routes(self, occasion: str, packets: Sequence[float], lost: Sequence[int]) -> None:
        """The same of routers that forward so much in 0.1 s, and lose so many packets in all."""
        values = enumerate(zip(packets, lost, strict=True), 1)
        self._trials(occasion, [route_record([round(rate)], lost_inside=[some], block=n) for n, (rate, some) in values])

    def dead_routes(self, occasion: str, packets: Sequence[float], dead: int) -> None:
        """As routes(), of the first of which nothing arrived."""
        records = [route_record([round(rate)], lost_inside=[4000], block=n) for n, rate in enumerate(packets, 1)]
        nothing = Verdict(
            status="invalid", reasons=(reason("no_packets", "r1: nothing arrived at the sink", guest="r1"),)
        )
        self._trials(
            occasion,
            [each.model_copy(update={"verdict": nothing}) if n < dead else each for n, each in enumerate(records)],
        )

    def searches(self, occasion: str, lower_pps: Sequence[float | None], **how: Any) -> None:
        """One search in a set-up of its own after the other."""
        plan = self.on(occasion)
        found, runs = searches(f"nightly-{occasion}", lower_pps, **how)
        keys = plan.search_hashes
        named = [
            each.model_copy(update={"plan": each.plan.model_copy(update={"name": plan.name, "hash": key})})
            for each, key in zip(found, keys, strict=False)
        ]
        for run, key in zip(runs, keys, strict=False):
            run["plan"] |= {"name": plan.name, "hash": key}
        keep(self.store, named, runs)

    def baseline(self, take: Callable[[str, int], None], name: str = "main") -> None:
        """Of six occasions, each taken by its name and with a seed of its own."""
        names = [f"{name}-{number}" for number in range(1, 7)]
        for seed, name in enumerate(names, 21):
            take(name, seed)
        occasions = [word for name in names for word in ("--occasion", name)]
        assert self("baseline", "set", "main", str(self.plan), *occasions) == 0

    def __call__(self, *words: str) -> int:
        return main([words[0], "--store", str(self.store), *words[1:]])

    def gate(self, capsys: Any, occasion: str, *words: str) -> tuple[int, list[tuple[str, str]]]:
        capsys.readouterr()
        status = self("gate", "--json", str(self.plan), "--baseline", "main", "--occasion", occasion, *words)
        return status, [(each["outcome"], each["detail"]) for each in json.loads(capsys.readouterr().out)["judged"]]


@pytest.fixture
def guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nightly:
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, JOBS)
    lab.baseline(lambda name, seed: lab.jobs(name, around(4.0, seed)))
    return lab


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nightly:
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, SEARCH)
    lab.baseline(lambda name, seed: lab.searches(name, around(30_000.0, seed)))
    return lab


@pytest.mark.parametrize(
    ("factor", "status", "outcome"),
    [(1.0, 0, "passed"), (0.9, 0, "passed"), (1.05, 1, "worse"), (1.019, 4, "undecided")],
)
def test_a_job_is_worse_where_it_takes_longer(
    guests: Nightly, capsys: Any, factor: float, status: int, outcome: str
) -> None:
    guests.jobs("today", around(4.0 * factor, 2))
    told, judged = guests.gate(capsys, "today")
    assert (told, [each for each, _ in judged]) == (status, [outcome])
    assert "margin 2.00 %, over occasions" in judged[0][1]


@pytest.mark.parametrize(
    ("before", "today", "outcome", "words"),
    [
        (1.0, 1.0, "undecided", "held by the link"),
        (1.5, 1.0, "undecided", "where one side is held by the link"),
        (1.0, 1.5, "worse", "where one side is held by the link"),
        (0.5, 1.0, "undecided", "held by the link on the side that was slower"),
        (1.5, 1.5, "passed", "margin 2.00 %, over occasions"),
    ],
)
def test_a_job_that_its_link_held_never_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, before: float, today: float, outcome: str, words: str
) -> None:
    """Twice as fast as the link that is told is another link's speed, and so is held by none."""
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, SENT)
    lab.baseline(lambda name, seed: lab.sent(name, around(before * FULL_S, seed, sd=0.002)))
    lab.sent("today", around(today * FULL_S, 2, sd=0.002))
    status, judged = lab.gate(capsys, "today")
    assert (status, [each for each, _ in judged]) == (STATUS[outcome], [outcome])
    assert words in judged[0][1]


@pytest.mark.parametrize(
    ("full", "today", "full_today", "outcome", "words"),
    [
        (0, 0.5, 0, "worse", "over occasions"),
        (1, 0.5, 0, "worse", "where some trials lost nothing of all that could be offered, and others did"),
        (1, 0.1, 0, "worse", "where some trials lost nothing"),
        (1, 0.5, 1, "undecided", "some trials lost nothing"),  # what lost nothing was offered less than before
        (18, 0.5, 0, "worse", "where one side forwarded all"),
        (1, 1.0, 0, "undecided", "the baseline lost nothing in some trials, and may have had more to give"),
        (1, 1.1, 0, "undecided", "some trials lost nothing"),
        (1, 1.0, 3, "passed", "where some trials lost nothing"),
        (0, 1.0, 0, "passed", "over occasions"),
    ],
)
def test_a_trial_that_lost_nothing_hides_no_fall(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    full: int,
    today: float,
    full_today: int,
    outcome: str,
    words: str,
) -> None:
    """What it forwarded is the least that it could: a fall is at least what is shown."""
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, ROUTES)
    offered = 20_100.0
    for number in range(6):
        lost = [0 if place < full else 4000 for place in range(3 * number, 3 * number + 3)]
        values = zip(around(20_000.0, number, 3), lost, strict=True)
        lab.routes(f"main-{number}", [rate if some else offered for rate, some in values], lost)
    occasions = [word for number in range(6) for word in ("--occasion", f"main-{number}")]
    assert lab("baseline", "set", "main", str(lab.plan), *occasions) == 0
    rates = [offered] * 3 if full_today == 3 else around(today * 20_050.0, 9, 3)
    lab.routes("today", rates, [0] * full_today + [4000] * (3 - full_today))
    status, ((found, detail),) = lab.gate(capsys, "today")
    assert (status, found) == (STATUS[outcome], outcome), detail
    assert words in detail


@pytest.mark.parametrize(("today", "outcome"), [(20_000, "passed"), (19_000, "worse"), (10_000, "worse")])
def test_what_never_varies_is_known_to_a_packet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, today: int, outcome: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, ROUTES)
    lab.baseline(lambda name, seed: lab.routes(name, [20_000] * 3, [4000] * 3))
    lab.routes("today", [today] * 3, [4000] * 3)
    status, ((found, detail),) = lab.gate(capsys, "today")
    assert (status, found) == (STATUS[outcome], outcome), detail


def test_a_search_that_ends_a_step_lower_is_not_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, SEARCH)
    lab.baseline(lambda name, seed: lab.searches(name, [30_000.0] * 8))
    assert "off" not in capsys.readouterr().out
    lab.searches("today", [30_000.0] * 7 + [29_850.0])
    lab("gate", "--json", str(lab.plan), "--baseline", "main", "--occasion", "today")
    (judged,) = json.loads(capsys.readouterr().out)["judged"]
    assert (judged["outcome"], judged["outlier"]) == ("passed", None)


def test_a_job_whose_link_held_some_of_its_trials_is_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, SENT)
    lab.baseline(lambda name, seed: lab.sent(name, around(1.5 * FULL_S, seed)))
    lab.sent("today", [*around(1.5 * FULL_S, 2)[:6], FULL_S, FULL_S])
    status, ((outcome, detail),) = lab.gate(capsys, "today")
    assert (status, outcome) == (4, "undecided")
    assert "where held by the link in some trials, and not in others" in detail


@pytest.mark.parametrize(("device_ratio", "outcome"), [(1.1, "passed"), (0.5, "undecided")])
def test_a_time_that_may_be_that_of_a_cache_never_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, device_ratio: float, outcome: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, BONNIE)
    lab.baseline(lambda name, seed: lab.read(name, around(4.0, seed), 1.1))
    lab.read("today", around(4.0, 2), device_ratio)
    _, judged = lab.gate(capsys, "today")
    assert judged[0][0] == outcome
    assert (judged[0][1] == "read from memory") is (outcome == "undecided")


def test_junit_and_markdown_name_the_point_and_its_quantity(guests: Nightly, capsys: Any, tmp_path: Path) -> None:
    guests.jobs("today", around(4.2, 2))
    guests.gate(capsys, "today", "--junit", str(tmp_path / "g.xml"), "--markdown", str(tmp_path / "g.md"))
    (case,) = ElementTree.parse(tmp_path / "g.xml").findall(".//testcase")
    assert (case.get("name"), case.find("failure") is None) == ("lxc: wait (3 s) in all 2 guests: time", False)
    assert (tmp_path / "g.md").read_text().startswith("### nightly@today against baseline main: worse (1 worse)")
    assert guests("gate", str(guests.plan), "--baseline", "main", "--occasion", "today") == 1
    assert "WORSE         lxc: wait (3 s) in all 2 guests: time: " in capsys.readouterr().out


def test_what_is_not_measured_never_passes(guests: Nightly, capsys: Any) -> None:
    assert guests.gate(capsys, "never", "--undecided", "0") == (
        4,
        [("not measured", "it has not been measured: replay measures it")],
    )
    guests.jobs("half", around(4.0, 2)[:5])
    assert guests.gate(capsys, "half", "--undecided", "0") == (
        4,
        [("not measured", "5 of 8 trials have been measured: replay resumes where it ended")],
    )
    guests.jobs("doubted", around(4.0, 2), codes=["clock_moved"])
    assert guests.gate(capsys, "doubted", "--undecided", "125") == (
        125,
        [("not measured", "none of its trials enters a mean")],
    )


@pytest.mark.parametrize("voids", [(), (1,), (8,), (1, 5)])
@pytest.mark.parametrize("platforms", [("raw",), ("raw", "lxc")])
def test_a_point_whose_first_trial_came_to_nothing_is_judged_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, voids: tuple[int, ...], platforms: tuple[str, ...]
) -> None:
    """The bare host has no guests that a plan's memory is of, and a trial of which nothing was seen does not say so."""
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, CAPPED.replace("raw, lxc", ", ".join(platforms)))
    lab.baseline(
        lambda name, first: lab.capped(name, {own: around(4.0, 10 * first + n) for n, own in enumerate(platforms)})
    )
    slower = {"raw": 8.0, "lxc": 4.0}
    values = {platform: around(slower[platform], seed) for seed, platform in enumerate(platforms, 11)}
    lab.capped("today", values, voids=voids)
    status, judged = lab.gate(capsys, "today")
    assert (status, [outcome for outcome, _ in judged]) == (1, ["worse", "passed"][: len(platforms)])
    assert ("enter" in judged[0][1]) is bool(voids)


def test_a_point_of_which_nothing_was_compared_never_passes(place_of: Any) -> None:
    sides = [place_of(name, platform, seed) for name, platform, seed in (("old", "lxc", 1), ("new", "uml", 2))]
    changes = find_changes(sides[0], sides[1], 0.02, load_measured_kinds())
    assert [each.effect is None for each in changes.quantities.changes] == [False]
    asked = PlannedPointTrials(kind="job", words="the point", hashes=tuple(each.hash for each in sides[1].trials))
    (judged,) = judge_gate(changes, [], 0.02, [asked]).judged
    assert (judged.point, judged.outcome) == ("the point", "not measured")


@pytest.fixture
def place_of() -> Any:
    """A side of jobs alone."""
    (kind,) = [each for each in load_measured_kinds() if each.kind.name == "job"]

    def made(name: str, platform: str, seed: int) -> Side:
        trials = [taken([each] * 2, block=n, platform=platform) for n, each in enumerate(around(4.0, seed), 1)]
        records = [of_side(each, name, n) for n, each in enumerate(trials, 1)]
        return Side(
            words=name,
            place=name,
            kept=RunSample((), (), {}),
            admission=Admission((), {}),
            digest=Digest(()),
            trials=tuple(kind.trials(records, {})),
        )

    return made


def test_another_point_is_not_taken_for_the_baselines(guests: Nightly, capsys: Any) -> None:
    guests.plan.write_text(JOBS.replace("working: [all]", "working: [one]"))
    plan = guests.on("today")
    assert plan.guests is not None
    records = [taken([4.0], guests=2, working="one", block=n) for n in range(1, 9)]
    guests._trials("today", records)
    assert guests.gate(capsys, "today") == (4, [("undecided", "the baseline has no such design point")])


def test_starts_have_a_judgement_of_time_and_one_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, BOOTS)
    lab.baseline(lambda name, seed: lab.boots(name, around(2.0, seed), around(50.0, seed + 20)))
    lab.boots("today", around(2.0, 2), around(55.0, 4))
    status, judged = lab.gate(capsys, "today")
    assert (status, [outcome for outcome, _ in judged]) == (1, ["passed", "worse"])


@pytest.mark.parametrize(
    ("mean", "limit", "status", "outcome"),
    [
        (30_000.0, "uut", 0, "passed"),
        (27_000.0, "uut", 1, "worse"),
        (33_000.0, "line_rate", 0, "passed"),
        (None, "below_minimum", 1, "worse"),
    ],
)
def test_searches_are_judged_by_the_load_that_they_find(
    found: Nightly, capsys: Any, mean: float | None, limit: str, status: int, outcome: str
) -> None:
    found.searches("today", [None] * 8 if mean is None else around(mean, 2), limited_by=limit)
    told, judged = found.gate(capsys, "today")
    assert (told, [each for each, _ in judged]) == (status, [outcome])


@pytest.mark.parametrize(("limit", "outcome"), [("uut", "passed"), ("line_rate", "undecided")])
def test_what_forwarded_all_passes_only_where_every_search_shows_it(
    found: Nightly, capsys: Any, limit: str, outcome: str
) -> None:
    found.baseline(lambda name, seed: found.searches(name, around(30_000.0, seed), limited_by=limit), "before")
    broken = {"goals": (goal(30_000.0, limited_by=limit, complete=False),)}
    values = around(30_000.0, 2)
    found.searches("today", values, limited_by=limit, changes=lambda number: broken if number > 6 else {})
    status, judged = found.gate(capsys, "today")
    assert (status, judged[0][0]) == (STATUS[outcome], outcome)
    assert "2 trials enter no mean" in judged[0][1]


@pytest.mark.parametrize("occasions", [3, 12])
def test_more_occasions_make_a_search_no_less_certain(occasions: int) -> None:
    """That all meet the same steps is as sure with twelve as with three."""
    one, many = (
        SideSetUps(dict.fromkeys(range(of), 1.0), dict.fromkeys(range(of), "one"), {n: n for n in range(of)})
        for of in (1, occasions)
    )
    effect, _, _ = derive_unpaired_effect(one, many, lambda replicates: UNIFORM / (0.005 * math.sqrt(replicates)))
    assert effect is not None and effect.error_log == pytest.approx(math.sqrt(2) * 0.005 / UNIFORM)


def test_searches_that_were_not_made_or_did_not_end_are_told(found: Nightly, capsys: Any) -> None:
    found.searches("half", around(30_000.0, 2)[:3])
    found.searches("early", around(30_000.0, 2), complete=False)
    assert found.gate(capsys, "half")[1] == [
        ("not measured", "3 of 8 trials have been measured: replay resumes where it ended")
    ]
    assert found.gate(capsys, "early")[1] == [("not measured", "none of its trials enters a mean")]


def test_searches_do_not_say_their_plan_and_ask_for_its_file(found: Nightly, capsys: Any) -> None:
    assert found("baseline", "set", "other", "nightly@main-1") == 2
    assert "searches do not say which plan they are of: name the plan by its file" in capsys.readouterr().err


def test_a_plan_without_a_load_goal_has_nothing_to_judge(found: Nightly, capsys: Any) -> None:
    found.plan.write_text(SEARCH.replace("[ndr]", "[frame-loss]"))
    assert found("gate", str(found.plan), "--baseline", "main", "--occasion", "today") == 2
    assert "has nothing that a gate can judge" in capsys.readouterr().err


def test_another_testbed_is_no_ground_for_a_verdict(guests: Nightly, capsys: Any) -> None:
    guests.plan.write_text(JOBS.replace("set_ups: 8", "set_ups: 2"))
    records = [taken([4.0] * 2, block=n).model_copy(update={"testbed_fingerprint": "e" * 64}) for n in (1, 2)]
    guests._trials("elsewhere", records)
    assert guests("gate", str(guests.plan), "--baseline", "main", "--occasion", "elsewhere") == 2
    assert f"was measured on testbed t ({'e' * 64})" in capsys.readouterr().err


def test_a_bundle_takes_the_plan_of_an_occasion_along_and_knows_its_trials(
    guests: Nightly, capsys: Any, tmp_path: Path
) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "nightly.yaml").write_text(JOBS)
    bundle = str(tmp_path / "b.tar.gz")
    assert guests("report", "--plan", "nightly@main-1", "--bundle", bundle) == 0
    capsys.readouterr()
    main(["verify", bundle, "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["jobs"] == 8
    assert not [line for line in lines if "plans" in str(line.get("difference", ""))]


@pytest.mark.parametrize(
    ("dead", "status", "words"),
    [
        (0, 0, "margin 4.00 %"),
        (1, 4, "more trials are invalid than in the baseline"),
        (2, 4, "more trials are invalid than in the baseline"),
        (3, 4, "none of its trials enters a mean"),
    ],
)
def test_routers_of_which_some_forward_nothing_do_not_pass_by_the_others(
    tmp_path, monkeypatch, capsys, dead, status, words
):
    monkeypatch.chdir(tmp_path)
    lab = Nightly(tmp_path, ROUTES)
    lab.baseline(lambda name, seed: lab.routes(name, around(20_000.0, seed, 3), [4000] * 3))
    lab.dead_routes("today", around(20_000.0, 9, 3), dead)
    found, ((_, detail),) = lab.gate(capsys, "today", "--margin", "4%")
    assert (found, words in detail) == (status, True), detail
