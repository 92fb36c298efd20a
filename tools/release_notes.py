"""Move the lines of changelog.d/ into CHANGELOG.md, as the notes of a release.

They are added under the heading of that version, by area, below what it has already, and the files are removed. With
--check nothing is written: the exit status is 1 when a file has a wrong name or more than a line.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
AREAS = {
    "results": "Results",
    "measuring": "Measuring",
    "guests": "Platforms and guests",
    "reports": "Reports and comparisons",
    "console": "Console",
    "nodes": "Nodes and lab",
    "development": "Development",
}
"""The headings of a release's notes, in their order, by the word in a file's name."""

MOST_CHARACTERS = 200
FILE = re.compile(rf"[a-z0-9-]+\.({'|'.join(AREAS)})\.md")


class Change(NamedTuple):
    """One line of the notes."""

    path: Path
    area: str
    line: str


def read_changes(directory: Path) -> list[Change]:
    """The changes of all files, by name. Raises ValueError naming the first that is wrong."""
    changes = []
    for path in sorted(directory.glob("*")):
        if path.name == "README.md":
            continue
        named, text = FILE.fullmatch(path.name), path.read_text()
        if named is None:
            raise ValueError(f"{path.name}: the name must be NAME.AREA.md with an area of {', '.join(AREAS)}")
        line = text.removesuffix("\n")
        if not line.strip() or "\n" in line or len(line) > MOST_CHARACTERS:
            raise ValueError(f"{path.name}: must have one line of at most {MOST_CHARACTERS} characters")
        changes.append(Change(path, named[1], line.removeprefix("- ")))
    return changes


def add_notes(log: str, version: str, day: str, changes: Iterable[Change]) -> str:
    """The change log with these changes under ``## VERSION, DAY``, which is made above the others if it is missing."""
    heading = re.compile(rf"^## {re.escape(version)}\b.*\n", re.MULTILINE)
    if not heading.search(log):
        before, found, after = log.partition("\n## ")
        log = f"{before.rstrip()}\n\n## {version}\n{found}{after}"
    started = heading.search(log)
    assert started is not None
    ended = re.compile(r"^## ", re.MULTILINE).search(log, started.end())
    end = ended.start() if ended else len(log)
    intro, *parts = re.split(r"(?m)^### ", log[started.end() : end])
    notes = {title: text.strip("\n") for title, _, text in (part.partition("\n") for part in parts)}
    for change in changes:
        title = AREAS[change.area]
        notes[title] = "\n".join(filter(None, [notes.get(title, ""), f"- {change.line}"]))
    order = [*AREAS.values(), *(title for title in notes if title not in AREAS.values())]
    sections = [f"### {title}\n{notes[title]}\n" for title in order if title in notes]
    body = "\n".join([*([intro.strip("\n") + "\n"] if intro.strip() else []), *sections])
    following = f"\n{log[end:]}" if ended else ""
    return f"{log[: started.start()]}## {version}, {day}\n\n{body}{following}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", help="the release, such as 0.2.0")
    parser.add_argument("--day", default=f"{datetime.date.today()}", help="its date (default: today)")
    parser.add_argument("--check", action="store_true", help="look at the files only")
    options = parser.parse_args()
    if options.check is not (options.version is None):
        parser.error("give either a version or --check")
    try:
        changes = read_changes(ROOT / "changelog.d")
    except ValueError as exc:
        print(exc, file=sys.stderr)
        return 1
    if not options.check:
        log = ROOT / "CHANGELOG.md"
        log.write_text(add_notes(log.read_text(), options.version, options.day, changes))
        for change in changes:
            change.path.unlink()
    print(f"{len(changes)} changes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
