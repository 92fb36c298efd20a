"""Guests as end points beside the bare host: which trials are compared, and what may be said."""

from __future__ import annotations

import random
from typing import Any

import pytest

from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.report_data import compare_flows, summarize_compared
from labconsole.experiments.flow.text import summary_lines
from support.flow_records import flow_record

LINE_PACKETS = 8127


def beside(
    platform: str, packets: list[int], block: int, *, margin_ratio: float | None = 0.02, **changes: Any
) -> FlowRecord:
    turn = 1 + (block % 2 if platform == "raw" else (block + 1) % 2)
    record = flow_record(
        [[each] * 6 for each in packets],
        platform=platform,
        block=block,
        attestation={"driver": platform},
        flow_id=f"20260101T0000{block:02d}{platform}{len(packets)}",
        **changes,
    )
    plan = record.plan.model_copy(update={"margin_ratio": margin_ratio, "hash": f"{record.plan.hash}{platform}"})
    return record.model_copy(update={"plan": plan, "started_at": f"2026-01-01T00:{block:02d}:0{turn}.000000Z"})


def trials(share: float, *, guests: int = 1, processes: int = 1, **changes: Any) -> list[FlowRecord]:
    draw, found = random.Random(7), []
    for block in range(1, 9):
        for platform, part, number in (("raw", 0.8, processes), ("lxc", share, guests)):
            each = round(LINE_PACKETS * part * draw.gauss(1, 0.002) / number)
            found.append(beside(platform, [each] * number, block, **changes))
    return found


def test_a_guest_that_sends_less_than_the_bare_host_is_different_and_one_that_does_not_is_equivalent() -> None:
    (less,), (same,) = compare_flows(trials(0.6)), compare_flows(trials(0.8))
    assert (less.key.platform, less.bare.platform, less.word) == ("lxc", "raw", "different")
    assert less.effect.change == pytest.approx(-0.25, abs=0.01)
    assert (same.word, same.both_full) == ("equivalent", False)
    assert len(same.trials) == 16


def test_the_first_domain_of_xen_is_not_the_bare_host_of_xens_guests() -> None:
    """Its kernel says what it runs under; what is in that kernel is compared with it."""
    facts = {"boot_id": "boot-1", "hypervisor_type": "xen"}
    under = [each.model_copy(update={"environment": {"nodes": {"uut": {"facts": facts}}}}) for each in trials(0.6)]
    assert len(compare_flows(under)) == 1
    guests = [
        each.model_copy(update={"attestation": {"driver": "xl"}}) if each.requested.platform == "lxc" else each
        for each in under
    ]
    assert compare_flows(guests) == ()


def test_without_a_margin_nothing_is_equivalent() -> None:
    (same,) = compare_flows(trials(0.8, margin_ratio=None))
    assert same.word in ("inconclusive", "different") and same.equivalent_p is None


def test_as_many_processes_are_compared_with_or_else_one() -> None:
    (alike,), (one,) = compare_flows(trials(0.6, guests=2, processes=2)), compare_flows(trials(0.6, guests=2))
    assert (alike.key.guests, alike.bare.guests) == (2, 2)
    assert (one.key.guests, one.bare.guests) == (2, 1)


def test_one_process_that_was_asked_for_half_of_what_two_guests_were_is_not_compared_with_them() -> None:
    """Each sends all of its 30 Mbit/s: twice as much of two guests is no finding about the platform."""
    sent = [
        beside(platform, [2500] * number, block)
        for block in range(1, 9)
        for platform, number in (("raw", 1), ("lxc", 2))
    ]
    for pattern in ("out", "in"):
        asked = {"offered_bps": 30_000_000, "pattern": pattern}
        same = [each.model_copy(update={"requested": each.requested.model_copy(update=asked)}) for each in sent]
        assert compare_flows(same) == ()


def test_what_the_bare_host_was_not_asked_is_not_compared() -> None:
    other = [beside("lxc", [4000], block, limits_bps=(30_000_000,)) for block in range(1, 9)]
    bare = [each for each in trials(0.8) if each.requested.platform == "raw"]
    assert compare_flows([*bare, *other]) == ()


def test_where_both_fill_the_link_that_is_said() -> None:
    draw = random.Random(2)
    full = [
        beside(platform, [LINE_PACKETS - draw.randrange(3)], block)
        for block in range(1, 9)
        for platform in ("raw", "lxc")
    ]
    (found,) = compare_flows(full)
    assert (found.said, found.both_full) == ("equivalent, both fill the link", True)
    said = summary_lines(summarize_compared(full))
    assert said[-1].endswith("8 blocks: equivalent, both fill the link") and "compared with the bare host" in said[-2]


def test_that_one_of_two_within_the_margin_fills_the_link_is_said() -> None:
    """It might be faster over another link, by more than the margin."""
    near = [
        beside(platform, [round(LINE_PACKETS * share) - block % 3], block)
        for block in range(1, 9)
        for platform, share in (("raw", 0.998), ("lxc", 0.985))
    ]
    (found,) = compare_flows(near)
    assert (found.word, found.both_full) == ("different, within the margin", False)
    assert found.said == "different, within the margin, one of them fills the link"
