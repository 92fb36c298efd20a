"""Reference values: RFC 2544 appendix B and the paper's delay formula, computed by hand; the flat names; the words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labconsole.model.design_point import DesignPoint, FrameSize, format_target_per_source

POINT = DesignPoint(
    platform="raw",
    frame=FrameSize(64, includes_fcs=True),
    sources=2,
    target=10**7,
    duration_s=2.5,
    background="idle",
    generator="pktgen",
    observe="live",
)


def test_line_rate_of_64_byte_frames_with_fcs_is_rfc_2544s():
    assert FrameSize(64, includes_fcs=True).rate_pps(10**10) == pytest.approx(14_880_952.38, abs=0.01)
    assert FrameSize(1518, includes_fcs=True).rate_pps(10**9) == pytest.approx(81_274.38, abs=0.01)


def test_delay_is_the_papers_formula():
    assert FrameSize(64).delay_ns(100_000_000) == 7040  # 8000 * 88 / 100
    assert FrameSize(1500).delay_ns(10_000_000) == 1_219_200  # 8000 * 1524 / 10
    assert FrameSize(1518, includes_fcs=True).delay_ns(10_000_000) == 1_230_400  # 8000 * 1538 / 10


def test_the_same_frame_has_the_same_delay_in_both_conventions():
    with_fcs, without = FrameSize(64, includes_fcs=True), FrameSize(60)
    assert with_fcs.delay_ns(10**8) == without.delay_ns(10**8)
    assert with_fcs.pkt_size_bytes == without.pkt_size_bytes == 60
    assert with_fcs.rate_bps(1000) == without.rate_bps(1000) == 1000 * 8 * 84


def test_the_flat_names_are_read_as_they_are_written():
    assert DesignPoint.from_columns(POINT.columns()) == POINT
    assert list(POINT.columns()) == [
        "platform",
        "frame_size_bytes",
        "sources",
        "target_bps",
        "duration_s",
        "background",
        "frame_size_includes_fcs",
        "generator",
        "observe",
    ]


def test_a_point_is_said_in_one_way():
    assert POINT.words() == "raw, 64 B with FCS, 2 sources at 10Mbit each, background idle, 2.5 s"
    single = replace(POINT, sources=1, frame=FrameSize(1500))
    assert single.format_without_load() == "raw, 1500 B without FCS, 1 source, background idle"


def test_a_delay_of_one_nanosecond_is_asked_for_by_name_and_intends_no_number_of_packets():
    frame = FrameSize(64)
    point = replace(POINT, frame=frame, target=frame.target("1ns"))
    assert (point.target, point.delay_ns, point.wish) == (704 * 10**9, 1, "1ns")  # 8 · 88 bits in a nanosecond
    assert (point.paced_bps, point.intended_pps, point.intended_packets) == (None, None, None)
    assert "1 source at 1ns each" in replace(point, sources=1).words()
    assert DesignPoint.from_columns(point.columns()) == point
    assert format_target_per_source(704 * 10**9, frame) == "1ns"
    assert format_target_per_source(704 * 10**9, FrameSize(1500)) == "704Gbit"
    assert (frame.target("max"), frame.wish("max"), frame.wish(10**7)) == ("max", "max", 10**7)


def test_a_setting_lacks_the_target_and_a_configuration_the_duration_too():
    other = replace(POINT, target=5)
    longer = replace(other, duration_s=7.0)
    assert other.setting() == POINT.setting() != longer.setting()
    assert longer.loadless() == POINT.loadless() != replace(POINT, sources=1).loadless()
    assert longer.meaning() != other.meaning()
