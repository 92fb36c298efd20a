"""What the abstract of Mattos and others concludes of guests that send, beside one's own findings."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.flow.shown import plain, summary_of, words
from labconsole.experiments.flow.summary import FlowPointFound
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.abstracts import NOT_BY_LINK, Concluded, Held, KnownInterval, abstract_unit, each_words, most
from labconsole.report.material import Material

BEST, BARE = "xen", "native"
MATTERS_RATIO = 0.01
"""A smaller difference between platforms decides nothing: all may fill the link."""

FULL_RATIO = 0.95
"""Of what the link can carry: from here on the link is what limits a guest, and two such guests are alike by it."""

FAIR = 0.99
"""Jain's index from which each of several guests has its part."""


def _conclude(material: Material) -> Iterator[Concluded]:
    """For one guest on each platform, and for each platform with several."""
    summary, names = summary_of(material), material.paper_names
    points = plain(summary.points)
    alone: dict[tuple[object, ...], dict[str, FlowPointFound]] = {}
    for point in points:
        key = point.key
        if key.guests == 1 and names.get(key.platform) != BARE:
            group = (
                key.testbed_fingerprint, key.cpu, key.offered_bps, key.payload_bytes, key.memory_mib, key.kernel
            )  # fmt: skip
            alone.setdefault(group, {})[summary.name_of(key)] = point
    for of_platform in alone.values():
        best = [name for name, point in of_platform.items() if names.get(point.key.platform) == BEST]
        sent = {name: _interval(point.sum_bps) for name, point in of_platform.items()}
        for name in best if len(sent) > 1 else ():
            found = each_words({each: f"{words(point.sum_bps)} Mbit/s" for each, point in of_platform.items()})
            held = most(name, sent, matters_ratio=MATTERS_RATIO)
            full = [each for each, point in of_platform.items() if _fills_link(point)]
            if name in full and (len(full) > 1 or held == "not decided"):
                held = NOT_BY_LINK
            yield Concluded("Xen introduces the least overhead on network performance", name, found, held)
    for point in points:
        if point.key.guests > 1:
            about = f"{summary.name_of(point.key)}, {point.key.guests} guests that send"
            found = f"Jain {words(point.jain, 1, 4)}"
            yield Concluded("sharing the network among guests is fair", about, found, _fair(_interval(point.jain)))


def _fills_link(point: FlowPointFound) -> bool:
    return point.line_ratio is not None and point.line_ratio.maximum >= FULL_RATIO


def _fair(jain: KnownInterval | None) -> Held:
    if jain is None:
        return "not decided"
    return "confirmed" if jain.low >= FAIR else "not confirmed" if jain.high < FAIR else "not decided"


def _interval(found: SetUpMean | None) -> KnownInterval | None:
    """Over set-ups: of one it would speak for no other."""
    if found is None or found.ci_low is None or found.ci_high is None or found.scope != "set-ups":
        return None
    return KnownInterval(found.mean, found.ci_low, found.ci_high)


UNITS = (
    abstract_unit(
        "mattos", "mattos-abstract-network", 169, _conclude,
        "Least overhead: what one guest of the paper's best platform sends is wholly above what one of every other "
        f"sends; which of your platforms that is, --reference-map says. Less than {100 * MATTERS_RATIO:.0f} % between "
        f"platforms decides nothing; neither do two that send at least {100 * FULL_RATIO:.0f} % of what the link can "
        "carry (held by the link). Fair: Jain's index of guests that send at once is wholly "
        f"from {FAIR} on.",
    ),
)  # fmt: skip
