"""Which trials of guests may be held against each other: by their block, boot, stretch, and the order they were begun in."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.summary import summarize_jobs
from labconsole.measure.paired_blocks import NOT_RANDOMIZED, Blocks, uut_kernel
from labconsole.measure.statistics.effects import FEW_KINDS
from support.job_records import job_record, taken

BOOT = {"nodes": {"uut": {"facts": {"boot_id": "boot-1"}}}}


def trial(seconds: float, platform: str, block: int, at: str, *, boot: str | None = "boot-1", **plan: Any) -> JobRecord:
    """One guest that took so long, begun at this time of November 2026."""
    record = taken([seconds], platform=platform, guests=1, working="one", block=block)
    facts = {} if boot is None else {"boot_id": boot}
    return record.model_copy(
        update={
            "started_at": f"2026-11-{at}:00.000Z",
            "environment": {"nodes": {"uut": {"facts": facts}}},
            "plan": record.plan.model_copy(update={**plan, "hash": f"{platform}-{block}-{at}"}),
        }
    )


def seconds_of(record: JobRecord) -> float | None:
    return record.copies[0].seconds


def effect(ours: Sequence[JobRecord], theirs: Sequence[JobRecord]) -> Any:
    return Blocks([*ours, *theirs]).effect(ours, theirs, seconds_of)


def in_turn(count: int = 4, **how: Any) -> tuple[list[JobRecord], list[JobRecord]]:
    """Two platforms in the same blocks, the one first that was second before; lxc takes a tenth longer."""
    rng = random.Random(1)
    found: tuple[list[JobRecord], list[JobRecord]] = ([], [])
    for block in range(1, count + 1):
        minutes = ("10", "20") if block % 2 else ("20", "10")
        for place, (platform, factor) in enumerate((("host", 1.0), ("lxc", 1.1))):
            seconds = factor * (1 + rng.gauss(0, 0.001))
            found[place].append(trial(seconds, platform, block, f"{block:02}T10:{minutes[place]}", **how))
    return found


def test_trials_of_one_block_are_paired():
    host, lxc = in_turn()
    found = effect(lxc, host)
    assert found.blocks == 4 and found.paired
    assert found.change == pytest.approx(0.1, abs=0.005)
    assert found.p < 0.001


@pytest.mark.parametrize(
    ("count", "moves", "off", "claims"),
    [(3, 0.05, 0.0, False), (3, 0.0, 0.0, True), (3, 0.05, 1e-4, True), (4, 0.05, 0.0, True)],
)
def test_three_blocks_that_move_by_one_ratio_claim_nothing(count, moves, off, claims):
    """Noise of two values does so, and no measured one."""
    sides: tuple[list[JobRecord], list[JobRecord]] = ([], [])
    for block in range(1, count + 1):
        for place, (platform, factor) in enumerate((("host", 1.0), ("lxc", 1.1))):
            minute = "10" if (block + place) % 2 else "20"
            seconds = factor * (4 + moves * block) * (1 + off * place * block)
            sides[place].append(trial(seconds, platform, block, f"{block:02}T10:{minute}"))
    host, lxc = sides
    blocks = Blocks([*host, *lxc])
    found = blocks.effect(lxc, host, seconds_of, packets=1e6)
    assert (found.p is not None) is claims
    assert (found.absent == FEW_KINDS) is not claims


def test_blocks_of_two_calls_are_not_each_others():
    """Both calls are of the command line: of one name, with blocks from 1."""
    host, _ = in_turn()
    later = [trial(1.1, "lxc", block, f"{10 + block}T10:10") for block in range(1, 5)]
    found = effect(later, host)
    assert (found.blocks, found.p) == (0, None)


def test_a_block_that_was_parted_by_another_is_no_pair():
    host, lxc = in_turn()
    lxc[0] = trial(1.1, "lxc", 1, "09T10:10")  # taken again, after all other blocks
    assert effect(lxc, host).blocks == 3


def test_plans_of_one_name_and_two_contents_are_not_each_others():
    host, _ = in_turn(plan_hash="a" * 16)
    _, lxc = in_turn(plan_hash="b" * 16)
    assert effect(lxc, host).blocks == 0


@pytest.mark.parametrize("boot", [None, "boot-2"])
def test_trials_of_two_boots_or_of_unknown_ones_are_no_pair(boot: str | None):
    host, _ = in_turn()
    _, lxc = in_turn(boot=boot)
    assert effect(lxc, host).p is None


def test_over_three_boots_a_side_platforms_that_need_different_ones_are_compared():
    host = [trial(1 + 0.001 * n, "host", n, f"0{n}T10:10", boot=f"linux-{n}") for n in range(1, 5)]
    lxc = [trial(1.1 + 0.001 * n, "lxc", n, f"0{n}T12:10", boot=f"xen-{n}") for n in range(1, 5)]
    found = effect(lxc, host)
    assert not found.paired and found.blocks == 4
    assert found.p < 0.001


def test_nothing_is_claimed_where_all_blocks_took_them_in_the_same_order():
    """With a drift within blocks, equal platforms would be called different each time."""
    host, lxc = [], []
    for block in range(1, 7):
        host.append(trial(1.0 + 0.0001 * block, "host", block, f"{block:02}T10:10"))
        lxc.append(trial(1.02 + 0.0001 * block, "lxc", block, f"{block:02}T10:40"))
    found = effect(lxc, host)
    assert (found.p, found.ci_low, found.absent) == (None, None, NOT_RANDOMIZED)
    assert found.change == pytest.approx(0.02, abs=0.001)


def test_a_summary_claims_nothing_of_platforms_that_were_taken_one_after_the_other():
    host = [trial(1.0 + 0.001 * block, "host", block, f"{block:02}T10:10") for block in range(1, 6)]
    lxc = [trial(1.3 + 0.001 * block, "lxc", block, f"{10 + block}T10:10") for block in range(1, 6)]
    (overhead,) = summarize_jobs([*host, *lxc]).overheads
    assert overhead.word == "no claim"
    drawn_host, drawn_lxc = in_turn(6)
    (claimed,) = summarize_jobs([*drawn_host, *drawn_lxc]).overheads
    assert claimed.word == "different"


def test_no_false_difference_of_equal_platforms_under_a_drift_between_calls():
    rng = random.Random(7)
    false = 0
    for _ in range(100):
        host = [trial(1 + rng.gauss(0, 0.002), "host", block, f"{block:02}T10:10") for block in range(1, 6)]
        lxc = [trial(1.02 + rng.gauss(0, 0.002), "lxc", block, f"{10 + block}T10:10") for block in range(1, 6)]
        (overhead,) = summarize_jobs([*host, *lxc]).overheads
        false += overhead.word.startswith("different")
    assert false == 0


def four(block: int, at: tuple[str, str, str, str], *, host: float, lxc: float, tilt: float) -> list[JobRecord]:
    """Two pairs of a block: lxc takes ``lxc`` times as long as the host, in the second pair ``tilt`` times that."""
    day = f"{block:02}T"
    values = (host, host * lxc, 2 * host, 2 * host * lxc * tilt)
    names = ("host", "lxc", "host2", "lxc2")
    return [trial(seconds, name, block, day + time) for seconds, name, time in zip(values, names, at, strict=True)]


def test_the_mean_of_several_effects_has_one_value_a_block():
    rng = random.Random(3)
    ratios = [(1.1 * (1 + rng.gauss(0, 0.01)), 1 + rng.gauss(0, 0.02)) for _ in range(6)]
    turns = (("10:10", "10:20", "10:30", "10:40"), ("10:40", "10:30", "10:20", "10:10"))
    every = [four(n + 1, turns[n % 2], host=1.0 + n, lxc=lxc, tilt=tilt) for n, (lxc, tilt) in enumerate(ratios)]
    host, lxc, host2, lxc2 = ([block[place] for block in every] for place in range(4))
    blocks = Blocks([each for block in every for each in block])
    logs = [math.log(a) + math.log(b) / 2 for a, b in ratios]
    found = blocks.mean_effect([(lxc, host), (lxc2, host2)], seconds_of)
    assert found.blocks == 6
    assert found.mean_log == pytest.approx(statistics.fmean(logs))
    assert found.sd_log == pytest.approx(statistics.stdev(logs))
    apart = blocks.effects_apart((lxc2, host2), (lxc, host), seconds_of)
    tilts = [math.log(tilt) for _, tilt in ratios]
    assert apart.mean_log == pytest.approx(statistics.fmean(tilts))
    assert apart.sd_log == pytest.approx(statistics.stdev(tilts))
    assert apart.change == pytest.approx(math.expm1(statistics.fmean(tilts)))
    reach = 2.5706 * statistics.stdev(tilts) / math.sqrt(6)  # t(0.975, 5)
    assert apart.ci_high == pytest.approx(math.expm1(statistics.fmean(tilts) + reach), rel=1e-3)
    # A block that lacks one of the four is in neither.
    assert blocks.mean_effect([(lxc, host), (lxc2[1:], host2)], seconds_of).blocks == 5
    few = blocks.mean_effect([(lxc[:2], host[:2]), (lxc2, host2)], seconds_of)
    assert (few.blocks, few.p) == (2, None)
    assert blocks.mean_effect([(lxc, host), ([], host2)], seconds_of).blocks == 0


def test_a_mean_of_effects_of_which_one_was_not_drawn_claims_nothing():
    same = ("10:10", "10:20", "10:40", "10:30")
    other = ("10:20", "10:10", "10:40", "10:30")
    every = [four(n + 1, (same, other)[n % 2], host=1.0, lxc=1.1 + 0.001 * n, tilt=1.0 + 0.001 * n) for n in range(6)]
    host, lxc, host2, lxc2 = ([block[place] for block in every] for place in range(4))
    blocks = Blocks([each for block in every for each in block])
    assert blocks.effect(lxc, host, seconds_of).p is not None
    found = blocks.mean_effect([(lxc, host), (lxc2, host2)], seconds_of)
    assert (found.p, found.absent) == (None, NOT_RANDOMIZED)


def test_a_mean_of_many_effects_of_large_values_is_a_number():
    host, lxc = in_turn(4)
    pairs = [(lxc, host)] * 90
    blocks = Blocks([*host, *lxc])
    found = blocks.mean_effect(pairs, lambda record: 1e7 * (record.copies[0].seconds or 0.0))
    assert found.change == pytest.approx(0.1, abs=0.005)
    zero = blocks.mean_effect(pairs, lambda record: 0.0)
    assert (zero.p, zero.absent) == (None, "baseline is zero")


def test_one_block_of_many_in_the_other_order_is_no_draw():
    host, lxc = [], []
    for block in range(1, 13):
        late = block != 5
        host.append(trial(1.0 + 0.0001 * block, "host", block, f"{block:02}T10:{'10' if late else '40'}"))
        lxc.append(trial(1.005 + 0.0001 * block, "lxc", block, f"{block:02}T10:{'40' if late else '10'}"))
    assert effect(lxc, host).absent == NOT_RANDOMIZED


def test_a_record_says_its_boot_in_the_facts_of_the_unit_under_test():
    data = job_record_data()
    data["environment"]["nodes"] = {"snk1": {"facts": {"boot_id": "other"}}, "uut": {"facts": {"boot_id": "own"}}}
    record = job_record(data)
    (block,) = Blocks([record]).means([record], seconds_of)
    assert block.boot_id == "own"


def job_record_data() -> dict[str, Any]:
    from support.job_records import job_data

    return job_data()


def under(record: JobRecord, **attestation: Any) -> JobRecord:
    return record.model_copy(update={"attestation": attestation})


def test_trials_under_another_hypervisor_or_of_another_image_are_of_another_point():
    versions = ({"qemu": "7.2.0", "initrd": "aa"}, {"qemu": "9.1.0", "initrd": "aa"}, {"qemu": "9.1.0", "initrd": "bb"})
    records = [
        under(trial(1.0, "qemu", block, f"{block:02}T10:10"), driver="qemu", versions=told)
        for block, told in enumerate(versions, start=1)
    ]
    points = summarize_jobs(records).points
    assert [each.key.hypervisor for each in points] == [
        "qemu initrd aa, qemu 7.2.0",
        "qemu initrd aa, qemu 9.1.0",
        "qemu initrd bb, qemu 9.1.0",
    ]


def test_a_trial_that_ended_before_its_guests_were_looked_at_is_left_out_of_the_point_that_it_was_for():
    host, lxc = in_turn()
    attested = [under(each, driver="lxc", versions={"lxc": "5.0.2"}) for each in lxc]
    came_to_nothing = taken([], platform="lxc", guests=1, working="one", block=9, codes=("guests_missing",))
    ended = under(came_to_nothing).model_copy(update={"status": "failed"})
    summary = summarize_jobs([*(under(each, driver="raw") for each in host), *attested, ended])
    assert [(each.key.platform, sum(each.left_out.values())) for each in summary.points] == [("host", 0), ("lxc", 1)]
    (overhead,) = summary.overheads  # the bare host has another hypervisor, and is what guests are compared with
    assert overhead.effect.blocks == 4


def test_a_trial_that_was_taken_again_out_of_its_turn_is_no_drawn_order():
    """All blocks began host before lxc; a retake on resume does not make that a drawn order."""
    host = [trial(1.0 + 0.0001 * n, "host", n, f"{n:02}T10:10", plan_hash="a" * 16) for n in range(1, 7)]
    lxc = [trial(1.02 + 0.0001 * n, "lxc", n, f"{n:02}T10:40", plan_hash="a" * 16) for n in range(1, 7)]
    again = trial(1.0, "host", 6, "06T10:50", plan_hash="a" * 16)
    blocks = Blocks([*host, *lxc, again])
    found = blocks.effect(lxc, [*host[:-1], again], seconds_of)
    assert (found.blocks, found.absent) == (6, NOT_RANDOMIZED)


def crew(block: int, at: str, seconds: list[float], working: str, set_up: str) -> JobRecord:
    record = taken(seconds, guests=2, working=working, cpu="same", block=block)
    return record.model_copy(
        update={
            "started_at": f"2026-11-{at}:00.000Z",
            "environment": BOOT,
            "set_up": record.set_up.model_copy(update={"id": set_up}),
            "plan": record.plan.model_copy(update={"hash": f"{working}-{block}-{at}"}),
        }
    )


def of_crews(*, drawn: bool, crews: int = 1) -> list[JobRecord]:
    found = []
    for block in range(1, 6):
        minutes = ("10", "20") if block % 2 or not drawn else ("20", "10")
        wobble = 1 + 0.001 * block
        found.append(crew(block, f"{block:02}T10:{minutes[0]}", [1.0 * wobble], "one", f"{block}-0"))
        times = [2.0, 3.0 * wobble, 3.0]
        found.append(crew(block, f"{block:02}T10:{minutes[1]}", times, "one-two", f"{block}-{crews - 1}"))
    return found


def test_isolation_is_found_within_crews_and_claims_nothing_without_a_drawn_order_or_across_crews():
    (found,) = summarize_jobs(of_crews(drawn=True)).isolation
    assert found.word == "between guests"
    (fixed,) = summarize_jobs(of_crews(drawn=False)).isolation
    assert (fixed.word, fixed.first.absent) == ("inconclusive", NOT_RANDOMIZED)
    (apart,) = summarize_jobs(of_crews(drawn=True, crews=2)).isolation
    assert (apart.word, apart.first.blocks) == ("too few blocks", 0)


def test_growth_is_not_claimed_of_numbers_that_every_block_went_through_in_one_order():
    """A machine that becomes slower by a hundredth from trial to trial."""

    def climbed(reverse: bool) -> list[JobRecord]:
        found = []
        for block in range(1, 6):
            numbers = (1, 2, 3, 4)[:: -1 if reverse and block % 2 == 0 else 1]
            for place, guests in enumerate(numbers):
                record = taken([(1 + 0.01 * place) * (1 + 0.0005 * block)], guests=guests, working="one", block=block)
                at = {"started_at": f"2026-11-{block:02}T10:1{place}:00.000Z", "environment": BOOT}
                found.append(record.model_copy(update=at))
        return found

    (fixed,) = summarize_jobs(climbed(reverse=False)).one_works
    assert fixed.word == NOT_RANDOMIZED
    (drawn,) = summarize_jobs(climbed(reverse=True)).one_works
    assert drawn.word != "grows"


def test_seconds_that_a_guest_adds_have_no_interval_where_nothing_is_claimed():
    host = [trial(1.0 + 0.0001 * n, "host", n, f"{n:02}T10:10") for n in range(1, 7)]
    lxc = [trial(1.02 + 0.0001 * n, "lxc", n, f"{n:02}T10:40") for n in range(1, 7)]
    (overhead,) = summarize_jobs([*host, *lxc]).overheads
    assert (overhead.word, overhead.added_s) == ("no claim", None)


def test_of_many_nodes_the_one_that_the_record_names_is_the_unit_under_test():
    """A source is no timekeeper, and comes before it by name."""
    data = job_record_data()
    facts = {name: {"facts": {"boot_id": f"of {name}", "kernel": f"of {name}"}} for name in ("snk1", "src1", "uut")}
    data["environment"] = {"uut": "uut", "nodes": facts}
    record = job_record(data).model_copy(update={"timekeeper": None})
    (block,) = Blocks([record]).means([record], seconds_of)
    assert (block.boot_id, uut_kernel(record)) == ("of uut", "of uut")
