"""What an effect rests on: boots mixed in time, and occasions by their name."""

from __future__ import annotations

import pytest

from labconsole.comparison.effects import are_boots_mixed
from labconsole.comparison.points import SideSetUps, find_occasion


def sides_in_turn(turns: str) -> tuple[SideSetUps, SideSetUps]:
    """Two sides by the order in which their boots began: a for one, b for the other."""
    return tuple(  # type: ignore[return-value]
        SideSetUps(
            dict.fromkeys(places, 1.0),
            {place: f"boot-{place}" for place in places},
            dict.fromkeys(places, side),
            {place: f"2026-01-01T{place:02}:00:00Z" for place in places},
        )
        for side in "ab"
        if (places := [place for place, each in enumerate(turns) if each == side]) or True
    )


@pytest.mark.parametrize("turns", ["ababab", "abbaabba", "aabbaabb"])
def test_boots_that_take_turns_are_mixed(turns: str) -> None:
    assert are_boots_mixed(*sides_in_turn(turns))


@pytest.mark.parametrize("turns", ["aaabbb", "aaabbbaaa", "aaabbbaaabbb", "abbbba", "aaa", ""])
def test_several_boots_of_one_turn_are_of_one_time(turns: str) -> None:
    """Boots of one evening between those of two others are first in half of all pairs, and are still one evening."""
    assert not are_boots_mixed(*sides_in_turn(turns))


def test_plans_of_one_evening_are_one_occasion_and_an_edited_plan_is_no_other() -> None:
    assert find_occasion("nightly@monday") == find_occasion("weekly@monday") == "monday"
    assert find_occasion("nightly") == "nightly"
    assert find_occasion("") is find_occasion(None) is None
