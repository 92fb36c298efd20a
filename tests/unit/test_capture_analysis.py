"""Both ways of counting a capture, against a naive count of the packets that the capture was made from."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest
from capture_samples import Packet, naive_report, naive_sequence, pcap, pcapng, traffic
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.agent import analysis as node_side
from labconsole.agent.analysis import CaptureAnalysis, CaptureFollower, RecordRuns, analyze_file
from labconsole.agent.pcap import NotACapture
from labconsole.captures import analyze_buffer, analyze_path
from labconsole.errors import CaptureFormatError
from labconsole.measure.capture import NumpyRuns

RECORDINGS = Path(__file__).parent.parent / "recordings" / "pktgen"
WAYS = [RecordRuns, NumpyRuns]


def only_keys_of(expected: object, found: object) -> object:
    """The part of ``found`` that the naive report knows about."""
    if isinstance(expected, dict) and isinstance(found, dict) and set(expected) <= set(found):
        if "packets" not in expected:
            return found
        return {key: only_keys_of(expected[key], found[key]) for key in expected}
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [only_keys_of(one, other) for one, other in zip(expected, found, strict=True)]
    return found


def fed_in_pieces(content: bytes, runs: RecordRuns, random: Random, largest: int) -> dict:
    analysis, kept, at = CaptureAnalysis(runs), bytearray(), 0
    while at < len(content):
        size = random.randrange(1, largest)
        kept += content[at : at + size]
        at += size
        del kept[: analysis.feed(kept)]
    return analysis.report(unread=bytes(kept))


@settings(max_examples=250, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    packets=st.integers(1, 700),
    streams=st.integers(1, 3),
    trouble=st.sampled_from([0.0, 0.002, 0.02, 0.3]),
    order=st.sampled_from("<>"),
    unit_ns=st.sampled_from([1000, 1]),
    container=st.sampled_from([pcap, pcapng]),
    chunk_records=st.sampled_from([16, 100, 4096]),
    largest_piece=st.sampled_from([100, 3000, 10**6]),
)
def test_both_ways_report_what_a_naive_count_of_the_packets_says(
    seed, packets, streams, trouble, order, unit_ns, container, chunk_records, largest_piece
):
    random = Random(seed)
    made = traffic(random, packets, streams=streams, trouble=trouble)
    content = container(made, order=order, unit_ns=unit_ns)
    reports = []
    for way in WAYS:
        runs = way()
        runs.chunk_records = chunk_records
        reports.append(fed_in_pieces(content, runs, random, largest_piece))
    assert reports[0] == reports[1]
    expected = naive_report(made, unit_ns)
    assert only_keys_of(expected, reports[0]) == expected
    assert not reports[0]["truncated"]
    assert all(stream["gaps_exact"] for stream in reports[0]["streams"])
