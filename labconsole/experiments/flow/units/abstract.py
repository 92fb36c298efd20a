"""What the abstract of Mattos and others concludes of guests that send, beside one's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from labconsole.experiments.flow.comparing import WAYS, compare_with, is_bare
from labconsole.experiments.flow.shown import inward_of, nothing_words, plain, records_of, summary_of, words
from labconsole.experiments.flow.summary import FlowPointFound, summarize_flows
from labconsole.measure.statistics.effects import SIGNIFICANCE, Effect, fall_p, rise_p
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.measure.trials_of_guests import adjusted
from labconsole.model.record.flow import FlowRecord
from labconsole.report.abstracts import NOT_BY_LINK, Concluded, Held, abstract_unit, none_valid, not_xens, tool_pairs
from labconsole.report.effect_words import effect_words
from labconsole.report.material import Material

LEAST = "Xen introduces the least overhead on network performance"
BEST = "xen"
MATTERS_RATIO = 0.01
"""A smaller difference between platforms decides nothing: all may fill the link."""

FULL_RATIO = 0.95
"""Of what the link can carry: from here on the link is what limits a guest, and two such guests are alike by it."""

FAIR = 0.99
"""Jain's index from which each of several guests has its part: of two guests 55 and 45 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One guest of the paper's best platform beside one of another: ``effect``, by what it carries more; ``about``: the
    best one's name and the way, ``than``: the other's name.
    """

    best: FlowPointFound
    other: FlowPointFound
    about: str
    than: str
    effect: Effect

    @property
    def out(self) -> str | None:
        """By which code trials do not enter because of what they came to: those that do are a choice."""
        return self.best.by_outcome or self.other.by_outcome

    @property
    def by_link(self) -> bool:
        """Whether both fill the link in every trial: it is what limits them then."""
        ratios = [each.line_ratio for each in (self.best, self.other)]
        return all(ratio is not None and ratio.minimum >= FULL_RATIO for ratio in ratios)

    @property
    def said(self) -> str:
        none = [each.key.platform for each in (self.best, self.other) if not each.flow_ids]
        if none:
            return none_valid(none)
        return f"trials left out by {self.out}" if self.out else effect_words(self.effect)


def _conclude(material: Material) -> Iterator[Concluded]:
    """For one guest each way, and for each platform with several that send."""
    names, found = material.paper_names, list[Beside]()
    for way, records in (("out", records_of(material)), ("in", inward_of(material))):
        beside = _beside(records, names, WAYS[way])
        found += beside
        if records and not beside:
            yield Concluded(
                LEAST, WAYS[way], "no platform that is the paper's Xen was asked the same as another", "not decided"
            )
    more, less = (
        [
            p is not None and p <= SIGNIFICANCE
            for p in adjusted([None if each.out or each.by_link else tested(each.effect) for each in found])
        ]
        for tested in (_rise_p, _fall_p)
    )
    for about in dict.fromkeys(each.about for each in found):
        of = [place for place, each in enumerate(found) if each.about == about]
        said = "; ".join(f"{found[at].than}: {found[at].said}" for at in of)
        full = any(_fills_link(point) for at in of for point in (found[at].best, found[at].other))
        yield Concluded(
            LEAST, about, f"beside {said}",
            "not confirmed" if any(less[at] for at in of)
            else "confirmed" if all(more[at] for at in of) else NOT_BY_LINK if full else "not decided",
        )  # fmt: skip
    summary, bare = summary_of(material), _bare(records_of(material))
    for point in plain(summary.points):
        if point.key.guests > 1 and (point.key.testbed_fingerprint, point.key.platform) not in bare:
            name = f"{summary.name_of(point.key)}{not_xens(point.key.platform, names)}"
            about = f"{name}: {point.key.guests} guests that send"
            yield Concluded("sharing the network among guests is fair", about, *_fair(point))


def _beside(records: Sequence[FlowRecord], names: Mapping[str, str], way: str) -> list[Beside]:
    """With each other platform that was asked the same of one guest, the bare host apart, and others that are the
    paper's best as well.
    """
    summary, of = summarize_flows(records), {each.flow_id: each for each in records}
    bare = _bare(records)
    points = [
        point for point in plain(summary.points)
        if point.key.guests == 1 and (point.key.testbed_fingerprint, point.key.platform) not in bare
    ]  # fmt: skip
    by_key = {point.key: point for point in points}
    pairs = [
        (by_key[best], by_key[other])
        for pair in tool_pairs(by_key)
        for best, other in (pair, pair[::-1])
        if names.get(best.platform) == BEST != names.get(other.platform)
    ]
    trials = [([of[each] for each in best.flow_ids], [of[each] for each in other.flow_ids]) for best, other in pairs]
    return [
        Beside(
            best=best, other=other, about=f"{summary.name_of(best.key)}, {way}", than=summary.name_of(other.key),
            effect=effect,
        )
        for (best, other), effect in zip(pairs, compare_with(records, trials), strict=True)
    ]  # fmt: skip


def _bare(records: Sequence[FlowRecord]) -> set[tuple[str, str]]:
    """Testbeds with their platforms whose guests are processes of the bare host: no guests."""
    return {(each.testbed_fingerprint, each.requested.platform) for each in records if is_bare(each)}


def _rise_p(effect: Effect) -> float | None:
    return rise_p(effect, MATTERS_RATIO)


def _fall_p(effect: Effect) -> float | None:
    found = fall_p(effect, MATTERS_RATIO)
    return None if found is None else found[0]


def _fills_link(point: FlowPointFound) -> bool:
    return point.line_ratio is not None and point.line_ratio.maximum >= FULL_RATIO


def _fair(point: FlowPointFound) -> tuple[str, Held]:
    """Only where there is something to be shared: a full link, or one processor."""
    if point.jain is None:
        return nothing_words(point), "not decided"
    said = f"Jain {words(point.jain, 1, 4)}"
    if point.by_outcome:
        return f"{said}, with trials left out by {point.by_outcome}", "not decided"
    if point.key.cpu != "same" and (point.line_ratio is None or point.line_ratio.minimum < FULL_RATIO):
        return f"{said}, of a link that was not full", "not decided"
    low, high = _bounds(point.jain)
    if low is None or high is None:
        return said, "not decided"
    return said, "confirmed" if low >= FAIR else "not confirmed" if high < FAIR else "not decided"


def _bounds(found: SetUpMean | None) -> tuple[float | None, float | None]:
    """Over set-ups: of one it would speak for no other."""
    return (None, None) if found is None or found.scope != "set-ups" else (found.ci_low, found.ci_high)


UNITS = (
    abstract_unit(
        "mattos", "mattos-abstract-network", 169, _conclude,
        "Least overhead: one guest of the paper's best platform sends, or is sent, more than one of every other, each "
        f"by more than {100 * MATTERS_RATIO:.0f} %; which of your platforms that is, --reference-map says. Where all "
        f"fill the link, or none is shown to, nothing is decided; at {100 * FULL_RATIO:.0f} % of what it can carry it "
        "is the link that holds (held by the link). Fair: Jain's index of guests that send at once is wholly from "
        f"{FAIR} on, where they fill the link or share a processor, by its interval of 95 % over set-ups. What is "
        "carried is compared in pairs of blocks, or over three boots a side, adjusted by Holm over this table; nothing "
        "is decided where trials were left out by what they came to.",
    ),
)  # fmt: skip
