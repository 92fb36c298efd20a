"""The key search of a plan: its configurations, what resumes it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.errors import ConfigError
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import search_hash

HEAD = "plan: t\nplatforms: [raw, container]\nframe_sizes: [64, 1518]\nsources: [1, 2]\n"


def plan(tmp_path: Path, search: str, *, head: str = HEAD) -> Plan:
    path = tmp_path / "plan.yaml"
    path.write_text(f"{head}search: {search}\n")
    return load_plan(path)


def hashes(made: Plan) -> list[str]:
    assert made.search is not None
    return [search_hash(made.search, each) for each in made.searches]


def test_without_targets_nothing_but_the_searches_is_measured(tmp_path: Path) -> None:
    made = plan(tmp_path, "{goals: [pdr-1%, back-to-back], back_to_back: {trial_s: 3.5}}")
    assert (made.trials, made.schedule(), made.grid) == (0, [], False)
    assert made.duration_s == 3.5
    assert [(c.request.platform, c.request.sources, c.request.frame.bytes) for c in made.searches] == [
        (platform, sources, size) for platform in ("raw", "container") for sources in (1, 2) for size in (64, 1518)
    ]


def test_beside_a_grid_every_configuration_is_searched_once_whatever_its_targets(tmp_path: Path) -> None:
    grid = plan(tmp_path, "{goals: [ndr]}", head=HEAD + "targets: [10Mbit, max]\nduration_s: 1\n")
    assert grid.trials == 16
    assert len(grid.searches) == 8
    assert hashes(grid) == hashes(plan(tmp_path, "{goals: [ndr]}"))


def test_what_rules_leave_out_of_the_matrix_is_not_searched(tmp_path: Path) -> None:
    made = plan(tmp_path, "{goals: [ndr]}\nexclude: [{platform: container, sources: 2}]")
    assert len(made.searches) == 6
    assert made.trials == 0


def test_repetitions_come_one_after_the_other_and_each_is_a_search_of_its_own(tmp_path: Path) -> None:
    made = plan(tmp_path, "{goals: [ndr], repetitions: 2}")
    assert [each.repetition for each in made.searches] == [1] * 8 + [2] * 8
    assert len(set(hashes(made))) == 16
    assert hashes(made)[:8] == hashes(plan(tmp_path, "{goals: [ndr], max_trials: 5}"))


@pytest.mark.parametrize(
    "other", ["{goals: [rfc2544]}", "{goals: [ndr], trial_s: 2.0}", "{goals: [ndr], width_ratio: 0.1}"]
)
def test_another_meaning_is_another_search(tmp_path: Path, other: str) -> None:
    assert not set(hashes(plan(tmp_path, "{goals: [ndr]}"))) & set(hashes(plan(tmp_path, other)))


@pytest.mark.parametrize(
    ("search", "complaint"),
    [
        ("{goals: []}", "search.goals"),
        ("{goals: [best]}", r"search.goals\[0\]: is not a goal, got 'best'; allowed: ndr"),
        ("{goals: [ndr, ndr]}", "a goal twice"),
        ("{goals: [latency]}", "latency is measured at the load that a goal finds"),
        ("{goals: [ndr], trial_s: 30.0}", "duration_sum_s of ndr is shorter than one trial"),
        ("{goals: [ndr], latency: {foo: 1}}", "search.latency.foo: unknown key; allowed: trial_s, repetitions"),
        ("{goals: [ndr], frame_loss: {step_ratio: 0.2}}", "search.frame_loss.step_ratio"),
        ("{goals: [ndr], trial_s: true}", "search.trial_s"),
        ("5", "search"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_its_line(tmp_path: Path, search: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=r"plan\.yaml:5: .*" + complaint):
        plan(tmp_path, search)


def test_neither_targets_nor_a_search_is_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(HEAD)
    with pytest.raises(ConfigError, match="targets: is required"):
        load_plan(path)
