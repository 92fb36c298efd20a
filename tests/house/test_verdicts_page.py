"""docs/verdicts.md is what the program's table of codes makes it, and no code is without its condition."""

from __future__ import annotations

from labconsole.model.record.verdict_codes import TITLES, WEIGHT, WHAT_TO_DO
from verdicts.page import CONDITIONS, GUESTS_ONLY, PAGE, build_page


def test_every_code_has_a_title_a_condition_and_advice() -> None:
    assert list(WEIGHT) == list(CONDITIONS)
    assert set(WEIGHT) == set(TITLES) == set(WHAT_TO_DO)
    assert set(WEIGHT) >= GUESTS_ONLY


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == build_page(), "run: .venv/bin/python tools/verdicts/page.py"


def test_a_code_with_several_conditions_lists_all_of_them() -> None:
    section = build_page().partition("\n### offered_short\n")[2].partition("\n### ")[0]
    assert section.count("\n- When, of ") == len(CONDITIONS["offered_short"]) > 1
    assert "\n- Do: offer less" in section
