"""Marks: what a reader should look at, without a claim about an effect. Pure.

Outliers, wide spread and drift are seen in runs, limits in verdicts. None is in the family of claims, and none leaves a
run out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from labconsole.measure.design_points import WHY, RunLike, rate_of
from labconsole.measure.effects import MINIMUM_BLOCKS
from labconsole.measure.setups import mean_of, set_up_means
from labconsole.measure.statistics import order_effect, outliers
from labconsole.report.digest import Digest, Evidence
from labconsole.report.evaluation import Evaluation
from labconsole.report.findings import Finding, count, point_where, where
from labconsole.report.points import Point, RunFacts
from labconsole.report.tables import number, percent, target_words, with_interval

SPREAD_FACTOR = 5.0
"""A point's deviation relative to its mean, against the median of all points of the same platform."""

MIN_SPREAD_RATIO = 0.02

ORDER_LEVEL = 0.99
"""Of the interval by which a plan's rates are said to change over its blocks."""

LOADS_NAMED = 5
"""Of a mark that is seen at many loads."""


def marks(made: Evaluation, entered: Sequence[RunLike], digest: Digest) -> Iterator[Finding]:
    """Every mark, in a fixed order of kinds."""
    yield from not_reached(made)
    yield from wide_spreads(made.points)
    yield from outlying(made.points)
    yield from order_effects(entered, digest)
    yield from mixed_witnesses(made.points, digest.facts)
    yield from _told("generator_throttled", digest.throttled, _throttled)
    yield from _told("generator_short", digest.short, _short)
    yield from _told("lost_before_guest", digest.before_guest, _before_guest)
    yield from _told("lost_before_uut", digest.before_uut, _before_uut)
    for code, held in digest.beside.items():
        yield from _told(code, held, _beside(code))
    yield from _told("background_not_achieved", digest.missed, _missed)


def not_reached(made: Evaluation) -> Iterator[Finding]:
    """By platform, maxima that the load set and not the platform: next to nothing is lost at the highest load."""
    held: dict[str, list[str]] = {}
    ids: dict[str, list[str]] = {}
    for reading in made.maxima:
        if reading.at_least:
            words = f"{where(reading.setting).partition(', ')[2]} (at least {with_interval(reading.rate)} Mbit/s)"
            held.setdefault(reading.setting.platform, []).append(words)
            ids.setdefault(reading.setting.platform, []).extend(reading.point.run_ids)
    for platform, words_of in held.items():
        yield Finding(
            kind="maximum_not_reached",
            sentence=(
                f"{platform}: less than 0.1 % is lost or late at the highest load, so that the maximum lies there or "
                f"beyond, and nothing is concluded from it: {'; '.join(words_of)}."
            ),
            run_ids=tuple(ids[platform]),
        )


def wide_spreads(points: Sequence[Point]) -> Iterator[Finding]:
    """Points whose set-ups (or trials of one set-up) differ far more than those of the platform's other points."""
    spreads: dict[str, list[tuple[float, Point]]] = {}
    for p in points:
        if p.rate_bps.sd is not None and p.n >= 3 and p.rate_bps.mean > 0:
            spreads.setdefault(p.platform, []).append((p.rate_bps.sd / p.rate_bps.mean, p))
    for held in spreads.values():
        usual = sorted(value for value, _ in held)[len(held) // 2]
        for value, p in held:
            if value > MIN_SPREAD_RATIO and value > SPREAD_FACTOR * usual:
                which = "set-ups" if p.set_ups > 1 else "repetitions"
                yield Finding(
                    kind="wide_spread",
                    sentence=(
                        f"{point_where(p)}, target {target_words(p.target_bps)}: the {which} differ by "
                        f"{percent(value)} of their mean (standard deviation), where {percent(usual)} is usual on "
                        "this platform."
                    ),
                    run_ids=p.run_ids,
                )


def outlying(points: Sequence[Point]) -> Iterator[Finding]:
    """Runs that lie apart from the other trials of their point. They stay in its mean."""
    for p in points:
        values = p.trial_values_bps
        places = outliers(values)
        if places:
            apart = ", ".join(number(values[place] / 1e6) for place in places)
            yield Finding(
                kind="outlier",
                sentence=(
                    f"{point_where(p)}, target {target_words(p.target_bps)}: {apart} Mbit/s forwarded in "
                    f"{len(places)} of "
                    f"{p.n} runs, far from the others ({with_interval(p.rate_bps)} with all; Rosner's test, 5 %)."
                ),
                run_ids=tuple(p.run_ids[place] for place in places),
            )


def order_effects(entered: Sequence[RunLike], digest: Digest) -> Iterator[Finding]:
    """Plans whose results depend on when in the schedule they were taken, on one testbed.

    In blocks the means of the blocks are tested: trials are alike within a set-up, and with their neighbours. Without
    blocks there is a slope and nothing to test it by: it is told where independent trials would rarely have it.
    """
    groups: dict[tuple[str, str], list[RunLike]] = {}
    for run in sorted(entered, key=lambda run: (run.started_at, run.run_id)):
        if run.plan_hash is not None and run.plan_point is not None:
            groups.setdefault((run.plan_hash, run.testbed_fingerprint), []).append(run)
    for key in sorted(groups):
        taken = groups[key]
        in_blocks = [run for run in taken if run.block and run.set_up is not None]
        words = _over_blocks(in_blocks) if in_blocks else _over_trials(taken)
        if words is not None:
            facts = digest.planned.get(key)
            yield Finding(
                kind="order_effect",
                sentence=f"Plan {key[0] if facts is None else facts.name}: {words}",
                run_ids=tuple(run.run_id for run in in_blocks or taken),
            )


def _over_blocks(taken: Sequence[RunLike]) -> str | None:
    """The change from the first block to the last, where its 99 % interval excludes zero; None elsewhere."""
    points: dict[int, dict[int, list[float]]] = {}
    for run in taken:
        rate = rate_of(run)
        if rate is not None and run.block and run.plan_point is not None:
            points.setdefault(run.plan_point, {}).setdefault(run.block, []).append(rate[1])
    relative: dict[int, list[float]] = {}
    for values in points.values():
        means = set_up_means(values)
        usual = mean_of(list(means.values()))
        for block, mean in means.items():
            if usual > 0 and len(means) > 1:
                relative.setdefault(block, []).append(mean / usual)
    if len(relative) < MINIMUM_BLOCKS:
        return None
    blocks = sorted(relative)
    found = order_effect(blocks, [mean_of(relative[block]) for block in blocks], level=ORDER_LEVEL)
    if not found.detectable:
        return None
    slopes = (found.slope_per_position, found.ci_low, found.ci_high)
    change, low, high = ((slope or 0.0) * (blocks[-1] - blocks[0]) for slope in slopes)
    return (
        f"measured rates change by {_signed(change)} from the first block to the last (99 % interval {_signed(low)} to "
        f"{_signed(high)}, Student's t over {len(blocks)} blocks), each point against its own mean. Pairing by block "
        "takes out what a whole block has in common."
    )


def _over_trials(taken: Sequence[RunLike]) -> str | None:
    """The slope, where its 95 % interval excludes zero as if trials were independent; None elsewhere."""
    values = [(rate_of(run) or (0.0, 0.0))[1] for run in taken]
    found = order_effect(range(1, len(values) + 1), values, [run.plan_point or 0 for run in taken], relative=True)
    if not found.detectable or found.change is None:
        return None
    return (
        f"measured rates change by {_signed(found.change)} from the first run to the last, each point against its own "
        "mean: a slope over the order of trials. It is shown because only one in 20 plans of independent trials "
        "without a trend shows one; where neighbouring trials are alike, up to two in three do. A reason to look, and "
        "no test."
    )


def mixed_witnesses(points: Sequence[Point], facts: Mapping[str, RunFacts]) -> Iterator[Finding]:
    """Points whose mean holds runs counted by a capture and runs counted by the sink's NIC."""
    held: dict[str, list[Point]] = {}
    for p in points:
        seen = {facts[run_id].witnesses for run_id in p.run_ids if run_id in facts}
        if len(seen) > 1:
            held.setdefault(p.platform, []).append(p)
    for platform, found in held.items():
        words = "; ".join(f"{point_where(p).partition(', ')[2]}, target {target_words(p.target_bps)}" for p in found)
        yield Finding(
            kind="mixed_witnesses",
            sentence=(
                f"{platform}: the capture counted some runs and the sink's NIC others, in one mean, because tcpdump "
                f"dropped packets in some: {words}."
            ),
            run_ids=tuple(chain.from_iterable(p.run_ids for p in found)),
        )


def _told(kind: str, found: Sequence[Evidence], words: Callable[[str, list[Evidence]], str]) -> Iterator[Finding]:
    """One mark for each platform and frame size, with the loads at which it was seen."""
    groups: dict[str, list[Evidence]] = {}
    for evidence in found:
        groups.setdefault(evidence.asked, []).append(evidence)
    for asked, held in groups.items():
        loads = list(dict.fromkeys(evidence.load for evidence in held))
        more = f" and {len(loads) - LOADS_NAMED} other loads" if len(loads) > LOADS_NAMED else ""
        sentence = f"{words(asked, held)} Seen at {', '.join(loads[:LOADS_NAMED])}{more}."
        yield Finding(kind=kind, sentence=sentence, run_ids=tuple(dict.fromkeys(e.run_id for e in held)))


def _throttled(asked: str, held: list[Evidence]) -> str:
    return (
        f"{asked}: flow control held the generator back in {count(len(held), 'run')}; the point stands at what was "
        f"offered, not at its target ({held[0].detail})."
    )


def _short(asked: str, held: list[Evidence]) -> str:
    return f"{asked}: the generator sent less than intended in {count(len(held), 'run')} ({held[0].detail})."


def _before_guest(asked: str, held: list[Evidence]) -> str:
    return f"{asked}: {_share(held)} of the loss happens before the guest in {count(len(held), 'run')}."


def _before_uut(asked: str, held: list[Evidence]) -> str:
    return (
        f"{asked}: {_share(held)} of the loss happens before the unit under test counts the frame, in "
        f"{count(len(held), 'run')}."
    )


def _share(held: list[Evidence]) -> str:
    low, high = min(e.value for e in held), max(e.value for e in held)
    words = percent(low, 0), percent(high, 0)
    return words[0] if words[0] == words[1] else f"{words[0]} to {words[1]}"


def _beside(code: str) -> Callable[[str, list[Evidence]], str]:
    """Runs that enter no mean, because they say nothing of the platform."""

    def words(asked: str, held: list[Evidence]) -> str:
        runs = len(held)
        they = "it says" if runs == 1 else "they say"
        return (
            f"{asked}: {count(runs, 'run')} left out of every mean ({WHY[code]}); {they} nothing of the platform "
            f"({held[0].detail})."
        )

    return words


def _missed(asked: str, held: list[Evidence]) -> str:
    runs = len({evidence.run_id for evidence in held})
    return (
        f"{asked}: the background load was not what was asked for in {count(runs, 'run')}, which enter no mean "
        f"({held[0].detail})."
    )


def _signed(ratio: float) -> str:
    return f"{'+' if ratio >= 0 else ''}{percent(ratio, 2)}"
