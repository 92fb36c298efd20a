"""Interleaved flows counted over time, against a naive count of the packets that the capture was made from."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.cli.main import main
from labconsole.measure.numpy_columns import NumpyRuns
from labconsole.packets import flows
from labconsole.packets.flows import FlowBins, FlowKey
from support.capture_samples import Packet, pcap, pcapng

ORIGIN_NS = 1_700_000_000_900_000_000


@dataclass(frozen=True)
class FlowPacket(Packet):
    """One datagram of a flow, or a frame that is none."""

    mac: bytes = b"\x02lw\0\0\0"
    fragment: int = 0x4000
    ethertype: int = 0x0800
    protocol: int = 17

    def frame(self, link_type: int = 1) -> bytes:
        network = struct.pack(">BBHHHBBHII", 0x45, 0, 1500, 7, self.fragment, 64, self.protocol, 0, 1, 2)
        udp = struct.pack(">HHHHI", self.source_port, self.sink_port, 1480, 0, self.number or 0)
        frame = b"\x02\0\0\0\0\x01" + self.mac + struct.pack(">H", self.ethertype) + network + udp
        return (frame + bytes(self.captured_bytes))[: self.captured_bytes]

    @property
    def flow(self) -> FlowKey | None:
        if self.ethertype != 0x0800 or self.fragment & 0x3FFF or self.protocol != 17 or self.captured_bytes < 42:
            return None
        return FlowKey(self.mac, self.source_port, self.sink_port)


def interleaved(random: Random, packets: int, *, flows: int, trouble: float, gap_ns: int) -> Sequence[FlowPacket]:
    made: list[FlowPacket] = []
    at_ns = ORIGIN_NS
    for number in range(packets):
        at_ns += random.randrange(gap_ns)
        which = random.randrange(flows)
        packet: dict[str, Any] = {
            "at_ns": at_ns,
            "number": number,
            "mac": b"\x02lw\0" + struct.pack(">H", which // 2),
            "source_port": 40_000 + 300 * which,
            "sink_port": 5001,
            "original_bytes": 1514,
        }
        if random.random() < trouble:
            packet |= random.choice(
                [
                    {"ethertype": 0x0806},
                    {"fragment": 0x2000},
                    {"fragment": 0x0001},
                    {"protocol": 6},
                    {"captured_bytes": 30},
                    {"original_bytes": 60},
                    {"fragment": 0},
                    {"at_ns": at_ns - random.randrange(2 * 10**9)},
                    {"captured_bytes": 50},
                ]
            )
        made.append(FlowPacket(**packet))
    return made


def naive(packets: Sequence[FlowPacket], unit_ns: int, bin_ns: int, bins: int) -> dict[str, Any]:
    of: dict[FlowKey, list[tuple[int, int]]] = {}
    origin_ns: int | None = None
    for packet in packets:
        if packet.flow is not None:
            at_ns = packet.at_ns // unit_ns * unit_ns
            origin_ns = at_ns if origin_ns is None else origin_ns
            of.setdefault(packet.flow, []).append((at_ns, packet.original_bytes))
    listed = []
    for key in sorted(of):
        cells: dict[int, list[int]] = {}
        outside = 0
        for at_ns, size in of[key]:
            number = (at_ns - (origin_ns or 0)) // bin_ns
            if 0 <= number < bins:
                cell = cells.setdefault(number, [0, 0])
                cell[0] += 1
                cell[1] += size
            else:
                outside += 1
        listed.append(
            {
                "mac": ":".join(f"{byte:02x}" for byte in key.mac),
                "udp_source_port": key.udp_source_port,
                "udp_sink_port": key.udp_sink_port,
                "packets": len(of[key]),
                "bytes": sum(size for _, size in of[key]),
                "first_at_ns": of[key][0][0],
                "last_at_ns": of[key][-1][0],
                "outside_packets": outside,
                "bins": sorted(cells),
                "bin_packets": [cells[number][0] for number in sorted(cells)],
                "bin_bytes": [cells[number][1] for number in sorted(cells)],
            }
        )
    others = [packet for packet in packets if packet.flow is None]
    return {
        "bin_ns": bin_ns,
        "origin_ns": origin_ns,
        "packets": len(packets),
        "other_packets": len(others),
        "control_packets": sum(packet.ethertype == 0x0806 for packet in others),
        "fragments": sum(
            packet.ethertype == 0x0800 and bool(packet.fragment & 0x3FFF) and packet.captured_bytes >= 24
            for packet in others
        ),
        "unlisted_packets": 0,
        "flows": listed,
    }


def fed_in_pieces(content: bytes, random: Random, largest: int, bin_ns: int, bins: int, runs: Any = None) -> FlowBins:
    counted, kept, at = FlowBins(bin_ns, bins, runs), bytearray(), 0
    while at < len(content):
        size = random.randrange(1, largest)
        kept += content[at : at + size]
        at += size
        del kept[: counted.feed(kept)]
    assert not kept
    return counted


@settings(max_examples=250, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    packets=st.integers(1, 900),
    flows_=st.sampled_from([1, 2, 4, 9]),
    trouble=st.sampled_from([0.0, 0.003, 0.05, 0.5]),
    order=st.sampled_from("<>"),
    unit_ns=st.sampled_from([1000, 1]),
    container=st.sampled_from([pcap, pcapng]),
    largest_piece=st.sampled_from([100, 3000, 10**6]),
    gap_ns=st.sampled_from([2_000, 1_000_000, 400_000_000]),
    bin_ns=st.sampled_from([1_000_000, 100_000_000, 1_000_000_000]),
    bins=st.sampled_from([3, 20_000]),
)
def test_flows_are_counted_as_a_naive_count_of_the_packets_says(
    seed, packets, flows_, trouble, order, unit_ns, container, largest_piece, gap_ns, bin_ns, bins
):
    random = Random(seed)
    made = interleaved(random, packets, flows=flows_, trouble=trouble, gap_ns=gap_ns)
    content = container(list(made), order=order, unit_ns=unit_ns)
    report = fed_in_pieces(content, random, largest_piece, bin_ns, bins).report()
    assert report == naive(made, unit_ns, bin_ns, bins)
    assert fed_in_pieces(content, random, largest_piece, bin_ns, bins, NumpyRuns()).report() == report
    assert report["packets"] == sum(flow["packets"] for flow in report["flows"]) + report["other_packets"]


def test_more_flows_than_are_kept_are_still_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flows, "MAX_FLOWS", 3)
    made = interleaved(Random(1), 500, flows=8, trouble=0.0, gap_ns=2_000)
    report = fed_in_pieces(pcap(list(made)), Random(2), 10**6, 10**9, 10).report()
    assert len(report["flows"]) == 3
    assert report["unlisted_packets"] == 500 - sum(flow["packets"] for flow in report["flows"]) > 0


def test_bins_beyond_what_is_kept_leave_the_packets_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flows, "MAX_CELLS", 5)
    made = interleaved(Random(1), 200, flows=1, trouble=0.0, gap_ns=20_000_000)
    (flow,) = fed_in_pieces(pcap(list(made)), Random(2), 10**6, 10**8, 1000).report()["flows"]
    assert flow["packets"] == 200 == sum(flow["bin_packets"]) + flow["outside_packets"]
    assert len(flow["bins"]) == 5


def test_the_command_says_what_a_file_holds_of_flows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made = list(interleaved(Random(1), 300, flows=3, trouble=0.0, gap_ns=2_000_000))
    path = tmp_path / "flows.pcap"
    path.write_bytes(pcap(list(made), unit_ns=1))
    assert main(["analyze", str(path), "--flows", "0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flows"] == naive(made, 1, 10**8, 20_000)
    assert main(["analyze", str(path), "--flows", "0.1"]) == 0
    assert "flows        3 of UDP, in bins of 0.1 s" in capsys.readouterr().out
    assert main(["analyze", str(path), "--flows", "0"]) == 2
    assert "is not a length for bins" in capsys.readouterr().err
