"""The filter that one types: what it selects, and what it says about what it does not understand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.model.query import FIELDS, QueryError, parse_query, parse_typing
from labconsole.model.record.summary import RunSummary

RUN = RunSummary(
    run_id="20261121T024501Z-7f3a9c",
    started_at="2026-11-21T02:45:01.000000Z",
    testbed="lab",
    testbed_fingerprint="f" * 16,
    emulated=True,
    generator="afpacket",
    platform="raw",
    frame_size_bytes=64,
    frame_size_includes_fcs=False,
    sources=3,
    target_bps=100_000_000,
    background="none",
    duration_s=10.0,
    plan_name=None,
    plan_hash=None,
    plan_point=None,
    repetition=None,
    verdict="suspect",
    reason_codes=("below_target", "not_drained"),
    offered_pps=142_045.5,
    offered_bps=1e8,
    measured_pps=140_000.0,
    measured_bps=9.8e7,
    loss_packets=20_455,
    loss_ratio=0.0144,
    has_series=True,
    note="Fan was loud",
)
UNKNOWN = replace(
    RUN, offered_pps=None, measured_pps=None, loss_ratio=None, loss_packets=None, note=None, target_bps="max"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("platform=raw", True),
        ("platform=RAW size=64 sources=3", True),
        ("platform=raw size=500", False),
        ("size=64,500", True),
        ("size!=64,500", False),
        ("verdict!=valid", True),
        ("verdict=valid,suspect", True),
        ("offered>1e5", True),
        ("offered>142k measured<141k", True),
        ("measured_bps>=98Mbit", True),
        ("measured_bps>=98.1Mbit", False),
        ("target=100Mbit", True),
        ("target<1Gbit", True),
        ("target=max", False),
        ("loss>1%", True),
        ("loss>0.0145", False),
        ("lost>20000", True),
        ("note~loud", True),
        ('note="fan was loud"', True),
        ("note!~quiet", True),
        ("note=", False),
        ("note!=", True),
        ("plan=", True),
        ("plan!=other", True),
        ("reason=not_drained", True),
        ("reason=lost_trailer,not_drained", True),
        ("reason!=not_drained", False),
        ("reason~drain", True),
        ("emulated=yes", True),
        ("emulated=no", False),
        ("started=2026-11-21", True),
        ("started>2026-11-21", False),
        ("started>=2026-11-21", True),
        ("started>2026-11-20", True),
        ("started<2026-11-21T03", True),
        ("run=20261121T024501Z-7f3a9c", True),
        ("run~7f3a", True),
        ("loud", True),
        ("LOUD raw", True),
        ("100Mbit", True),
        ("below_target", True),
        ("kvm", False),
        ('"was loud"', True),
    ],
)
def test_a_text_selects_runs(text: str, expected: bool):
    assert bool(parse_query(text).select([RUN])) is expected
    assert parse_query(text).select([RUN]) == ([RUN] if expected else [])


def test_what_is_not_known_is_neither_more_nor_less_than_anything():
    for text in ("offered>0", "offered<1e12", "loss>=0", "lost<=0", "measured=0", "note~a", "target>1Mbit"):
        assert not parse_query(text).select([UNKNOWN]), text
    for text in ("offered=", "note=", "target=max", "measured!=0"):
        assert parse_query(text).select([UNKNOWN]), text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("platfrom=raw", "there is no field 'platfrom'; did you mean platform?"),
        ("zzz=1", "there is no field 'zzz'; the fields are platform, size"),
        ("size>", "size> needs a value: frame size in bytes"),
        ("size=big", "size: 'big' is not a number; allowed: frame size in bytes"),
        ("platform>raw", "platform cannot be compared by size; allowed: platform="),
        ("target=10Mbyte", "target: '10Mbyte' is not a valid rate; allowed: a number with a unit, such as 10Mbit"),
        ("target>max", "'max' is not a number; allowed: target=max"),
        ("loss>1 %", None),
        ("loss>much", "loss: 'much' is not a number; allowed: share lost, such as 0.01 or 1%"),
        ("emulated=maybe", "emulated: 'maybe'; allowed: yes or no"),
        ("started>noon", "started: 'noon' is not a valid time; allowed: UTC, such as 2026-11-21"),
    ],
)
def test_a_word_that_makes_no_sense_is_told_with_what_is_allowed(text: str, sentence: str | None):
    if sentence is None:
        parse_query(text)
        return
    with pytest.raises(QueryError) as told:
        parse_query(text)
    assert str(told.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "matches", "problem"),
    [
        ("kvm", False, ""),
        ("platf", True, ""),  # the beginning of platform=
        ("platf ", False, ""),
        ("platfrom=raw", True, "there is no field 'platfrom'"),
        ("size=64 platfrom=raw", True, "there is no field 'platfrom'"),
        ("size=500 platfrom=raw", False, "there is no field 'platfrom'"),
        ("size=", False, ""),
        ("size>", True, "size> needs a value"),
    ],
)
def test_a_text_that_is_still_being_typed_counts_as_far_as_it_makes_sense(text: str, matches: bool, problem: str):
    query, told = parse_typing(text)
    assert bool(query.select([RUN])) is matches
    assert told.startswith(problem)
    assert bool(told) is bool(problem)


def test_every_column_of_the_list_can_be_asked_for():
    attributes = set(RunSummary.__dataclass_fields__) - {
        "has_series",
        "plan_hash",
        "frame_size_includes_fcs",
        "set_up_trials",
        "boot_id",
        "offered_packets",
        "attempts",
        "forwarding_bps",
        "source_lost_packets",
        "uut_lost_packets",
        "sink_lost_packets",
    }
    assert len(FIELDS) == len(attributes)


@given(st.text(max_size=60))
def test_any_text_is_understood_or_refused_with_a_sentence(text: str):
    try:
        parse_query(text).select([RUN])
    except QueryError as exc:
        assert str(exc)
