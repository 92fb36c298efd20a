"""What a paper concludes in its abstract, held against one's own findings: one word for each. Pure.

A conclusion is confirmed, or not, by words that were found before (after their adjustment) and by intervals that lie
wholly apart; anything less decides nothing. It is about what was measured here, and no judgement of the paper's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from labconsole.contracts.report import Table
from labconsole.report.reference import CAUTION, PaperTables

Held = Literal["confirmed", "not confirmed", "not decided"]


class Concluded(NamedTuple):
    """``conclusion``: the paper's, in short; ``about``: what of one's own it is held against; ``found``: that."""

    conclusion: str
    about: str
    found: str
    held: Held


class Interval(NamedTuple):
    """A mean and its interval of 95 %."""

    mean: float
    low: float
    high: float


def differ(words: Mapping[str, str], undecided: Collection[str]) -> Held:
    """Whether platforms behave differently, by the word found for each; ``undecided``: words that decide nothing."""
    decided = {word for word in words.values() if word not in undecided}
    if len(decided) > 1:
        return "confirmed"
    return (
        "not confirmed" if len(words) > 1 and not any(word in undecided for word in words.values()) else "not decided"
    )


def most(platform: str, found: Mapping[str, Interval | None]) -> Held:
    """Whether this platform's is above that of every other."""
    own = found.get(platform)
    others = [each for name, each in found.items() if name != platform]
    if own is None or not others:
        return "not decided"
    if any(each is not None and each.low > own.high for each in others):
        return "not confirmed"
    return "confirmed" if all(each is not None and own.low > each.high for each in others) else "not decided"


def apart(found: Iterable[Interval | None]) -> Held:
    """Whether any two of them differ. That all are equal, intervals do not show."""
    known = [each for each in found if each is not None]
    return "confirmed" if any(one.low > other.high for one in known for other in known) else "not decided"


def each_words(words: Mapping[str, str]) -> str:
    """``lxc: flat; uml: grows``."""
    return "; ".join(f"{name}: {word}" for name, word in words.items())


def abstract_table(paper: PaperTables, name: str, rows: Iterable[Concluded], note: str) -> Table | None:
    """A row for each conclusion, as often as there is something to hold it against; None: there is nothing."""
    cells = tuple(tuple(row) for row in rows)
    if not cells:
        return None
    return Table(
        name=name,
        title="What the abstract concludes, held against what was found here",
        columns=("conclusion", "about", "finding", "word"),
        rows=cells,
        headings=("the paper concludes", "held against", "own finding", "so it is here"),
        shown=cells,
        note=f"{note} Paper: {paper.source.replace(', {table}', '')}. {CAUTION}",
        beside_paper=True,
    )
