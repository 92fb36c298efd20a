"""What an agent sends is checked to the last number before anybody sees it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.wire.codec import WireError
from labconsole.wire.rules import amount, finite
from support.agent_events import COUNTERS, GOOD, JSON, LINK, MARK, NUMBERS, PROGRESS, RESULT
from support.kept_messages import kept_event, kept_hello


@pytest.mark.parametrize("event", GOOD, ids=lambda event: event["event"])
def test_an_event_as_described_passes_unchanged_but_for_zeros_left_off(event: dict[str, Any]) -> None:
    kept = {**event, "namespaces": {"": [[1, NUMBERS], [2, [*NUMBERS[:7], *[0] * 17]]], "guest1": []}}
    assert kept_event(copy.deepcopy(event)) == (kept if event is COUNTERS else event)


def test_an_event_of_an_unknown_kind_is_none() -> None:
    assert kept_event({"event": "weather"}) is None


def counters(*path: Any) -> dict[str, Any]:
    """COUNTERS with the last of ``path`` put where the others lead."""
    *keys, last, value = path
    event: dict[str, Any] = copy.deepcopy(COUNTERS)
    place: Any = event
    for key in keys:
        place = place[key]
    place[last] = value
    return event


ROW = ("namespaces", "", 0)


@pytest.mark.parametrize(
    "event",
    [
        {"event": None},
        counters("monotonic_ns", -1),
        counters("monotonic_ns", True),
        counters("wall_ns", 1.0),
        counters("missed", "0"),
        counters("late", 1),
        {key: value for key, value in COUNTERS.items() if key != "missed"},
        counters("more", 1),
        counters(*ROW, None),
        counters(*ROW, "ab"),
        counters(*ROW, 0, True),
        counters(*ROW, 0, 2**31),
        counters("namespaces", []),
        counters("namespaces", {"\x1b[31m": []}),
        counters("namespaces", {"n" * 300: []}),
        counters("namespaces", {str(n): [] for n in range(300)}),
        counters("namespaces", "", {}),
        counters("namespaces", "", [[1, 25, NUMBERS]] * 5000),
        counters(*ROW, [1]),
        counters(*ROW, 0, -1),
        counters(*ROW, 0, "1"),
        counters(*ROW, 1, 24),
        counters(*ROW, 1, 100),
        counters(*ROW, 1, True),
        counters(*ROW, 1, 25.0),
        counters(*ROW, [1, 0, []]),
        counters(*ROW, [1, 22, NUMBERS[:22]]),
        counters(*ROW, [1, 100, [0] * 100]),
        counters(*ROW, 2, 0, -1),
        counters(*ROW, 2, 0, 2**64),
        counters(*ROW, 2, 0, True),
        counters(*ROW, 2, 0, 1.5),
        counters(*ROW, 2, 0, None),
        {"event": "links", "links": {}},
        {"event": "links", "links": [None]},
        {"event": "links", "links": [{**LINK, "name": None}]},
        {"event": "links", "links": [{**LINK, "name": "x" * 256}]},
        {"event": "links", "links": [{**LINK, "up": "yes"}]},
        {"event": "links", "links": [{**LINK, "speed_bps": -1}]},
        {"event": "links", "links": [{**LINK, "pause": float("nan")}]},
        {"event": "links", "links": [LINK] * 5000},
        {"event": "generator", "monotonic_ns": 5, "streams": [{**PROGRESS, "sent_packets": -7}]},
        {"event": "generator", "monotonic_ns": 5, "streams": [{"sent_packets": 7, "errors": 0}]},
        {"event": "generator", "monotonic_ns": 5, "streams": [{"stream": "s1", "errors": 0}]},
        {"event": "generator.done", "streams": [{**RESULT, "sent_packets": 2**63}]},
        {"event": "generator.done", "streams": [{**RESULT, "elapsed_ns": 1.5}]},
        {"event": "generator.done", "streams": [{**RESULT, "stopped_by": None}]},
        {"event": "generator.done", "streams": [{**RESULT, "x": 1}]},
        {"event": "capture.died", "capture": 1, "message": "x"},
        {"event": "mark.seen", "marks": "t1", "mark": None},
        {"event": "mark.seen", "marks": "t1", "mark": {**MARK, "pattern": 256}},
        {"event": "mark.seen", "marks": "t1", "mark": {**MARK, "pattern": None}},
        {"event": "mark.seen", "marks": "t1", "mark": {**MARK, "pattern_from_byte": 40}},
        {"event": "mark.seen", "marks": "t1", "mark": {**MARK, "payload_bytes": 0}},
        {"event": "mark.seen", "marks": "t1", "mark": {**MARK, "payload_bytes": 65508}},
        {"event": "mark.seen", "marks": "t1", "mark": {**MARK, "icmp_id": -1}},
        {"event": "notice", "code": "x"},
        {"event": "notice", "code": "x", "message": "y", "more": 1},
        {"event": "notice", "code": "x", "message": "y", "\x07": 1},
    ],
)
def test_an_event_that_is_not_as_described_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        kept_event(event)


def test_a_complaint_names_the_kind_of_event() -> None:
    with pytest.raises(WireError, match="^links: index is not a whole number"):
        kept_event({"event": "links", "links": [{**LINK, "index": "2"}]})


def test_names_and_sentences_are_cleaned() -> None:
    event = kept_event({"event": "links", "links": [{**LINK, "name": "e\x1b[31mth\n1"}]})
    assert event is not None and event["links"][0]["name"] == "eth 1"


@settings(deadline=None)  # a busy machine is no fault
@given(st.sampled_from(GOOD), st.data())
def test_whatever_replaces_a_field_is_refused_as_a_wire_error_or_harmless(event: dict[str, Any], data: Any) -> None:
    event = copy.deepcopy(event)
    event[data.draw(st.sampled_from([key for key in event if key != "event"]))] = data.draw(JSON)
    try:
        kept = kept_event(event)
    except WireError as exc:
        assert len(exc.message) < 300
    else:
        json.dumps(kept, allow_nan=False)


def test_a_hello_of_another_protocol_is_refused() -> None:
    hello = {
        "event": "hello",
        "protocol": 1,
        "version": "0",
        "python": "3.11",
        "pid": 1,
        "euid": 0,
        "hostname": "a\x07b",
        "kernel": "6",
        "monotonic_ns": 1,
        "wall_ns": 2,
    }
    assert kept_hello(hello)["hostname"] == "ab"
    changes: list[dict[str, Any]] = [
        {"protocol": 2},
        {"protocol": None},
        {"pid": "1"},
        {"monotonic_ns": -1},
        {"kernel": []},
    ]
    for change in changes:
        with pytest.raises(WireError):
            kept_hello({**hello, **change})


@pytest.mark.parametrize("check", [amount, finite])
def test_a_number_from_which_an_infinite_one_would_follow_is_refused(check: Any) -> None:
    """Such as a rate in bits of one in bytes: the record would not be one that can be stored."""
    assert check(9e18, "a rate") == 9e18
    for value in (1e300, float("inf"), float("nan"), 2**63, True):
        with pytest.raises(WireError, match="a rate is not a number"):
            check(value, "a rate")
