"""Plans in blocks before anything is measured: keys, pilot, order, growth, estimates, and what is refused."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.errors import ConfigError
from labconsole.model.inventory import Inventory
from labconsole.model.plan.estimate import estimate
from labconsole.model.plan.file import CLAIMS
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.writer import plan_text
from support.execution_script import plan_of
from support.fake_session import make_inventory
from support.plan_files import MATRIX, load


def order_of(plan: Plan) -> list[list[tuple[str, str]]]:
    """The set-ups of every block in their order, the pilot's first."""
    found: dict[int, list[tuple[str, str]]] = {}
    for each in plan.planned_set_ups():
        found.setdefault(each.block, []).append(each.configuration)
    return [found[block] for block in sorted(found)]


def test_the_new_keys_are_in_no_hash_and_without_them_nothing_is_different(tmp_path):
    plain = load(MATRIX + "repetitions: 2\n", tmp_path)
    grown = load(MATRIX + "repetitions: 2\nset_ups: 3\nmargin: 2%\nclaims: [table-1, ranking]\n", tmp_path)
    assert (grown.set_ups, grown.margin_ratio, grown.claims) == (3, 0.02, ("table-1", "ranking"))
    assert grown.hash() == plain.hash()
    assert (plain.set_ups, plain.margin_ratio, plain.claims, plain.pilot) == (None, None, None, frozenset())
    assert {plain.place_of(trial)[0] for trial in plain.schedule()} == {None}
    ref = plain.ref(3, 2, attempt=2)
    assert (ref.block, ref.attempt, ref.attempts, ref.set_ups, ref.repetitions) == (None, 2, 3, None, 2)
    assert ref.position == plain.schedule().index((3, 2)) + 1


def test_searches_keep_their_hashes_when_a_plan_gets_blocks(tmp_path):
    text = MATRIX.replace("forwarding-50", "light") + "search: {goals: [ndr]}\n"
    assert load(text, tmp_path).search_hashes == load(text + "set_ups: 5\n", tmp_path).search_hashes


@pytest.mark.parametrize("written", ["2%", "0.02", '"0.02"', "'2 %'"])
def test_a_margin_is_a_ratio_however_it_is_written(written, tmp_path):
    assert load(MATRIX + f"margin: {written}\n", tmp_path).margin_ratio == 0.02


@pytest.mark.parametrize("written", ["2", "0", "0%", "100%", "1", "-1%", "two", "true", "[2%]", ".inf", "null", '""'])
def test_a_margin_that_is_no_ratio_is_refused_in_words(written, tmp_path):
    if written == "null":
        assert load(MATRIX + "margin: null\n", tmp_path).margin_ratio is None
        return
    with pytest.raises(
        ConfigError, match=r"margin: is not a valid ratio.*allowed: a share above 0 and below 1, such as 2%"
    ):
        load(MATRIX + f"margin: {written}\n", tmp_path)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("set_ups: 0\n", "set_ups: "),
        ("set_ups: true\n", "set_ups: "),
        ("set_ups: 2.5\n", "set_ups: "),
        ("set_ups: 100000\n", "too many trials"),
        ("claims: [table-9]\n", rf"claims\[0\]: is not one of the known words.*allowed: {', '.join(CLAIMS)}"),
        ("claims: [table-1, table-1]\n", "claims: lists a table twice"),
        ("claims: []\n", "claims: "),
        ("set_ups: 2\norder: full-random\n", "order: cannot be combined with set_ups"),
        ("set_ups: 2\nretry: {codes: [no_packets]}\n", "retry.codes: cannot be combined with set_ups"),
    ],
)
def test_what_blocks_cannot_be_is_refused_with_its_key(more, words, tmp_path):
    with pytest.raises(ConfigError, match=words) as refused:
        load(MATRIX + more, tmp_path)
    assert str(tmp_path / "plan.yaml") in str(refused.value)


def test_a_plan_that_only_searches_has_no_blocks(tmp_path):
    with pytest.raises(ConfigError, match="this plan only searches"):
        load("plan: s\nplatforms: [raw]\nframe_sizes: [64]\nsearch: {goals: [ndr]}\nset_ups: 2\n", tmp_path)


def test_the_pilot_takes_settings_with_several_loads_and_what_forwarding_is_a_share_of(tmp_path):
    plan = load(MATRIX + "set_ups: 2\n", tmp_path)
    extra = [point.request for point in plan.every_point[len(plan.points) :]]
    assert [(r.platform, r.background, r.frame.bytes, r.sources, r.target) for r in extra] == [
        ("raw", "idle", 64, 1, "max"),
        ("container", "idle", 64, 1, "max"),
    ]
    assert plan.pilot == frozenset(range(len(plan.every_point)))
    one_load = load(MATRIX.replace("[10Mbit, 20Mbit]", "[max]") + "set_ups: 2\n", tmp_path)
    found = [one_load.points[index].request for index in sorted(one_load.pilot)]
    assert [(r.platform, r.background, r.frame.bytes) for r in found] == [
        ("raw", "idle", 64),
        ("container", "idle", 64),
    ]
    assert one_load.every_point == one_load.points
    none = load(MATRIX.replace("[10Mbit, 20Mbit]", "[max]").replace(", forwarding-50", "") + "set_ups: 2\n", tmp_path)
    assert none.pilot == frozenset()


def test_the_pilot_comes_first_and_in_it_what_forwards_comes_last(tmp_path):
    pilot, *blocks = order_of(load(MATRIX + "set_ups: 20\n", tmp_path))
    assert [background for _, background in pilot[-2:]] == ["forwarding-50"] * 2
    places = Counter(block.index((platform, "forwarding-50")) for block in blocks for platform in ("raw", "container"))
    assert set(places) == set(range(6)), "in blocks it is as random as the others"


SHAPES = [
    MATRIX,
    MATRIX + "repetitions: 3\n",
    MATRIX.replace("[10Mbit, 20Mbit]", "[max]") + "repetitions: 2\norder: as-listed\n",
    MATRIX + "include: [{frame_size: 500, target: max, repetitions: 4}]\n",
]


@settings(max_examples=40, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(-(2**63), 2**63 - 1), blocks=st.integers(1, 6))
def test_every_block_holds_every_set_up_once_and_each_all_of_its_passes(tmp_path_factory, shape, seed, blocks):
    plan = load(shape + f"set_ups: {blocks}\nseed: {seed}\n", tmp_path_factory.mktemp("p"))
    every = [point.request for point in plan.points]
    schedule = plan.schedule()
    assert len(schedule) == len(set(schedule)) == plan.trials
    assert sorted(schedule) == sorted(
        [(p.index, n) for p in plan.points for n in range(1, blocks * plan.repetitions_of(p.index) + 1)]
        + [(index, 0) for index in plan.pilot]
    )
    pilot, *rest = order_of(plan)
    for block in rest:
        assert sorted(block) == sorted({(r.platform, r.background) for r in every})
    for each in plan.planned_set_ups():
        requests = [plan.every_point[index].request for index, _ in each.trials]
        assert {(r.platform, r.background) for r in requests} == {each.configuration}
        if each.block:
            places = [plan.place_of(trial) for trial in each.trials]
            assert {block for block, _ in places} == {each.block}
            assert [r for _, r in places] == sorted(r for _, r in places), "one pass after the other"
    for trial in schedule:
        assert plan.number_of(trial[0], *plan.place_of(trial)) == trial[1]
    # From block 1 on; a pilot exists as well.
    assert schedule[: len(plan.pilot)] == [trial for trial in schedule if trial[1] == 0]


@settings(max_examples=25, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 2**32), few=st.integers(1, 4), more=st.integers(1, 4))
def test_a_plan_that_grows_by_blocks_keeps_those_it_had(tmp_path_factory, shape, seed, few, more):
    directory = tmp_path_factory.mktemp("p")
    small = load(shape + f"seed: {seed}\nset_ups: {few}\n", directory)
    large = load(shape + f"seed: {seed}\nset_ups: {few + more}\n", directory)
    assert large.hash() == small.hash()
    assert large.schedule()[: small.trials] == small.schedule()
    assert {small.ref(*trial).position for trial in small.schedule()} == set(range(1, small.trials + 1))


def test_more_repetitions_keep_the_order_of_set_ups_and_of_the_passes_that_were(tmp_path):
    one, three = (load(MATRIX + f"set_ups: 4\nrepetitions: {r}\n", tmp_path) for r in (1, 3))
    assert order_of(one) == order_of(three)
    for short, long in zip(one.planned_set_ups(), three.planned_set_ups(), strict=True):
        assert [i for i, _ in long.trials][: len(short.trials)] == [i for i, _ in short.trials]


def test_no_platform_comes_earlier_than_another_in_the_mean(tmp_path):
    """Over many seeds: the place of a platform's set-ups within a block, and of a point within its pass."""
    places: dict[tuple[str, str], list[int]] = {}
    points: dict[int, list[int]] = {}
    for seed in range(400):
        plan = load(MATRIX.replace("10Mbit, ", "10Mbit, 15Mbit, ") + f"set_ups: 2\nseed: {seed}\n", tmp_path)
        for block in order_of(plan)[1:]:
            for place, held in enumerate(block):
                places.setdefault(held, []).append(place)
        for each in plan.planned_set_ups():
            if each.block and each.configuration == ("raw", "none"):
                for place, (index, _) in enumerate(each.trials):
                    points.setdefault(index, []).append(place)
    for found in (places, points):
        most = len(found) - 1
        for taken in found.values():
            # sd of a place is about most / sqrt(12): five standard errors of 800 of them
            assert statistics.mean(taken) == pytest.approx(most / 2, abs=5 * most / 12**0.5 / len(taken) ** 0.5)


def test_as_listed_keeps_the_listed_order_of_set_ups_and_points(tmp_path):
    plan = load(MATRIX + "set_ups: 2\norder: as-listed\n", tmp_path)
    listed = [(platform, b) for platform in ("raw", "container") for b in ("none", "idle", "forwarding-50")]
    assert order_of(plan)[1:] == [listed, listed]
    assert [index for index, _ in plan.planned_set_ups()[-1].trials] == [20, 21, 22, 23]


def test_the_estimate_boots_every_set_up_of_every_block(tmp_path):
    raw = make_inventory().model_dump(mode="json") | {"platforms": {"raw": {"driver": "raw"}, "lxc": {"driver": "lxc"}}}
    plan = load(MATRIX.replace("container", "lxc").replace(", forwarding-50", "") + "set_ups: 3\n", tmp_path)
    trials = [trial for trial in plan.schedule() if trial[1]]
    time = estimate(plan, Inventory.model_validate(raw), {"raw": 0.0, "lxc": 1.5}, trials)
    assert (time.trials, time.platform_switches) == (3 * 16, 3 * 4)
    assert time.total_s == pytest.approx(48 * (1 + 0.2 + 0.6) + 12 * 1 + 3 * (1 + 2) * 1.5)


def test_a_written_plan_says_its_blocks_and_is_read_as_the_same(tmp_path):
    plan = plan_of(MATRIX + "set_ups: 5\nrepetitions: 2\nmargin: 1.5%\nclaims: [ranking]\n", tmp_path)
    path = tmp_path / "again.yaml"
    path.write_text(plan_text(plan))
    again = load_plan(path, make_inventory())
    assert (again.set_ups, again.margin_ratio, again.claims) == (5, 0.015, ("ranking",))
    assert (again.hash(), again.schedule()) == (plan.hash(), plan.schedule())


def test_every_second_block_takes_the_order_before_it_backwards(tmp_path):
    _, *blocks = order_of(load(MATRIX + "set_ups: 6\nseed: 5\n", tmp_path))
    for first, second in zip(blocks[::2], blocks[1::2], strict=True):
        assert second == first[::-1], "what came early comes late: a drift falls out of two blocks"
    assert len({tuple(block) for block in blocks[::2]}) == 3, "and each pair has an order of its own"


def test_for_telemetry_each_point_is_taken_once_in_no_block_and_is_no_trial_of_the_plan(tmp_path):
    plan = load(MATRIX + "repetitions: 2\nset_ups: 3\nmargin: 2%\nclaims: [table-1]\ndrop_reasons: off\n", tmp_path)
    told = plan.for_telemetry()
    assert sorted(told.schedule()) == [(point.index, 1) for point in plan.points]
    assert [point.request for point in told.points] == [point.request for point in plan.points]
    ref = told.ref(3, 1)
    assert (ref.name, ref.block, ref.set_ups, ref.repetitions, ref.margin_ratio, ref.claims) == (
        "blocks",
        None,
        None,
        1,
        None,
        None,
    )
    assert (told.hash(),) == plan.telemetry_hashes and told.hash() != plan.hash()
    assert (plan.role, told.role, told.set_ups, told.pilot) == ("measured", "telemetry", None, frozenset())


def test_a_plan_whose_points_are_only_searched_has_none_for_telemetry(tmp_path):
    text = MATRIX.replace("targets: [10Mbit, 20Mbit]\n", "").replace("forwarding-50", "light")
    plan = load(text + "search: {goals: [ndr]}\n", tmp_path)
    assert plan.telemetry_hashes == ()
    with pytest.raises(ConfigError, match="plan blocks has no points of traffic"):
        plan.for_telemetry()
