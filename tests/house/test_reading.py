"""The documentation stays short enough to be read: words of the pages that people write or have to read.

CSV files of results and tables that are printed when the site is built are not among them, nor are generated pages.
"""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
GENERATED = ("verdicts.md",)
GOAL_WORDS = 80_000
MOST_WORDS = 134_000
"""May only fall, to the goal."""


def count_words() -> dict[str, int]:
    """The words of each page, the longest first."""
    paths = [path for path in DOCS.rglob("*.md") if str(path.relative_to(DOCS)) not in GENERATED]
    pages = {str(path.relative_to(DOCS)): len(path.read_text().split()) for path in paths}
    return dict(sorted(pages.items(), key=lambda page: -page[1]))


def test_the_pages_have_no_more_words_than_before() -> None:
    pages = count_words()
    total = sum(pages.values())
    longest = ", ".join(f"{name} {words}" for name, words in list(pages.items())[:5])
    print(f"{total} words in {len(pages)} pages; at most {MOST_WORDS}, the goal is {GOAL_WORDS}; longest: {longest}")
    assert total <= MOST_WORDS, longest


def test_no_page_of_results_is_a_table_again() -> None:
    """Nine tenths of these pages once were cells."""
    for path in (*DOCS.glob("evaluation*.md"), DOCS / "validation.md"):
        lines = path.read_text().splitlines()
        assert sum(line.startswith("|") for line in lines) <= 12, path.name
