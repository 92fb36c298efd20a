"""What the sink's kernel timed, in the record and beside the other witnesses; and what of it verify sees to be wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from labconsole.cli.text.runs import packet_times_texts
from labconsole.measure.packet_times import build_packet_times, describe_xdp, packet_times, refusal
from labconsole.measure.recompute.extensions import contradicting_times
from labconsole.measure.recompute.record import unjudged
from labconsole.measure.recompute.verdict import rejudge
from labconsole.measure.time_histogram import TimeHistogram
from labconsole.model.inventory import Inventory
from labconsole.model.record.extensions import PACKET_TIMES, PacketTimes
from labconsole.model.record.run import RunRecord
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.verdict.observations import TimedStream, TrialObservations, UntimedStream
from labconsole.wire.packet_times import GENERIC_XDP, NATIVE_XDP, StreamTimes, XdpChanges
from support.observed_trials import SENT, codes, found, observe, record
from support.timed_packets import histogram, stream_times

GAP_NS = 70_400
EMPTY = TimeHistogram({}).encoded()

LATER = "arrivals are about 0.5 µs later than tcpdump's time stamps, as measured on veth and virtio"
EARLIER = "arrivals are about 0.2 µs earlier than tcpdump's time stamps, as measured on veth and virtio"


def counted(packets: int = SENT, **changes: Any) -> StreamTimes:
    """Most took 20 µs, ten of them 3 ms."""
    return stream_times({20_000: packets - 10, 3_000_000: 10}, GAP_NS, **changes)


def timed(seen: TrialObservations, times: StreamTimes, clock_moved_ns: int = 0) -> TrialObservations:
    seen.streams[0].times = TimedStream(counted=times, clock_moved_ns=clock_moved_ns)
    return seen


@pytest.fixture
def nodes_of_one_kernel() -> Any:
    """Makes records of source and sink under one kernel, and so with one clock."""
    facts = {"facts": {"boot_id": "one"}}
    environment = {"nodes": {"src1": facts, "snk1": facts}}
    return lambda inventory, seen: record(inventory, seen, environment=environment)


def times_of(run: RunRecord) -> PacketTimes:
    told = packet_times(run.streams[0])
    assert told is not None
    return told


def wrong(run: RunRecord) -> list[str]:
    return [each.where for each in contradicting_times("streams[0]", run.streams[0])]


def test_what_was_timed_is_in_the_record_and_all_of_it_holds(inventory: Inventory, nodes_of_one_kernel: Any) -> None:
    run = nodes_of_one_kernel(inventory, timed(observe(inventory), counted()))
    told = times_of(run)
    assert (told.packets, told.processors, told.reason) == (SENT, 1, None)
    assert told.window_s == pytest.approx(GAP_NS * (SENT - 1) / 1e9)
    assert told.delay_ns is not None and told.spacing_ns is not None
    assert told.delay_ns.p50 == pytest.approx(20_000, rel=1 / 128)
    assert (told.delay_ns.min, told.delay_ns.max) == (20_000, 3_000_000)
    assert told.delay_ns.p9999 == 3_000_000  # no quantile is longer than the longest
    assert told.spacing_ns.packets == SENT - 1
    assert TimeHistogram.decoded(told.delay_ns.histogram).total == SENT
    assert codes(run) == set() and wrong(run) == []
    assert not [each for each in unjudged(run) if "extension" in each]


def test_delays_since_due_are_told_beside_those_since_sent(inventory: Inventory, nodes_of_one_kernel: Any) -> None:
    """The sender stalled: a hundred packets waited for it."""
    due = {20_000: SENT - 100, 3_000_000: 10, 40_000_000: 90}
    run = nodes_of_one_kernel(inventory, timed(observe(inventory), counted(due=due)))
    told = times_of(run)
    assert told.due_ns is not None and told.delay_ns is not None
    assert (told.due_ns.packets, told.due_ns.max, told.delay_ns.max) == (SENT, 40_000_000, 3_000_000)
    assert told.due_ns.p99 == pytest.approx(20_000, rel=1 / 128)
    assert wrong(run) == []
    assert times_of(nodes_of_one_kernel(inventory, timed(observe(inventory), counted()))).due_ns is None
    unknown = record(inventory, timed(observe(inventory), counted(due=due)))
    assert (times_of(unknown).delay_ns, times_of(unknown).due_ns) == (None, None)


def test_delays_since_due_that_cannot_be_are_seen(inventory: Inventory, nodes_of_one_kernel: Any) -> None:
    due = {20_000: SENT - 100, 3_000_000: 10, 40_000_000: 90}
    run = nodes_of_one_kernel(inventory, timed(observe(inventory), counted(due=due)))

    def changed(**changes: Any) -> list[str]:
        other = copy.deepcopy(run)
        told = other.streams[0].extensions[PACKET_TIMES]
        told["due_ns"].update(changes)
        return wrong(other)

    where = "streams[0].extensions.packet_times.due_ns"
    assert f"{where}.max" in changed(max=41_000_000_000)
    assert changed(packets=SENT - 1) == [f"{where}.packets"]
    shorter = counted(due={10_000: SENT})
    other = nodes_of_one_kernel(inventory, timed(observe(inventory), shorter))
    assert f"{where}.p50" in wrong(other), "none is due later than it is sent"
    untold = copy.deepcopy(run)
    untold.streams[0].extensions[PACKET_TIMES].update(delay_ns=None, reason="the clocks are apart")
    assert where in wrong(untold)


def test_quantiles_that_take_more_packets_are_not_told(inventory: Inventory, nodes_of_one_kernel: Any) -> None:
    seen = observe(inventory, sent=150)
    told = times_of(nodes_of_one_kernel(inventory, timed(seen, counted(150))))
    assert told.delay_ns is not None
    assert told.delay_ns.p90 is not None and told.delay_ns.p99 is not None
    assert (told.delay_ns.p999, told.delay_ns.p9999) == (None, None)


@pytest.mark.parametrize(
    ("changes", "clock_moved_ns", "words"),
    [
        ({"negative_packets": 3}, 0, "3 packets arrived before they were sent"),
        ({}, 2_000_000, "was set by 2000000 ns meanwhile"),
    ],
)
def test_clocks_that_cannot_be_trusted_give_no_delay(
    inventory: Inventory, nodes_of_one_kernel: Any, changes: dict[str, Any], clock_moved_ns: int, words: str
) -> None:
    told = times_of(nodes_of_one_kernel(inventory, timed(observe(inventory), counted(**changes), clock_moved_ns)))
    assert told.delay_ns is None and words in (told.reason or "")
    assert told.spacing_ns is not None and told.variation_ns is not None


def test_clocks_of_which_nothing_is_known_give_no_delay(inventory: Inventory) -> None:
    told = times_of(record(inventory, timed(observe(inventory), counted())))
    assert told.delay_ns is None and told.reason == "how far the clocks of source and sink agree is not known"


def test_a_clock_of_the_source_that_was_set_widens_what_the_clocks_may_be_off(inventory: Inventory) -> None:
    def bound(clocks_ns: int, moved_ns: int) -> PacketTimes:
        return build_packet_times(
            counted(), clock_moved_ns=0, source_moved_ns=moved_ns, clocks_ns=clocks_ns, stamp_lead_ns=0
        )

    assert (bound(500, 0).clock_bound_ns, bound(500, 0).reason) == (1500, None)
    assert bound(500, -5_000_000).clock_bound_ns == 5_001_500
    assert "too coarse" in (bound(500, -5_000_000).reason or "")
    assert bound(0, 5_000).clock_bound_ns == 1000, "one clock is with itself"


def test_a_gap_longer_than_the_last_bucket_is_no_contradiction(inventory: Inventory, nodes_of_one_kernel: Any) -> None:
    gap_ns, rest = 90 * 10**9, SENT - 2
    times = counted(
        last_ns=10**9 + gap_ns + GAP_NS * rest,
        spacing=histogram({GAP_NS: rest, gap_ns: 1}),
    )
    run = nodes_of_one_kernel(inventory, timed(observe(inventory), times))
    assert wrong(run) == []


def test_a_sum_that_does_not_fit_leaves_no_delay(inventory: Inventory, nodes_of_one_kernel: Any) -> None:
    told = times_of(nodes_of_one_kernel(inventory, timed(observe(inventory), counted(delay_sum_ns=None))))
    assert told.delay_ns is None and "exceeds the range of the node's counter" in (told.reason or "")


def test_a_stream_of_which_nothing_came_is_told_as_that(inventory: Inventory) -> None:
    seen = observe(inventory, uut_out=0)
    none = dict.fromkeys(("first_ns", "last_ns", "delay_sum_ns", "delay_min_ns", "delay_max_ns"))
    nothing = counted(**none, packets=0, bytes=0, processors=0, delay=[], spacing=[], variation=[])
    run = record(inventory, timed(seen, nothing))
    told = times_of(run)
    assert (told.window_s, told.delay_ns, told.spacing_ns, told.reason) == (None, None, None, "no packet came")
    assert wrong(run) == []


def test_more_than_the_nic_counted_and_less_than_was_captured_cannot_be(inventory: Inventory) -> None:
    for packets in (SENT + 1, SENT - 1):
        run = record(inventory, timed(observe(inventory), counted(packets)))
        assert codes(run) == {"witnesses_disagree"}
        assert found(run, "witnesses_disagree").evidence["timed_packets"] == packets
        assert list(rejudge(run, WEIGHT)) == []


def test_a_capture_that_missed_packets_is_no_doubt_where_the_kernel_timed_them_all(inventory: Inventory) -> None:
    def missing() -> TrialObservations:
        return observe(inventory, captured=SENT - 40, dropped=40)

    assert codes(record(inventory, missing())) == {"capture_incomplete"}
    run = record(inventory, timed(missing(), counted()))
    assert codes(run) == set() and run.streams[0].measured_from == "counters"
    (told,) = (each for each in run.influences if each["kind"] == "capture_incomplete")
    assert (told["node"], told["dropped_packets"]) == ("snk1", 40)
    assert list(rejudge(run, WEIGHT)) == []
    # Of others' frames there may be as many as it missed; packets may have come twice.
    for changed, also in (
        ({"packets": SENT - 20}, {"untimed_packets"}),
        ({"late_packets": 3, "skipped_packets": 3}, set()),
    ):
        less = record(inventory, timed(missing(), counted(**changed)))
        assert codes(less) == {"capture_incomplete", *also}
        assert list(rejudge(less, WEIGHT)) == []
    assert found(record(inventory, timed(missing(), counted(packets=SENT - 20))), "untimed_packets").evidence == {
        "stream": "s1",
        "timed_packets": SENT - 20,
        "packets": 20,
    }


def test_several_processors_know_no_more_than_an_estimate_of_what_came_twice(inventory: Inventory) -> None:
    shared = counted(processors=2, late_packets=3, skipped_packets=3)
    run = record(inventory, timed(observe(inventory, captured=SENT - 40, dropped=40), shared))
    assert codes(run) == set()
    (told,) = (each for each in run.influences if each["kind"] == "capture_incomplete")
    assert "on 2 processors, so that how many came late or twice, 3, is an estimate" in told["detail"]
    assert list(rejudge(run, WEIGHT)) == []
    # A version that doubted such a run said no wrong thing.
    doubted = record(inventory, observe(inventory, captured=SENT - 40, dropped=40))
    older = run.model_copy(update={"verdict": doubted.verdict})
    assert list(rejudge(older, WEIGHT)) == []


def test_what_was_counted_without_being_timed_is_a_witness_as_well(inventory: Inventory) -> None:
    def judged(packets: int | None) -> RunRecord:
        seen = observe(inventory, captured=SENT - 40, dropped=40)
        seen.streams[0].times = UntimedStream("no_permission", "for root only", packets)
        run = record(inventory, seen)
        assert list(rejudge(run, WEIGHT)) == [] and wrong(run) == []
        return run

    assert codes(judged(SENT)) == set()
    assert "it timed none" in next(each["detail"] for each in judged(SENT).influences if "timed" in each["detail"])
    assert refusal(judged(SENT).streams[0]) == "for root only; 14\u2009205 were counted there"
    assert codes(judged(None)) == {"capture_incomplete"}
    assert codes(judged(SENT - 20)) == {"capture_incomplete", "untimed_packets"}
    assert codes(judged(SENT + 1)) == {"capture_incomplete", "witnesses_disagree"}


def test_what_counting_took_of_the_sinks_memory_is_told(inventory: Inventory) -> None:
    seen = observe(inventory)
    seen.streams[0].times = TimedStream(counted=counted(), clock_moved_ns=0, memory_bytes=245_760)
    assert times_of(record(inventory, seen)).memory_bytes == 245_760


@pytest.mark.parametrize(
    ("by", "changes", "words"),
    [
        (
            GENERIC_XDP,
            (["rx-gro-hw off", "eth2 rx-lro off"], [], 0, None),
            f"{LATER}; the port had rx-gro-hw off, eth2 rx-lro off meanwhile; it was restored",
        ),
        (
            GENERIC_XDP,
            (["rx-gro-hw off"], ["rx-gro-hw off"], None, None),
            f"{LATER}; the port had rx-gro-hw off meanwhile; it still has rx-gro-hw off, which could not be restored; "
            "whether its link went down is not known",
        ),
        (NATIVE_XDP, ([], [], 4, True), f"{EARLIER}; its link went down or came up 4 times by it"),
        (
            NATIVE_XDP,
            ([], [], 3, False),
            f"{EARLIER}; its link went down or came up 3 times by it; 7 s after the program had gone its link was not up "
            "again",
        ),
        (GENERIC_XDP, ([], [], 0, None), f"{LATER}; nothing changed at the port"),
    ],
)
def test_what_an_xdp_program_changes_is_told_once_a_port(
    inventory: Inventory, nodes_of_one_kernel: Any, by: str, changes: Any, words: str
) -> None:
    seen = observe(inventory)
    features, left, link_changes, back = changes
    xdp = XdpChanges(features=features, left_features=left, link_changes=link_changes, link_is_back=back)
    seen.streams[0].times = TimedStream(counted(), 0, by=by, xdp=xdp)
    run = nodes_of_one_kernel(inventory, seen)
    told = times_of(run)
    assert (told.by, describe_xdp(told)) == (by, words)
    assert run.streams[0].extensions[PACKET_TIMES]["port"] == {**xdp.to_wire()}
    (entry,) = (each for each in run.influences if each["kind"] == "xdp")
    interface = seen.streams[0].stream.sink.interface
    assert entry["detail"] == f"{interface}: packets were timed by {by}: {words}"
    assert (entry["node"], entry["features"]) == (seen.streams[0].stream.sink.node, features)
    shown = packet_times_texts(run.streams[0])
    assert f"packets timed in the sink's kernel by {by}: " in shown[0] and shown[1] == f"  {words}"
    assert codes(run) == set() and wrong(run) == []


def test_a_record_of_a_socket_filter_says_what_it_always_said(inventory: Inventory) -> None:
    run = record(inventory, timed(observe(inventory), counted()))
    assert run.streams[0].extensions[PACKET_TIMES]["by"] == "socket filter"
    assert "port" not in run.streams[0].extensions[PACKET_TIMES] and describe_xdp(times_of(run)) is None
    assert not [each for each in run.influences if each["kind"] == "xdp"]


def test_a_kernel_that_does_not_time_is_told_once_and_changes_nothing(inventory: Inventory) -> None:
    seen = observe(inventory)
    seen.streams[0].times = UntimedStream("no_permission", "packets are timed\nfor root only")
    run = record(inventory, seen)
    assert packet_times(run.streams[0]) is None
    assert refusal(run.streams[0]) == "packets are timed for root only"
    assert run.streams[0].extensions[PACKET_TIMES]["refused"]["code"] == "no_permission"
    assert codes(run) == set() and wrong(run) == []


def bent(run: RunRecord, path: str, value: Any) -> RunRecord:
    data = copy.deepcopy(run.to_json())
    inner = data["streams"][0]["extensions"][PACKET_TIMES]
    *way, last = path.split(".")
    for key in way:
        inner = inner[key]
    inner[last] = value
    return RunRecord.model_validate(data)


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("packets", -1, "packets"),
        ("packets", "12", "packets"),
        ("bytes", 10**400, "bytes"),
        ("window_s", float("inf"), "window_s"),
        ("clock_moved_ns", 90_000, "delay_ns"),
        ("variation_ns", None, "variation_ns.packets"),
        ("spacing_ns", None, "spacing_ns"),
        ("overlapping_packets", 3, "spacing_ns.packets"),
        ("delay_ns.histogram", EMPTY, "delay_ns.histogram"),
        ("packets", SENT + 5, "spacing_ns.packets"),
        ("processors", 0, "processors"),
        ("late_packets", SENT + 1, "late_packets"),
        ("skipped_packets", 40, "skipped_packets"),
        ("window_s", 3.0, "window_s"),
        ("reason", "a reason", "reason"),
        ("clock_bound_ns", 9000, "clock_bound_ns"),
        ("clock_bound_ns", None, "clock_bound_ns"),
        ("negative_packets", 4, "delay_ns"),
        ("delay_ns.p50", 21_000, "delay_ns.p50"),
        ("delay_ns.p99", None, "delay_ns.p99"),
        ("delay_ns.min", 2000, "delay_ns.min"),
        ("delay_ns.max", 9_000_000, "delay_ns.max"),
        ("delay_ns.mean", 30_000.0, "delay_ns.mean"),
        ("delay_ns.packets", 7, "delay_ns.packets"),
        ("spacing_ns.max", 100_000, "spacing_ns.max"),
        ("variation_ns.histogram", "HISTFAAA", "variation_ns.histogram"),
        ("by", "a guess", "by"),
        ("port", {"features": [], "left_features": [], "link_changes": 0}, "port"),
    ],
)
def test_what_was_changed_is_named(
    inventory: Inventory, nodes_of_one_kernel: Any, path: str, value: Any, where: str
) -> None:
    run = nodes_of_one_kernel(inventory, timed(observe(inventory), counted()))
    assert f"streams[0].extensions.{PACKET_TIMES}.{where}" in wrong(bent(run, path, value))


def test_what_another_version_wrote_is_not_judged_and_that_is_said(
    inventory: Inventory, nodes_of_one_kernel: Any
) -> None:
    run = nodes_of_one_kernel(inventory, timed(observe(inventory), counted()))
    other = bent(run, "version", 2)
    assert packet_times(other.streams[0]) is None and wrong(other) == []
    assert "the extension packet_times" in list(unjudged(other))
