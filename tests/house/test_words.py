"""The text that people read is what a native reader in this field would write. Other phrases are refused.

Checked are string literals, the prose of README.md and docs/ and, by the lists of tools/house, strings, docstrings,
comments and the names of modules, classes and functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from house.run import PINNED, Room, files_of_tree, measure, refused_in_sentence

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "labconsole"

REFUSED: dict[str, str] = {
    r"\bin vain\b": "say what did not happen",
    r"\bwhoever\b": "name the person or the role",
    r"\bputs? (?!it |them )(?:\w+ ){0,4}right\b(?! (?:one|after|before|in|into)\b)": "fix, correct",
    r"\b(?:is|are|was) there (?:already|twice|more than once)\b": "already exists, appears twice",
    r"\b(?:is|are) not there\b|\bthat (?:is|are) there\b": "exists, does not exist",
    r"(?<!there )(?<!this )\bis no (?!longer\b|more than\b|less than\b|higher\b|lower\b)": "is not a, invalid, unknown",
    r"\b(?:that|which) (?:is|are) none\b|\bis none of\b": "is not one of, invalid",
    r"\bis nothing that\b": "is not a",
    r"\b(?:is|are|was) (?:not )?meant\b|\bmeant by\b": "say what is so",
    r"\bgoes with\b|\bdoes not go with\b": "only valid with, cannot be combined with",
    r"\bso many\b|\bso much\b": "give the number, or 'as many as'",
    r"\bcannot be had\b": "not available",
    r"\bnothing else there\b": "and nothing else",
    r"\b(?:make|made|place|end|keys|numbers|state) of it\b": "name the thing",
    r"\btakes? no run\b|\bto read in peace\b|\bhow often it is taken\b|\btake one design point\b": "measure",
    r"\bmeans the same as\b": "describes the same measurements as",
    r"\breal in every part\b|\bout of the way already\b": "say it plainly",
    r"\bcarried out\b|\bcarry (?:it|this|them) out\b": "run",
    r"\bheld against\b|\bholds? (?:it|them) against\b": "compared with, judged by",
    r"\breckon(?:s|ed|ing)?\b": "compute",
    r"\bsay more on stderr\b": "print more detail on stderr",
    r"\b(?:doubled|without doubles)\b": "duplicated, without duplicates",
    r"\bby whom\b|\bof whom\b": "say who",
    r"\bunless it says\b": "unless noted",
    r"\bis needed by driver\b": "driver X needs it",
    r"\bof somebody else's\b": "another user's",
}
"""What is refused (case and line breaks do not matter), and what to write instead."""

PLACES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
)
"""Every room, and the modules beside them."""

PAGES: tuple[str, ...] = (
    "README.md",
    "docs/ARCHITECTURE.md",
    "docs/CONTRIBUTING.md",
    "docs/agent-protocol.md",
    "docs/analyze.md",
    "docs/background.md",
    "docs/calibration.md",
    "docs/check.md",
    "docs/console.md",
    "docs/data-format.md",
    "docs/generators.md",
    "docs/glossary.md",
    "docs/how-to/gate-a-kernel.md",
    "docs/how-to/read-a-verdict.md",
    "docs/how-to/reviewer.md",
    "docs/how-to/write-a-driver.md",
    "docs/lab.md",
    "docs/limitations.md",
    "docs/method.md",
    "docs/papers.md",
    "docs/performance.md",
    "docs/plans.md",
    "docs/platforms.md",
    "docs/reliability.md",
    "docs/report.md",
    "docs/search.md",
    "docs/security.md",
    "docs/settings.md",
    "docs/ssh.md",
    "docs/start/first-plan.md",
    "docs/start/first-report.md",
    "docs/start/first-run.md",
    "docs/start/four-machines.md",
    "docs/start/index.md",
    "docs/statistics.md",
    "docs/store.md",
    "docs/validation.md",
    "docs/verdicts.md",
)
"""Pages that have been read through."""

PATTERNS = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in REFUSED.items()}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each string literal that is no docstring; what an f-string fills in is a pair of braces."""
    tree = ast.parse(path.read_text())
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each paragraph; code and what commands print are left out."""
    line, fenced, held = 0, False, list[str]()
    for number, text in enumerate([*path.read_text().splitlines(), ""], 1):
        if text.lstrip().startswith("```"):
            fenced = not fenced
        if fenced or not text.strip() or text.startswith(("    ", "|")):
            if held:
                yield line, re.sub(r"`[^`]*`", "`", " ".join(held))
            held = []
            if text.startswith("|"):
                yield number, re.sub(r"`[^`]*`", "`", text)
        elif not text.lstrip().startswith("```"):
            line, held = (number, [text]) if not held else (line, [*held, text])


def refused(path: Path) -> list[str]:
    """What a file has that nobody should read, with its line."""
    found = []
    for line, text in (literals if path.suffix == ".py" else prose)(path):
        words = " ".join(text.split())
        for pattern, instead in PATTERNS.items():
            if match := pattern.search(words):
                found.append(f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in {words[:120]!r}: {instead}")
    return found


def files(place: str) -> list[Path]:
    path = PACKAGE / place
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


@pytest.mark.parametrize("place", PLACES)
def test_what_people_read_has_no_refused_phrase(place):
    assert not [
        words for path in files(place) if path.relative_to(PACKAGE).as_posix() not in PINNED for words in refused(path)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_no_refused_phrase(page):
    assert not refused(ROOT / page)


def test_a_refused_phrase_is_found_across_lines_and_fields(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    module = tmp_path / "a.py"
    module.write_text('"""Is no docstring."""\nsay(f"{name} is "\n    "no format")\nsay("there is no run {name}")\n')
    assert [words.split(": ")[:2] for words in refused(module)] == [["a.py:2", "'is no ' in '{} is no format'"]]
    page = tmp_path / "a.md"
    page.write_text("The lab is\nno place for `is no code`.\n\n    is no example\n")
    assert [words.split(": ")[:2] for words in refused(page)][0][0] == "a.md:1"
    assert len(refused(page)) == 1


NAMES_LEFT: dict[str, int] = {
    "(root)": 2,
    "agent": 10,
    "api": 2,
    "contracts": 4,
    "engine": 8,
    "experiments": 17,
    "measure": 3,
    "model": 9,
    "packets": 1,
    "platforms": 4,
    "tui": 13,
    "wire": 7,
}
"""Refused names by room. They may only become fewer; most are fields of contracts or of the wire."""


@pytest.fixture(scope="module")
def rooms() -> dict[str, Room]:
    return measure(files_of_tree()).rooms


def test_docstrings_and_comments_have_no_refused_word(rooms):
    assert {name: room.words["docs"] for name, room in rooms.items() if room.words["docs"]} == {}


def test_strings_have_no_refused_word(rooms):
    assert {name: room.words["strings"] for name, room in rooms.items() if room.words["strings"]} == {}


def test_values_and_pinned_captions_are_no_sentences():
    strings = ["stands", "-flow-beside", "asked for", "; told = 1 }}", "it stands", " beside ", "who was told = 1"]
    assert [refused_in_sentence(text) for text in strings] == [0, 0, 0, 0, 1, 1, 1]


def test_refused_names_become_fewer(rooms):
    assert {name: room.words["names"] for name, room in rooms.items() if room.words["names"]} == NAMES_LEFT
