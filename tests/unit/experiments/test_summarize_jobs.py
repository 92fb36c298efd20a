"""What is concluded from jobs, on simulated trials whose truth is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from labconsole.experiments.job.live_view import format_times
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.summary import summarize_jobs
from labconsole.experiments.job.text import summary_lines
from support.job_records import taken
from support.measured_sides import unseen

BLOCKS = 6


def trials(
    draw: random.Random,
    seconds: Callable[[], list[float]],
    *,
    spread: float = 0.01,
    blocks: int = BLOCKS,
    **more: object,
) -> list[JobRecord]:
    """Two trials in each block, whose set-up moves all of them together."""
    found = []
    for block in range(1, blocks + 1):
        common = draw.gauss(1, spread)
        for repetition in (1, 2):
            times = [each * common * draw.gauss(1, spread / 3) for each in seconds()]
            found.append(taken(times, block=block, repetition=repetition, **more))  # type: ignore[arg-type]
    return found


def test_the_overhead_of_a_platform_is_found_with_its_interval():
    draw = random.Random(1)
    bare = trials(draw, lambda: [4.0], platform="host", guests=1, working="one")
    slower = trials(draw, lambda: [5.0], guests=1, working="one")
    (found,) = summarize_jobs([*bare, *slower]).overheads
    assert found.effect.ci_low is not None
    assert found.effect.ci_high is not None
    assert found.effect.ci_low < 0.25 < found.effect.ci_high
    assert found.effect.ci_low > 0.2


def test_the_first_domain_of_xen_is_no_bare_host_and_a_point_of_its_own():
    draw = random.Random(5)
    bare = trials(draw, lambda: [4.0], platform="host", guests=1, working="one")
    facts = {"boot_id": "boot-1", "hypervisor_type": "xen"}
    under = [each.model_copy(update={"environment": {"nodes": {"uut": {"facts": facts}}}}) for each in bare]
    summary = summarize_jobs([*under, *trials(draw, lambda: [4.4], guests=1, working="one")])
    assert summary.overheads == ()
    assert {(each.key.platform, each.key.hypervisor) for each in summary.points} == {
        ("host", "raw under xen"),
        ("lxc", "lxc"),
    }
    assert "host" in summary.bare_platforms, "nor is it a tool"
    assert [summary.apart(each.key) for each in summary.points] == [["under xen"], []], "as it is called"


def test_what_is_in_the_kernel_of_xens_first_domain_is_compared_there_and_with_no_other_boot():
    draw = random.Random(6)
    facts = {"boot_id": "boot-1", "hypervisor_type": "xen"}

    def under(records: list[JobRecord], driver: str | None = None) -> list[JobRecord]:
        own = {"environment": {"nodes": {"uut": {"facts": facts}}}}
        return [
            each.model_copy(update=own if driver is None else {**own, "attestation": {"driver": driver}})
            for each in records
        ]

    bare = trials(draw, lambda: [4.0], platform="host", guests=1, working="one")
    inside = trials(draw, lambda: [5.0], guests=1, working="one")
    guests = under(trials(draw, lambda: [6.0], platform="xen", guests=1, working="one"), "xl")
    assert [each.key.platform for each in summarize_jobs([*under(bare), *under(inside), *guests]).overheads] == ["lxc"]
    assert summarize_jobs([*bare, *under(inside)]).overheads == ()
    assert [each.key.hypervisor for each in summarize_jobs(guests).points] == ["xl"], "they are that hypervisor's own"
    assert [each.key.platform for each in summarize_jobs([*bare, *guests]).overheads] == ["xen"]

    def by(told: dict[str, object]) -> list[JobRecord]:
        return [each.model_copy(update={"attestation": told}) for each in guests]

    connected = by({"driver": "libvirt", "versions": {"libvirt": "9.0", "hypervisor": "Xen 4.17.0"}})
    assert summarize_jobs([*under(bare), *connected]).overheads == (), "they are Xen's, too"
    assert len(summarize_jobs([*bare, *connected]).overheads) == 1
    other = by({"driver": "libvirt", "versions": {"libvirt": "9.0", "hypervisor": "lxc"}})
    assert len(summarize_jobs([*under(bare), *other]).overheads) == 1
    unknown = by({"driver": "command"})
    assert summarize_jobs([*bare, *unknown]).overheads == summarize_jobs([*under(bare), *unknown]).overheads == ()


def test_no_overhead_is_seldom_found_where_there_is_none():
    false = 0
    for seed in range(200):
        draw = random.Random(seed)
        bare = trials(draw, lambda: [4.0], platform="host", guests=1, working="one", spread=0.03)
        same = trials(draw, lambda: [4.0], guests=1, working="one", spread=0.03)
        (found,) = summarize_jobs([*bare, *same]).overheads
        assert found.effect.p is not None
        false += found.effect.p < 0.05
    assert false <= 20  # 10 are expected; more than 20 come in one of 900 such tests


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [(2.0, 3.0, "between guests"), (3.0, 3.0, "between processes"), (1.5, 3.0, "neither"), (1.0, 2.0, "neither")],
)
def test_who_is_kept_apart_is_told_by_the_times(first: float, second: float, word: str):
    draw = random.Random(2)
    alone = trials(draw, lambda: [1.0], working="one", cpu="same")
    beside = trials(draw, lambda: [first, second, second], working="one-two", cpu="same")
    (found,) = summarize_jobs([*alone, *beside]).isolation
    assert found.word == word


def test_isolation_that_is_not_resolved_is_seldom_denied():
    denied, open_ = 0, 0
    for seed in range(100):
        draw = random.Random(seed)
        wide = [
            *trials(draw, lambda: [1.0], working="one", spread=0.2, cpu="same"),
            *trials(draw, lambda: [2.0, 3.0, 3.0], working="one-two", spread=0.2, cpu="same"),
        ]
        (found,) = summarize_jobs(wide).isolation
        denied += found.word == "neither"
        open_ += found.word == "inconclusive"
    assert denied <= 13  # of two intervals at 95 % one misses the truth in some 5 to 10
    assert open_ >= 80


def test_isolation_of_few_blocks_or_on_several_processors_is_not_claimed():
    draw = random.Random(3)
    apart = [
        *trials(draw, lambda: [1.0], working="one", cpu="own"),
        *trials(draw, lambda: [2.0, 3.0, 3.0], working="one-two", cpu="own"),
    ]
    assert not summarize_jobs(apart).isolation
    few = [
        *trials(draw, lambda: [1.0], working="one", blocks=2, cpu="same"),
        *trials(draw, lambda: [2.0, 3.0, 3.0], working="one-two", blocks=2, cpu="same"),
    ]
    assert summarize_jobs(few).isolation[0].word == "too few blocks"
    unpaired = [taken([1.0], working="one", cpu="same"), taken([2.0, 3.0, 3.0], working="one-two", cpu="same", block=2)]
    assert summary_lines(summarize_jobs(unpaired))[-1].endswith("cpu same: too few blocks")


def test_set_ups_are_the_replicates_and_doubtful_trials_do_not_enter():
    draw = random.Random(4)
    good = trials(draw, lambda: [4.0, 4.4])
    bad = [taken([40.0, 44.0], block=9, codes=["other_cpu", "start_skew"])]
    (point,) = summarize_jobs([*bad, *good]).points
    assert point.seconds is not None
    assert (point.seconds.set_ups, point.seconds.trials, point.seconds.scope) == (BLOCKS, 2 * BLOCKS, "set-ups")
    assert point.left_out == {"other_cpu": 1}
    assert point.slowest is not None
    assert point.slowest.maximum < 5
    assert point.jain == pytest.approx(1, abs=0.01)
    assert point.between_guests_sd_s == pytest.approx(0.28, abs=0.05)


def test_the_lines_say_what_was_found():
    draw = random.Random(5)
    records = [
        *trials(draw, lambda: [4.0], platform="host", guests=1, working="one"),
        *trials(draw, lambda: [5.0], guests=1, working="one"),
        *trials(draw, lambda: [1.0], working="one", cpu="same"),
        *trials(draw, lambda: [2.0, 3.0, 3.0], working="one-two", cpu="same"),
    ]
    text = "\n".join(summary_lines(summarize_jobs(records)))
    assert "lxc wait 3, 1 guest, one, cpu any: different, +2" in text
    assert "between guests; 2.0" in text
    assert "(12 trials in 6 set-ups)" in text


def test_limits_of_a_crew_make_it_another_point():
    plain = taken([1.0])
    limited = plain.model_copy(update={"requested": plain.requested.model_copy(update={"cpu_quota_ratio": 0.5})})
    limited = limited.model_copy(update={"plan": limited.plan.model_copy(update={"hash": "job-limited"})})
    assert len(summarize_jobs([plain, limited]).points) == 2


def at(draw: random.Random, platform: str, numbers: Callable[[int], float], working: str = "one") -> list[JobRecord]:
    """Trials with 1, 2, 5 and 10 guests, each of which takes so long."""
    found = []
    for guests in (1, 2, 5, 10):
        seconds = [numbers(guests)] * (guests if working == "all" else 1)
        how = working if guests > 1 else "one"
        found += trials(draw, partial(list, seconds), platform=platform, guests=guests, working=how, spread=0.002)
    return found


@pytest.mark.parametrize(
    ("numbers", "word"),
    [
        (lambda _: 4.0, "flat"),
        (lambda n: 4.0 + 0.4 * n, "grows"),
        (lambda n: 4.0 + 0.1 * n * n, "grows faster than linear"),
        (lambda n: 6.0 - 0.2 * n, "falls"),
    ],
    ids=["flat", "line", "square", "falling"],
)
def test_how_a_job_grows_with_guests_that_only_stand_is_told_by_intervals(numbers: Callable[[int], float], word: str):
    draw = random.Random(6)
    bare = trials(draw, lambda: [4.0], platform="host", guests=1, working="one", spread=0.002)
    (curve,) = summarize_jobs([*bare, *at(draw, "lxc", numbers)]).one_works
    assert curve.word == word
    assert curve.alone_s == pytest.approx(4, rel=0.01)


def test_growth_is_not_claimed_of_wide_intervals_or_few_numbers():
    draw = random.Random(7)
    wide = [
        *trials(draw, lambda: [4.0], guests=1, working="one", spread=0.2),
        *trials(draw, lambda: [4.2], guests=2, working="one", spread=0.2),
        *trials(draw, lambda: [4.4], guests=5, working="one", spread=0.2),
    ]
    assert summarize_jobs(wide).one_works[0].word == "inconclusive"
    assert summarize_jobs(wide[: 4 * BLOCKS]).one_works[0].word == "too few numbers of guests"


def drifting(draw: random.Random, per_guest_s: float, *, drift: float = 0.2) -> list[JobRecord]:
    """A host whose speed differs from block to block, on which all numbers of guests have the same moment."""
    found = []
    for block in range(1, BLOCKS + 1):
        common = draw.gauss(1, drift)
        for guests in (1, 2, 5, 10):
            took = (4.0 + per_guest_s * guests) * common * draw.gauss(1, 0.005)
            found.append(taken([took], guests=guests, working="one", block=block))
    return found


def test_a_drift_between_blocks_is_seldom_called_growth_and_hides_none():
    words = [summarize_jobs(drifting(random.Random(seed), 0.0)).one_works[0].word for seed in range(300)]
    claimed = sum(word in ("grows", "grows faster than linear", "falls") for word in words)
    assert claimed <= 26  # 15 are expected; more than 26 come once in 200 such tests
    found = [summarize_jobs(drifting(random.Random(seed), 0.05)).one_works[0].word for seed in range(40)]
    assert found.count("grows") + found.count("grows faster than linear") >= 38


def test_a_block_that_lacks_a_number_of_guests_does_not_enter_the_line():
    draw = random.Random(11)
    records = drifting(draw, 0.0)
    slow = [taken([40.0], guests=10, working="one", block=9)]
    summary = summarize_jobs([*records, *slow])
    assert summary.one_works[0].fit is not None
    assert summary.one_works[0].fit.blocks == BLOCKS
    only = [each for each in records if each.requested.guests == each.plan.block]
    curve = summarize_jobs(only).one_works[0]
    assert (curve.fit, curve.word) == (None, "too few blocks")
    assert any(
        "one, cpu" not in line and line.endswith(": too few blocks") for line in summary_lines(summarize_jobs(only))
    )
    assert summarize_jobs([each for each in records if each.plan.block < 3]).one_works[0].word == "too few blocks"


def test_of_guests_that_all_work_the_slowest_lie_on_a_line_whose_slope_is_one_job():
    draw = random.Random(8)
    bare = trials(draw, lambda: [4.0], platform="host", guests=1, working="one", spread=0.002)
    (curve,) = summarize_jobs([*bare, *at(draw, "lxc", lambda n: 4.0 * n, "all")]).all_work
    assert curve.fit is not None
    assert curve.fit.slope.mean == pytest.approx(4, rel=0.02)
    assert (curve.fit.blocks, curve.word) == (BLOCKS, None)
    assert [each.key.guests for each in curve.points] == [1, 2, 5, 10]


def test_blocks_of_two_plans_are_not_paired():
    draw = random.Random(9)
    bare = trials(draw, lambda: [4.0], platform="host", guests=1, working="one")
    later = [
        each.model_copy(update={"plan": each.plan.model_copy(update={"name": "another"})})
        for each in trials(draw, lambda: [5.0], guests=1, working="one")
    ]
    (found,) = summarize_jobs([*bare, *later]).overheads
    assert (found.effect.blocks, found.word) == (0, "no claim")


def test_another_program_or_kernel_makes_it_another_point():
    plain = taken([1.0])
    assert plain.program is not None
    other = plain.model_copy(update={"program": plain.program.model_copy(update={"sha256": ("b" * 64,)})})
    newer = plain.model_copy(update={"environment": {"nodes": {"uut": {"facts": {"kernel": "6.99"}}}}})
    distinct = [
        each.model_copy(update={"plan": each.plan.model_copy(update={"hash": f"job-{number}"})})
        for number, each in enumerate((plain, other, newer))
    ]
    assert len(summarize_jobs(distinct).points) == 3


def test_of_a_trial_that_was_taken_again_the_newer_enters():
    old = taken([1.0]).model_copy(update={"started_at": "2026-11-01T00:00:00.000Z", "job_id": "old"})
    summary = summarize_jobs([taken([2.0]), old])
    assert summary.points[0].seconds is not None
    assert summary.points[0].seconds.mean == 2.0
    assert summary.superseded == 1


def test_two_guests_with_one_and_two_copies_have_no_mean_and_no_overhead():
    draw = random.Random(10)
    bare = trials(draw, lambda: [4.0], platform="host", guests=1, working="one")
    summary = summarize_jobs([*bare, *trials(draw, lambda: [8.0, 12.0, 12.0], working="one-two")])
    assert not summary.overheads
    assert [each.seconds for each in summary.points if each.key.working == "one-two"] == [None]
    (point,) = (each for each in summary.points if each.key.working == "one-two")
    first, second = point.times_by_guest
    assert [round(each.mean) for each in first] == [8]
    assert [round(each.mean) for each in second] == [12, 12]
    (line,) = (each for each in summary_lines(summary) if "one-two" in each)
    assert "first guest, one copy 7.9" in line
    assert "second guest, two 11.9" in line


def test_a_trial_of_one_and_two_copies_tells_both_guests_and_no_mean_of_them():
    record = taken([2.0, 3.0, 3.2], working="one-two")
    assert format_times(record) == "first guest 2.000 s; second guest 3.000 s and 3.200 s"
    copies = (record.copies[0].model_copy(update={"seconds": None}), *record.copies[1:])
    assert format_times(record.model_copy(update={"copies": copies})) == (
        "first guest –; second guest 3.000 s and 3.200 s"
    )


def test_a_stored_trial_of_one_and_two_copies_that_lacks_one_does_not_enter():
    record = taken([2.0, 3.0], working="one-two")
    (point,) = summarize_jobs([record]).points
    assert (point.apart, point.left_out) == ((), {"no time": 1})


def test_a_valid_record_without_times_is_left_out_and_said():
    empty = taken([1.0])
    copy = empty.copies[0].model_copy(update={"seconds": None})
    (point,) = summarize_jobs([empty.model_copy(update={"copies": (copy,)})]).points
    assert (point.seconds, point.left_out) == (None, {"no time": 1})


def test_trials_of_one_job_under_different_limits_are_points_beside_each_other():
    """Some with weights, some with a quota, some with neither: None and a tuple cannot be put in order by themselves."""
    records = []
    for place, (shares, quota_ratio) in enumerate([(None, 0.5), ((2048, 1024), None), (None, None), ((20,), 0.5)]):
        record = taken([1.0, 1.0], block=place + 1)
        record.requested.__dict__.update(cpu_shares=shares, cpu_quota_ratio=quota_ratio)
        records.append(record)
    summary = summarize_jobs(records)
    assert len(summary.points) == 4
    lines = "\n".join(summary_lines(summary))
    for words in ("cpu any, quota 0.5:", "cpu any, weights 2048:1024:", "cpu any:", "cpu any, weights 20, quota 0.5:"):
        assert words in lines


def test_a_trial_of_the_bare_host_that_came_to_nothing_is_left_out_of_the_point_of_the_others():
    """Of its guests nothing was seen, so that it does not say by itself that a plan's memory is not theirs."""
    capped = {"memory_mib": 256}
    records = [taken([4.0], platform="host", guests=1, working="one", block=block) for block in (1, 2, 3)]
    records = [each.model_copy(update={"requested": each.requested.model_copy(update=capped)}) for each in records]
    (point,) = summarize_jobs([unseen(records[0]), *records[1:]]).points
    assert (point.left_out, len(point.job_ids), point.key.crew) == ({"guests_missing": 1}, 2, ())
