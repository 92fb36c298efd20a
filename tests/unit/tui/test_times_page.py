"""The page of every packet's times: what it shows, where there are none, and of records from elsewhere."""

from __future__ import annotations

import pytest

from labconsole.cli.text.runs import run_lines
from labconsole.model.record.run import RunRecord
from labconsole.tui.screens.runs.run_pages import NOT_TIMED, times_page
from support.saved_runs import saved_record
from support.timed_packets import histogram, told_times

DELAYS = {18_000: 9_000, 31_000: 42_000, 2_300_000: 31}


def page(record: RunRecord, width: int = 78) -> list[str]:
    rows = ["".join(text for text, _ in row) for row in times_page(record, width)]
    assert all(len(row) <= width for row in rows), rows
    return rows


def of(told: object) -> RunRecord:
    record = saved_record(1)
    (stream,) = record.streams
    return record.model_copy(update={"streams": (stream.model_copy(update={"extensions": {"packet_times": told}}),)})


@pytest.mark.parametrize("width", [40, 78, 118])
def test_quantiles_and_a_histogram_on_a_logarithmic_axis(width: int) -> None:
    rows = page(of(told_times(DELAYS)), width)
    (delay,) = (row for row in rows if row.startswith("delay  "))
    assert delay.split()[1:3] == ["31.1", "31.1"]
    (names,) = (row.split()[1:] for row in rows if row.startswith("µs"))
    assert names == (["p50", "p99"] if width == 40 else ["p50", "p90", "p99", "p99.9", "p99.99", "max"])
    steps = [row for row in rows if " – " in row and "%" in row]
    assert [row.split("%")[0].split()[-1] for row in steps] == ["17.6363", "82.3029", *["0.0000"] * 5, "0.0607"]
    assert steps[0].startswith(" 10 µs – 20 µs") and steps[-1].startswith("  2 ms – 5 ms")
    assert ("█" in steps[1]) == (width > 45)


def test_where_no_delay_is_known_the_spacing_is_drawn_and_the_reason_told() -> None:
    rows = page(of(told_times(DELAYS, clocks_ns=None)))
    text = " ".join(" ".join(rows).split())
    assert "how far the clocks of source and sink agree is not known" in text
    assert "spacing: packets by how long" in rows
    assert any(row.startswith(" 50 µs – 100 µs") for row in rows)


def test_what_is_longer_than_a_minute_and_what_takes_no_time_have_their_rows() -> None:
    rows = page(of(told_times({0: 5, 31_000: 42_000, 90_000_000_000: 1}, clocks_ns=None)))
    spacing = page(of(told_times(DELAYS, clocks_ns=None, spacing=histogram({0: 5, 60_000_000_000: 51_025}))))
    assert any(row.lstrip().startswith("50 s – 100 s") for row in spacing), spacing
    assert any(row.lstrip().startswith("0 ns – 1 ns") for row in spacing)
    assert rows


def test_a_run_without_them_says_how_to_have_them() -> None:
    assert " ".join(" ".join(page(saved_record(1))).split()) == f"times {NOT_TIMED}"


def test_what_xdp_changed_at_the_port_is_told() -> None:
    port = {"features": ["rx-gro-hw off\x1b[31m"], "left_features": [], "link_changes": 0}
    rows = " ".join(" ".join(page(of({**told_times(DELAYS), "by": "generic XDP", "port": port}), 118)).split())
    assert "in the sink's kernel by generic XDP; 0 numbers skipped" in rows
    assert "virtio; the port had rx-gro-hw off·[31m meanwhile; it was restored" in rows


def test_a_kernel_that_did_not_time_them_says_why() -> None:
    refused = {"version": 1, "refused": {"code": "no_permission", "message": "for root\x1b[31m only"}}
    (row,) = (row for row in page(of(refused)) if row.startswith("times"))
    assert row == "times       not timed: for root·[31m only"


@pytest.mark.parametrize("details", [False, True])
def test_run_says_it_once_and_runs_show_too(details: bool) -> None:
    refused = {"version": 1, "refused": {"code": "not_supported", "message": "no XDP at a veth[31m"}}
    lines = [line for line in run_lines(of(refused), saved=True, details=details) if "XDP at a veth" in line]
    begin = "  s1: " if details else "  times    s1: "
    assert lines == [f"{begin}packets were not timed in the sink's kernel: no XDP at a veth·[31m"]


@pytest.mark.parametrize("path", ["delay_ns", "spacing_ns"])
def test_a_histogram_that_is_none_is_told_and_breaks_nothing(path: str) -> None:
    told = told_times(DELAYS, clocks_ns=0 if path == "delay_ns" else None)
    told[path]["histogram"] = "none"
    assert any("its histogram cannot be read" in row for row in page(of(told)))
    assert page(of({**told, "version": 3})) == page(saved_record(1))
