"""Which statistics of a driver count lost packets.

The names and what they count are from the drivers of Linux 6.12 (drivers/net, mlx5's also from its documentation of
counters, ena's allowances from the vendor's documentation). The rows of the first table are complete for the names
that real machines print in the tests of isc-projects/ethq (outputs of ``ethtool -S`` of 16 drivers): of what has been
kept there because of its name, these and no others are lost packets.
"""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.agent.reading.drops import TROUBLE
from labconsole.verdict.driver_losses import DRIVERS, losses_of
from labconsole.verdict.hops import DROP, _direction, driver_losses
from labconsole.verdict.observations import CountingPoint, TrialObservations
from labconsole.wire.codec import STAT_NAMES
from support.observed_trials import codes, found, record, tell, undisturbed

LOST_AND_NOT: list[tuple[str, str, str, str]] = [
    (
        "ixgbe",
        "rx_no_dma_resources",
        "",
        "fdir_miss, fdir_overflow, rx_csum_offload_errors, alloc_rx_page_failed,"
        "tx_queue_3_bp_misses, rx_queue_3_bp_misses, rx_no_buffer_count, tx_flow_control_xoff, rx_fcoe_dropped",
    ),
    ("ixgbevf", "", "", "rx_csum_offload_errors, alloc_rx_buff_failed, rx_queue_0_bp_misses"),
    (
        "i40e",
        "rx_dropped, port.rx_dropped, port.rx_discards, veb.rx_discards, port.rx_crc_errors",
        "port.tx_dropped_link_down, veb.tx_discards",
        "port.rx_csum_bad, port.arq_overflows, rx_alloc_fail, port.link_xoff_rx, rx_unknown_protocol, tx_busy",
    ),
    ("iavf", "rx_discards", "tx_discards", "rx_unknown_protocol"),
    (
        "ice",
        "rx_dropped, rx_dropped.nic, rx_crc_errors.nic, rx_undersize.nic",
        "tx_dropped_link_down.nic",
        "rx_csum_bad.nic, rx_eipe_error.nic, rx_alloc_fail, link_xoff_rx.nic",
    ),
    (
        "e1000e",
        "rx_long_length_errors, rx_align_errors",
        "tx_abort_late_coll",
        "rx_no_buffer_count, rx_csum_offload_errors, uncorr_ecc_errors, alloc_rx_buff_failed, dropped_smbus, tx_deferred_ok,"
        "tx_tcp_seg_failed, rx_flow_control_xoff",
    ),
    (
        "igb",
        "rx_queue_7_drops, rx_short_length_errors",
        "",
        "rx_queue_7_csum_err, rx_queue_7_alloc_failed, dropped_smbus",
    ),
    ("mlx4_en", "rx3_dropped, rx_in_range_length_error, rx_xdp_drop", "", "rx3_xdp_drop, rx_csum_none"),
    (
        "mlx5_core",
        "rx_out_of_buffer, rx_discards_phy, rx_crc_errors_phy, rx_symbol_err_phy, rx_xdp_drop, rx_wqe_err,"
        "outbound_pci_buffer_overflow, rx_oversize_pkts_sw_drop",
        "tx_queue_dropped, tx_discards_phy, tx_errors_phy",
        "tx3_dropped, rx3_xdp_drop, rx3_wqe_err, rx_pcs_symbol_err_phy, rx_cache_busy, rx_cache_full, rx_buff_alloc_err,"
        "rx_prio3_discards, tx_queue_stopped, rx_pause_ctrl_phy, rx_arfs_err, rx_err_lane_0_phy, module_bad_shorted,"
        "rx_steer_missed_packets",
    ),
    (
        "bnxt_en",
        "[11]: rx_discards, rx_stat_discard, rx_fcs_err_frames, rx_total_oom_discards",
        "[0]: tx_errors, [0]: tx_discards, tx_fifo_underruns",
        "rx_total_ring_discards, tx_total_ring_discards, rx_discard_bytes_cos0, total_missed_irqs, [0]: missed_irqs,"
        "[0]: rx_l4_csum_errors, rx_pcs_symbol_err, continuous_pause_events",
    ),
    (
        "bnx2x",
        "rx_discards, rx_brb_discard, rx_skb_alloc_discard",
        "tx_mac_errors, driver_filtered_tx_pkt",
        "[0]: rx_discards, [0]: rx_skb_alloc_discard, rx_csum_offload_errors, rx_filtered_packets, rx_error_bytes,"
        "tx_deferred, recoverable_errors, rx_mf_tag_discard",
    ),
    ("bnx2", "rx_discards, rx_ftq_discards, rx_fw_discards", "tx_mac_errors", "rx_filtered_packets, tx_deferred"),
    (
        "tg3",
        "rx_discards, rx_fcs_errors",
        "tx_discards, tx_mac_errors",
        "dma_readq_full, tx_comp_queue_full, rxbds_empty, mbuf_lwm_thresh_hit, tx_deferred, rx_xoff_entered",
    ),
    ("r8169", "rx_missed, align_errors", "tx_aborted, tx_underrun", "tx_multi_collisions"),
    ("virtio_net", "rx_queue_0_drops", "tx_queue_0_xdp_tx_drops", "rx_queue_0_xdp_drops, tx_queue_0_tx_timeouts"),
    (
        "vmxnet3",
        "pkts rx OOB, pkts rx err, drv dropped rx total",
        "pkts tx discard, pkts tx err, drv dropped tx total",
        "err, fcs, hdr err, too many frags, rx buf alloc fail, ring full, Rx Queue#, Tx Queue#",
    ),
    (
        "ena",
        "bw_in_allowance_exceeded, queue_0_rx_skb_alloc_fail",
        "bw_out_allowance_exceeded, queue_0_tx_prepare_ctx_err",
        "admin_q_pause, ena_admin_q_no_completion, queue_0_rx_bad_csum, queue_0_rx_page_alloc_fail, queue_0_tx_queue_stop,"
        "conntrack_allowance_available, queue_0_tx_missed_tx",
    ),
    ("gve", "rx_dropped_pkt[0], rx_queue_drop_cnt[0]", "", "rx_no_buffers_posted[0], rx_drops_packet_over_mru[0]"),
    ("hv_netvsc", "rx_no_memory", "tx_no_memory, tx_too_big", "rx_comp_busy, tx_no_space, tx_send_full, stop_queue"),
    ("mana", "hc_rx_discards_no_wqe", "hc_tx_err_mtu_violation", "tx_cq_err, rx_coalesced_err"),
    ("veth", "rx_queue_0_drops, rx_queue_0_xdp_drops", "tx_queue_0_xdp_xmit_errors", ""),
    ("vif", "", "", "rx_gso_checksum_fixup"),
    (
        "qede",
        "no_buff_discards, brb_discards, 0: rx_alloc_errors",
        "tx_err_drop_pkts",
        "mac_filter_discards, mftag_filter_discards, 0: rx_hw_errors",
    ),
    (
        "sfc",
        "port_rx_nodesc_drops, rx_noskb_drops, rx_overflow",
        "tx_bad",
        "rfs_failed, rx_tcp_udp_chksum_err, port_rx_bad_bytes, rx_mcast_mismatch, port_rx_dp_hlb_wait,"
        "port_rx_dp_di_dropped_packets",
    ),
    ("nfp", "dev_rx_discards, mac.rx_mac_head_drop", "dev_tx_discards", "hw_rx_csum_err, hw_tls_no_space"),
    (
        "cxgb4",
        "rx_bg0_frames_dropped, rx_bg3_frames_trunc",
        "tx_frames_dropped",
        "bg0_frames_dropped, db_drop, db_full",
    ),
    (
        "be2net",
        "rx_drops_no_pbuf, rxq3: rx_drops_no_frags, rx_dropped_runt",
        "txq3: tx_drv_drops",
        "rx_ip_checksum_errs, rx_address_filtered, roce_drops_crc, rxq0: rx_post_fail, jabber_events, dma_map_errors",
    ),
    (
        "fsl_dpaa2_eth",
        "[hw] rx nobuffer discards, [hw] rx discarded frames, [drv] xdp drop",
        "[hw] tx rejected frames, [hw] tx discarded frames",
        "[hw] rx filtered frames, [hw] tx rejected bytes, [drv] dequeue portal busy, [qbman] buffer count",
    ),
    (
        "hns3",
        "rxq0_l2_err, mac_rx_bad_pkt_num",
        "txq0_dropped, txq#0_map_sg_err",
        "rxq0_l3l4_csum_err, rxq0_frag_alloc_err, mac_rx_fcs_err_pkt_num, mac_rx_bad_oct_num",
    ),
    ("nicvf", "rx_drops", "tx_drops", "rx_drop_red, rx_drop_overrun, rx_drop_red_bytes"),
    (
        "fsl_enetc",
        "Rx ring  0 discarded frames, Rx ring 15 discarded frames",
        "Tx window drop  0 frames",
        "SI MAC nomatch u-cast discards, Rx ring  0 recycle failures",
    ),
    (
        "st_gmac",
        "mmc_rx_fifo_overflow, rx_missed_cntr",
        "mmc_tx_underflow_error",
        "mtl_tx_status_fifo_full, rx_buf_unav_irq, da_rx_filter_fail, mmc_rx_tcp_err, ipc_csum_error",
    ),
    ("txgbe", "rx_no_dma_resources", "", "fdir_miss, rx_csum_offload_errors"),
]


def growing(inventory: Any, driver: str | None, names: Any, node: str = "snk1") -> TrialObservations:
    """A trial in which these statistics of the driver of eth1 grew: from 2, or from 0 if that is a number."""
    seen = undisturbed(inventory)
    grown = names if isinstance(names, dict) else dict.fromkeys(names, 1)
    for side in (seen.begin[node], seen.end[node]):
        tell(side, "drops.namespaces..drivers", {"eth1": driver})
    tell(seen.end[node], "drops.namespaces..driver.eth1", grown)
    return seen


def listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@pytest.mark.parametrize(("driver", "rx", "tx", "none"), LOST_AND_NOT, ids=[row[0] for row in LOST_AND_NOT])
def test_a_drivers_statistics_that_count_lost_packets_are_known_with_their_side(inventory, driver, rx, tx, none):
    seen = growing(inventory, driver, listed(rx) + listed(tx) + listed(none))
    lost = driver_losses(seen, CountingPoint("sink_nic", "snk1", "", "eth1", "rx_packets"))
    assert {name: loss.receiving for name, (_, loss) in lost.items()} == {
        **dict.fromkeys(listed(rx), True),
        **dict.fromkeys(listed(tx), False),
    }


def test_what_hits_both_directions_belongs_to_neither():
    known = losses_of("ena") or {}
    assert [name for name, loss in known.items() if loss.receiving is None] == [
        "pps_allowance_exceeded",
        "conntrack_allowance_exceeded",
        "linklocal_allowance_exceeded",
    ]


@pytest.mark.parametrize("driver", " ".join(DRIVERS).split())
def test_the_agent_keeps_what_the_table_lists_and_every_sum_is_a_statistic_of_the_interface(driver):
    known = losses_of(driver)
    assert known is not None
    assert [name for name in known if not TROUBLE.search(name.lower())] == []
    assert {each for loss in known.values() for each in loss.sums} <= set(STAT_NAMES)


BY_WORDS = (
    "rx_out_of_buffer",
    "bw_in_allowance_exceeded",
    "conntrack_allowance_exceeded",
    "rx_no_dma_resources",
    "pkts rx OOB",
    "rx_no_buffer_count",
    "rx_missed",
    "rx_fifo_errors",
    "rx_fifo_overflow_errors",
    "rx_crc_errs",
    "tx_underrun_err",
    "rx_queue_3_drops",
    "[hw] rx nobuffer discards",
    "port_rx_nodesc_drops",
    "hc_rx_discards_no_wqe",
    "rx_overruns",
    "rx_drops_invalid_checksum[0]",
    "InDroppedDma",
    "tx_no_memory",
    "rx_buferr",
)
NOT_BY_WORDS = (
    "fdir_miss",
    "fdir_overflow",
    "rx_queue_0_bp_misses",
    "tx_queue_0_bp_misses",
    "rx_queue_0_ll_misses",
    "rx_csum_offload_errors",
    "rx_ip_checksum_errs",
    "rx_tcp_udp_chksum_err",
    "rx_l4_csum_errors",
    "rx_arfs_err",
    "tx_deferred",
    "rx_bytes_transferred",
    "rx_interrupts",
    "total_missed_irqs",
    "recoverable_errors",
    "corr_ecc_errors",
    "rx_fec_uncorrected_errors",
    "rx_pcs_symbol_err_phy",
    "rx_drop_red_bytes",
    "rx_discard_bytes_cos0",
    "port.arq_overflows",
    "rx_cache_miss",
    "flow_table_miss",
    "mac_filter_discards",
    "roce_drops_crc",
    "admin_q_err",
    "rx_pause",
    "tx_busy",
    "rx_xoff",
    "rx_buff_alloc_err",
    "dropped_smbus",
    "tx_hwtstamp_discarded",
)


def test_the_words_for_drivers_that_are_not_listed():
    assert [name for name in BY_WORDS if not DROP.search(name)] == []
    assert [name for name in NOT_BY_WORDS if DROP.search(name)] == []


def test_of_a_driver_that_is_not_listed_parts_are_left_out_where_their_sum_is_there(inventory):
    grown = {
        "rx_drops": 7,
        "rx_queue_0_drops": 3,
        "rxq1_drops": 4,
        "[2]: tx_discards": 5,
        "rx-3.missed": 2,
        "fdir_miss": 9,
    }
    seen = growing(inventory, "new-nic", grown)
    lost = driver_losses(seen, CountingPoint("sink_nic", "snk1", "", "eth1", "rx_packets"))
    assert {name: packets for name, (packets, _) in lost.items()} == {
        "rx_drops": 7,
        "[2]: tx_discards": 5,
        "rx-3.missed": 2,
    }


def bump(seen: TrialObservations, node: str, **statistics: int) -> None:
    """Let the interface's own counters of eth1 grow."""
    last = seen.after[node][("", "eth1")]
    values = list(last.values)
    for name, packets in statistics.items():
        values[STAT_NAMES.index(name)] += packets
    seen.after[node][("", "eth1")] = type(last)(last.monotonic_ns, tuple(values))


def ledger(inventory: Any, seen: TrialObservations) -> dict[str, dict[str, int]]:
    return {hop.hop: dict(hop.drops) for hop in record(inventory, seen).streams[0].ledger if hop.drops}


def test_a_packet_that_the_interface_and_its_driver_count_is_counted_once(inventory):
    """Linux 6.12: mlx5 puts rx_out_of_buffer into rx_missed_errors; before 5.3 it was in rx_dropped."""
    newer = growing(inventory, "mlx5_core", {"rx_out_of_buffer": 48}, node="uut")
    bump(newer, "uut", rx_missed_errors=50, rx_dropped=9)
    assert ledger(inventory, newer) == {
        "uut_in": {"rx_missed_errors": 2, "driver.rx_out_of_buffer": 48},
        "uut_out": {"eth1.rx_dropped": 9},
    }
    older = growing(inventory, "mlx5_core", {"rx_out_of_buffer": 48}, node="uut")
    bump(older, "uut", rx_dropped=48)
    assert ledger(inventory, older) == {"uut_in": {"driver.rx_out_of_buffer": 48}}


def test_what_a_driver_drops_after_its_interface_counted_it_lies_before_the_next_hop(inventory):
    """Linux 6.18, veth with an XDP program of its own ("native"): ip -s link counts the packets as received, and no drop.

    The sink's stand before its capture.
    """
    seen = growing(inventory, "veth", {"rx_queue_0_xdp_drops": 5, "rx_queue_0_drops": 2}, node="uut")
    bump(seen, "uut", rx_dropped=3)
    for side in (seen.begin["snk1"], seen.end["snk1"]):
        tell(side, "drops.namespaces..drivers", {"eth1": "veth"})
    tell(seen.end["snk1"], "drops.namespaces..driver.eth1", {"rx_queue_1_xdp_drops": 4})
    assert ledger(inventory, seen) == {
        "uut_out": {"eth1.rx_dropped": 1, "eth1.driver.rx_queue_0_xdp_drops": 5, "eth1.driver.rx_queue_0_drops": 2},
        "capture": {"eth1.driver.rx_queue_1_xdp_drops": 4},
    }


@pytest.mark.parametrize("driver", ["i40e", "ice"])
def test_what_the_nic_had_no_descriptor_for_was_lost_before_it_was_received(inventory, driver):
    """i40e_update_vsi_stats before Linux 6.8, ice_update_vsi_stats: the queues' discards are in rx_dropped.

    What the kernel drops of received packets is in the interface's rx_dropped too, and not in the driver's.
    """
    seen = growing(inventory, driver, {"rx_dropped": 7}, node="uut")
    bump(seen, "uut", rx_dropped=9)
    assert ledger(inventory, seen) == {"uut_in": {"driver.rx_dropped": 7}, "uut_out": {"eth1.rx_dropped": 2}}


def test_igb_counts_what_it_missed_twice_and_the_queues_drops_too(inventory):
    """Linux 6.12, igb_update_stats: rx_fifo_errors is the missed packets and those that the queues dropped."""
    seen = growing(inventory, "igb", {"rx_missed_errors": 5, "rx_queue_0_drops": 3, "rx_queue_1_drops": 1}, node="uut")
    bump(seen, "uut", rx_missed_errors=5, rx_fifo_errors=9)
    assert ledger(inventory, seen) == {
        "uut_in": {"rx_missed_errors": 5, "driver.rx_queue_0_drops": 3, "driver.rx_queue_1_drops": 1}
    }


def lossy_source(inventory: Any, driver: str | None, grown: dict[str, int], **statistics: int) -> TrialObservations:
    """The source's NIC sent 100 packets fewer than its generator made."""
    seen = growing(inventory, driver, grown, node="src1")
    last = seen.after["src1"][("", "eth1")]
    values = list(last.values)
    values[STAT_NAMES.index("tx_packets")] -= 100
    seen.after["src1"][("", "eth1")] = type(last)(last.monotonic_ns, tuple(values))
    bump(seen, "src1", **statistics)
    return seen


@pytest.mark.parametrize("driver", ["ixgbe", None, "new-nic"])
def test_a_flow_director_that_has_no_filter_explains_no_loss_at_the_source(inventory, driver):
    """A port of an X520 that lost nothing: fdir_miss grew by 146646, as its packets did."""
    judged = record(inventory, lossy_source(inventory, driver, {"fdir_miss": 146_646}))
    assert codes(judged) & {"lost_at_source", "witnesses_disagree"} == {"witnesses_disagree"}
    assert found(judged, "witnesses_disagree").evidence["dropped_packets"] == 0


def test_packets_that_the_source_dropped_and_counted_contradict_nothing(inventory):
    judged = record(inventory, lossy_source(inventory, None, {}, tx_dropped=100))
    assert codes(judged) & {"lost_at_source", "witnesses_disagree"} == {"lost_at_source"}


@pytest.mark.parametrize("driver", ["mlx5_core", None])
def test_a_drop_in_two_counters_does_not_hide_that_others_are_missing(inventory, driver):
    """60 of 100 were dropped. Summed over the interface's and its driver's counter they would be more than 100."""
    name = "tx_queue_dropped" if driver else "tx_drops"
    judged = record(inventory, lossy_source(inventory, driver, {name: 60}, tx_dropped=60))
    assert codes(judged) & {"witnesses_disagree", "lost_at_source"} == {"witnesses_disagree", "lost_at_source"}
    assert found(judged, "lost_at_source").evidence["drops"] == {f"driver.{name}": 60}


def test_an_older_agent_does_not_say_the_driver_but_its_settings_do(inventory):
    seen = growing(inventory, "x", {"fdir_miss": 9, "rx_out_of_buffer": 4})
    for side in (seen.begin["snk1"], seen.end["snk1"]):
        tell(side, "drops.namespaces..drivers", None)
        tell(side, "settings.interfaces.eth1.driver", "mlx5_core")
    place = CountingPoint("sink_nic", "snk1", "", "eth1", "rx_packets")
    assert list(driver_losses(seen, place)) == ["rx_out_of_buffer"]


def test_sides_by_words():
    assert [_direction(name) for name in ("drv dropped rx total", "tx_drops", "rx_tx_err", "err")] == [
        True,
        False,
        None,
        None,
    ]
