"""What a paper concludes in its abstract, beside one's own findings: one word for each. Pure.

A conclusion is confirmed, or not, by intervals that lie wholly apart, or inside bounds that were set before; anything
less decides nothing, and that two are not shown to differ least of all. The intervals are plain ones, of 95 %, adjusted
for nothing. It is about what was measured here, and no judgement of the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.report.material import Material

PLAIN = "Intervals of 95 %, adjusted for nothing: among many rows one may lie apart by chance."

Held = Literal["confirmed", "not confirmed", "not decided", "not decided: held by the link"]

NOT_BY_LINK: Final = "not decided: held by the link"
"""What goes as fast as a link carries it does not tell what runs the guests."""


class Concluded(NamedTuple):
    """``conclusion``: the paper's, in short; ``about``: what of one's own it is compared with; ``found``: that."""

    conclusion: str
    about: str
    found: str
    held: Held


class KnownInterval(NamedTuple):
    """A mean and its interval of 95 %."""

    mean: float
    low: float
    high: float


def differ(words: Mapping[str, str], undecided: Collection[str]) -> Held:
    """Whether platforms behave differently, by classes that exclude each other, each found by intervals inside its
    bounds; ``undecided``: words that are no such class.
    """
    decided = [word for word in words.values() if word not in undecided]
    if len(set(decided)) > 1:
        return "confirmed"
    return "not confirmed" if len(words) == len(decided) > 1 else "not decided"


def most(platform: str, found: Mapping[str, KnownInterval | None], *, matters_ratio: float) -> Held:
    """Whether this platform's is above that of every other, by more than this share of it: where a link is what limits
    all, the last packet decides nothing.
    """
    own = found.get(platform)
    others = [each for name, each in found.items() if name != platform]
    if own is None or not others:
        return "not decided"
    if any(each is not None and each.low > own.high * (1 + matters_ratio) for each in others):
        return "not confirmed"
    above = all(each is not None and own.low > each.high * (1 + matters_ratio) for each in others)
    return "confirmed" if above else "not decided"


def apart(found: Iterable[KnownInterval | None]) -> Held:
    """Whether any two of them differ. That all are equal, intervals do not show."""
    known = [each for each in found if each is not None]
    return "confirmed" if any(one.low > other.high for one in known for other in known) else "not decided"


def each_words(words: Mapping[str, str]) -> str:
    """``lxc: flat; uml: grows``."""
    return "; ".join(f"{name}: {word}" for name, word in words.items())


def abstract_unit(
    paper_name: str, name: str, place: int, conclude: Callable[[Material], Iterable[Concluded]], how: str
) -> ReportUnit[Material]:
    """A row for each conclusion, as often as there is something to compare it with. ``how``: by what it is decided."""

    def make(material: Material) -> Table | None:
        paper = material.paper
        if paper is None or paper.name != paper_name:
            return None
        rows = tuple(tuple(row) for row in conclude(material))
        if not rows:
            return None
        return Table(
            name=name,
            title="What the abstract concludes, and what was found here",
            columns=("conclusion", "about", "finding", "word"),
            rows=rows,
            headings=("the paper concludes", "compared with", "own finding", "here"),
            shown=rows,
            note=f"{how} {PLAIN} {paper.cited()}",
            beside_paper=True,
        )

    return ReportUnit(name=name, place=place, make=make, paper=(paper_name, "abstract"))
