"""changelog.d/ has one line a change; a release's notes are made of them, and are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from release_notes import AREAS, Change, add_notes, read_changes

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 40
"""Of a release's notes."""


def change(area: str, line: str) -> Change:
    return Change(Path(f"x.{area}.md"), area, line)


def test_every_change_is_one_line_of_a_known_area() -> None:
    assert [each.line for each in read_changes(ROOT / "changelog.d") if not each.line.endswith((".", ")"))] == []
    text = (ROOT / "changelog.d" / "README.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(AREAS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.md", "A line.\n"),
        ("x.other.md", "A line.\n"),
        ("X y.results.md", "A line.\n"),
        ("x.results.md", "Two\nlines.\n"),
        ("x.results.md", "\n"),
        ("x.results.md", "long " * 41),
    ],
)
def test_a_file_that_is_no_change_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "README.md").write_text("# Any\n\nTwo lines.\n")
    (tmp_path / "a.console.md").write_text("- Fine.\n")
    assert read_changes(tmp_path) == [Change(tmp_path / "a.console.md", "console", "Fine.")]
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=re.escape(name)):
        read_changes(tmp_path)


def test_a_release_gets_a_heading_above_the_others() -> None:
    log = "# Changes\n\nIntro.\n\n## 0.1.0, 2026-01-01\n\n### Console\n- Old.\n"
    made = add_notes(
        log, "0.2.0", "2026-12-01", [change("nodes", "N."), change("results", "R."), change("nodes", "O.")]
    )
    assert made == (
        "# Changes\n\nIntro.\n\n## 0.2.0, 2026-12-01\n\n### Results\n- R.\n\n### Nodes and lab\n- N.\n- O.\n\n"
        "## 0.1.0, 2026-01-01\n\n### Console\n- Old.\n"
    )
    first = add_notes("# Changes\n\nIntro.\n", "0.1.0", "2026-01-01", [change("console", "C.")])
    assert first == "# Changes\n\nIntro.\n\n## 0.1.0, 2026-01-01\n\n### Console\n- C.\n"


def test_notes_that_were_written_before_stay_and_get_the_day() -> None:
    log = "# Changes\n\n## 0.2.0, unreleased\n\nThe first.\n\n### Results\n- One\n  more.\n\n### Other\n- O.\n"
    made = add_notes(log, "0.2.0", "2026-12-01", [change("results", "Two."), change("console", "C.")])
    assert made == (
        "# Changes\n\n## 0.2.0, 2026-12-01\n\nThe first.\n\n### Results\n- One\n  more.\n- Two.\n\n### Console\n- C.\n\n"
        "### Other\n- O.\n"
    )
    assert add_notes(made, "0.2.0", "2026-12-01", []) == made


def test_the_notes_of_each_release_begin_with_results_and_are_short() -> None:
    log = (ROOT / "CHANGELOG.md").read_text()
    _, *releases = re.split(r"(?m)^## ", log)
    for release in releases:
        titles = re.findall(r"(?m)^### (.*)$", release)
        assert titles == [title for title in AREAS.values() if title in titles], release[:20]
        assert len(release.strip().splitlines()) <= MOST_LINES, release[:20]
    version = releases[0].partition(",")[0]
    day = releases[0].splitlines()[0].partition(", ")[2]
    assert add_notes(log, version, day, []) == log
