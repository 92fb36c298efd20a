"""Weights over time and work on a disk beside senders: what is asked, what follows, what is told of what went wrong."""

from __future__ import annotations

import asyncio
import html
import re
import time
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from labconsole.cli.main import main
from labconsole.experiments.flow.disk import DiskWorker, disk_reasons
from labconsole.experiments.flow.kind import KIND as FLOW_KIND
from labconsole.experiments.flow.limiters import build_rate_limit
from labconsole.experiments.flow.live_view import SendingWatch, SharingWatch, build_moments, build_picture
from labconsole.experiments.flow.plan import FlowFactors, FlowPoint, PlannedFlows, flow_points
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.record import FlowRecord, LimiterRecord, WeightsRecord
from labconsole.experiments.flow.send_measurement import SharedQueueMonitor
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.experiments.flow.units.papers import weighed_topic
from labconsole.experiments.flow.verify import recompute_disk, recompute_flow, recompute_weights
from labconsole.experiments.flow.weights import (
    build_queue,
    derive_weights,
    describe_applied_weights,
    weight_reasons,
    weights_misfit,
)
from labconsole.model.flow_scenarios import DiskBeside, WeightSteps
from labconsole.model.plan.crews import CrewTrial
from labconsole.model.plan.loader import load_plan
from labconsole.network.traffic_control import RateLimit, SharedQueue
from labconsole.report.trial_text import trial_lines
from labconsole.store.open import open_store
from labconsole.wire.counters import CountersSampled
from labconsole.wire.queues import ChangeRates, QueueClass, QueueState, RatesTaken, TakenChange, TakenChanges
from support.flow_records import ORIGIN_NS, flow_record
from support.flow_scenarios import ALL_BPS, BEGUN_NS, SECOND, stalled, steps_of, taken, weighted
from support.guest_plans import hash_of


def seen_of(record: FlowRecord) -> WeightsRecord:
    assert record.weights is not None
    return record.weights


def codes(record: FlowRecord) -> list[str]:
    return [each.code for each in weight_reasons(record.requested, record.weights)]


def test_weights_are_read_and_divide_a_link():
    steps = steps_of("30:1", "1:1")
    assert steps.steps == ((30, 1), (1, 1))
    assert steps.rates_bps(31_000_000, (31_000_000, 31_000_000)) == [[30_000_000, 1_000_000], [15_500_000, 15_500_000]]
    assert steps.rates_bps(31_000_000, (20_000_000, 31_000_000))[0] == [20_000_000, 1_000_000]
    assert WeightSteps.model_validate(steps.model_dump(mode="json")) == steps


@pytest.mark.parametrize("bad", ["30", "30:0", "1:1001", "a:b", 1801, [1], [1.5, 2], True, None])
def test_what_is_no_weights_is_refused(bad: Any):
    with pytest.raises(ValidationError, match="are not weights"):
        WeightSteps.model_validate({"steps": [bad]})


@pytest.mark.parametrize(
    ("factors", "complaint"),
    [
        ({"weights": {"steps": ["1:1:1"]}}, "weights are for 3 guests"),
        ({"weights": {"steps": ["1:1", "1:2"]}, "bin_s": 0.5}, "at most 0.267 s"),
        ({"weights": {"steps": ["1:1"] * 11}, "bin_s": 0.1}, "ends before the last step"),
        ({"disk": {"job": "cpu-pi"}}, "disk-mixed"),
        ({"disk": {"from_s": 5.0, "to_s": 5.5}}, "to_s is not after from_s"),
        ({"disk": {"from_s": 1.0, "to_s": 5.0}}, "too few bins"),
        ({"disk": {"from_s": 4.0, "to_s": 9.0}}, "too few bins"),
        ({"disk": {"from_s": 4.0, "to_s": 6.0}, "guests": [1, 2]}, "no guest that sends"),
        ({"disk": {"from_s": 4.0, "to_s": 6.0}, "weights": {"steps": ["1:1"]}}, "disk and weights cannot be combined"),
    ],
)
def test_what_cannot_be_is_refused(factors: dict[str, Any], complaint: str):
    with pytest.raises(ValidationError, match=complaint):
        FlowFactors.model_validate({"guests": [2], **factors})


def test_points_without_either_keep_their_hash():
    factors = FlowFactors(guests=(2,))
    (point,) = flow_points(factors, ["lxc"])
    trial: CrewTrial[FlowPoint] = CrewTrial(point, 1, 1, 1)
    assert hash_of(PlannedFlows, factors, trial) == "flow-c5387345864e6a0f", "as before there were any"
    assert hash_of(PlannedFlows, factors, trial) == hash_of(
        PlannedFlows, FlowFactors(guests=(2,), weights=(None,), disk=(None,)), trial
    )
    both = FlowFactors.model_validate({"guests": [2], "weights": ["none", {"steps": ["1:1"]}]})
    hashes = {hash_of(PlannedFlows, both, CrewTrial(each, 1, 1, 1)) for each in flow_points(both, ["lxc"])}
    assert len(hashes) == 2 and hash_of(PlannedFlows, factors, trial) in hashes


def test_a_queue_is_of_less_than_the_link_and_classes_of_their_weights():
    point = flow_points(
        FlowFactors.model_validate({"guests": [2], "bin_s": 0.1, "weights": {"steps": ["3:1"]}}), ["l"]
    )[0]
    assert point.weights is not None
    guests = [DiskOrNot("198.18.64.1", "lcg1"), DiskOrNot("198.18.64.2", "lcg2")]
    queue, changes = build_queue(point, point.weights, guests, 100_000_000, 60.0)
    assert queue.rate_bps == ALL_BPS == pytest.approx(0.985 * 100e6 * 1514 / 1538, abs=1)
    assert [each.rate_bps for each in queue.guests] == [ALL_BPS * 3 // 4, ALL_BPS // 4]
    assert [each.most_bps for each in queue.guests] == [ALL_BPS, ALL_BPS]
    assert changes.rates_bps == [[ALL_BPS * 3 // 4, ALL_BPS // 4]]


@pytest.mark.parametrize(
    ("weights", "link_speed_bps", "misfit"),
    [
        ("3:1", 100_000_000, None),
        ("1000:1", 10_000_000, None),
        ("1000:1", 1_000_000, "1000:1 of the link are"),
        ("1:1:1", 1000 * 10**9, "lets 680000000000 bit/s through at most"),
        ("1:1:1", 34 * 10**9, None),
        ("1:1:1", 100 * 10**9, None),  # more than the old field of 32 bits has: 34 359 738 360 bit/s
    ],
)
def test_weights_that_no_queue_can_have_are_refused_beforehand(weights: str, link_speed_bps: int, misfit: str | None):
    guests = weights.count(":") + 1
    told = {"guests": [guests], "bin_s": 0.1, "payload_bytes": [64], "weights": {"steps": [weights]}}
    (point,) = flow_points(FlowFactors.model_validate(told), ["l"])
    said = weights_misfit(point, link_speed_bps)
    if misfit is not None:
        assert misfit in (said or "")
        return
    assert said is None and point.weights is not None
    sharers = [DiskOrNot(f"198.18.64.{number}", f"lcg{number}") for number in range(guests)]
    queue, changes = build_queue(point, point.weights, sharers, link_speed_bps, 60.0)
    told = {key: value for key, value in queue.to_wire().items() if key != "do"}
    assert SharedQueue.parse(told) == queue
    assert ChangeRates.parse(changes.to_wire()) == changes


@pytest.mark.parametrize(("limit_bps", "fits"), [(20_000, False), (40_000, True)])
def test_a_limit_that_the_queues_burst_does_not_fit_is_refused(limit_bps: int, fits: bool):
    """The kernel has a burst as time in 32 bits of 64 ns (sch_htb, psched): 274 s, and 1 ms of 10 Gbit/s here."""
    told = {"guests": [2], "bin_s": 0.1, "limits": [[limit_bps]], "weights": {"steps": ["1:1"]}}
    (point,) = flow_points(FlowFactors.model_validate(told), ["l"])
    said = weights_misfit(point, 10**10)
    assert said is None if fits else "bytes of burst gives a guest" in (said or "")


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        ("40Gbit", None),
        (34_359_738_368, None),
        (["30Mbit", "680Gbit"], None),
        ("681Gbit", "has too high a limit, 681000000000 bit/s | allowed: 8000 to 680000000000 bit/s"),
        (["30Mbit", 7999], "has too low a limit, 7999 bit/s"),
    ],
)
def test_limits_that_load_can_be_set(limits: Any, refusal: str | None):
    told = {"limits": [limits]}
    if refusal is not None:
        with pytest.raises(ValidationError, match=re.escape(refusal)):
            FlowFactors.model_validate(told)
        return
    for rate_bps in FlowFactors.model_validate(told).limits[0]:
        wire = {key: value for key, value in build_rate_limit("lcg1", 1, rate_bps).to_wire().items() if key != "do"}
        assert RateLimit.parse(wire).rate_bps == rate_bps


class DiskOrNot:
    def __init__(self, address: str, host_interface: str) -> None:
        self.address, self.host_interface = address, host_interface


def test_shares_that_are_as_weights_have_no_error_and_others_have_theirs():
    record = weighted(steps_of("3:1", "1:1", "1:3"), (0.75, 0.5, 0.35))
    errors = [each.error_ratio for each in seen_of(record).steps]
    assert errors == [pytest.approx(0.0), pytest.approx(0.0), pytest.approx(0.10)]
    assert seen_of(record).mean_error_ratio == pytest.approx(0.1 / 3)
    assert [(each.first_bin, each.stop_bin) for each in seen_of(record).steps] == [(2, 10), (12, 20), (22, 30)]
    assert codes(record) == []
    assert list(recompute_weights(record)) == []


def test_a_late_change_moves_the_bins_and_is_told():
    steps = steps_of("3:1", "1:3")
    record = weighted(steps, (0.75, 0.25), taken(steps, (0, 150_000_000)))
    assert seen_of(record).steps[1].first_bin == 14
    assert codes(record) == ["weights_late"]
    assert list(recompute_weights(record)) == []


def test_a_change_that_was_not_made_is_told_with_the_kernels_word():
    steps = steps_of("3:1", "1:3")
    record = weighted(steps, (0.75, 0.75), taken(steps, (0, None)))
    (found,) = weight_reasons(record.requested, record.weights)
    assert found.code == "weights_missing" and "No such file" in found.detail and "1:3" in found.detail
    assert seen_of(record).mean_error_ratio is None


def test_rates_that_are_others_when_they_are_read_back_are_told():
    steps = steps_of("3:1", "1:3")
    said = taken(steps)
    wrong = TakenChange(**{**said.changes[0].to_wire(), "kept_bps": [10_000_000, None]})
    record = weighted(
        steps,
        (0.75, 0.25),
        TakenChanges(looked_ns=BEGUN_NS - 2_000_000, begun_ns=BEGUN_NS, changes=[wrong, said.changes[1]]),
    )
    (found,) = weight_reasons(record.requested, record.weights)
    assert found.code == "weights_missing" and "10000000, none" in found.detail


@pytest.mark.parametrize("said", [None, TakenChanges(looked_ns=BEGUN_NS - 2_000_000, begun_ns=None, changes=[])])
def test_weights_that_nothing_is_known_of_are_told(said: TakenChanges | None):
    record = weighted(steps_of("3:1"), (0.75,))
    requested, flows = record.requested, record.flows
    seen = derive_weights(requested, flows, ["g1", "g2"], (0, 10), all_bps=ALL_BPS, taken=said, kept_bps=())
    assert [each.code for each in weight_reasons(requested, seen)] == ["weights_missing"]


def test_guests_that_do_not_want_all_of_the_link_are_told():
    steps = steps_of("1:1")
    base = weighted(steps, (0.5, 0.5))
    little = flow_record([[200] * 20, [200] * 20], bin_s=0.1)
    seen = derive_weights(
        base.requested,
        little.flows,
        ["g1", "g2"],
        (0, 20),
        all_bps=ALL_BPS,
        taken=taken(steps),
        kept_bps=taken(steps).changes[0].rates_bps,
    )
    assert [each.code for each in weight_reasons(base.requested, seen)] == ["offered_short"]


@pytest.mark.parametrize(
    "change",
    [
        {"error_ratio": 0.5},
        {"first_bin": 1},
        {"stop_bin": 9},
        {"share_ratios": (0.5, 0.5)},
        {"filled_ratio": 0.1},
        {"due_s": 0.5},
    ],
    ids=str,
)
def test_a_step_that_does_not_follow_is_found(change: dict[str, Any]):
    record = weighted(steps_of("3:1", "1:3"), (0.75, 0.25))
    steps = seen_of(record).steps
    forged = seen_of(record).model_copy(update={"steps": (steps[0].model_copy(update=change), steps[1])})
    assert list(recompute_weights(record.model_copy(update={"weights": forged})))


def test_the_summary_has_every_step():
    record = weighted(steps_of("3:1", "1:3"), (0.75, 0.25))
    (point,) = summarize_flows([record]).points
    assert [each.due_ratio for each in point.weight_steps] == [0.75, 0.25]
    assert [each.first_share_ratio and each.first_share_ratio.mean for each in point.weight_steps] == [0.75, 0.25]
    assert point.weight_error is not None and "weights 3:1 to 1:3" in point.key.scenario


def test_whoever_watches_sees_when_things_change():
    assert build_moments(5.0) == ((5.0, "the others begin"),)
    assert [at_s for at_s, _ in build_moments(0.0, DiskBeside(from_s=3, to_s=6))] == [3, 6]


def test_weights_are_marked_when_they_took_effect_and_not_when_they_were_due():
    steps = steps_of("1:1", "1:3", "3:1")
    over_time = build_picture(weighted(steps, [0.5, 0.25, 0.75], taken(steps, [0, 4_000_000, None])), ()).over_time
    assert over_time is not None and over_time.moments == ((0.0, "1:1"), (1.004, "1:3"))


def test_weights_are_told_as_they_take_effect():
    steps = steps_of("3:1", "1:3")
    (point,) = flow_points(FlowFactors.model_validate({"guests": [2], "bin_s": 0.1, "weights": [steps]}), ["l"])
    guests = [DiskOrNot("198.18.64.1", "lcg1"), DiskOrNot("198.18.64.2", "lcg2")]
    _, changing = build_queue(point, steps, guests, 100_000_000, 60.0)
    watch = SendingWatch({3: "g1", 4: "g2"})
    watch.mark(BEGUN_NS, "lost: nothing was seen yet")
    sample = {"monotonic_ns": BEGUN_NS, "wall_ns": 2, "missed": 0, "late": False, "namespaces": {"": [[3, 25, [0]]]}}
    assert not watch.see(CountersSampled.parse(sample))
    for place, rates_bps in enumerate([*changing.rates_bps, changing.rates_bps[0]]):
        taken = RatesTaken(
            queue="lcqw", place=min(place, 1), taken_ns=BEGUN_NS + place * SECOND, rates_bps=[*rates_bps]
        )
        watch.mark(taken.taken_ns, describe_applied_weights(taken, steps, changing))
    assert watch.shown().moments == ((0.0, "3:1"), (1.0, "1:3"), (2.0, "not 1:3"))


def test_the_queue_is_looked_at_but_not_when_weights_are_about_to_change(monkeypatch: pytest.MonkeyPatch):
    steps = steps_of("3:1", "1:3")
    (point,) = flow_points(FlowFactors.model_validate({"guests": [2], "bin_s": 0.1, "weights": [steps]}), ["l"])
    _, changing = build_queue(
        point, steps, [DiskOrNot("198.18.64.1", "lcg1"), DiskOrNot("198.18.64.2", "lcg2")], 10**8, 60.0
    )
    now_s, asked_s, shown = [5.0], list[float](), list[int]()

    class Uut:
        monotonic_offset_ns = 0

        async def ask(self, request: Any) -> QueueState:
            asked_s.append(now_s[0])
            packets = [round(1000 * now_s[0]), round(3000 * now_s[0]), None][: 2 if now_s[0] < 6.5 else 3]
            return QueueState(
                classes=[QueueClass(rate_bps=1, most_bps=1, packets=each, dropped_packets=0) for each in packets]
            )

    async def sleep(seconds: float) -> None:
        now_s[0] += 0.05
        if 6.005 <= now_s[0] < 6.055:
            looks.hear(RatesTaken(queue="lcqw", place=1, taken_ns=6 * SECOND, rates_bps=[*changing.rates_bps[1]]))
        if now_s[0] > 7.5:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic_ns", lambda: round(now_s[0] * SECOND))
    watch = SharingWatch(["g1", "g2"], 1250)
    looks = SharedQueueMonitor(cast(Any, Uut()), changing, steps, watch, lambda: shown.append(1))
    watch.see_classes(5 * SECOND, asyncio.run(Uut().ask(None)))
    looks.hear(RatesTaken(queue="lcqw", place=0, taken_ns=5 * SECOND, rates_bps=[*changing.rates_bps[0]]))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(looks.look())
    assert not [at for at in asked_s if 5.86 < at < 6.0] and [at for at in asked_s if 6 < at < 6.1], asked_s
    assert [at for at in asked_s if 6.9 < at < 7.0], "after the last change any time will do"
    one, other = watch.shown().curves
    assert one.values == pytest.approx([10.0] * len(one.values), rel=0.01)
    assert other.values == pytest.approx([30.0] * len(other.values), rel=0.01) and len(shown) > 8
    assert [words for _, words in watch.shown().moments] == ["3:1", "1:3"]
    assert "through" in watch.shown().title


def test_limits_that_were_read_back_are_lines_across():
    of = {
        name: LimiterRecord(
            kind="tbf on ifb",
            interface="lcq1",
            rate_bps=rate_bps,
            burst_bytes=None,
            passed_packets=0,
            dropped_packets=0,
        )
        for name, rate_bps in (("g1", 40_000_000), ("g2", 30_000_000), ("g3", 40_000_000), ("g4", None))
    }
    assert SendingWatch({}, limiters=of).shown().levels == (
        (30.0, "g2 ≤ 30 Mbit/s"),
        (40.0, "g1, g3 ≤ 40 Mbit/s"),
    )


# -- a disk ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("during", "ratio"), [(0, 0.0), (500, 0.5), (1000, 1.0)])
def test_what_the_others_lose_beside_work_on_a_disk_is_found(during: int, ratio: float):
    record = stalled(during)
    assert record.disk is not None
    assert (record.disk.before_bins, record.disk.during_bins) == ((0, 4), (4, 6))
    assert record.disk.during_ratio == pytest.approx(ratio)
    assert record.disk.recovered_s == 0
    assert list(recompute_disk(record)) == []
    assert [each for each in recompute_flow(record) if each.where.startswith("sink")] == []
    assert list(disk_reasons(record.requested, record.disk)) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"exit_status": 1}, "job_failed"),
        ({"exit_status": None}, "guests_missing"),
        ({"start_ns": None}, "mark_lost"),
        ({"end_ns": ORIGIN_NS + 4 * SECOND + 1}, "rate_uncertain"),
    ],
    ids=str,
)
def test_work_that_went_wrong_is_told(changes: dict[str, Any], code: str):
    record = stalled(500, **changes)
    assert [each.code for each in disk_reasons(record.requested, record.disk)] == [code]


def test_trials_in_which_the_others_never_came_back_are_counted_and_not_left_out_of_a_mean_in_silence():
    back, never = stalled(500), stalled(500)
    assert never.disk is not None
    disk = never.disk.model_copy(update={"recovered_s": None})
    never = never.model_copy(update={"disk": disk, "flow_id": "never", "plan": moved(never, 2)})
    (point,) = summarize_flows([back, never]).points
    assert len(point.flow_ids) == 2
    assert (point.recovered_s and point.recovered_s.mean, point.not_recovered) == (0, 1)


def moved(record: FlowRecord, repetition: int) -> Any:
    return record.plan.model_copy(update={"repetition": repetition, "hash": f"{record.plan.hash}-{repetition}"})


def test_a_forged_ratio_is_found():
    record = stalled(500)
    assert record.disk is not None
    forged = record.model_copy(update={"disk": record.disk.model_copy(update={"during_ratio": 0.9})})
    assert [each.where for each in recompute_disk(forged)] == ["disk.during_ratio"]


def test_a_worker_marks_both_ends_of_its_work_from_ports_of_their_own():
    worker = DiskWorker(
        name="g2", address="198.18.64.2", mac="02:6c:77:00:00:01", number=1, disk=("/tmp/disk", 200), neighbour=None
    )
    line = worker.line(DiskBeside(job="disk-zero", from_s=3, to_s=6))
    assert line.startswith("sleep 3; ")
    assert line.index("198.18.64.2:20062") < line.index("cd /tmp/disk/1 && ulimit") < line.index("198.18.64.2:20063")
    assert "198.18.64.2:20032" not in line, "it sends nothing else"
    assert len(line) < 3000


# -- in a report ----------------------------------------------------------------------------------------------------------


def test_a_report_draws_each_scenario_in_its_own_figure_beside_the_papers_sentences(tmp_path: Path):
    scenarios = [
        weighted(steps_of("3:1", "1:3"), (0.75, 0.25)),
        weighted(steps_of("1:1"), (0.5, 0.5)),
        stalled(500),
        flow_record([[500] * 10, [500] * 10]),
    ]
    limited = flow_record([[200] * 20, [200] * 20], bin_s=0.1, limits_bps=(30_000_000,))
    limited = limited.model_copy(
        update={"requested": limited.requested.model_copy(update={"weights": steps_of("1:1")}), "weights": None}
    )
    store, out, number = tmp_path / "s.sqlite", tmp_path / "out", 0
    with open_store(str(store)) as opened:
        for block in range(1, 4):
            for record in [*scenarios, limited]:
                number += 1
                assert record.set_up is not None
                plan = record.plan.model_copy(update={"block": block, "hash": f"flow-{number}"})
                made = {
                    "plan": plan,
                    "flow_id": f"20260101T000000000000Z-{number:04d}",
                    "set_up": record.set_up.model_copy(update={"id": f"set-up-{block}"}),
                }
                opened.save_experiment(FLOW, record.model_copy(update=made))
    told = ["report", "--store", str(store), "--out", str(out), "--reference", "adamczyk", "--formats", "svg,md,csv"]
    assert main(told) == 0
    for figure, scenario in (
        ("adamczyk-7", "no limit"),
        ("adamczyk-9", "disk-mixed"),
        ("adamczyk-10", "3:1"),
        ("adamczyk-11", "limit 30Mbit"),
        ("adamczyk-12", "1:1"),
    ):
        panels = (out / f"{figure}.svg").read_text()
        assert scenario in panels, figure
        assert ("3:1" in panels) == (figure == "adamczyk-10")
    assert not (out / "adamczyk-5.svg").exists(), "limits beside weights are another figure's"
    steps = (out / "flow-weights.md").read_text()
    assert "| 3:1 | 0 | 0.7500 | 0.7500" in steps
    beside = (out / "adamczyk-flow-beside.md").read_text()
    assert "50.00 ± 0.00 % of before" in beside
    assert "what the sending guest brings falls" in beside and "in proportion to the weights" in beside
    assert "both guests get about the same" in beside
    assert "Not matched: lxc; what the paper says stands beside them whatever platform it is of." in beside
    assert {">t0<", ">t1<"} <= set(re.findall(">t[01]<", (out / "adamczyk-9.svg").read_text()))
    assert ">an equal share of that<" in (out / "adamczyk-7.svg").read_text()
    assert ">limit, as payload<" in (out / "adamczyk-11.svg").read_text()


def test_limits_of_several_guests_are_lines_and_one_guests_is_no_isolation(tmp_path: Path):
    store, out = tmp_path / "s.sqlite", tmp_path / "out"
    trials = {
        "equal": flow_record([[2540] * 10] * 2, limits_bps=(30_000_000,)),
        "different": flow_record([[2540] * 10, [3387] * 10], limits_bps=(30_000_000, 40_000_000)),
        "one": flow_record([[2540] * 10], limits_bps=(30_000_000,)),
        "shared": flow_record([[4000] * 10] * 2),
        "silent": flow_record([[2540] * 10, [0] * 10], platform="uml"),
    }
    with open_store(str(store)) as opened:
        for name, record in trials.items():
            plan = record.plan.model_copy(update={"hash": f"flow-{name}"})
            opened.save_experiment(
                FLOW, record.model_copy(update={"plan": plan, "flow_id": f"20260101T000000000000Z-{name}"})
            )
    told = ["report", "--store", str(store), "--out", str(out), "--reference", "adamczyk"]
    assert main([*told, "--formats", "svg,md,html", "--reference-map", "lxc=xen"]) == 0
    assert ">limit, as payload<" in (out / "adamczyk-5.svg").read_text()
    page = html.unescape((out / "report.html").read_text())
    assert "not drawn: uml, no limit (no trial is valid (left out: 1 no_packets))" in page
    different = (out / "adamczyk-6.svg").read_text()
    assert ">limit of g1, as payload<" in different and ">limit of g2, as payload<" in different
    beside = (out / "adamczyk-flow-beside.md").read_text()
    assert re.findall(r"\| equal limits \| lxc \| (\d)", beside) == ["2"]
    assert "A single guest with a limit has no row" in beside and "lxc is its xen. Not matched: uml;" in beside
    assert "| no trial is valid (left out: 1 no_packets) |" in beside and "Jain –" not in beside
    assert "| lxc | 1 | limit 30Mbit |" in (out / "flow-sharing.md").read_text()


def test_a_trial_is_shown_with_its_steps_and_its_marks():
    lines = "\n".join(trial_lines(FLOW_KIND, weighted(steps_of("3:1", "1:3"), (0.75, 0.25))))
    assert "from 1 s 1:3: shares 0.2500, 0.7500, error 0.0000; in force 0.0 ms late" in lines
    record = weighted(steps_of("3:1", "1:3"), (0.75, 0.25))
    of_class = LimiterRecord(
        kind="htb on ifb", interface="lcqw", rate_bps=96_960_000, burst_bytes=None, passed_packets=9, dropped_packets=7
    )
    senders = tuple(each.model_copy(update={"limiter": of_class}) for each in record.senders)
    held = "; limit 96.96 Mbit/s in frames, which dropped 7"
    for limits_bps, words in (((), "; its class of the queue dropped 7"), ((96_960_000,), held)):
        requested = record.requested.model_copy(update={"limits_bps": limits_bps})
        lines = "\n".join(
            trial_lines(FLOW_KIND, record.model_copy(update={"senders": senders, "requested": requested}))
        )
        assert words in lines and ("limit 9" in lines) == bool(limits_bps)
    lines = "\n".join(trial_lines(FLOW_KIND, stalled(500)))
    assert "g2: disk-mixed from 4.000 to 6.000 s by its marks, ended with status 0" in lines
    assert "the others brought 50.00% of before meanwhile, and 95 % again 0 s after it" in lines


@pytest.mark.parametrize("looked_ns", [None, BEGUN_NS - 50_000_000])
def test_weights_whose_beginning_was_seen_late_are_told(looked_ns: int | None):
    """By so much they may have changed in other bins than it is said."""
    steps = steps_of("3:1", "1:3")
    said = taken(steps)
    record = weighted(steps, (0.75, 0.25), TakenChanges(looked_ns=looked_ns, begun_ns=BEGUN_NS, changes=said.changes))
    assert "weights_late" in [each.code for each in weight_reasons(record.requested, record.weights)]


@pytest.mark.parametrize(
    "more", [{"weights": [{"steps": ["3:1"]}]}, {"disk": [{"job": "disk-mixed", "from_s": 2.0, "to_s": 5.0}]}]
)
@pytest.mark.parametrize("pattern", ["in", "ring"])
def test_weights_and_disk_are_refused_of_guests_that_do_not_send_to_the_sink(pattern: str, more: dict[str, Any]):
    with pytest.raises(ValueError, match="weights and disk apply to guests that send to the sink"):
        FlowFactors.model_validate({"guests": [2], "pattern": [pattern], "duration_s": 10.0, **more})


@pytest.mark.parametrize(
    ("steps", "limits_bps", "topic"),
    [
        ([(1, 1)], (), "improved no limit"),
        ([(1, 1)], (30, 30), "improved equal limits"),
        ([(1, 1)], (30, 40), None),
        ([(3, 1)], (), "weights"),
        ([(3, 1)], (30, 30), None),
        ([(3, 1), (1, 3)], (), "weights"),
        ([(3, 1), (1, 3)], (30, 30), None),
    ],
)
def test_a_sentence_of_the_paper_stands_beside_its_own_scenario_only(
    steps: list[tuple[int, ...]], limits_bps: tuple[int, ...], topic: str | None
):
    assert weighed_topic(steps, limits_bps) == topic


@pytest.mark.parametrize("name", ["local-isolation", "local-isolation-xen", "local-late", "local-greedy"])
def test_shipped_plans_of_isolation_have_a_second_guest_that_begins_later_and_emulated_ones(name: str):
    plan = load_plan(Path(__file__).parents[3] / "plans" / f"{name}.yaml")
    assert plan.guests is not None
    assert (
        {"xen"} == set(plan.platforms) if name.endswith("xen") else {"lxc", "uml", "qemu-virtio"} <= set(plan.platforms)
    )
    late = "greedy" not in name
    for point in plan.guests.points:
        assert (point.second_after_s > 4 * plan.guests.factors.bin_s) is late
    if "isolation" in name:
        limits = {point.limits for point in plan.guests.points}
        assert any(len(set(each)) == 2 for each in limits) and any(len(each) == 1 for each in limits)
