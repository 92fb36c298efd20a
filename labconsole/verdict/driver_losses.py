"""The statistics of each driver (``ethtool -S``) that count lost packets. Pure.

Names alone are not enough: a packet that matches no filter of a flow director ("fdir_miss") is received all the same,
and "rx_out_of_buffer" counts lost packets without any of the usual words. The table was compiled from the drivers of
Linux 6.12, with names that older kernels had.

A driver's entry lists each lost packet once: a total, or its parts where some version has no total. It omits statistics
that count no packets of their own: events (an empty ring, a failed refill), bytes, checksums that the kernel verifies
again, frames for other addresses, and parts that a listed sum already includes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

_NUMBER = re.compile(r"#*\d+|#+")


class Loss(NamedTuple):
    """A statistic that counts lost packets.

    ``receiving``: False if sending, None if both or unknown. ``sums``: the interface's statistics
    (``rtnl_link_stats64``) of which one includes it, depending on the version. ``handed_on``: the interface's
    rx_packets includes these packets.
    """

    receiving: bool | None
    sums: tuple[str, ...] = ()
    handed_on: bool = False


class DriverTable(NamedTuple):
    """Statistics that count lost packets, by side: ``name`` or ``name = sum sum``, separated by semicolons.

    ``#`` means any number. ``after``: counted in rx_packets, then lost. ``either``: both sides together.
    """

    rx: str = ""
    after: str = ""
    tx: str = ""
    either: str = ""


_E1000 = DriverTable(
    # Not rx_no_buffer_count: the packet waits in the NIC's FIFO; one that finds no room there is in rx_missed_errors.
    rx="rx_long_length_errors = rx_length_errors; rx_short_length_errors = rx_length_errors;"
    "rx_align_errors = rx_frame_errors",
    tx="tx_abort_late_coll = tx_window_errors tx_errors",
)
_IGB = DriverTable(
    rx=f"{_E1000.rx}; rx_queue_#_drops = rx_fifo_errors; rx_missed_errors = rx_fifo_errors",
    tx=_E1000.tx,
)
_MLX5 = DriverTable(
    # Not rx_steer_missed_packets: those match no rule of the NIC, as frames for other addresses do.
    rx="rx_out_of_buffer = rx_missed_errors rx_dropped; rx_discards_phy; rx_prio#_buf_discard; rx_prio#_cong_discard;"
    "outbound_pci_buffer_overflow; dev_internal_queue_oob; rx_if_down_packets;"
    "rx_crc_errors_phy = rx_crc_errors rx_errors; rx_symbol_err_phy; rx_undersize_pkts_phy; rx_fragments_phy;"
    "rx_jabbers_phy; rx_in_range_len_errors_phy = rx_length_errors rx_errors;"
    "rx_out_of_range_len_phy = rx_length_errors rx_errors; rx_oversize_pkts_phy = rx_length_errors rx_errors;"
    "rx_oversize_pkts_buffer = rx_length_errors; rx_oversize_pkts_sw_drop; rx_wqe_err; rx_xdp_drop; rx_xdp_tx_full;"
    "rx_xdp_tx_err; rx_xsk_xdp_drop; rx_xsk_oversize_pkts_sw_drop",
    tx="tx_queue_dropped = tx_dropped; tx_discards_phy = tx_aborted_errors tx_errors; tx_errors_phy; tx_xdp_err;"
    "tx_tls_drop_no_sync_data; tx_tls_drop_bypass_req",
)
_R8169 = DriverTable(
    rx="rx_missed = rx_missed_errors; align_errors = rx_frame_errors",
    tx="tx_aborted = tx_aborted_errors; tx_underrun = tx_fifo_errors",
)
_WX = DriverTable(rx="rx_no_dma_resources; rx_long_length_count; rx_short_length_count")
_OCTEONTX2 = DriverTable(
    rx="rx_drops = rx_dropped; rx_fcs_errs; rx_oversize_errs; rx_undersize_errs; rx_len_errs; rx_other_errs",
    tx="tx_drops = tx_dropped",
)

DRIVERS: dict[str, DriverTable] = {
    # Intel
    "e1000": _E1000,
    "e1000e": _E1000,
    "igb": _IGB,
    "igc": _IGB,
    "igbvf": DriverTable(),
    "ixgbe": DriverTable(rx="rx_no_dma_resources; rx_long_length_errors; rx_short_length_errors"),
    "ixgbevf": DriverTable(),
    # rx_dropped of i40e and ice is the NIC's own register: no packet in it has reached the host.
    "i40e": DriverTable(
        rx="rx_dropped = rx_dropped; port.rx_dropped; port.rx_discards; veb.rx_discards;"
        "port.rx_crc_errors = rx_crc_errors rx_errors; port.rx_length_errors = rx_length_errors; port.rx_undersize;"
        "port.rx_fragments; port.rx_oversize; port.rx_jabber",
        tx="port.tx_dropped_link_down; port.tx_errors = tx_errors; veb.tx_discards; veb.tx_errors",
    ),
    "iavf": DriverTable(rx="rx_discards = rx_dropped", tx="tx_discards = tx_dropped"),
    "ice": DriverTable(
        rx="rx_dropped = rx_dropped; rx_dropped.nic = rx_missed_errors; rx_crc_errors.nic = rx_crc_errors rx_errors;"
        "rx_length_errors.nic;"
        "rx_undersize.nic = rx_errors; rx_oversize.nic = rx_errors; rx_fragments.nic = rx_errors;"
        "rx_jabber.nic = rx_errors",
        tx="tx_dropped_link_down.nic; tx_errors.nic = tx_errors",
    ),
    "idpf": DriverTable(tx="tx-skb_drops = tx_dropped"),
    # NVIDIA
    "mlx4_en": DriverTable(
        rx="rx#_dropped = rx_dropped; rx_jabbers = rx_errors; rx_in_range_length_error = rx_errors;"
        "rx_out_range_length_error = rx_errors; rx_xdp_drop; rx_xdp_tx_full; rx_xdp_redirect_fail",
    ),
    "mlx5_core mlx5e_rep": _MLX5,
    # Broadcom
    "bnxt_en": DriverTable(
        rx="[#]: rx_discards = rx_missed_errors; [#]: rx_drops = rx_dropped; [#]: rx_errors; [#]: rx_buf_errors;"
        "rx_stat_discard;"
        "rx_fcs_err_frames = rx_crc_errors; rx_align_err_frames = rx_frame_errors; rx_mtu_err_frames;"
        "rx_ovrsz_frames = rx_length_errors; rx_undrsz_frames = rx_length_errors; rx_runt_frames = rx_length_errors;"
        "rx_jbr_frames = rx_errors",
        after="rx_total_oom_discards = rx_dropped; rx_total_netpoll_discards = rx_dropped",
        tx="[#]: tx_errors = tx_dropped; [#]: tx_drops = tx_dropped; [#]: tx_discards; tx_err = tx_errors;"
        "tx_fcs_err_frames; tx_fifo_underruns = tx_fifo_errors",
    ),
    "bnx2x": DriverTable(
        rx="rx_discards = rx_fifo_errors; rx_brb_discard = rx_over_errors; rx_brb_truncate = rx_over_errors;"
        "rx_skb_alloc_discard; rx_phy_ip_err_discards; rx_align_errors = rx_frame_errors; rx_fragments; rx_jabbers;"
        "rx_undersize_packets = rx_length_errors; rx_oversize_packets = rx_length_errors",
        tx="tx_mac_errors; driver_filtered_tx_pkt; tx_late_collisions = tx_aborted_errors;"
        "tx_excess_collisions = tx_aborted_errors",
    ),
    "bnx2": DriverTable(
        rx="rx_discards = rx_missed_errors; rx_ftq_discards = rx_missed_errors; rx_fw_discards = rx_missed_errors;"
        "rx_align_errors = rx_frame_errors; rx_fragments; rx_jabbers; rx_undersize_packets = rx_length_errors;"
        "rx_oversize_packets = rx_length_errors",
        tx="tx_mac_errors = tx_errors; tx_late_collisions = tx_aborted_errors;tx_excess_collisions = tx_aborted_errors",
    ),
    "tg3": DriverTable(
        rx="rx_discards = rx_missed_errors; rx_fcs_errors = rx_crc_errors; rx_align_errors = rx_frame_errors;"
        "rx_frame_too_long_errors = rx_length_errors; rx_undersize_packets = rx_length_errors; rx_fragments;"
        "rx_jabbers",
        tx="tx_discards = tx_aborted_errors tx_errors; tx_mac_errors = tx_errors;"
        "tx_carrier_sense_errors = tx_carrier_errors tx_errors",
    ),
    # Virtual machines and clouds
    "virtio_net": DriverTable(
        after="rx_queue_#_drops = rx_dropped; rx#_drops = rx_dropped",  # includes those of XDP
        tx="tx_queue_#_xdp_tx_drops; tx#_xdp_tx_drops",
    ),
    "vmxnet3": DriverTable(
        rx="pkts rx OOB; pkts rx err = rx_errors; drv dropped rx total = rx_dropped",
        after="xdp drops; xdp aborted",
        tx="pkts tx discard; pkts tx err = tx_errors; drv dropped tx total = tx_dropped; xdp xmit err",
    ),
    # A packet beyond an allowance is queued or dropped; the NIC does not distinguish these cases.
    "ena": DriverTable(
        rx="bw_in_allowance_exceeded = rx_dropped; rx_drops = rx_dropped; rx_overruns",
        after="queue_#_rx_skb_alloc_fail; queue_#_rx_xdp_drop = rx_dropped; queue_#_rx_xdp_aborted;"
        "queue_#_rx_xdp_invalid",
        tx="bw_out_allowance_exceeded = tx_dropped; tx_drops = tx_dropped; queue_#_tx_dma_mapping_err;"
        "queue_#_tx_linearize_failed; queue_#_tx_prepare_ctx_err",
        either="pps_allowance_exceeded; conntrack_allowance_exceeded; linklocal_allowance_exceeded",
    ),
    "gve gvnic": DriverTable(
        rx="rx_dropped_pkt[#] = rx_dropped; rx_queue_drop_cnt[#]; rx_xdp_drop[#]; rx_xdp_aborted[#]",
        tx="tx_dropped; tx_xdp_xmit_errors[#]",
    ),
    "hv_netvsc": DriverTable(
        rx="rx_no_memory = rx_dropped; rx_queue_#_xdp_drop",
        tx="tx_no_memory = tx_dropped; tx_too_big = tx_dropped; vlan_error = tx_dropped; vf_tx_dropped = tx_dropped",
    ),
    "mana": DriverTable(
        rx="hc_rx_discards_no_wqe; hc_rx_err_vport_disabled; rx_#_xdp_drop",
        tx="hc_tx_err_gf_disabled; hc_tx_err_vport_disabled; hc_tx_err_inval_vportoffset_pkt;"
        "hc_tx_err_vlan_enforcement; hc_tx_err_eth_type_enforcement; hc_tx_err_sa_enforcement;"
        "hc_tx_err_sqpdid_enforcement; hc_tx_err_cqpdid_enforcement; hc_tx_err_mtu_violation; hc_tx_err_inval_oob;"
        "hc_tx_err_gdma; tx_#_mana_map_err",
    ),
    "veth": DriverTable(
        after="rx_queue_#_drops = rx_dropped; rx_queue_#_xdp_drops",
        tx="tx_queue_#_xdp_xmit_errors = tx_dropped",
    ),
    "tun": DriverTable(),
    "vif": DriverTable(),  # xen-netfront and xen-netback
    # Others in servers
    "qede": DriverTable(
        rx="no_buff_discards = rx_fifo_errors; brb_discards; brb_truncates; #: rx_alloc_errors; ttl0_discard;"
        "packet_too_big_discard; gft_filter_drop; rx_align_errors = rx_frame_errors; rx_undersize_packets;"
        "rx_oversize_packets; rx_jabbers; rx_fragments",
        tx="tx_err_drop_pkts = tx_errors; #: tx_mem_alloc_err",
    ),
    "sfc sfc_siena sfc_falcon": DriverTable(
        # Not port_rx_dp_di_dropped_packets: those match no filter of the NIC, as frames for other addresses do.
        rx="port_rx_nodesc_drops = rx_dropped; rx_nodesc_trunc = rx_dropped; rx_noskb_drops = rx_dropped;"
        "port_rx_overflow = rx_fifo_errors; rx_overflow = rx_fifo_errors; port_rx_bad = rx_crc_errors rx_errors;"
        "rx_bad = rx_crc_errors rx_errors; port_rx_align_error = rx_frame_errors rx_errors;"
        "port_rx_length_error = rx_length_errors rx_errors; port_rx_gtjumbo = rx_length_errors rx_errors;"
        "port_rx_pm_discard_bb_overflow; port_rx_pm_discard_vfifo_full; port_rx_pm_discard_qbb;"
        "port_rx_pm_discard_mapping; port_rx_pm_trunc_bb_overflow; port_rx_pm_trunc_vfifo_full; port_rx_pm_trunc_qbb;"
        "port_rx_dp_q_disabled_packets; rx_frm_trunc; rx_xdp_drops; rx_xdp_bad_drops",
        tx="tx_bad = tx_errors; tx_overflow",
    ),
    "nfp nfp_netvf": DriverTable(
        rx="dev_rx_discards = rx_dropped; dev_rx_errors = rx_errors; mac.rx_drop_events; mac.rx_mac_head_drop;"
        "mac.rx_frame_check_sequence_errors; mac.rx_alignment_errors; mac.rx_range_length_errors;"
        "mac.rx_frame_too_long_errors; mac.rx_undersize_pkts; mac.rx_oversize_pkts; mac.rx_jabbers",
        tx="dev_tx_discards = tx_dropped; dev_tx_errors = tx_errors; mac.tx_queue_drop; mac.tx_errors",
    ),
    "cxgb4": DriverTable(
        rx="rx_bg#_frames_dropped = rx_dropped; rx_bg#_frames_trunc = rx_dropped; rx_fcs_errors = rx_crc_errors;"
        "rx_symbol_errors = rx_frame_errors; rx_jabber_errors = rx_length_errors; rx_runt_frames = rx_length_errors;"
        "rx_frames_too_long = rx_length_errors",
        tx="tx_frames_dropped; tx_error_frames = tx_errors",
    ),
    "be2net": DriverTable(
        rx="rxq#: rx_drops_no_skbs = rx_dropped; rxq#: rx_drops_no_frags = rx_dropped;"
        "rx_drops_no_pbuf = rx_fifo_errors; rxpp_fifo_overflow_drop = rx_fifo_errors;"
        "rx_input_fifo_overflow_drop = rx_fifo_errors; pmem_fifo_overflow_drop; rx_drops_no_erx_descr;"
        "rx_drops_no_tpre_descr; rx_drops_too_many_frags; rx_drops_mtu; eth_red_drops;"
        "rx_dropped_too_small = rx_errors; rx_dropped_too_short = rx_errors;"
        "rx_dropped_header_too_small = rx_errors; rx_dropped_tcp_length = rx_errors; rx_dropped_runt = rx_errors;"
        "rx_in_range_errors = rx_length_errors; rx_out_range_errors = rx_length_errors;"
        "rx_frame_too_long = rx_length_errors; rx_alignment_symbol_errors = rx_frame_errors",
        tx="txq#: tx_drv_drops; txq#: tx_hdr_parse_err; txq#: tx_dma_err; txq#: tx_spoof_check_err; txq#: tx_tso_err;"
        "txq#: tx_qinq_err; txq#: tx_internal_parity_err; txq#: tx_sge_err",
    ),
    "atlantic": DriverTable(
        rx="InDroppedDma = rx_dropped; InErrors = rx_errors; Queue[#] SkbAllocFails; TC# Queue[#] SkbAllocFails;"
        "Queue[#] XdpDrop; TC# Queue[#] XdpDrop; Queue[#] XdpAbort; TC# Queue[#] XdpAbort",
    ),
    "enic": DriverTable(rx="rx_no_bufs = rx_dropped; rx_drop = rx_dropped; rq[#]_no_skb", tx="tx_drops = tx_dropped"),
    "ionic": DriverTable(
        rx="hw_rx_dropped = rx_dropped; hw_rx_over_errors = rx_over_errors; hw_rx_missed_errors = rx_missed_errors;"
        "rx_#_dropped; xdp_drop; frames_rx_bad_fcs; frames_rx_undersized; frames_rx_oversized; frames_rx_dropped",
        tx="hw_tx_dropped = tx_dropped; hw_tx_aborted_errors = tx_aborted_errors; tx_#_dma_map_err",
    ),
    "hns3 hclgevf": DriverTable(
        rx="rxq#_l2_err = rx_dropped rx_crc_errors; rxq#_err_pkt_len = rx_length_errors; rxq#_dropped; rxq#_err_bd_num;"
        "mac_rx_bad_pkt_num",
        tx="txq#_dropped = tx_dropped; txq#_vlan_err = tx_dropped; txq#_l4_proto_err = tx_dropped;"
        "txq#_l2l3l4_err = tx_dropped; txq#_tso_err = tx_dropped; txq#_over_max_recursion = tx_dropped;"
        "txq#_hw_limitation = tx_dropped; txq#_copy_bits_err = tx_dropped; txq#_skb2sgl_err = tx_dropped;"
        "txq#_map_sg_err = tx_dropped; mac_tx_err_all_pkt_num",
    ),
    "liquidio liquidio_vf": DriverTable(
        rx="rx-#-dropped = rx_dropped; rx-#-fw_dropped; mac_rx_fifo_err = rx_fifo_errors; mac_rx_dma_drop;"
        "mac_rx_fcs_err = rx_crc_errors; mac_rx_runts; rx_l2_err = rx_length_errors; rx_jabber_err; rx_frame_err;"
        "rx_err_drop; rx_err_link; rx_err_pko",
        tx="tx-#-dropped = tx_dropped; mac_tx_fifo_err = tx_fifo_errors; mac_tx_runts;"
        "mac_tx_max_collision_fail = tx_aborted_errors; mac_tx_max_deferral_fail; tx_err_drop; tx_err_link; tx_err_pko;"
        "tx_err_pki",
    ),
    "nicvf": DriverTable(rx="rx_drops = rx_dropped; rx_fcs_errors; rx_l2_errors", tx="tx_drops = tx_dropped"),
    "rvu_nicpf rvu_nicvf": _OCTEONTX2,
    "funeth": DriverTable(
        rx="rx_drops[#] = rx_dropped; rx_mapping_errors[#] = rx_dropped; rx_xdp_drops[#]; mac_rx_drop_events;"
        "mac_rx_errors",
        tx="tx_mapping_errors[#] = tx_dropped; tx_tls_drop_no_sync_data[#]; mac_tx_errors",
    ),
    "txgbe": _WX,
    "ngbe": _WX,
    "amd-xgbe": DriverTable(
        rx="rx_fifo_overflow_errors = rx_fifo_errors; rx_undersize_packets; rx_oversize_packets = rx_length_errors;"
        "rx_out_of_range_errors = rx_length_errors; rx_watchdog_errors",
        tx="tx_underflow_errors = tx_errors",
    ),
    # Small boards
    "r8169": _R8169,
    "r8152": _R8169,
    "mvneta": DriverTable(
        rx="rx_discard; rx_overrun; skb_alloc_errors = rx_dropped; bad_crc_event; mac_receive_error;"
        "undersize_received; oversize_received; jabber_received; fragments_received; rx_xdp_drop",
        tx="internal_mac_transmit_err; excessive_collision; late_collision; tx_xdp_xmit_errors",
    ),
    "mvpp2": DriverTable(
        rx="rx_fifo_overrun; rx_ppv2_overrun; rx_fifo_or_parser_overrun_drops; rx_classifier_drops;"
        "rxq_#_queue_full_drops; rxq_#_packets_early_drops; rxq_#_packets_bm_drops; bad_crc_event; mac_receive_error;"
        "undersize_received; oversize_received; jabber_received; fragments_received; rx_xdp_drop",
        tx="crc_errors_sent; late_collision; txq_#_queue_full_drops; txq_#_packets_early_drops;"
        "txq_#_packets_bm_drops; txq_#_packets_rep_bm_drops; tx_xdp_xmit_errors",
    ),
    "st_gmac st_xgmac st_mac100": DriverTable(
        rx="rx_missed_cntr = rx_missed_errors; rx_overflow_cntr = rx_over_errors; rx_length = rx_length_errors;"
        "mmc_rx_fifo_overflow; mmc_rx_discard_frames_gb; mmc_rx_crc_error = rx_crc_errors; mmc_rx_align_error;"
        "mmc_rx_run_error; mmc_rx_jabber_error; mmc_rx_length_error; mmc_rx_watchdog_error",
        tx="mmc_tx_underflow_error; mmc_tx_carrier_error; mmc_tx_latecol; mmc_tx_exesscol",
    ),
    "fec": DriverTable(
        rx="IEEE_rx_drop; IEEE_rx_macerr; IEEE_rx_align; rx_undersize; rx_oversize; rx_fragment; rx_jabber;rx_xdp_drop",
        tx="IEEE_tx_drop; IEEE_tx_macerr; IEEE_tx_cserr; tx_undersize; tx_oversize; tx_xdp_xmit_errors",
    ),
    "fsl_dpaa2_eth": DriverTable(
        rx="[hw] rx discarded frames; [hw] rx nobuffer discards; [mac] rx frame discards; [mac] rx frame errors;"
        "[drv] xdp drop",
        tx="[hw] tx discarded frames; [hw] tx rejected frames; [mac] tx frame errors; [drv] xdp tx errors",
    ),
    "fsl_dpa": DriverTable(
        rx="rx dropped [TOTAL] = rx_dropped; rx error [TOTAL] = rx_errors; qman fq tdrop; qman wred",
        tx="tx dropped [TOTAL] = tx_dropped; tx error [TOTAL] = tx_errors; qman cg_tdrop",
    ),
    "fsl_enetc fsl_enetc_vf": DriverTable(
        rx="Rx ring # discarded frames; ICM DR# discarded frames; Rx ring # XDP drops; MAC rx dropped packets;"
        "MAC rx fifo drop; MAC rx frame errors",
        tx="Tx window drop # frames = tx_dropped; Tx ring # XDP drops; MAC tx frame errors",
    ),
    "gfar-enet": DriverTable(
        rx="rx-dropped-frames = rx_missed_errors; rx-overrun-errors; rx-busy-errors; rx-truncated-frames;"
        "rx-fcs-errors; rx-alignment-error; rx-frame-length-error; rx-undersize-packets; rx-oversize-packets;"
        "rx-jabber-frames; rx-fragmented-frames",
        tx="tx-dropped-frames; tx-underrun-errors; tx-babbling-errors; tx-late-collision-packets;"
        "tx-excessive-collision-packets; tx-fcs-errors",
    ),
    "macb": DriverTable(
        rx="rx_resource_errors = rx_over_errors; rx_overruns = rx_fifo_errors;"
        "rx_frame_check_sequence_errors = rx_crc_errors; rx_alignment_errors = rx_frame_errors; rx_symbol_errors;"
        "rx_undersized_frames = rx_length_errors; rx_oversize_frames = rx_length_errors;"
        "rx_jabbers = rx_length_errors; rx_length_field_frame_errors = rx_length_errors; q#_rx_dropped = rx_dropped",
        tx="tx_underrun = tx_fifo_errors; tx_excessive_collisions = tx_aborted_errors; tx_late_collisions;"
        "tx_carrier_sense_errors = tx_carrier_errors; q#_tx_dropped = tx_dropped",
    ),
    "xaxienet": DriverTable(),
}
"""Tables by the name that ``ethtool -i`` shows; drivers that share a table are separated by spaces."""


@cache
def losses_of(driver: str) -> Mapping[str, Loss] | None:
    """The statistics of a driver that count lost packets, by ``numberless`` name, or None if it is not listed."""
    for names, table in DRIVERS.items():
        if driver in names.split():
            return dict(_entries(table))
    return None


def _entries(table: DriverTable) -> Iterator[tuple[str, Loss]]:
    for receiving, text in ((True, table.rx), (True, table.after), (False, table.tx), (None, table.either)):
        for entry in filter(None, map(str.strip, text.split(";"))):
            name, _, sums = entry.partition(" = ")
            yield numberless(name), Loss(receiving, tuple(sums.split()), text is table.after)


def numberless(name: str) -> str:
    """A statistic's name as the table spells it: ``#`` for each number, single spaces."""
    return " ".join(_NUMBER.sub("#", name).split())
