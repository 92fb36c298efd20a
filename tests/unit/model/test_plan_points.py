"""Plans that list their points, and plans made of what was done: exactly those points, nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.plan.estimate import TRIAL_OVERHEAD_S, estimate
from labconsole.model.plan.writer import plan_from_requests, plan_text, write_plan
from support.plan_files import BASE, INVENTORY, LISTED, load


def ask(**changes) -> DesignPoint:
    base: dict[str, Any] = {
        "platform": "raw",
        "frame": FrameSize(64),
        "sources": 1,
        "target": 10**7,
        "duration_s": 10.0,
    }
    return DesignPoint(**(base | changes))


def test_listed_points_are_measured_as_listed_and_as_often_as_each_says(tmp_path):
    plan = load(LISTED, tmp_path)
    assert [p.request for p in plan.points] == [
        ask(),
        ask(platform="kvm"),
        ask(frame=FrameSize(1500), target="max", sources=2, duration_s=2.0, generator="afpacket"),
    ]
    assert plan.trials == 7
    assert Counter(index for index, _ in plan.schedule()) == {0: 2, 1: 3, 2: 2}


@pytest.mark.parametrize("order", ["blocked-random", "full-random", "as-listed"])
def test_a_list_is_ordered_like_a_matrix(tmp_path, order):
    plan = load(LISTED + f"order: {order}\n", tmp_path)
    assert sorted(plan.schedule()) == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
    if order != "full-random":
        assert [plan.points[i].request.platform for i, _ in plan.schedule()] == ["raw"] * 4 + ["kvm"] * 3


def test_a_list_that_is_a_matrix_has_the_hash_of_that_matrix(tmp_path):
    matrix = load(BASE, tmp_path)
    rows = "".join(
        f"  - {{platform: {r.platform}, frame_size: {r.frame.bytes}, sources: {r.sources}, "
        f"target: {'max' if r.target == 'max' else f'{r.target}bit'}}}\n"
        for r in (p.request for p in matrix.points)
    )
    listed = load(f"plan: x\nduration_s: 10\npoints:\n{rows}", tmp_path)
    assert listed.hash() == matrix.hash()
    assert load(f"plan: x\nduration_s: 11\npoints:\n{rows}", tmp_path).hash() != matrix.hash()


def test_what_a_listed_point_measures_is_in_the_hash_and_how_often_is_not(tmp_path):
    plan = load(LISTED, tmp_path)
    same = [LISTED.replace("repetitions: 3", "repetitions: 9"), "seed: 3\n" + LISTED, "# remark\n" + LISTED]
    other = [LISTED.replace("1500", "1400"), LISTED.replace("duration_s: 2,", ""), LISTED + "observe: live\n"]
    assert {load(text, tmp_path).hash() for text in same} == {plan.hash()}
    assert plan.hash() not in {load(text, tmp_path).hash() for text in other}


def test_the_time_of_a_list_counts_each_points_own_duration(tmp_path):
    time = estimate(load(LISTED, tmp_path), INVENTORY, {"kvm": 8.0})
    assert time.total_s == pytest.approx(2 * 10 + 3 * 10 + 2 * 2 + 7 * (2 + 5 + TRIAL_OVERHEAD_S) + 2 + 8)


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        (LISTED + "platforms: [raw]\n", 8, "platforms", "cannot be combined with points"),
        (LISTED.replace("duration_s: 10\n", ""), 4, "points[0].duration_s", "is required, here or at the top"),
        (LISTED.replace("platform: kvm", "platform: raw"), 6, "points[1]", r"repeats points\[0\]"),
        (LISTED.replace("sources: 2", "source: 2"), 7, "points[2].source", "unknown key.*frame_size"),
        (LISTED.replace("max", "100"), 7, "points[2].target", "is not a valid target"),
        ("plan: x\nduration_s: 1\n", None, "platforms", "points, instead of a matrix"),
    ],
)
def test_a_wrong_list_is_refused_with_line_and_key(tmp_path, text, line, key, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load(text, tmp_path)
    assert (caught.value.line, caught.value.key) == (line, key)


def test_what_the_testbed_cannot_do_is_refused_with_the_points_line(tmp_path):
    with pytest.raises(ConfigError, match="needs 7 streams") as caught:
        load(LISTED.replace("sources: 2", "sources: 7"), tmp_path, inventory=INVENTORY)
    assert (caught.value.line, caught.value.key) == (7, "points[2].sources")


REQUESTS = st.builds(
    ask,
    platform=st.sampled_from(["raw", "kvm", "12", "2026-01-02"]),
    frame=st.builds(FrameSize, st.sampled_from([60, 64, 1500]), st.booleans()),
    sources=st.integers(1, 3),
    target=st.sampled_from([10**7, 123_456_789, "max"]),
    duration_s=st.sampled_from([10.0, 0.25, 1234.5678]),
    background=st.sampled_from(["none", "none", "idle"]),
    generator=st.sampled_from(["auto", "afpacket"]),
)


@settings(max_examples=60, deadline=None)
@given(done=st.lists(st.tuples(REQUESTS, st.integers(1, 4)), min_size=1, max_size=12))
def test_a_plan_of_what_was_done_reads_back_as_exactly_that(tmp_path_factory, done):
    asked: Counter[DesignPoint] = Counter()
    for request, repetitions in done:
        asked[request] += repetitions
    plan = plan_from_requests("again", done, INVENTORY)
    read = load(plan_text(plan, ["a remark\nof two lines"]), tmp_path_factory.mktemp("plans"))
    assert Counter(read.points[index].request for index, _ in read.schedule()) == asked
    assert (read.hash(), read.settle_s, read.drain_s) == (plan.hash(), 5, 2)


def test_a_full_cross_product_done_in_any_order_becomes_a_matrix():
    done = [(ask(platform=p, target=t, sources=s), 2) for t in (10**7, "max") for s in (2, 1) for p in ("kvm", "raw")]
    text = plan_text(plan_from_requests("m", done, INVENTORY))
    assert "points:" not in text
    assert "platforms: [kvm, raw]\n" in text
    assert "sources: [2, 1]\n" in text
    assert "targets: [10Mbit, max]\n" in text


def test_a_plan_is_never_made_of_nothing_or_under_a_name_no_file_could_have():
    with pytest.raises(ConfigError, match="nothing has been measured"):
        plan_from_requests("x", [], INVENTORY)
    with pytest.raises(ConfigError, match="usable name"):
        plan_from_requests("a/b", [(ask(), 1)], INVENTORY)


def test_a_plan_file_is_written_whole_and_never_over_another_unless_told(tmp_path):
    path = tmp_path / "plans" / "a.yaml"
    write_plan(path, "one\n")
    with pytest.raises(ConfigError, match="this plan already exists"):
        write_plan(path, "two\n")
    assert path.read_text() == "one\n"
    write_plan(path, "two\n", overwrite=True)
    assert path.read_text() == "two\n"
    assert [p.name for p in path.parent.iterdir()] == ["a.yaml"]
    with pytest.raises(ConfigError, match="cannot write this file"):
        write_plan(path / "below-a-file.yaml", "x\n")


def test_the_file_of_a_request_with_generators_of_two_kinds_says_them_per_point():
    done = [(ask(), 1), (replace(ask(), generator="afpacket"), 1)]
    text = plan_text(plan_from_requests("g", done, INVENTORY))
    assert "generator: afpacket}" in text
