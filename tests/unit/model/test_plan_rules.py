"""Matrices that are not full: overrides, exclusions, additions; what a plan says of how it is carried out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from labconsole.engine.trial.setup import SNAP_BYTES
from labconsole.errors import ConfigError
from labconsole.model.inventory import Inventory
from labconsole.model.plan import estimate as plan_estimate
from labconsole.model.plan.estimate import estimate
from labconsole.model.plan.execution_options import INVALID_CODES, Stop
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.writer import plan_text
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances
from labconsole.platforms.loading import known_drivers
from support.plan_files import BASE, INVENTORY, LISTED, load

ROOT = Path(__file__).parents[3]
SANITY = (ROOT / "plans" / "sanity.yaml").read_text()

RULED = (
    BASE
    + """\
tolerances: {start_skew_s: 0.7}
overrides:
  kvm: {targets: [5Mbit, max], sources: [1], repetitions: 2, duration_s: 4, tolerances: {other_cpu_ratio: 2.0}}
exclude:
  - {platform: raw, frame_size: 64, sources: 2}
include:
  - {platform: kvm, frame_size: 500, target: [10Mbit, max]}
  - {frame_size: 1500, target: max, repetitions: 20}
"""
)


def factors(plan) -> list[tuple]:
    return [(r.platform, r.sources, r.frame.bytes, r.target, r.duration_s) for r in (p.request for p in plan.points)]


def test_overrides_come_first_then_exclusions_then_what_is_added(tmp_path):
    plan = load(RULED, tmp_path)
    raw = [("raw", 1, 64, t, 10.0) for t in (10**7, 10**9, "max")]
    raw += [("raw", s, 1500, t, 10.0) for s in (1, 2) for t in (10**7, 10**9, "max")]
    kvm = [("kvm", 1, size, t, 4.0) for size in (64, 1500) for t in (5 * 10**6, "max")]
    assert factors(plan) == raw + kvm + [("kvm", 1, 500, 10**7, 4.0), ("kvm", 1, 500, "max", 4.0)]
    assert plan.repetitions_of(0) == 3
    assert [plan.repetitions_of(i) for i in (5, 9, 12, 13)] == [20, 2, 20, 2]  # what was there is repeated more often
    assert (plan.tolerances_of(0).other_cpu_ratio, plan.tolerances_of(9).other_cpu_ratio) == (0.1, 2.0)
    assert {plan.tolerances_of(i).start_skew_s for i in (0, 9)} == {
        0.7
    }  # what the override does not name is the plan's
    assert "not measured: platform raw, sources 2, frame size 64" in plan.rules


def test_a_delay_of_one_nanosecond_is_a_target_of_every_frame_size_and_rules_name_it(tmp_path):
    text = BASE.replace("1Gbit, max]", "1ns, max]")
    plan = load(text, tmp_path)
    assert plan.targets_bps == (10**7, "1ns", "max")
    assert {(p.request.frame.bytes, p.request.target) for p in plan.points if p.request.wish == "1ns"} == {
        (64, 8 * 10**9 * 88),
        (1500, 8 * 10**9 * 1524),
    }
    fewer = load(text + "exclude: [{frame_size: 1500, target: 1ns}]\n", tmp_path)
    assert [p.request.frame.bytes for p in fewer.points if p.request.wish == "1ns"] == [64] * 4
    assert load(plan_text(plan), tmp_path).hash() == plan.hash()
    assert load(plan_text(fewer), tmp_path).hash() == fewer.hash()


def test_the_hash_is_of_the_points_however_they_were_written(tmp_path):
    whole = load(BASE, tmp_path)
    same = BASE.replace("[1, 2]", "[1]") + "overrides: {raw: {sources: [1, 2]}, kvm: {sources: [1, 2]}}\n"
    more = BASE + "include:\n  - {frame_size: 64, target: max}\n"
    assert {load(same, tmp_path).hash(), load(more, tmp_path).hash()} == {whole.hash()}
    assert load(RULED, tmp_path).hash() != whole.hash()
    again = RULED.replace("repetitions: 20", "repetitions: 30") + "stop: {after_s: 60}\nwarm_up: true\n"
    assert load(again, tmp_path).hash() == load(RULED, tmp_path).hash()


@pytest.mark.parametrize(
    ("text", "known"), [(BASE, "ff327fbb1b16b6d6"), (LISTED, "020e75d8d480b100"), (SANITY, "88b61bbe738cd41d")]
)
def test_plans_of_earlier_versions_keep_their_hash(tmp_path, text, known):
    assert load(text, tmp_path).hash() == known


BAD = [
    ("exclude:\n  - {platform: xen}\n", 11, "exclude[0].platform", "is not one of the plan's platforms, got 'xen'"),
    ("exclude:\n  - {target: 20Mbit}\n", 11, "exclude[0].target", "is not one of the plan's targets, got '20Mbit'"),
    ("exclude:\n  - {}\n", 11, "exclude[0]", "gives no factor"),
    ("exclude:\n  - {platform: [raw, kvm]}\n", 10, "exclude", "leaves no points to measure"),
    ("exclude:\n  - {colour: red}\n", 11, "exclude[0].colour", "unknown key"),
    ("overrides: {xen: {repetitions: 1}}\n", 10, "overrides.xen", "is not a platform of this plan"),
    ("overrides: {raw: {targets: [1Mbit, 1Mbit]}}\n", 10, "overrides.raw.targets[1]", "repeats targets[0]"),
    ("overrides: {raw: {target: 1Mbit}}\n", 10, "overrides.raw.target", "unknown key"),
    ("include:\n  - {frame_size: 64}\n", 11, "include[0].target", "is required"),
    ("include:\n  - {frame_size: 64, target: 10}\n", 11, "include[0].target[0]", "is not a valid target"),
    ("include:\n  - {frame_size: 64, target: max, repetitions: 2000000}\n", 11, "include[0].repetitions", ""),
    ("retry: {codes: [bad_luck]}\n", 10, "retry.codes[0]", "witnesses_disagree"),
    ("retry: {codes: [offered_short]}\n", 10, "retry.codes[0]", "is not a code that makes a run invalid"),
    ("warm_up: 3\n", 10, "warm_up", ""),
    ("stop: {at: tomorrow}\n", 10, "stop.at", "is not a valid time"),
    ("stop: {raising: {loss_ratio: 1.5}}\n", 10, "stop.raising.loss_ratio", "less than 1"),
    ("pre: [tune]\n", 10, "pre[0]", ""),
    ("pre:\n  - {run: [tune], timeout_s: 0}\n", 11, "pre[0].timeout_s", "greater than 0"),
]


@pytest.mark.parametrize(("more", "line", "key", "message"), BAD)
def test_a_wrong_rule_is_refused_with_its_line(tmp_path, more, line, key, message):
    with pytest.raises(ConfigError) as caught:
        load(BASE + more, tmp_path)
    assert (caught.value.line, caught.value.key) == (line, key)
    assert message in str(caught.value)


def test_rules_do_not_go_with_a_list_of_points(tmp_path):
    with pytest.raises(ConfigError, match="exclude: cannot be combined with points"):
        load(LISTED + "exclude: [{platform: raw}]\n", tmp_path)


AGAINST_TESTBED = [
    ("include:\n  - {frame_size: 64, target: 2Gbit}\n", 11, "include[0].target"),
    ("overrides: {kvm: {targets: [10Mbit, 2Gbit]}}\n", 10, "overrides.kvm.targets[1]"),
    ("include:\n  - {platform: xen, frame_size: 64, target: max}\n", 11, None),
    ("exclude: [{sources: 2}]\ninclude:\n  - {frame_size: 64, target: max, sources: 4}\n", 12, "include[0].sources"),
]


@pytest.mark.parametrize(("more", "line", "key"), AGAINST_TESTBED)
def test_what_a_testbed_cannot_do_is_refused_where_the_rule_says_it(tmp_path, more, line, key):
    with pytest.raises(ConfigError) as caught:
        load(BASE + more, tmp_path, inventory=INVENTORY)
    assert (caught.value.line, caught.value.key) == (line, key)


SHARED = """\
plan: shared
platforms: [raw, kvm]
frame_sizes: [64, 1500]
targets: [10Mbit, max]
backgrounds: [forwarding-50, none, idle]
duration_s: 1
repetitions: 2
"""


@pytest.mark.parametrize("order", ["blocked-random", "full-random", "as-listed"])
def test_what_forwards_beside_the_measurement_comes_after_everything_else_of_its_platform(tmp_path, order):
    plan = load(SHARED + f"order: {order}\n", tmp_path)
    trials = plan.schedule()
    assert sorted(trials) == [(point, r) for point in range(24) for r in (1, 2)]
    for platform in ("raw", "kvm"):
        own = [plan.points[i].request.background for i, _ in trials if plan.points[i].request.platform == platform]
        assert set(own[:16]) == {"none", "idle"}
        assert set(own[16:]) == {"forwarding-50"}


def test_one_background_is_measured_after_the_other(tmp_path):
    plan = load(SHARED, tmp_path)
    seen = [(r.platform, r.background) for r in (plan.points[i].request for i, _ in plan.schedule())]
    assert list(dict.fromkeys(seen)) == [
        (platform, background) for platform in ("raw", "kvm") for background in ("none", "idle", "forwarding-50")
    ]
    assert seen == sorted(seen, key=list(dict.fromkeys(seen)).index)


def test_a_plan_says_which_points_give_the_maximum_that_others_need(tmp_path):
    plan = load(SHARED, tmp_path)
    needs = {need.platform: need for need in plan.needs()}
    assert needs["raw"].points == (0, 1, 2, 3)
    assert [plan.points[i].request for i in needs["raw"].given_by] == [
        plan.points[i].request
        for i in range(12)
        if plan.points[i].request.background == "idle" and plan.points[i].request.frame.bytes == 64
    ]
    assert load(BASE, tmp_path).needs() == []


def test_guests_are_set_up_once_for_all_that_only_runs_in_them(tmp_path):
    inventory = INVENTORY.model_copy(deep=True)
    plan = load(SHARED.replace("forwarding-50, none, idle", "none, idle, light, heavy") + "warm_up: true\n", tmp_path)
    time = estimate(plan, inventory, {})
    assert (time.platform_switches, time.warm_ups) == (4, 4)
    assert time.store_bytes == 64 * plan_estimate.RUN_BYTES


def test_the_room_for_a_capture_is_reckoned_with_what_captures_keep():
    assert plan_estimate.SNAP_BYTES == SNAP_BYTES


def test_the_codes_that_can_be_retried_are_those_that_make_a_run_invalid():
    assert set(INVALID_CODES) == {code for code, weight in WEIGHT.items() if weight == "invalid"}


@pytest.mark.parametrize(
    ("at", "deadline"),
    [
        ("06:30", datetime(2026, 11, 22, 6, 30, tzinfo=UTC)),
        ("23:00", datetime(2026, 11, 21, 23, 0, tzinfo=UTC)),
        ("2026-11-23 01:00", datetime(2026, 11, 23, 1, 0, tzinfo=UTC)),
        ("2020-01-01T00:00", datetime(2020, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_time_to_stop_at_is_the_next_of_its_kind_unless_it_has_a_date(at, deadline):
    assert Stop(at=at).deadline(datetime(2026, 11, 21, 9, 30, tzinfo=UTC)) == deadline


SHIPPED = {
    "sanity": (2, 120, 32),
    "local-platforms": (7, 30 * 60, None),
    "local-evaluation": (7, 50 * 60, None),
    "local-machine": (4, 20 * 60, None),
    "paper-dedicated": (7, None, 7 * 4 * 10 * 3 * (1 + 9)),
    "paper-shared-cpu": (6, None, 6 * 4 * 9 * 4 * (1 + 9)),
    "paper-shared-network": (7, None, 7 * 4 * 9 * 4 * (1 + 9)),
    "paper-flow-control": (2, None, 2 * 3 * 7 * 2 * (1 + 9)),
    "rfc2544": (2, None, 2 * 7 * 10),
}
DRIVERS = {
    "uml": "uml",
    "lxc": "lxc",
    "container": "container",
    "kvm": "libvirt",
    "xen": "xl",
    "openvz": "openvz",
    "virtualbox": "virtualbox",
}


def a_testbed_with(platforms) -> Inventory:
    """A testbed that has what a shipped plan names."""
    entries = {
        name: {"driver": DRIVERS.get(name, next((d for d in ("qemu", "esxi") if name.startswith(d)), "raw"))}
        for name in platforms
    }
    raw = INVENTORY.model_dump(mode="json") | {"platforms": entries}
    return Inventory.model_validate(raw)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_plan_can_be_carried_out_and_says_how_long_it_takes(name):
    path = ROOT / "plans" / f"{name}.yaml"
    platforms, longest_s, trials = SHIPPED[name]
    plan = load_plan(path, a_testbed_with(load_plan(path).platforms))
    testbed = a_testbed_with(plan.platforms)
    boots_s = {name: known_drivers()[platform.driver].boot_s for name, platform in testbed.platforms.items()}
    time = estimate(plan, testbed, boots_s)
    print(f"{name}: {len(plan.points)} points, {plan.trials} trials, {time.total_s / 60:.0f} minutes")
    assert len(plan.platforms) == platforms
    assert trials is None or plan.trials == trials
    assert longest_s is None or time.total_s <= longest_s
    assert all(need.given_by for need in plan.needs()), "what forwarding is a share of is measured by the same plan"


def test_the_local_evaluation_has_what_every_figure_and_table_needs():
    path = ROOT / "plans" / "local-evaluation.yaml"
    plan = load_plan(path)
    asked = {(r.platform, r.background, r.sources, r.frame.bytes, r.target) for r in (p.request for p in plan.points)}
    assert {"raw", "container", "lxc", "uml", "qemu-virtio"} <= set(plan.platforms)
    for platform in plan.platforms:
        alone = {(size, target) for p, b, s, size, target in asked if (p, b, s) == (platform, "none", 1)}
        assert len({size for size, _ in alone}) >= 3, "figure 3: frame sizes"
        assert all(len([t for s, t in alone if s == size]) >= 4 for size, _ in alone), "figure 3: offered loads"
        assert {s for p, b, s, size, t in asked if (p, b, t) == (platform, "none", "max")} == {1, 2, 3}, "figure 4"
        beside = {b for p, b, s, size, t in asked if (p, s, size, t) == (platform, 1, 64, "max")}
        wanted = {"none", "idle", "light", "heavy", "forwarding-50", "forwarding-95"}
        # Two emulated machines boot slowly: the NICs that only they have are compared alone.
        alone_only = platform in ("qemu-vmxnet3", "qemu-e1000")
        assert beside == ({"none"} if alone_only else wanted), "figure 5, tables 1 to 3"
    assert plan.set_ups is not None and plan.set_ups >= 5


def test_rules_are_bounded_by_the_points_that_they_are_about(tmp_path, monkeypatch):
    """A plan of 40 KiB may have a thousand rules for a million points."""
    text = BASE + "exclude:\n" + "  - {platform: raw, frame_size: 64}\n" * 3
    points = len(load(BASE, tmp_path).points)
    monkeypatch.setattr("labconsole.model.plan.points.MAX_RULE_TESTS", 3 * points)
    assert len(load(text, tmp_path).points) < points
    monkeypatch.setattr("labconsole.model.plan.points.MAX_RULE_TESTS", 3 * points - 1)
    with pytest.raises(ConfigError, match=f"exclude: has 3 rules for {points} points, got {3 * points}"):
        load(text, tmp_path)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_plan_that_compares_platforms_does_so_over_set_ups(name):
    plan = load_plan(ROOT / "plans" / f"{name}.yaml")
    if name in ("sanity", "rfc2544"):
        assert (plan.set_ups, plan.warm_up) == (None, None), "they say so, and claim nothing"
    elif name.startswith("paper"):
        assert (plan.set_ups, plan.repetitions, plan.margin_ratio) == (9, 1, 0.02)
    else:
        assert plan.set_ups in (3, 5) and plan.repetitions == 1
    assert plan.tolerances.offered_ratio == Tolerances().offered_ratio, "a source that falls short is told"
