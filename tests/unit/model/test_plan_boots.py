"""Plans of starts of guests: their file, their points, their order, and what a trial is known by."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.errors import ConfigError
from labconsole.experiments.boot.plan import LONGEST_S, BootFactors, PlannedBoots
from labconsole.experiments.boot.steps import Boots
from labconsole.model.plan.ad_hoc import build_guest_plan, parse_factors
from labconsole.model.plan.loader import load_plan
from labconsole.wire.guests import StartGuest
from support.fake_session import make_inventory
from support.guest_plans import hash_of

PLAN = """\
plan: starts
platforms: [raw]
set_ups: 2
repetitions: 3
boot:
  guests: [1, 5]
  start: [cold, hot]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def test_a_plan_has_every_combination_in_every_round(tmp_path: Path) -> None:
    plan = load_plan(written(tmp_path, PLAN), make_inventory())
    boots = plan.guests
    assert boots is not None
    assert plan.guests is boots
    assert not plan.grid
    assert plan.step_count == 2 * 3 * 4
    assert [point.words() for point in boots.points] == [
        "raw: 1 guest, cold",
        "raw: 5 guests, cold",
        "raw: 1 guest, hot",
        "raw: 5 guests, hot",
    ]
    for first in range(0, 24, 4):
        assert {trial.point.index for trial in boots.trials[first : first + 4]} == {0, 1, 2, 3}
    assert len(set(boots.hashes)) == 24


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (PLAN + "job: {jobs: [wait]}\n", "boot"),
        (PLAN + "frame_sizes: [64]\n", "frame_sizes"),
        (PLAN.replace("[1, 5]", "[1, 1]"), "boot.guests"),
        (PLAN.replace("[1, 5]", "[0]"), "boot.guests"),
        (PLAN.replace("cold, hot", "warm"), "boot.start"),
        (PLAN + "  limit_s: 1801\n", "boot.limit_s"),
        (PLAN + "  disk: 1\n", "boot.disk"),
    ],
)
def test_what_a_plan_of_starts_cannot_have_is_refused(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_plan(written(tmp_path, text), make_inventory())
    assert (caught.value.key or "").startswith(key)


def test_an_agent_waits_for_a_guest_as_long_as_a_plan_may_say(tmp_path: Path) -> None:
    """A hundred guests of User-mode Linux took 1040 s, fifty of VMware 1400 s (Quétier et al., figure 2)."""
    plan = load_plan(written(tmp_path, f"{PLAN}  limit_s: {LONGEST_S}\n"), make_inventory())
    assert plan.guests is not None
    limit_s = plan.guests.factors.limit_s
    assert limit_s > 1400
    asked = {"guest": "g1", "argv": ["true"], "ready": "up", "timeout_s": limit_s}
    assert StartGuest.parse(asked, "it").timeout_s == limit_s


def test_a_trial_means_the_same_whatever_is_planned_around_it() -> None:
    small = PlannedBoots(BootFactors(guests=(5,)), ("lxc",), 1, 1, seed=1)
    large = PlannedBoots(BootFactors(guests=(1, 5), start=("cold", "hot")), ("raw", "lxc"), 3, 2, seed=8)
    assert small.hashes[0] in large.hashes
    memory = BootFactors(guests=(5,), memory_mib=64)
    assert hash_of(PlannedBoots, memory, small.trials[0]) != small.hashes[0]
    assert hash_of(PlannedBoots, small.factors, small.trials[0], salt="now") != small.hashes[0]


def test_starts_asked_for_at_once_are_a_plan_of_their_own() -> None:
    plan = build_guest_plan(
        PlannedBoots, ["raw"], parse_factors(BootFactors, {"guests": [2], "start": None}), make_inventory()
    )
    assert plan.guests is not None
    assert (plan.name, plan.guests.kind, plan.grid) == ("boot", "boot", False)
    with pytest.raises(ConfigError) as caught:
        parse_factors(BootFactors, {"start": ["warm"]})
    assert caught.value.key == "start"


def test_trials_asked_for_at_the_command_line_name_no_plan_that_a_bundle_would_look_for(tmp_path: Path) -> None:
    inventory = make_inventory()
    factors = parse_factors(BootFactors, {"guests": (1,)})
    from_command_line = Boots(None).steps(build_guest_plan(PlannedBoots, ["raw"], factors, inventory))  # type: ignore[arg-type]
    plan = load_plan(written(tmp_path, PLAN), inventory)
    from_file = Boots(None).steps(plan)  # type: ignore[arg-type]
    assert {step.plan_hash for step in from_command_line} == {None}
    assert {step.plan_hash for step in from_file} == {plan.hash()}
