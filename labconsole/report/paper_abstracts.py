"""The conclusions in a paper's abstract next to one's own findings, with one word for each. Pure.

Effects over pairs of blocks confirm a conclusion, or do not. A confirmation is a claim of the report's one family, with
all others (Holm); that two are alike is adjusted over all of its table. That two are not shown to differ decides
nothing. The word refers to this measurement, and does not judge the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from labconsole.contracts.report import Experiments, ReportUnit, Table
from labconsole.measure.paired_blocks import PointOfGuests, adjusted, sort_key
from labconsole.measure.statistics.effects import Effect, equivalence_p, word
from labconsole.report.material import Material
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column

Confirmation = Literal["confirmed", "not confirmed", "not decided", "not decided: held by the link"]

NOT_BY_LINK: Final = "not decided: held by the link"
"""A rate limited by the link says nothing about the platform that runs the guests."""

ONE_FAMILY = "What confirms is one family with all that the report claims (Holm)."

ADJUSTED = f"Differences are taken in pairs of blocks, or over three boots a side. {ONE_FAMILY}"


K = TypeVar("K", bound=PointOfGuests)


class PaperConclusion(NamedTuple):
    """``conclusion``: the paper's, in short. ``about``: the own measurement it is compared with. ``found``: its result.
    ``p_values``: of its claims in the report's family.
    """

    conclusion: str
    about: str
    found: str
    held: Confirmation
    p_values: tuple[float, ...] = ()


class ToolPair(NamedTuple):
    """Two tools, by their platforms, and their difference in one measured quantity.

    ``said``: the difference with their names, ``uml against lxc: +3.1 % (+2.0 % to +4.2 %)``. ``apart``: True if they
    are shown to differ, False if shown not to by more than matters, else None. ``by_link``: undecided because a link
    was full. ``p``: of the claim that they differ, or None if it is not tested.
    """

    one: str
    other: str
    said: str
    apart: bool | None
    by_link: bool = False
    p: float | None = None


def judge_differences(
    effects: Sequence[Effect], margins: Sequence[float | None], family: Sequence[float] = ()
) -> list[bool | None]:
    """Judge for each effect whether its two sides differ.

    True: they are shown to differ. False: they are shown not to by more than the effect's margin. None means neither.
    Effects are part of the report's ``family`` of p values (Holm). Those tested for equivalence are a family of their
    own. Those whose margin is None are not tested for it.
    """
    different = adjusted([effect.p for effect in effects], family)
    tested = [
        None if margin is None else equivalence_p(effect, margin)
        for effect, margin in zip(effects, margins, strict=True)
    ]
    results = [word(p, equal) for p, equal in zip(different, adjusted(tested), strict=True)]
    return [
        True if each == "different" else False if "margin" in each or each == "equivalent" else None for each in results
    ]


def build_comparison_key(key: K) -> Hashable:
    """The request at a point without its tool, to find the same point of another one."""
    return cast("Any", key)._replace(platform="", kernel="", hypervisor="")  # type: ignore[no-any-return]


def pair_tools(keys: Iterable[K]) -> list[tuple[K, K]]:
    """Every two points of different platforms with the same request, the later named first.

    If two platforms were both measured under one kernel of the unit under test, uses those points. Only a platform that
    shares no kernel with the other is compared across kernels, which are part of the tools then.
    """
    alike: dict[Hashable, list[K]] = {}
    for key in sorted(keys, key=sort_key):
        alike.setdefault(build_comparison_key(key), []).append(key)
    found = []
    for group in alike.values():
        kernels = {
            name: {key.kernel for key in group if key.platform == name} for name in {key.platform for key in group}
        }
        found += [
            (key, than)
            for than, key in combinations(group, 2)
            if key.platform != than.platform
            and (key.kernel == than.kernel or not kernels[key.platform] & kernels[than.platform])
        ]
    return found


def collect_p_values(pairs: Iterable[ToolPair]) -> tuple[float, ...]:
    """p values of the pairs that are tested."""
    return tuple(pair.p for pair in pairs if pair.p is not None)


def format_kernels(kernels: Collection[str], *pair: PointOfGuests) -> str:
    """A remark on the kernel, if there were measurements under several."""
    if len(kernels) < 2:
        return ""
    own = {key.kernel for key in pair}
    return f", Linux {own.pop() or 'not known'}" if len(own) == 1 else ", each under a kernel of its own"


def format_none_valid(platforms: Iterable[str]) -> str:
    """Describe platforms of a pair without trials that enter: the request stays open, and is not passed over."""
    return f"without valid trials: {' and '.join(platforms)}"


def format_one_platform(what: str) -> str:
    """Why there is nothing to compare."""
    return f"no two platforms with guests were measured with {what}"


def judge_all_different(pairs: Sequence[ToolPair]) -> Confirmation:
    """Whether all tools behave differently, that is, each two of them. One pair that does not refutes it."""
    if any(pair.apart is False for pair in pairs):
        return "not confirmed"
    if _covers_every_pair(frozenset((pair.one, pair.other)) for pair in pairs) and all(pair.apart for pair in pairs):
        return "confirmed"
    return NOT_BY_LINK if any(pair.by_link for pair in pairs) else "not decided"


def conclude_difference(conclusion: str, of: Sequence[Sequence[ToolPair]]) -> PaperConclusion | None:
    """The conclusion as a whole, over all measured quantities, or None if there is only one or there are no two tools.
    Every two tools differ in something; two are alike only if they are so in everything.
    """
    found: dict[frozenset[str], list[tuple[int, bool | None]]] = {}
    for thing, pairs in enumerate(of):
        for pair in pairs:
            found.setdefault(frozenset((pair.one, pair.other)), []).append((thing, pair.apart))
    if len(of) < 2 or not found:
        return None
    differ = [any(apart for _, apart in known) for known in found.values()]
    alike = [
        len({thing for thing, _ in known}) == len(of) and all(apart is False for _, apart in known)
        for known in found.values()
    ]
    every = _covers_every_pair(found) and all(differ)
    confirmation: Confirmation = "not confirmed" if any(alike) else "confirmed" if every else "not decided"
    summary = f"{sum(differ)} of {len(differ)} pairs of tools are shown to differ in something"
    return PaperConclusion(conclusion, "all of the above", summary, confirmation)


def _covers_every_pair(pairs: Iterable[frozenset[str]]) -> bool:
    """Whether the pairs include each two of the tools that occur."""
    known = set(pairs)
    return bool(known) and len(known) == math.comb(len(frozenset.union(*known)), 2)


def describe_unmentioned(platform: str, names: Mapping[str, str], best: str = "xen") -> str:
    """The remark next to a platform that the paper's sentence does not cover."""
    return "" if names.get(platform) == best else ", of which the paper does not say it"


def build_abstract_unit(
    paper_name: str,
    name: str,
    place: int,
    conclude: Callable[[Material], Iterable[PaperConclusion]],
    how: str,
    claims: Callable[[Experiments, Mapping[str, str]], Sequence[float]],
) -> ReportUnit[Material]:
    """A row for each conclusion and each own result to compare it with. ``how``: the criterion. ``claims``: the p
    values of all rows.
    """

    def make(material: Material) -> Table | None:
        paper = material.paper
        if paper is None or paper.name != paper_name:
            return None
        found = list(conclude(material))
        if not found:
            return None
        columns: list[TableColumn[PaperConclusion]] = [
            column("conclusion", "the paper concludes", lambda each: each.conclusion),
            column("about", "compared with", lambda each: each.about),
            column("finding", "own finding", lambda each: each.found),
            column("word", "here", lambda each: each.held),
            csv_column("claims_p", lambda each: " ".join(map(repr, each.p_values))),
        ]
        title = "What the abstract concludes, and what was found here"
        return build_table(name, title, columns, found, f"{how} {paper.cited()}", beside_paper=True)

    return ReportUnit(name=name, place=place, make=make, paper=(paper_name, "abstract"), claims_beside=claims)
