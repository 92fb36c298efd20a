"""One reason a cause: the same code once with its places, consequences under what they follow from, the worst first."""

from __future__ import annotations

import pytest

from labconsole.model.record.run import Failure
from labconsole.model.record.verdict_codes import TITLES, WEIGHT, WHAT_TO_DO, depths, title_with_code
from labconsole.model.tolerances import Tolerances
from labconsole.report.trial_text import reason_lines
from labconsole.tui.screens.runs.run_pages import verdict_page
from labconsole.verdict.reasons import FOLLOWS, arrange, each_place, reason, weighed
from support.observed_trials import SENT, observe, record


def told(*codes: str):
    return [reason(code, f"s1: {code}", stream="s1") for code in codes]


def tree(*codes: str) -> list[tuple[str, str | None]]:
    return [(each.code, each.follows) for each in arrange(told(*codes))]


def test_the_same_code_at_nine_ports_is_one_reason_with_nine_places():
    ports = [reason("carrier_changed", f"n/eth{i}: went down", node="n", interface=f"eth{i}") for i in range(9)]
    (one,) = arrange(ports)
    assert one.detail == "n/eth0, n/eth1, n/eth2 and 6 more: went down"
    assert [place["interface"] for place in one.evidence["places"]] == [f"eth{i}" for i in range(9)]
    assert each_place(one) == [each.evidence for each in ports]
    assert each_place(ports[0]) == [{"node": "n", "interface": "eth0"}]


def test_places_that_differ_in_what_happened_keep_their_own_words():
    lost = [reason("lost_at_sink", f"s{i}: {i} packets", stream=f"s{i}", lost_packets=i) for i in range(1, 6)]
    (one,) = arrange(lost)
    assert one.detail == "s1: 1 packets; s2: 2 packets; s3: 3 packets; and 2 more"


def test_what_follows_from_a_lost_link_stands_under_it():
    assert tree("offered_short", "not_drained", "capture_missing", "link_lost", "duration_cut", "samples_missed") == [
        ("link_lost", None),
        ("offered_short", "link_lost"),
        ("duration_cut", "link_lost"),
        ("not_drained", "link_lost"),
        ("capture_missing", "link_lost"),
        ("samples_missed", "link_lost"),
    ]


def test_a_consequence_of_a_consequence_stands_two_deep():
    arranged = arrange(told("duration_stretched", "offered_short", "lost_at_source"))
    assert [each.code for each in arranged] == ["lost_at_source", "offered_short", "duration_stretched"]
    assert depths(arranged) == [0, 1, 2]


def test_without_its_cause_it_stands_for_itself():
    assert tree("offered_short", "samples_missed") == [("offered_short", None), ("samples_missed", None)]


def test_the_most_serious_cause_comes_first_even_if_only_what_follows_from_it_is_serious():
    assert tree("clock_stepped", "capture_missing", "not_measured", "foreign_frames") == [
        ("capture_missing", None),
        ("not_measured", "capture_missing"),
        ("foreign_frames", None),
        ("clock_stepped", None),
    ]


@pytest.mark.parametrize(
    ("codes", "status"),
    [((), "valid"), (("samples_missed",), "suspect"), (("samples_missed", "link_lost"), "invalid")],
)
def test_the_status_is_the_worst_of_all(codes, status):
    assert weighed(told(*codes)).status == status


def test_arranging_again_changes_nothing():
    once = arrange(told("offered_short", "offered_short", "link_lost"))
    assert arrange(once) == once


def test_the_table_knows_real_codes_only_and_nothing_follows_from_itself():
    for code, causes in FOLLOWS.items():
        assert {code, *causes} <= set(WEIGHT)
        seen, above = set(), set(causes)
        while above:
            assert code not in above, code
            seen |= above
            above = {cause for each in above for cause in FOLLOWS.get(each, ())} - seen


def test_every_code_says_what_to_do_and_has_a_title_of_its_own_in_plain_words():
    assert set(WHAT_TO_DO) == set(TITLES) == set(WEIGHT)
    assert len(set(TITLES.values())) == len(TITLES)
    assert not any("_" in words or words.endswith(".") for words in TITLES.values())
    assert max(map(len, TITLES.values())) <= 30
    assert title_with_code("of_a_later_program") == "of_a_later_program"


def test_a_tolerance_that_may_be_raised_is_told_with_where_that_is_done():
    """No option does it: a word that looks like one is looked for in vain."""
    told = [words for words in WHAT_TO_DO.values() if any(name in words for name in Tolerances.model_fields)]
    assert len(told) >= 3 and all("in a plan's `tolerances:`" in words for words in told)


def test_a_record_of_a_lost_node_has_one_cause_and_a_reader_sees_what_to_do(inventory):
    seen = observe(inventory, sent=SENT // 2, elapsed_ns=500_000_000)
    seen.failure = Failure(failure="node_lost", operation="generator.start", node="snk1", message="snk1: gone")
    seen.streams[0].capture, seen.drained = None, False
    run = record(inventory, seen)
    assert [each.code for each in run.verdict.reasons if each.follows is None] == ["link_lost"]
    lines = reason_lines(run.verdict.reasons)
    assert lines[0] == "    connection lost (link_lost): snk1: gone"
    assert lines[1] == f"      → {WHAT_TO_DO['link_lost']}"
    assert all(line.startswith("      so ") for line in lines[2:])


def test_the_consoles_page_shows_the_same_under_the_verdict(inventory):
    seen = observe(inventory, sent=SENT // 2)
    seen.failure = Failure(failure="node_lost", operation="generator.start", node="snk1", message="snk1: gone")
    rows = verdict_page(record(inventory, seen), None, 100)
    shown = ["".join(text for text, _ in row)[12:] for row in rows[2:5]]
    assert shown[0] == "connection lost (link_lost): snk1: gone"
    assert shown[1].startswith("→ find out why the node")
    assert any("so offered less than intended (offered_short):" in "".join(text for text, _ in row) for row in rows)
