"""Prints how large the house is and what it has too much of, for the working tree and, before it, for a revision.

python tools/house/run.py            the working tree
python tools/house/run.py main       main, and the working tree
python tools/house/run.py v1 main    two revisions
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "labconsole"
SHORT_LINES, LONG_LINES, LONGEST_LINES = 60, 400, 700
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
WORDS = ("names", "docs", "strings")
"""Where refused words stand."""

IN_NAMES = frozenset(
    {
        "again",
        "anew",
        "asked",
        "beside",
        "came",
        "come",
        "comes",
        "held",
        "made",
        "meant",
        "rests",
        "said",
        "seen",
        "stand",
        "standing",
        "stands",
        "stood",
        "told",
        "ways",
        "words",
    }
)
"""Parts of the name of a module, a class or a function."""

CLASS_SUFFIXES = ("Asked", "Came", "Found", "Made", "Said", "Seen", "Told")
"""Of a class: its role is a Request, an Observation, a Record, a Result or a Summary."""

PREPOSITIONS = ("at", "by", "in", "of")
"""A function begins with a verb, and not with one of these (``on_...`` handles an event)."""

IN_TEXT = re.compile(
    r"\b(?:"
    r"told|asked|held|beside|anew|whoever|somebody|nobody|one who|as it is|so many|so much|not even|in vain"
    r"|comes? to|came to|(?:is|are|was) (?:said|meant|told)|stands?|stood|reckon(?:s|ed|ing)?"
    r")\b",
    re.IGNORECASE,
)
"""In docstrings, comments and strings."""

TABLE_NAME = re.compile(r"-?[a-z0-9]+(?:-[a-z0-9]+)*-?")
"""The name of a table or a unit of a report, or a part of one."""

VALUES = frozenset(
    {
        "asked",
        "beside",
        "held",
        "held by the link",
        "not decided: held by the link",
        " or beside",
        "a line, as far as can be told",
        "stands",
    }
)
"""Keys of records and of undo entries, states on the wire, members of enums, words in columns of tables."""

HASHED = re.compile(r"\b!?told(?: = 1)?\b(?= }})")
"""A variable in the command line of a job, which the hashes of its trials contain."""

PINNED = frozenset(
    {
        "experiments/forwarding/units/paper_comparison.py",
        "experiments/forwarding/units/spread.py",
        "report/reference.py",
    }
)
"""Modules whose words stand in tables of bundles, which are compared byte for byte when they are made again."""

PINNED_CAPTIONS = frozenset(
    {
        "Background load: asked for and reached",
        "asked for",
        "Second guest beside every design point of the first",
        "Relative change of the maximum throughput beside a forwarding second guest",
        "Change of the maximum, or of the rate where there is one load, against that of the same platform beside "
        "the background in the column against (",
    }
)
"""The same of other modules: of tables in the bundles of tests/golden."""

OF_LIBRARIES = frozenset({"connection_made"})
"""Functions whose names other packages chose."""

CODE = re.compile(r"``[^`]*``")
"""A name of the program, in a docstring."""


@dataclass
class Room:
    """The figures of one room. ``words``: refused words by where they stand."""

    modules: int = 0
    lines: int = 0
    words: Counter[str] = field(default_factory=Counter)


@dataclass
class House:
    """The figures of one revision."""

    rooms: dict[str, Room] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="*", help="at most two git revisions")
    revisions = parser.parse_args().revision[:2]
    sides = [(revision, measure(files_of_revision(revision))) for revision in revisions]
    if len(sides) < 2:
        sides.append(("working tree", measure(files_of_tree())))
    print("\n".join(report(dict(sides))))


def files_of_tree() -> Iterator[tuple[str, str]]:
    """Path below the package and text of each module."""
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        yield path.relative_to(ROOT / PACKAGE).as_posix(), path.read_text(encoding="utf-8")


def files_of_revision(revision: str) -> Iterator[tuple[str, str]]:
    """The same as git has them."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", revision, PACKAGE]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.name.endswith(".py") and (file := tar.extractfile(member)) is not None:
                yield member.name.removeprefix(f"{PACKAGE}/"), file.read().decode()


def measure(files: Iterable[tuple[str, str]]) -> House:
    """The figures of these modules."""
    house = House()
    for path, text in files:
        lines, tree = text.count("\n"), ast.parse(text)
        room = house.rooms.setdefault(path.partition("/")[0] if "/" in path else "(root)", Room())
        room.modules += 1
        room.lines += lines
        room.words += refused_words(path, text, tree)
        house.totals.update(
            {
                "modules": 1,
                "lines": lines,
                f"modules under {SHORT_LINES} lines": lines < SHORT_LINES,
                f"modules over {LONG_LINES} lines": lines > LONG_LINES,
                f"modules over {LONGEST_LINES} lines": lines > LONGEST_LINES,
                "SimpleNamespace": len(re.findall(r"\bSimpleNamespace\(", text)),
                "# fmt: skip": text.count("# fmt: skip"),
                "tables that list columns and headings apart": tables_with_two_lists(tree),
            }
        )
    for where in WORDS:
        house.totals[f"refused words in {where}"] = sum(room.words[where] for room in house.rooms.values())
    return house


def tables_with_two_lists(tree: ast.AST) -> int:
    """Calls of Table(columns=..., headings=...): each column is stated twice there, and twice more in its rows."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return sum(
        {"columns", "headings"} <= {each.arg for each in call.keywords} for call in calls if named(call, "Table")
    )


def named(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == name


def refused_words(path: str, text: str, tree: ast.AST) -> Counter[str]:
    """How many names, and how many words of docstrings and comments and of other strings, are refused."""
    documented = list(docstrings(tree))
    skipped = {id(node) for node in documented}
    strings = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped
    )
    documents = [*(str(node.value) for node in documented), *comments(text)]
    return Counter(
        {
            "names": sum(is_refused(kind, name) for kind, name in names(path, tree)),
            "docs": sum(len(IN_TEXT.findall(CODE.sub("", each))) for each in documents),
            "strings": 0 if path in PINNED else sum(refused_in_sentence(each) for each in strings),
        }
    )


def refused_in_sentence(text: str) -> int:
    """How many words of a string are refused, none if it is a value of a format or pinned."""
    if text in VALUES or text in PINNED_CAPTIONS or ("-" in text and TABLE_NAME.fullmatch(text)):
        return 0
    return len(IN_TEXT.findall(HASHED.sub("", text)))


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Those of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def names(path: str, tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Kind and name of the module, and of every class and function in it."""
    yield "module", path.rpartition("/")[2].removesuffix(".py")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield "class", node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in OF_LIBRARIES:
            yield "function", node.name


def is_refused(kind: str, name: str) -> bool:
    """Whether a native reader would stop at the name."""
    parts = [part.lower() for part in PARTS.findall(name)]
    return (
        not IN_NAMES.isdisjoint(parts)
        or (kind == "class" and name.endswith(CLASS_SUFFIXES))
        or (kind == "function" and len(parts) > 1 and parts[0] in PREPOSITIONS)
    )


def report(sides: Mapping[str, House]) -> list[str]:
    """Both tables, a column for each side."""
    houses = list(sides.values())
    totals = dict.fromkeys(name for house in houses for name in house.totals)
    rooms = sorted({name for house in houses for name in house.rooms})
    titles = [*sides, *(["change"] if len(houses) == 2 else [])]
    lines = [f"{'':48}" + "".join(f"{title[:14]:>16}" for title in titles)]
    lines += [f"{name:48}" + row([house.totals[name] for house in houses]) for name in totals]
    for what in ("modules", "lines", *WORDS):
        lines += ["", f"{what if what not in WORDS else f'refused words in {what}'} by room"]
        for name in rooms:
            lines.append(f"  {name:46}" + row([figure(house.rooms.get(name, Room()), what) for house in houses]))
    return lines


def figure(room: Room, what: str) -> int:
    return room.words[what] if what in WORDS else int(getattr(room, what))


def row(values: list[int]) -> str:
    change = [f"{values[1] - values[0]:>+16,}"] if len(values) == 2 else []
    return "".join([*(f"{value:>16,}" for value in values), *change])


if __name__ == "__main__":
    main()
