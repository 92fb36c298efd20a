"""Flows out of guests: what follows from packets in bins, the verdict, what is computed again, and what it comes to."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labconsole.experiments.flow.base import FlowMeasurement
from labconsole.experiments.flow.limiters import CREDIT, READ_CREDIT, build_rate_limit, read_credit, read_limiters
from labconsole.experiments.flow.live_view import SendingWatch
from labconsole.experiments.flow.plan import FlowFactors
from labconsole.experiments.flow.quantities import quantities
from labconsole.experiments.flow.rates import HEADER_BYTES, derive_guest_rates, line_bps
from labconsole.experiments.flow.report_data import plain
from labconsole.experiments.flow.script import SenderAnswer, Sending, read_answer
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.experiments.flow.verdict import derive_reasons
from labconsole.experiments.flow.verify import recompute_flow
from labconsole.experiments.units import build_kind_figures
from labconsole.model.flow_scenarios import WeightSteps
from labconsole.model.record.kind import ProgramRecord
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.reasons import reason, weighed
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from support.flow_records import PAYLOAD_BYTES, flow_record

MBIT_PACKETS = 10**6 / 8 / PAYLOAD_BYTES
"""Packets a second that make 1 Mbit/s of payload."""


def packets(*mbps: float) -> list[int]:
    return [round(each * MBIT_PACKETS) for each in mbps]


def test_a_line_of_100_mbit_carries_95_7_of_full_payload():
    assert line_bps(100_000_000, 1472) == pytest.approx(95.709e6, rel=1e-4)
    assert line_bps(10**9, 1472) == pytest.approx(957.1e6, rel=1e-4), "not 969: preamble and gap are on the wire"


def test_what_is_sent_is_told_in_one_line_and_read_back():
    told = Sending(2, "198.18.64.3", 3, 50_000_000, 1472, 7.5, after_s=2.5, neighbour="02:00:00:00:00:09")
    line = told.line()
    assert "iperf -c 198.18.127.1 -p 5001 -u -l 1472 -b 50000000 -t 7.5 -B 198.18.64.3:20064 -P 3" in line
    assert line.startswith("busybox arp -s 198.18.127.1 02:00:00:00:00:09; sleep 2.5; ")
    assert list(told.ports) == [20064, 20065, 20066]
    assert "arp" not in Sending(0, "10.0.0.1", 1, 1, 64, 1.0).line(), "the UUT is told otherwise, and takes it back"
    assert read_answer("LCFLOW sent |connect failed| ST 1\n") == SenderAnswer(1, "sent |connect failed")
    assert read_answer("nothing of the kind") == SenderAnswer()


def test_rates_are_those_of_the_bins_in_which_all_send():
    record = flow_record([packets(60, 60, 60, 60), packets(30, 30)], begin_bins=[0, 2], second_after_s=2.0)
    assert (record.shared_from, record.shared_to) == (2, 4)
    assert record.sum_bps == pytest.approx(90e6, rel=1e-3)
    assert [sender.shared_bps for sender in record.senders] == [pytest.approx(60e6, 1e-3), pytest.approx(30e6, 1e-3)]
    found = quantities(record)
    assert found.interference_ratio == pytest.approx(0.0, abs=1e-9)
    assert found.first_share_ratio == pytest.approx(2 / 3, rel=1e-3)
    assert recompute_flow(record) == []


def test_interference_is_what_the_first_guest_loses():
    record = flow_record([packets(80, 80, 40, 40), packets(40, 40)], begin_bins=[0, 2], second_after_s=2.0)
    assert quantities(record).interference_ratio == pytest.approx(0.5, rel=1e-3)


def test_attained_is_of_the_limit_in_whole_frames():
    frames = 30e6 * PAYLOAD_BYTES / (PAYLOAD_BYTES + HEADER_BYTES) / 1e6
    record = with_sender(flow_record([packets(*[frames] * 5)], limits_bps=(30_000_000,)), offered_bps=50e6)
    assert quantities(record).attained["g1"] == pytest.approx(1.0, rel=1e-3)


def test_dominance_of_ten_seconds_is_found_as_such():
    one = packets(*[48] * 10, *[94] * 10, *[48] * 10)
    two = packets(*[48] * 10, *[1] * 10, *[48] * 10)
    found = quantities(flow_record([one, two]))
    assert found.dominant_s == 10.0
    assert found.dominant_bins == (10, 30)


@pytest.mark.parametrize("found", [None, 25_000_000])
def test_a_limit_that_is_not_there_when_read_back_voids_the_trial(found: int | None):
    record = flow_record([packets(30, 30, 30)], limits_bps=(30_000_000,), found_limits=[found])
    assert [reason.code for reason in record.verdict.reasons] == ["limiter_missing"]
    assert record.status == "failed"
    assert recompute_flow(record) == []


def test_a_guest_of_which_nothing_came_voids_the_trial():
    record = flow_record([packets(30, 30, 30), [0, 0, 0]])
    assert [reason.code for reason in record.verdict.reasons] == ["no_packets"]
    assert record.sum_bps is None, "there is no time in which all sent"


def test_what_does_not_follow_is_found():
    record = flow_record([packets(30, 30, 30), packets(40, 40, 40)])
    assert recompute_flow(record) == []
    wrong: dict[str, Any] = {
        "sum_bps": {"sum_bps": 1.0},
        "jain": {"jain": 0.5},
        "line_ratio": {"line_ratio": 2.0},
        "sink.captured_packets": {"sink": record.sink.model_copy(update={"captured_packets": 7})},  # type: ignore[union-attr]
        "flows[0].packets": {"flows": (record.flows[0].model_copy(update={"packets": 9}), record.flows[1])},
        "senders[1].packets": {"senders": (record.senders[0], record.senders[1].model_copy(update={"packets": 9}))},
    }
    for where, changes in wrong.items():
        assert where in {each.where for each in recompute_flow(record.model_copy(update=changes))}, where


def test_a_limiter_is_read_back_as_tc_says_it():
    said = [
        {"kind": "noqueue", "dev": "lo"},
        {"kind": "tbf", "dev": "lcq1", "options": {"rate": 3750000, "burst": 3753}, "packets": 11, "drops": 2},
        {"kind": "tbf", "dev": "lcq2", "options": {"rate": "much"}, "packets": -1, "drops": True},
    ]

    class Uut:
        async def ask(self, request: Any, timeout_s: float = 0) -> Any:
            return type("Said", (), {"stdout": json.dumps(said)})

    found = asyncio.run(read_limiters(Uut(), {"g1": "lcq1", "g2": "lcq2", "g3": "lcq3"}))  # type: ignore[arg-type]
    assert (found["g1"].rate_bps, found["g1"].passed_packets, found["g1"].dropped_packets) == (30_000_000, 11, 2)
    assert (found["g2"].rate_bps, found["g2"].passed_packets, found["g2"].dropped_packets) == (None, None, None)
    assert found["g3"].rate_bps is None
    assert build_rate_limit("lcg1", 1, 30_000_000).to_wire()["burst_bytes"] == 3750


def test_the_queue_of_a_limit_holds_fewer_full_frames_than_a_socket_of_the_same_kernel():
    assert build_rate_limit("lcg1", 1, 30_000_000).queue_bytes == 187_500, "50 ms"
    taking = object.__new__(FlowMeasurement)
    for payload_bytes, pattern, in_namespace, wanted in (
        (1472, "out", True, 78 * 1514),
        (100, "out", True, None),
        (1472, "ring", True, None),
        (1472, "out", False, None),
    ):
        taking._point = cast(Any, SimpleNamespace(pattern=pattern, payload_bytes=payload_bytes))
        taking._standing = cast(Any, {"g1": SimpleNamespace(in_namespace=in_namespace)})
        assert taking._queue_bytes("g1") == wanted
    assert build_rate_limit("lcg1", 1, 30_000_000, 78 * 1514).queue_bytes == 78 * 1514 < 92 * 1514
    assert build_rate_limit("lcg1", 1, 10_000_000, 78 * 1514).queue_bytes == 62_500


def test_credit_is_read_back_as_the_kernel_of_the_back_end_has_it():
    said = """vif1.0 187500, usec: 50000
vif2.0 187500, usec: 50000
vif2.0 187500, usec: 50000
vif3.0 18446744073709551615, usec: 0
vif4.0 much, usec: 50000
vif5.0 99999999999999999999, usec: 1
"""

    class Uut:
        async def ask(self, request: Any, timeout_s: float = 0) -> Any:
            return type("Said", (), {"stdout": said})

    found = asyncio.run(read_credit(Uut(), {f"g{n}": f"vif{n}.0" for n in range(1, 7)}))  # type: ignore[arg-type]
    rates = [each.rate_bps for each in found.values()]
    assert rates == [30_000_000, 60_000_000, None, None, None, None], "each queue of a NIC has the whole credit"
    assert found["g1"].kind == CREDIT and found["g1"].burst_bytes is None


def on_credit(record: Any, **changes: Any) -> Any:
    """The same, the first guest held by the back end of its NIC."""
    limiter = record.senders[0].limiter.model_copy(update={"kind": CREDIT, "passed_packets": None, **changes})
    return with_sender(record, limiter=limiter)


def test_a_guest_that_waits_for_credit_sends_what_that_gives_and_a_little_longer():
    record = held(50_000_000, 28.0, limits_bps=(30_000_000,))
    assert again(record) == ["offered_short"]
    waits = on_credit(record)
    assert again(waits) == []
    assert again(with_flow(waits, last_at_ns=record.flows[0].last_at_ns + 10**8)) == []
    assert again(with_flow(waits, last_at_ns=record.flows[0].last_at_ns + 10**9)) == ["duration_stretched"]
    assert again(on_credit(held(50_000_000, 20.0, limits_bps=(30_000_000,)))) == ["offered_short"]
    assert again(on_credit(held(28_500_000, 27.0, limits_bps=(30_000_000,)))) == [], "its timer may be that late"
    assert again(on_credit(held(10_000_000, 9.0, limits_bps=(30_000_000,)))) == ["offered_short"]


def test_what_a_guest_on_credit_attains_is_of_its_limit_though_no_more_comes_out_of_it():
    attained = quantities(on_credit(held(50_000_000, 28.0, limits_bps=(30_000_000,)))).attained["g1"]
    assert attained == pytest.approx(28 / 30 * (PAYLOAD_BYTES + HEADER_BYTES) / PAYLOAD_BYTES, rel=1e-3)
    assert quantities(on_credit(held(10_000_000, 10.0, limits_bps=(30_000_000,)))).attained == {}


@pytest.mark.parametrize(
    ("wanted", "found", "right"), [(10_000, 9_920, True), (50_000, 49_920, True), (10_000, 9_760, False)]
)
def test_credit_is_right_to_a_byte_in_each_interval(wanted: int, found: int, right: bool):
    record = on_credit(held(offered_bps=50_000_000, limits_bps=(wanted,)), rate_bps=found)
    assert ("limiter_missing" not in again(record)) is right


def test_a_rate_that_nobody_asked_for_voids_the_trial():
    record = on_credit(held(50_000_000, 28.0, limits_bps=(30_000_000,)))
    unasked = record.requested.model_copy(update={"limits_bps": ()})
    assert "limiter_unasked" in again(record, requested=unasked)


@pytest.mark.parametrize(("name", "found"), [("lcx1", "lcx1"), ("vif3.0", "lcx1"), ("vif4.0", None)])
def test_the_kernels_word_is_found_by_the_old_name_of_an_interface_too(tmp_path: Path, name: str, found: str | None):
    (tmp_path / "net/lcx1/device").mkdir(parents=True)
    (tmp_path / "net/lcx1/device/nodename").write_text("backend/vif/3/0")
    (tmp_path / "xen" / name).mkdir(parents=True)
    for queue in range(2):
        said = "NAPI state: 1\nCredit timer_pending: 0, credit: 187500, usec: 50000\nremaining: 9\n"
        (tmp_path / "xen" / name / f"io_ring_q{queue}").write_text(said)
    words = [str(tmp_path / "net"), str(tmp_path / "xen"), "nosuch", "lcx1"]
    done = subprocess.run(["sh", "-c", READ_CREDIT, "sh", *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ([f"{found} 187500, usec: 50000"] * 2 if found else [])


def test_points_have_means_over_set_ups():
    records = [
        flow_record([packets(47 + block, 47 + block, 47 + block)], block=block, flow_id=f"id-{block}")
        for block in (1, 2, 3)
    ]
    (point,) = summarize_flows(records).points
    assert point.sum_bps is not None
    assert point.sum_bps.mean == pytest.approx(49e6, rel=1e-3)
    assert (point.sum_bps.set_ups, point.sum_bps.scope) == (3, "set-ups")
    assert len(point.guests[0].bins_bps) == 3
    assert point.median_id is None, "one guest dominates nobody"


def again(record: Any, **changes: Any) -> list[str]:
    """The codes that a record with these changes would have, by what it shows."""
    changed = record.model_copy(update=changes)
    reasons = derive_reasons(
        changed.requested,
        changed.flows,
        changed.senders,
        changed.sink,
        line_bps=changed.line_bps,
        start_skew_s=changed.start_skew_s,
        swapped_pages=changed.swapped_pages,
        program=changed.program,
        limits=Tolerances(),
    )
    return [each.code for each in reasons]


def with_sender(record: Any, **changes: Any) -> Any:
    """The first guest otherwise."""
    first, *others = record.senders
    return record.model_copy(update={"senders": (first.model_copy(update=changes), *others)})


def with_flow(record: Any, **changes: Any) -> Any:
    first, *others = record.flows
    return record.model_copy(update={"flows": (first.model_copy(update=changes), *others)})


def held(offered_bps: int = 30_000_000, mbps: float = 30.0, **how: Any) -> Any:
    """One guest that sends what it is told, which fits on the link."""
    return told_to_send(flow_record([packets(*[mbps] * 5)], **how), offered_bps)


def test_what_nothing_is_wrong_with_is_valid():
    assert again(held()) == []
    assert again(flow_record([packets(48, 48, 48), packets(47, 47, 47)])) == []


def told_to_send(record: Any, offered_bps: int) -> Any:
    return record.model_copy(update={"requested": record.requested.model_copy(update={"offered_bps": offered_bps})})


@pytest.mark.parametrize(
    ("rates", "limits_bps", "short"),
    [
        ((48, 47), (), 0),
        ((48, 30), (), 2),
        ((57, 38), (70_000_000, 40_000_000), 0),
        ((48, 47), (20_000_000,), 2),
    ],
    ids=["the link holds them", "there is room on it", "limits exceed it", "limits do not"],
)
def test_who_is_held_back_by_a_full_link_is_not_short(rates: tuple[int, int], limits_bps: tuple[int, ...], short: int):
    record = told_to_send(flow_record([packets(*[rate] * 5) for rate in rates], limits_bps=limits_bps), 60_000_000)
    assert again(record).count("offered_short") == short


def test_a_queue_by_weights_is_full_before_the_link_is():
    record = told_to_send(flow_record([packets(*[rate] * 5) for rate in (47.0, 46.9)]), 60_000_000)
    assert again(record).count("offered_short") == 2, "1.9 % of the link was left"
    weighted = record.requested.model_copy(update={"weights": WeightSteps(steps=((1, 1),))})
    assert "offered_short" not in again(record, requested=weighted)


def test_a_trial_that_was_called_short_before_the_link_excused_it_still_verifies():
    record = told_to_send(flow_record([packets(*[48.0] * 5), packets(*[47.0] * 5)]), 60_000_000)
    short = weighed([reason("offered_short", "as it was said", guest="g1", offered_bps=48e6)])
    assert recompute_flow(record) == recompute_flow(record.model_copy(update={"verdict": short})) == []
    room = told_to_send(flow_record([packets(*[48.0] * 5), packets(*[30.0] * 5)]), 60_000_000)
    (told,) = recompute_flow(room)
    assert "lacks offered_short" in str(told)


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (lambda: with_sender(held(), offered_bps=25e6), "offered_short"),
        (lambda: with_sender(held(), host_packets=None, offered_bps=None, payload_bps=20e6), "offered_short"),
        (lambda: with_sender(held(), host_packets=3), "witnesses_disagree"),
        (lambda: with_sender(held(), exit_status=1), "generator_failed"),
        (lambda: with_sender(held(), exit_status=None), "guests_missing"),
        (lambda: with_flow(held(), bytes=7), "generator_failed"),
        (lambda: with_flow(held(), outside_packets=5), "rate_uncertain"),
        (lambda: with_flow(held(), last_at_ns=held().flows[0].last_at_ns - 10**9), "duration_cut"),
        (lambda: with_flow(held(), last_at_ns=held().flows[0].last_at_ns + 10**9), "duration_stretched"),
        (lambda: held().model_copy(update={"start_skew_s": 0.2}), "start_skew"),
        (lambda: held().model_copy(update={"swapped_pages": 4}), "swapped"),
        (lambda: flow_record([packets(80, 80, 80), packets(80, 80, 80)]), "offered_over"),
        (
            lambda: held().model_copy(update={"program": ProgramRecord(name="iperf", sha256=("a", "b"))}),
            "programs_differ",
        ),
        (
            lambda: held().model_copy(update={"program": ProgramRecord(name="iperf", sha256=(), unknown=1)}),
            "not_observed",
        ),
    ],
)
def test_each_doubt_has_its_code(record: Any, code: str):
    assert code in again(record())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"dropped_packets": 5}, "capture_incomplete"),
        ({"nic_packets": 10**9}, "capture_incomplete"),
        ({"nic_packets": None}, "not_observed"),
        ({"nic_packets": 3}, "witnesses_disagree"),
        ({"foreign_packets": 10**6}, "foreign_frames"),
    ],
)
def test_a_sink_that_missed_some_or_saw_strangers_is_told(changes: dict[str, Any], code: str):
    record = held()
    assert code in again(record, sink=record.sink.model_copy(update=changes))


def test_frames_that_go_past_a_limiter_void_the_trial():
    record = flow_record([packets(30, 30, 30)], limits_bps=(30_000_000,))
    limiter = record.senders[0].limiter
    assert limiter is not None
    past = limiter.model_copy(update={"passed_packets": 10})
    assert "limiter_missing" in again(with_sender(record, limiter=past))


def test_a_queue_on_the_way_may_send_on_when_more_is_offered_than_fits():
    record: Any = flow_record([packets(95, 95, 95)])
    assert "duration_stretched" not in again(with_flow(record, last_at_ns=record.flows[0].last_at_ns + 10**9))


def test_a_later_guest_is_held_to_its_own_beginning():
    late = flow_record([packets(60, 60, 60, 60), packets(30, 30)], begin_bins=[0, 2], second_after_s=2.0)
    assert late.start_skew_s == 0
    early = flow_record([packets(60, 60, 60, 60), packets(30, 30, 30)], begin_bins=[0, 1], second_after_s=2.0)
    assert early.start_skew_s == 1.0
    assert "start_skew" in again(early)
    assert recompute_flow(early) == []


def test_bins_that_were_not_counted_are_no_zeros():
    """A guest whose clock is slow sends on after the last bin."""
    record: Any = flow_record([packets(30, 30, 30), packets(30, 30, 30)])
    flows = tuple(
        each.model_copy(
            update={"packets": each.packets + 900, "outside_packets": 900, "last_at_ns": each.last_at_ns + 3 * 10**9}
        )
        for each in record.flows
    )
    found = derive_guest_rates(flows, ["g1", "g2"], record.origin_ns, PAYLOAD_BYTES, 1.0)
    assert found.stop == 3
    assert found.total == pytest.approx(60e6, rel=1e-3)


def test_a_limit_that_was_not_asked_for_is_not_attained():
    record = flow_record([packets(*[20.0] * 5)], limits_bps=(30_000_000,))
    assert quantities(record).attained == {}


def test_what_cannot_be_counted_in_bins_is_refused_beforehand():
    for told in (
        {"duration_s": 300.0, "bin_s": 0.01},
        {"duration_s": 60.0, "bin_s": 0.05, "guests": [100]},
        {"limits": [0]},
        {"limits": ["7kbit"]},
    ):
        with pytest.raises(ValueError, match="allowed"):
            FlowFactors.model_validate(told)


def test_points_of_another_load_are_no_part_of_what_guests_can_send():
    full = [flow_record([packets(*[95.7] * 4)], block=block, flow_id=f"f{block}") for block in (1, 2, 3)]
    less = [held(20_000_000, 20.0, block=block, flow_id=f"l{block}") for block in (4, 5, 6)]
    summary = summarize_flows([*full, *less])
    assert [point.key.offered_bps for point in plain(summary.points)] == [100_000_000]
    assert len({summary.name_of(point.key) for point in summary.points}) == 2


def test_what_all_panels_or_bars_share_stands_in_the_figures_title_alone():
    trials = [
        flow_record(
            [packets(*[29.0] * bins)] * guests,
            limits_bps=(30_000_000,) * (guests > 1),
            platform=platform,
            flow_id=f"{platform}-{bins}-{guests}",
        )
        for guests in (1, 2)
        for platform, bins in (("lxc", 4), ("uml", 6))
    ]
    trials.append(flow_record([packets(*[24.0] * 8)] * 2, bin_s=0.5, flow_id="in other bins, and in no panel of these"))
    found = {figure.name: figure for figure in build_kind_figures("flow", trials)}
    alike, alone = found["adamczyk-5"], found["mattos-3"]
    assert alike.title == "Guests limited to equal rates (in bins of 1 s, limit 30Mbit)"
    assert [panel.title for panel in alike.panels] == ["lxc, for 4 s", "uml, for 6 s"]
    assert alone.title == "What one guest sends (in bins of 1 s)"
    assert alone.x_names == ("lxc, for 4 s", "uml, for 6 s")


def test_the_live_curve_is_of_the_unit_under_tests_own_interfaces():
    watch = SendingWatch({7: "g1"})
    rows = [0] * len(STAT_NAMES)
    for second in range(3):
        rows = list(rows)
        rows[STAT_NAMES.index("rx_bytes")] = 1_000_000 * second
        watch.see(
            CountersSampled.parse(
                {
                    "missed": 0,
                    "late": False,
                    "monotonic_ns": second * 10**9,
                    "wall_ns": 1,
                    "namespaces": {"": [[7, len(rows), rows]], "other": [[7, len(rows), [9] * len(rows)]]},
                }
            )
        )
    (curve,) = watch.shown().curves
    assert curve.values == (8.0, 8.0)
