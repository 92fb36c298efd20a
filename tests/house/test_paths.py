"""What the Makefile, the README and the manuals call by its path is there; so is every heading that a link leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "tools" / "fuzz" / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
ROOTS = (ROOT, ROOT / "labconsole")
"""A manual leaves out the package's name: ``wire/codec.py``."""

OWN = ("docs", "labconsole", "plans", "screenshots", "tests", "tools")
SOURCES = (".c", ".md", ".py", ".sh", ".tcss")
"""A path is the repository's when it begins in one of these directories, or ends as its sources do."""

BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?<![\w/.~$-])(?!\./)[\w.-]+(?:/[\w.*-]+)+/?")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b(?!\.md)")


def own_paths(text: str) -> Iterator[str]:
    """The paths in a text that can only be the repository's. ``./x.sh`` is the reader's own, NAME stands for another."""
    for found in PATH.findall(text):
        path = found.rstrip(".")
        if not PLACEHOLDER.search(path) and (path.partition("/")[0] in OWN or path.endswith(SOURCES)):
            yield path


def exists(path: str, page: Path = ROOT / "README.md") -> bool:
    """Whether it is there, seen from the repository, the package or the directory of the page that names it."""
    return any(next(root.glob(path), None) is not None for root in (*ROOTS, page.parent))


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub makes links of them."""
    headings = re.findall(r"^#+ +(.+?) *$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", (ROOT / "Makefile", *PAGES), ids=lambda page: page.name)
def test_every_path_that_is_named_exists(page: Path) -> None:
    assert [path for path in own_paths(page.read_text()) if not exists(path, page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text()))
    broken = []
    for link in links:
        path, _, heading = link.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_a_path_is_told_from_other_words_with_a_slash() -> None:
    text = "`tests/gone.py` wire/codec.py, sink/in, /tests/x.py, ~/docs/a.md, ./x.sh, tests/unit/*/test_*.py, plans/NAME.yaml."
    assert list(own_paths(text)) == ["tests/gone.py", "wire/codec.py", "tests/unit/*/test_*.py"]
    assert [exists(path) for path in own_paths(text)] == [False, True, True]
