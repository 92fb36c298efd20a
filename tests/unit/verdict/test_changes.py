"""Verdicts on what changed during a trial and on who else was there: each code when, and only when, it should."""

from __future__ import annotations

import copy

import pytest

from labconsole.model.record.run import Background, RunRecord
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.observations import NodeReading, TrialObservations
from labconsole.verdict.reasons import reason
from support.observed_trials import (
    SENT,
    bent,
    bump,
    busy,
    codes,
    counters,
    found,
    record,
    tell,
    undisturbed,
)


def test_nodes_that_are_one_machine_are_told_of_once(inventory):
    seen = undisturbed(inventory)
    for node in ("src1", "snk1"):
        tell(seen.end[node], "surroundings.boot_id", "the same")
    told = [entry for entry in record(inventory, seen).influences if entry["kind"] == "cpu"]
    assert [entry["nodes"] for entry in told] == [["src1", "snk1"], ["uut"]]
    assert [entry["used_s"]["ours"] for entry in told] == [2.0, 1.0]


def test_nothing_changed_is_valid_and_every_node_is_in_the_record(inventory):
    run = record(inventory, undisturbed(inventory))
    assert (run.verdict.status, codes(run)) == ("valid", set())
    assert [(entry["node"], entry["kind"]) for entry in run.influences] == [
        ("src1", "cpu"),
        ("uut", "cpu"),
        ("snk1", "cpu"),
    ]
    assert run.influences[0]["busy_ratio"] == 0.5


@pytest.mark.parametrize(
    ("node", "interface", "setting", "value", "code"),
    [
        ("src1", "eth1", "carrier_changes", 4, "carrier_changed"),
        ("uut", "eth5", "up", False, "carrier_changed"),
        ("snk1", "eth1", "mtu", 1400, "mtu_changed"),
        ("uut", "eth1", "offloads", {"tso": False, "gro": True}, "settings_changed"),
        ("uut", "eth1", "pause", None, "settings_changed"),
        ("src1", "eth1", "speed_mbps", 100, "settings_changed"),
        ("snk1", "eth1", "qdisc", "tbf", "settings_changed"),
    ],
)
def test_a_port_that_is_not_as_before_is_told_with_both_values(inventory, node, interface, setting, value, code):
    seen = undisturbed(inventory)
    tell(seen.end[node], f"settings.interfaces.{interface}.{setting}", value)
    run = record(inventory, seen)
    assert codes(run) == {code}
    assert run.verdict.status == WEIGHT[code]
    assert found(run, code).evidence["node"] == node


def test_a_change_names_the_setting(inventory):
    seen = undisturbed(inventory)
    tell(seen.end["uut"], "settings.interfaces.eth1.offloads.gro", False)
    tell(seen.end["uut"], "settings.governors", {"powersave": 4})
    change = found(record(inventory, seen), "settings_changed")
    assert {"setting": "eth1 offloads.gro", "before": True, "after": False} in change.evidence["changes"]
    assert {"setting": "governors.powersave", "before": None, "after": 4} in change.evidence["changes"]
    assert "eth1 offloads.gro from on to off" in change.detail


def test_a_number_that_became_zero_is_told_as_a_number(inventory):
    seen = undisturbed(inventory)
    tell(seen.end["uut"], "settings.interfaces.eth1.rings.rx", 0)
    assert "eth1 rings.rx from 1 to 0" in found(record(inventory, seen), "settings_changed").detail


def test_what_is_no_data_port_and_what_moves_by_itself_is_no_doubt(inventory):
    seen = undisturbed(inventory)
    tell(seen.end["uut"], "settings.interfaces.eth9.mtu", 9000)
    tell(seen.end["uut"], "settings.interfaces.eth1.irqs", {"30": "3"})
    run = record(inventory, seen)
    assert codes(run) == set()
    assert [entry["detail"] for entry in run.influences if entry["kind"] == "setting"] == [
        "eth1 irqs.30 went from 0 to 3"
    ]


@pytest.mark.parametrize(("by_s", "stepped"), [(0.005, False), (3600, True), (-1, True)])
def test_a_wall_clock_that_was_set_is_seen_against_the_monotonic_one(inventory, by_s, stepped):
    seen = undisturbed(inventory)
    tell(seen.end["snk1"], "surroundings.wall_ns", seen.end["snk1"].surroundings.wall_ns + int(by_s * 1e9))
    run = record(inventory, seen)
    assert codes(run) == ({"clock_stepped"} if stepped else set())
    seen = undisturbed(inventory)
    seen.console_clock_moved_ns = int(by_s * 1e9)
    assert ("clock_stepped" in codes(record(inventory, seen))) == stepped


def test_a_guest_that_is_not_as_attested_voids_the_run(inventory):
    seen = undisturbed(inventory)
    seen.attestation = {"driver": "raw", "interfaces": {"eth1": {"forwarding": "1"}}}
    seen.attested_after = copy.deepcopy(seen.attestation)
    assert codes(record(inventory, seen)) == set()
    seen.attested_after["interfaces"]["eth1"]["forwarding"] = "0"
    run = record(inventory, seen)
    assert (run.verdict.status, codes(run)) == ("invalid", {"guest_changed"})
    assert "interfaces.eth1.forwarding was 1 and is 0" in found(run, "guest_changed").detail


@pytest.mark.parametrize(
    ("requested", "achieved", "missed"),
    [
        ({"offered_pps": 95.0}, {"offered_pps": 93.0}, False),
        ({"offered_pps": 95.0}, {"offered_pps": 60.0}, True),
        ({"cpu_ratio": 1.0}, {"cpu_ratio": 0.99, "steal_ratio": 0.5}, False),
        ({"cpu_ratio": 1.0}, {"cpu_ratio": 1.2}, True),
        ({"forwarding_pps": 1000}, {}, True),
        ({"cpu_ratio": 0}, {"cpu_ratio": 0}, False),
    ],
)
def test_a_background_load_that_was_not_reached_voids_the_run(inventory, requested, achieved, missed):
    seen = undisturbed(inventory)
    seen.background = Background(kind="light", requested=requested, achieved=achieved)
    assert codes(record(inventory, seen)) == ({"background_missed"} if missed else set())


def test_an_interface_that_went_voids_the_run_only_on_the_way(inventory):
    seen = undisturbed(inventory)
    seen.before["uut"][("", "tap7")] = counters(rx=5, tx=5)
    assert codes(record(inventory, seen)) == set()
    del seen.after["snk1"][("", "eth1")]
    assert "interface_gone" in codes(record(inventory, seen))


def test_a_counter_that_stood_still_while_packets_passed_is_not_known_rather_than_a_loss_of_everything(inventory):
    seen = undisturbed(inventory)
    seen.after["uut"][("", "eth1")] = seen.before["uut"][("", "eth1")]
    run = record(inventory, seen)
    assert (run.verdict.status, codes(run)) == ("suspect", {"counter_froze"})
    assert {hop.hop: (hop.packets, hop.lost_packets) for hop in run.streams[0].ledger}["uut_in"] == (None, None)
    assert (run.streams[0].counters["uut_in_rx_packets"], run.streams[0].loss_packets) == (None, 0)


def test_a_frozen_sink_leaves_the_capture_alone_and_nothing_where_that_is_not_complete(inventory):
    seen = undisturbed(inventory)
    seen.after["snk1"][("", "eth1")] = seen.before["snk1"][("", "eth1")]
    run = record(inventory, seen)
    assert (run.streams[0].measured_from, codes(run)) == ("capture", {"counter_froze"})
    seen.streams[0].capture = bent(seen.streams[0].capture, dropped_kernel_packets=3)
    run = record(inventory, seen)
    assert run.streams[0].measured_packets is None
    assert {"counter_froze", "not_measured"} <= codes(run)


def test_everything_lost_is_no_frozen_counter(inventory):
    run = record(inventory, undisturbed(inventory, uut_out=0))
    assert "counter_froze" not in codes(run)
    assert run.streams[0].loss_packets == SENT


@pytest.mark.parametrize(
    ("node", "interface", "rx", "tx", "direction"),
    [
        ("src1", "eth1", 3, 0, "in"),
        ("uut", "eth1", 0, 3, "out"),
        ("uut", "eth5", 3, 0, "in"),
        ("snk1", "eth1", 0, 3, "out"),
        ("uut", "eth1", 3, 0, "in"),
        ("snk1", "eth1", 3, 0, "in"),
    ],
)
def test_frames_that_are_not_ours_are_seen_on_every_port_and_both_ways(inventory, node, interface, rx, tx, direction):
    seen = undisturbed(inventory)
    sample = seen.after[node][("", interface)]
    seen.after[node][("", interface)] = counters(rx=sample.values[0] + rx, tx=sample.values[1] + tx)
    run = record(inventory, seen)
    assert codes(run) == {"foreign_frames"}
    assert found(run, "foreign_frames").evidence == {
        "node": node,
        "interface": interface,
        "direction": direction,
        "packets": 3,
        "protocols": {"unnamed": 3},
    }


def test_frames_within_the_tolerance_are_told_and_not_doubted(inventory):
    seen = undisturbed(inventory)
    seen.after["src1"][("", "eth1")] = counters(rx=8, tx=7 + SENT)
    run = record(inventory, seen, tolerances=Tolerances(foreign_packets=3))
    assert codes(run) == set()
    assert [entry["packets"] for entry in run.influences if entry["kind"] == "foreign_packets"] == [3]


def test_processes_that_are_not_ours_are_named_and_doubted_beyond_the_tolerance(inventory):
    seen = undisturbed(inventory)
    busy(seen.end["uut"], {"pid": 99, "name": "make", "whose": "other", "cpu_s": 0.9})
    tell(seen.end["uut"], "surroundings.window.used_s.other", 1.0)
    run = record(inventory, seen)
    assert codes(run) == {"other_cpu"}
    assert found(run, "other_cpu").evidence["cpu_ratio"] == pytest.approx(0.5)
    assert [entry["name"] for entry in run.influences if entry["kind"] == "process"] == ["make"]


def test_a_guest_of_the_platform_is_ours_and_another_is_not(inventory):
    seen = undisturbed(inventory)
    seen.attestation = {"guests": ["deb12"]}
    for side in (seen.begin, seen.end):
        tell(side["uut"], "surroundings.guests", [{"name": "deb12", "pid": 50}])
    busy(seen.end["uut"], {"pid": 50, "name": "qemu-system-x86", "whose": "guest", "cpu_s": 1.9})
    run = record(inventory, seen)
    assert codes(run) == set()
    assert [entry["whose"] for entry in run.influences if entry["kind"] == "process"] == ["ours"]
    tell(seen.end["uut"], "surroundings.guests", [{"name": "deb12", "pid": 50}, {"name": "win7", "pid": 60}])
    run = record(inventory, seen)
    assert codes(run) == {"guests_changed"}
    assert found(run, "guests_changed").evidence["guests"] == ["win7"]


def test_stolen_time_is_judged_on_real_machines_only(inventory):
    seen = undisturbed(inventory)
    tell(seen.end["uut"], "surroundings.window.cpu.steal_ratio", 0.2)
    assert codes(record(inventory, seen)) == {"cpu_stolen"}
    emulated = inventory.model_copy(update={"emulated": True})
    assert codes(record(emulated, seen)) == set()


def test_logins_and_other_sessions_are_told(inventory):
    seen = undisturbed(inventory)
    eva = {"user": "eva", "line": "pts/1", "host": "desk", "since_wall_s": 5}
    tell(seen.end["src1"], "surroundings.logins", [eva])
    tell(seen.end["src1"], "surroundings.sessions", [4711])
    told = {entry["kind"]: entry for entry in record(inventory, seen).influences if entry["node"] == "src1"}
    assert told["logins"]["came"] == ["eva on pts/1 from desk"]
    assert told["sessions"]["pids"] == [4711]


def test_a_node_that_cannot_say_is_told_and_doubted(inventory):
    seen = undisturbed(inventory)
    seen.end["uut"] = NodeReading()
    seen.notes.append({"node": "uut", "kind": "not_observed", "detail": "settings: no such operation"})
    run = record(inventory, seen)
    assert codes(run) == {"not_observed"}
    assert {"node": "uut", "kind": "not_observed", "detail": "settings: no such operation"} in run.influences


def short(inventory, **generated) -> TrialObservations:
    return undisturbed(inventory, sent=SENT - 1000, **generated)


def causes(run: RunRecord) -> list[str]:
    return [cause["cause"] for cause in found(run, "offered_short").evidence["causes"]]


def test_a_shortfall_says_why_as_far_as_it_shows(inventory):
    assert causes(record(inventory, short(inventory))) == []
    assert "nothing shows what slowed" in found(record(inventory, short(inventory)), "offered_short").detail
    assert causes(record(inventory, short(inventory, idle_ns=1_000_000))) == ["cpu"]
    assert causes(record(inventory, short(inventory, errors=7))) == ["queue_full"]
    seen = short(inventory)
    tell(seen.end["src1"], "drops.namespaces..driver.eth1", {"rx_flow_control_xoff": 12, "tx_busy": 4})
    run = record(inventory, seen)
    assert causes(run) == ["flow_control", "queue_full"]
    assert "flow control throttled it (rx_flow_control_xoff 12)" in found(run, "offered_short").detail
    assert "flow_control" in {entry["kind"] for entry in run.influences}
    seen = short(inventory)
    # Linux 6.12: mlx5's cache of pages, hv_netvsc's completions of received packets, ena's queue of orders.
    others = {"rx_cache_busy": 9, "rx0_cache_busy": 9, "rx_comp_busy": 2, "admin_q_pause": 1}
    tell(seen.end["src1"], "drops.namespaces..driver.eth1", others)
    assert causes(record(inventory, seen)) == []
    seen = short(inventory)
    tell(seen.end["src1"], "drops.namespaces..qdiscs.0.2", {"drops": 5, "overlimits": 500, "requeues": 3})
    assert causes(record(inventory, seen)) == ["shaper", "queue_full"]
    seen = short(inventory)
    for side in (seen.begin, seen.end):
        tell(side["src1"], "settings.interfaces.eth1.speed_mbps", 1)
    assert causes(record(inventory, seen)) == ["link_speed"]


def drops(run: RunRecord) -> dict[str, dict[str, int]]:
    return {hop.hop: hop.drops for hop in run.streams[0].ledger if hop.drops}


def test_each_drop_counter_speaks_for_the_hop_it_kept_the_packet_from(inventory):
    seen = undisturbed(inventory, uut_out=SENT - 100)
    bump(seen, "uut", "eth1", rx_missed_errors=3, rx_dropped=20)
    bump(seen, "uut", "eth5", tx_dropped=30)
    bump(seen, "snk1", "eth1", rx_fifo_errors=4)
    last = seen.end["uut"]
    tell(last, "drops.softnet", [[0, 200, 43, 0]])
    tell(last, "drops.namespaces..ip", {"InDiscards": 11})
    tell(last, "drops.namespaces..qdiscs.1.2.drops", 15)
    tell(last, "drops.namespaces..driver.eth1", {"rx_no_buffer_count": 6, "tx_errors": 5, "rx_pause": 9})
    run = record(inventory, seen)
    assert drops(run) == {
        "uut_in": {"rx_missed_errors": 3, "driver.rx_no_buffer_count": 6},
        "uut_out": {
            "tx_dropped": 30,
            "qdisc_tbf": 10,
            "eth1.rx_dropped": 20,
            "node.softnet_dropped": 40,
            "node.ip.InDiscards": 10,
        },
        "sink_nic": {"rx_fifo_errors": 4},
    }
    assert codes(run) == set()  # explained or not, loss at the unit under test is no doubt


def test_counters_of_a_whole_node_speak_only_where_the_stream_lost_something(inventory):
    seen = undisturbed(inventory)
    tell(seen.end["uut"], "drops.softnet", [[0, 200, 43, 0]])
    assert drops(record(inventory, seen)) == {}


def rule(chain: str, packets: int, *, interface: str | None = None, hook: str | None = None) -> dict:
    return {
        "family": "netdev",
        "table": "fw",
        "chain": chain,
        "handle": 4,
        "interface": interface,
        "hook": hook,
        "packets": packets,
    }


def test_a_firewall_that_counts_what_it_drops_explains_the_loss(inventory):
    seen = undisturbed(inventory, uut_out=SENT - 100)
    before = [rule("in", 5, interface="eth1", hook="ingress")]
    after = [
        rule("in", 45, interface="eth1", hook="ingress"),
        rule("out", 35, interface="eth5", hook="egress"),
        rule("forward", 25),
        rule("elsewhere", 9, interface="eth9", hook="ingress"),
    ]
    tell(seen.begin["uut"], "drops.namespaces..filters", before)
    tell(seen.end["uut"], "drops.namespaces..filters", after)
    assert drops(record(inventory, seen)) == {
        "uut_out": {"nft.fw.out": 35, "eth1.nft.fw.in": 40, "node.nft.fw.forward": 25}
    }


@pytest.mark.parametrize("begin", ["not read", "not told"])
def test_a_firewall_whose_counts_before_are_not_known_explains_nothing(inventory, begin):
    seen = undisturbed(inventory, uut_out=SENT - 100)
    tell(seen.end["uut"], "drops.namespaces..filters", [rule("forward", 1_000_025)])
    if begin == "not read":
        seen.begin["uut"].drops = None
    else:
        tell(seen.begin["uut"], "drops.namespaces..filters", None)
    assert drops(record(inventory, seen)) == {}


def test_a_replaced_queue_or_another_number_of_processors_is_no_count(inventory):
    seen = undisturbed(inventory, uut_out=SENT - 100)
    tell(seen.end["uut"], "drops.namespaces..qdiscs.1.2", {"drops": 0, "requeues": 0, "overlimits": 0})
    tell(seen.end["uut"], "drops.softnet", [[0, 1, 1, 1], [1, 1, 1, 1]])
    assert drops(record(inventory, seen)) == {}


def test_loss_in_the_source_or_at_the_sink_is_not_blamed_on_the_unit_under_test(inventory):
    seen = undisturbed(inventory, nic=SENT - 50, uut_out=SENT - 50)
    tell(seen.end["src1"], "drops.namespaces..qdiscs.0.2.drops", 55)
    run = record(inventory, seen)
    assert codes(run) == {"lost_at_source"}
    assert found(run, "lost_at_source").evidence["lost_packets"] == 50
    seen = undisturbed(inventory, arrived=SENT - 9)
    bump(seen, "snk1", "eth1", rx_missed_errors=9)
    assert codes(record(inventory, seen)) == {"lost_at_sink"}


def test_an_incomplete_capture_is_a_hop_without_a_count(inventory):
    run = record(inventory, undisturbed(inventory, captured=SENT - 30, dropped=30))
    hop = run.streams[0].ledger[-1]
    assert (hop.hop, hop.packets, hop.lost_packets, hop.drops) == ("capture", None, None, {"capture_buffer": 30})
    assert run.streams[0].unplaced_packets == 0


def test_doubts_of_others_enter_the_verdict_and_unknown_codes_do_not(inventory):
    seen = undisturbed(inventory)
    seen.doubts.append(reason("instrument_limited", "s1: beyond the envelope", stream="s1"))
    assert codes(record(inventory, seen)) == {"instrument_limited"}
    with pytest.raises(ValueError, match="is not a verdict code"):
        reason("made_up", "so")


@pytest.mark.parametrize(("adaptive", "judged"), [(1, False), (0, True)])
def test_interrupt_moderation_that_the_driver_adapts_by_itself_is_no_change_of_settings(inventory, adaptive, judged):
    seen = undisturbed(inventory)
    for readings, value in ((seen.begin, 3), (seen.end, 64)):
        tell(readings["uut"], "settings.interfaces.eth1.coalesce.rx_usecs", value)
        tell(readings["uut"], "settings.interfaces.eth1.coalesce.adaptive_rx", adaptive)
    assert codes(record(inventory, seen)) == ({"settings_changed"} if judged else set())
