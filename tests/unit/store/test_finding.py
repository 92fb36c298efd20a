"""The database finds exactly the runs that a filter means, in exactly the order that the list has."""

from __future__ import annotations

import random
from itertools import product

import pytest

from labconsole.model.query import FIELDS, QueryError, parse_query
from labconsole.model.record.run import PlanRef, Reason, Total, Verdict
from labconsole.model.record.summary import SORTS, RunSummary, Sorting
from labconsole.store import reading
from labconsole.store.open import open_store
from support.store_samples import sample_record

WORDS = (
    "raw",
    "KVM-virtio",
    "Straße",
    "STRASSE",
    "İstanbul",
    "ﬁber",
    "100%",
    "under_score",
    "back\\slash",
    "ΣΑΣ",
    "kelvin \u212a",
)
TARGETS = (
    "max",
    100_000_000,
    1_500_000,
    999,
    1_000_000_001,
    10**12,
    2 * 10**12 + 5,
    64_000,
    *(8 * 10**9 * (size + 24) for size in (64, 500)),
)
REASONS = ("below_target", "not_drained", "lost_trailer")
NUMBERS = (None, 0.0, 0.1, 1e-05, 142_045.5, 1e8, 1e15 / 3)


def records(dice: random.Random, many: int):
    made = []
    for number in range(many):
        codes = dice.sample(REASONS, dice.randrange(3))
        total = Total(
            offered_packets=710_225,
            offered_pps=dice.choice(NUMBERS),
            offered_bps=dice.choice(NUMBERS),
            measured_packets=710_225,
            measured_pps=dice.choice(NUMBERS),
            measured_bps=dice.choice(NUMBERS),
            loss_packets=dice.choice((None, 0, 7, 2**53)),
            loss_ratio=dice.choice((None, 0.0, 0.01, 1.0)),
        )
        made.append(
            sample_record(
                number // 2 * 2000,
                run_id=f"run-{dice.randrange(10**6):06x}-{number:04d}",
                testbed=dice.choice(WORDS),
                emulated=dice.random() < 0.5,
                platform=dice.choice(WORDS),
                background=dice.choice(("none", *WORDS)),
                frame_size_bytes=dice.choice((64, 500, 1500)),
                sources=dice.randrange(1, 4),
                duration_s=dice.choice((5.0, 0.25)),
                target_bps=dice.choice(TARGETS),
                total=total,
                plan=dice.choice(
                    (None, PlanRef(name=dice.choice(WORDS), hash="h", point=dice.randrange(12), repetition=1, seed=1))
                ),
                verdict=Verdict(
                    status="suspect" if codes else "valid",
                    reasons=tuple(Reason(code=code, detail=code) for code in codes),
                ),
            )
        )
    return made


VALUES = (
    *WORDS,
    *REASONS,
    "none",
    "STRASSE",
    "strasse",
    "istanbul",
    "fi",
    "ss",
    "σας",
    "k",
    "_",
    "%",
    "\\",
    "",
    "zzz",
    "max",
    "1.5Mbit",
    "100Mbit",
    "999bit",
    "1.000000001Gbit",
    "2.000000000005Tbit",
    "64",
    "64.5",
    "64,500",
    "5",
    "0",
    "0.1",
    "1e-05",
    "1%",
    "333333333333333.3",
    "100000000.0",
    "1e8",
    "2026-11",
    "2026-11-21",
    "2026-11-21T03",
    "2026-11-21T0",
    "yes",
    "no",
    "true",
    "False",
    "valid,suspect",
    "lost_trailer,below_target",
    "below_target not",
    "fan WAR",
    "9007199254740992",
    "e+1",
    ".0",
    ",",
    "below_target,",
    "\0",
    "\ud800",
    "None",
    "1e999",
    "run-",
    "Mbit",
    "x" * 200,
    "1ns",
    "1ns,max",
    "704Gbit",
    "4.192Tbit",
    "ns",
)


def queries(dice: random.Random):
    """Every field with every sign and several values, words alone, and some words together."""
    texts = [f'"{value}"' for value in VALUES]
    for name, sign in product(FIELDS, ("=", "!=", "~", "!~", "<", ">", "<=", ">=")):
        texts += [f'{name}{sign}"{value}"' for value in dice.sample(VALUES, 8)] + [f"{name}{sign}"]
    texts += [" ".join(dice.sample(texts, 2)) for _ in range(150)]
    for text in texts:
        try:
            yield parse_query(text)
        except QueryError:
            continue


@pytest.fixture
def store(place):
    dice = random.Random(4711)
    with open_store(place.url) as opened:
        made = records(dice, 60)
        opened.take_over([(record, None) for record in dice.sample(made, len(made))])
        for record, note in zip(made[::5], ("Fan war laut", "", "été", "Straße 1", "zz", "ÉTÉ", "10%"), strict=False):
            opened.set_note(record.run_id, note, author="op")
        yield opened


def ids(runs):
    return [run.run_id for run in runs]


def test_a_database_finds_exactly_the_runs_that_a_filter_means(store):
    everything = store.list()
    asked = found = 0
    for query in queries(random.Random(42)):
        meant = ids(query.select(everything))
        assert ids(store.find(query, Sorting(), limit=1000)) == meant, query
        assert store.count_matching(query) == len(meant), query
        asked, found = asked + 1, found + (0 < len(meant) < len(everything))
    assert asked > 500
    assert found > 150


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("column", SORTS)
def test_a_database_sorts_as_the_list_does_and_pages_leave_nothing_out(store, column, descending):
    sorting, everything = Sorting(column, descending), store.list()
    for text in ("", "verdict=valid"):
        query = parse_query(text)
        meant = sorting.apply(query.select(everything))
        paged: list[RunSummary] = []
        after = None
        while page := store.find(query, sorting, after=after, limit=7):
            paged += page
            after = page[-1]
        assert ids(paged) == ids(meant)
        assert paged == meant
        assert ids(store.find(query, sorting, skip=5, limit=9)) == ids(meant)[5:14]
        assert [store.position(query, sorting, run) for run in meant[::6]] == list(range(0, len(meant), 6))


def test_every_field_and_every_column_can_be_asked_of_a_database(store):
    from labconsole.store.reading import _SORT_COLUMNS
    from labconsole.store.sql.query_terms import _COLUMNS

    assert set(_COLUMNS) == set(FIELDS)
    assert set(_SORT_COLUMNS) | {"started"} == set(SORTS)


def test_long_lists_are_read_in_several_statements(store, monkeypatch):
    monkeypatch.setattr(reading, "IDS_AT_ONCE", 3)
    every = store.find(parse_query(""), Sorting(), limit=1000)
    assert len(every) > 6
    assert [run.run_id for run in every] == [run.run_id for run in store.list()]
