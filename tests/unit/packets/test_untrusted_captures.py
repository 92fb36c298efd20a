"""Captures from somebody else, damaged or made up: counted or refused, in bounded memory, the same by either way."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.cli.commands.analyze import analyze_path
from labconsole.cli.text.analysis import analysis_lines
from labconsole.errors import CaptureFormatError
from labconsole.packets import columns
from labconsole.packets import pcap as reader
from labconsole.packets.analysis import CaptureAnalysis
from labconsole.packets.pcap import NotACapture
from labconsole.text.sanitize import sanitize
from support.capture_samples import (
    Packet,
    analyze_buffer,
    block,
    interface,
    pcap,
    section,
)
from support.fuzzing import mutated_bytes, tries
from support.untrusted_samples import CAPTURES, START_NS


@pytest.mark.parametrize("name", CAPTURES)
@tries(120)
@given(data=st.data())
def test_any_damage_is_counted_or_refused_and_the_same_by_either_way(name: str, data: st.DataObject) -> None:
    content = mutated_bytes(data, CAPTURES[name])
    reports: list[dict[str, Any] | None] = []
    for use_numpy in (False, True):
        try:
            reports.append(analyze_buffer(content, use_numpy=use_numpy))
        except NotACapture:
            reports.append(None)
    assert (reports[0] is None) == (reports[1] is None)
    if reports[0] is not None:
        assert reports[0] == reports[1]
        text = "\n".join(analysis_lines({"file": "x", **reports[0]}))
        assert sanitize(text) == text


@tries(200)
@given(
    st.sampled_from(["<", ">"]),
    st.binary(max_size=400),
    st.sampled_from([b"", b"\x0a\x0d\x0d\x0a", *reader._PCAP_MAGICS]),
)
def test_any_bytes_are_counted_or_refused(order: str, content: bytes, magic: bytes) -> None:
    for start in (magic, section(order) + interface(order=order)):
        try:
            analyze_buffer(start + content, use_numpy=False)
        except NotACapture:
            assert start == magic


@tries(100)
@given(st.data())
def test_the_pieces_in_which_a_file_comes_do_not_matter(data: st.DataObject) -> None:
    content = mutated_bytes(data, CAPTURES["pcapng < 1000 1"])
    cut = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5)))
    pieces = [content[a:b] for a, b in zip([0, *cut], [*cut, len(content)], strict=True)]
    reports: list[dict[str, Any] | None] = []
    for chunks in ([content], pieces):
        try:
            reports.append(analyze_buffer(chunks, use_numpy=False))
        except NotACapture:
            reports.append(None)
    assert reports[0] == reports[1]


def peak_bytes(content: bytes) -> int:
    analysis = CaptureAnalysis()
    tracemalloc.start()
    try:
        analysis.feed(content)
        analysis.report()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_file_of_nothing_but_interfaces_does_not_fill_the_memory() -> None:
    content = section() + interface() * 60_000
    assert peak_bytes(content) < 8_000_000
    report = analyze_buffer(content, use_numpy=False)
    assert report["corrupt_reason"] == "it describes more than 4096 interfaces"
    kinds = section() + b"".join(interface(kind) for kind in range(200, 4000))
    assert len(analyze_buffer(kinds, use_numpy=False)["link_type"]) < 500


def test_a_file_of_nothing_but_streams_does_not_fill_the_memory() -> None:
    packets = [
        Packet(START_NS + k, 1, source=f"198.18.{k >> 8 & 255}.{k & 255}", source_port=k % 60_000) for k in range(6_000)
    ]
    content = pcap(packets, unit_ns=1)
    assert peak_bytes(content) < 40_000_000
    report = analyze_buffer(content, use_numpy=False)
    assert len(report["streams"]) == 1024 and report["unlisted_stream_packets"] == 6_000 - 1024


@pytest.mark.parametrize("claimed", [2**32 - 1, reader.MAX_RECORD_BYTES, 2**31])
def test_a_record_that_claims_more_than_there_is_sets_no_room_aside(claimed: int, tmp_path: Path) -> None:
    path = tmp_path / "claims.pcap"
    path.write_bytes(pcap([]) + struct.pack("<IIII", 1, 1, claimed, claimed) + bytes(1000))
    tracemalloc.start()
    try:
        assert analyze_path(path, use_numpy=False)["packets"] == 0
        assert tracemalloc.get_traced_memory()[1] < 32_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08", b"\n\r\r\n", b"\x1b[2J" * 9, block(1, b"")])
def test_what_is_no_capture_is_refused_with_its_bytes(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    try:
        report = analyze_path(path)
    except CaptureFormatError as error:
        assert str(error).isprintable()
    else:
        assert report["packets"] == 0 and (report["truncated"] or report["corrupt_reason"])


def test_a_directory_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CaptureFormatError, match="cannot be read"):
            analyze_path(path)


def test_streams_in_turn_cost_no_table_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers at random of very many streams: a table of 65 536 numbers to compare each with took 0.2 ms."""
    tables: list[int] = []
    make_table = columns._counting_block

    def counted_table(upper_half: int) -> bytes:
        tables.append(upper_half)
        return make_table(upper_half)

    monkeypatch.setattr(columns, "_counting_block", counted_table)
    packets = [
        Packet(
            at_ns=1_000_000 * number,
            number=number * 2_654_435_761 % 2**32,
            source=f"198.18.{number % 1024 // 256}.{number % 256}",
        )
        for number in range(8192)
    ]
    analysis = CaptureAnalysis()
    content = pcap(packets)
    assert analysis.feed(content) == len(content)
    report = analysis.report()
    assert (report["packets"], len(report["streams"])) == (8192, 1024)
    assert {stream["packets"] for stream in report["streams"]} == {8}
    assert len(tables) < 8
