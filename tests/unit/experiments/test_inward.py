"""Guests that are sent to: what each is told, what its counts say, the ledger, the verdict, what is computed again, the
report.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.experiments.flow.kind import KIND as FLOW_KIND
from labconsole.experiments.flow.live_view import INTO, SendingWatch, build_picture
from labconsole.experiments.flow.plan import FlowFactors, PlannedFlows, flow_points
from labconsole.experiments.flow.procedure import derive_offered_bps, describe_result
from labconsole.experiments.flow.receive import ReceivingGuest, build_stream, ledger, parse_processes, read_counts
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.experiments.flow.text import summary_lines
from labconsole.experiments.flow.verify import recompute_flow
from labconsole.model.plan.crews import CrewTrial
from labconsole.report.trial_text import trial_lines
from labconsole.store.open import open_store
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from support.fake_session import make_inventory
from support.flow_records import flow_record, inward_record
from support.guest_plans import hash_of

SAID = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t004012C6\t00000000\t0001\t0\t0\t0\t00C0FFFF\t0\t0\t0
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       3    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0: 6450480    4268    0    0    0     0          0         0      210       3    0    0    0     0       0          0
Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers
Ip: 2 64 4250 0 0 0 0 0 4246
Icmp: InMsgs InErrors
Icmp: 0 0
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 4100 1 46 0 40 0 6 0 0
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  102: 014012C6:1389 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 77 2 0000000000000000 40
"""
ADDRESS, NETWORK = "198.18.64.1", "198.18.64.0"


def guest(**changes: Any) -> ReceivingGuest:
    told: dict[str, Any] = {
        "name": "g1",
        "address": ADDRESS,
        "mac": "02:6c:77:00:00:00",
        "host_interface": "lcg1",
        "own_stack": True,
    }
    return ReceivingGuest(**(told | changes))


def test_a_guest_reads_before_anything_is_sent_and_its_bridge_is_taught_where_it_is():
    line = guest().begin_line("02:00:00:00:00:08", 10.0)
    assert (
        line.index("arp -s 198.18.127.1 02:00:00:00:00:08")
        < line.index("ping -w 190 -i")
        < line.index("timeout -s KILL 190 iperf -s -u")
    )
    assert "014012C6:1389 " in line and "\n" not in line
    subprocess.run(["sh", "-n", "-c", line], check=True)
    bare = guest(own_stack=False).begin_line("02:00:00:00:00:08", 10.0)
    assert "arp" not in bare and "ping" not in bare
    assert parse_processes("LCREADER 1077 0\r\n") == [1077]
    assert parse_processes("LCREADER 1077 1076\n") == [1077, 1076]
    assert parse_processes("LCREADER 1 nothing") == [] and parse_processes("") == []
    assert guest(own_stack=False).end_line([1077]) == "kill -KILL 1077 2>/dev/null; :"


def test_what_a_guest_counted_is_read_out_of_its_kernels_tables():
    found = read_counts(SAID.replace("\n", "\r\n"), ADDRESS, NETWORK)
    assert (found.nic, found.others, found.ip) == (4268, 3, 4246)
    assert (found.udp, found.socket_full, found.no_reader, found.errors) == (4100, 40, 1, 46)
    assert found.reader
    assert not read_counts(SAID, "198.18.64.2", NETWORK).reader, "another address has the port"
    assert read_counts(SAID, ADDRESS, "198.18.128.0").nic is None


@pytest.mark.parametrize(
    "said", ["", "Udp: InDatagrams\nUdp: much", "Udp: InDatagrams NoPorts\nUdp: 1", "Ip: A\nIp: -1"]
)
def test_what_cannot_be_read_is_not_known(said: str):
    found = read_counts(said, ADDRESS, NETWORK)
    assert (found.nic, found.ip, found.udp, found.socket_full, found.reader) == (None, None, None, None, False)


def test_the_source_is_told_each_guests_own_addresses_and_a_count_that_fits_the_time():
    asked = inward_record([16258]).requested.model_copy(update={"offered_bps": 10_000_000, "duration_s": 2.0})
    spec = build_stream(guest(), 1, asked, "eth1", "auto", (3,))
    spec.check_fields()
    assert (spec.destination_mac, spec.sink_ip, spec.source_ip) == ("02:6c:77:00:00:00", ADDRESS, "198.18.127.1")
    assert (spec.pkt_size_bytes, spec.delay_ns, spec.count) == (1514, 1_177_600, 1698)
    assert (
        spec.cpus == [3]
        and spec.udp_source_port != build_stream(guest(), 0, asked, "eth1", "auto", None).udp_source_port
    )
    with pytest.raises(ValueError, match="less than a datagram"):
        build_stream(guest(), 0, asked.model_copy(update={"offered_bps": 1000}), "eth1", "auto", None)


def test_what_was_lost_is_placed_between_two_counts_that_are_known():
    whole, unplaced = ledger(1000, 930, 920, 915, 800, 90, 5, 0)
    assert {each.hop: each.packets for each in whole} == {
        "to_guest": 70,
        "guest_nic": 10,
        "guest_udp": 5,
        "guest_no_reader": 5,
        "guest_socket_full": 90,
        "guest_errors": 0,
        "guest_unread": 20,
    }
    assert unplaced == 0
    bare, unplaced = ledger(1000, None, 930, None, 800, 90, 5, 0)
    assert {each.hop: each.packets for each in bare} == {
        "guest_nic": 70,
        "guest_no_reader": 5,
        "guest_socket_full": 90,
        "guest_errors": 0,
    }
    assert unplaced == 35, "what is at no place stays at none"
    unknown, unplaced = ledger(None, 930, 920, None, None, None, None, None)
    assert [(each.hop, each.packets) for each in unknown] == [("guest_nic", 10)] and unplaced is None


def test_a_sound_trial_is_valid_and_computed_again():
    losses = [{"guest_socket_full": 100, "guest_unread": 92}, {"to_guest": 7}]
    record = inward_record([16258, 16258], losses=losses, link_speed_bps=10**9)
    assert record.verdict.status == "valid", record.verdict
    assert recompute_flow(record) == []
    first, second = record.receivers
    assert (first.lost_packets, second.lost_packets, first.unplaced_packets) == (192, 7, 0)
    assert first.payload_bps == pytest.approx((16258 - 192) * 1472 * 8 / 2)
    words = "\n".join([*trial_lines(FLOW_KIND, record), *describe_result(record)])
    assert "2 guests are sent" in words and "guest_socket_full 100, guest_unread 92" in words and "to_guest 7" in words
    assert FlowRecord.model_validate_json(record.model_dump_json()) == record
    assert [each.name for each in build_picture(record, ["words"]).guests] == ["g1", "g2"]


@pytest.mark.parametrize(
    ("how", "status", "code", "words"),
    [
        ({"guest": {"nic": 17000}}, "invalid", "witnesses_disagree", "in at its NIC"),
        ({"guest": {"ip": 17000}}, "invalid", "witnesses_disagree", "IP layer"),
        ({"guest": {"udp": 17000}}, "invalid", "witnesses_disagree", "read 17000 datagrams"),
        ({"guest": {"reader": False}}, "invalid", "reader_missing", "g1"),
        ({"guest": {"udp": None}}, "invalid", "not_measured", "did not say"),
        ({"sent": [0]}, "invalid", "no_packets", "g1"),
        ({"sent": [None]}, "invalid", "generator_failed", "g1"),
        ({"losses": [{"to_guest": 16258}]}, "invalid", "no_packets", "packets sent to it arrived"),
        ({"source": {"nic_packets": 16000}}, "suspect", "lost_at_source", "258"),
        ({"source": {"uut_packets": 16300}}, "suspect", "foreign_frames", "16300"),
        ({"losses": [{"to_guest": -3, "guest_udp": 3}]}, "suspect", "foreign_frames", "3 packets more"),
    ],
)
def test_what_is_wrong_is_told_of_the_guest(how: dict[str, Any], status: str, code: str, words: str):
    record = inward_record(**({"sent": [16258]} | how))
    assert record.verdict.status == status
    assert any(each.code == code and words in each.detail for each in record.verdict.reasons), record.verdict
    assert recompute_flow(record) == []


def test_what_another_nic_of_a_guest_received_makes_its_ip_count_worth_nothing():
    record = inward_record([16258], guest={"others": 5, "socket_full": 50, "errors": 50, "udp": 16158})
    (each,) = record.receivers
    assert each.ip_packets is None
    assert each.unplaced_packets == 50 and "guest_unread" not in {loss.hop for loss in each.losses}
    assert recompute_flow(record) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"payload_bps": 1.0}, "receivers[0].payload_bps"),
        ({"offered_bps": 1.0}, "receivers[0].offered_bps"),
        ({"udp_packets": 5}, "receivers[0].lost_packets"),
        ({"socket_full_packets": 5}, "receivers[0].losses"),
        ({"losses": ()}, "receivers[0].losses"),
        ({"unplaced_packets": 7}, "receivers[0].unplaced_packets"),
        ({"reader": False}, "verdict.reasons"),
    ],
)
def test_a_record_that_was_changed_by_hand_is_found(change: dict[str, Any], where: str):
    record = inward_record([16258], losses=[{"guest_socket_full": 100}])
    changed = record.model_copy(update={"receivers": (record.receivers[0].model_copy(update=change),)})
    assert where in {each.where for each in recompute_flow(changed)}


def test_of_what_guests_receive_neither_limits_nor_greed_are_varied():
    factors = FlowFactors.model_validate(
        {"pattern": ["out", "in"], "guests": [1, 2], "offered": ["line", "10Mbit"], "greedy": [1, 3]}
    )
    points = flow_points(factors, ["lxc"])
    assert [point.index for point in points] == list(range(len(points)))
    inward = [point for point in points if point.pattern == "in"]
    assert [(each.guests, each.offered, each.greedy) for each in inward] == [
        (1, "line", 1),
        (1, 10_000_000, 1),
        (2, "line", 1),
        (2, 10_000_000, 1),
    ]
    assert inward[3].words() == "lxc: 2 guests are sent 10Mbit each"
    trials = [CrewTrial(point=point, block=1, repetition=1, position=1) for point in points]
    assert len({hash_of(PlannedFlows, factors, trial) for trial in trials}) == len(points)
    assert inward[0].crew != points[0].crew, "its guests share another NIC"
    inventory = make_inventory()
    speed_bps = inventory.streams[0].link_speed_bps
    assert derive_offered_bps(inward[2], inventory) == int(speed_bps * 1472 / 1538 / 2)
    for told in ({"limits": ["30Mbit"]}, {"greedy": [2]}, {"second_after_s": [1.0]}):
        with pytest.raises(ValueError, match="in pattern in guests receive"):
            FlowFactors.model_validate({"pattern": ["in"], "guests": [2], **told})


def test_the_live_curve_is_of_what_is_handed_to_a_guest():
    watch, rows = SendingWatch({7: "g1"}, INTO), [0] * len(STAT_NAMES)
    for second in range(3):
        rows = list(rows)
        rows[STAT_NAMES.index("tx_bytes")] = 1_000_000 * second
        message = {
            "missed": 0,
            "late": False,
            "monotonic_ns": second * 10**9,
            "wall_ns": 1,
            "namespaces": {"": [[7, len(rows), rows]]},
        }
        watch.see(CountersSampled.parse(message))
    over_time = watch.shown()
    assert over_time.curves[0].values == (8.0, 8.0) and "handed" in over_time.title


def test_a_report_draws_both_ways_side_by_side_and_says_where_the_rest_went(tmp_path: Path):
    store, records = tmp_path / "s.sqlite", []
    with open_store(str(store)) as opened:
        for block in range(1, 4):
            end = f"20260101T000000000000Z-000{block}"
            out = flow_record([[8127] * 4], platform="lxc", block=block, flow_id=f"{end}1")
            into = inward_record(
                [16255], losses=[{"guest_socket_full": 10 * block}], platform="lxc", block=block, flow_id=f"{end}2"
            )
            into = into.model_copy(update={"plan": into.plan.model_copy(update={"hash": f"flow-in{block}"})})
            into = into.model_copy(
                update={"requested": into.requested.model_copy(update={"offered_bps": int(into.line_bps)})}
            )
            records.append(into)
            for record in (out, into):
                opened.save_experiment(FLOW, record)
    told = ["report", "--store", str(store), "--out", str(tmp_path / "out"), "--reference", "mattos"]
    assert main([*told, "--formats", "svg,md,csv"]) == 0
    drawn = (tmp_path / "out" / "mattos-3.svg").read_text()
    assert "from the guest" in drawn and "to the guest" in drawn and "What one guest sends and receives" in drawn
    received = (tmp_path / "out" / "flow-received.md").read_text()
    assert "| lxc | 1 |" in received and "guest_socket_full 0.123" in received
    beside = (tmp_path / "out" / "mattos-flow-beside.md").read_text()
    assert "sent 95.708712Mbit" in beside and "below native" in beside
    assert "lxc is its openvz." in beside and "Not matched" not in beside
    assert "what the link carries" in drawn
    assert "lxc" in (tmp_path / "out" / "flow-sharing.md").read_text()
    summary = summarize_flows(records)
    assert "lost of what was sent: guest_socket_full 0.123 (0.0" in "\n".join(summary_lines(summary))
