"""What a reader should be pointed to, in sentences, each with the runs behind it. Pure; method.md section 4.

A finding never says more than its evidence: where an interval does not allow a statement, none is made, and where two
platforms cannot be told apart, that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import pandas as pd

from labconsole.measure import design_points
from labconsole.measure.statistics import Difference, difference, order_effect, outliers
from labconsole.report.digest import Digest, Evidence
from labconsole.report.evaluation import (
    CPU_BASELINES,
    CPU_LOADS,
    DEDICATED,
    FORWARDING,
    IDLE,
    NETWORK_BASELINES,
    Change,
    Point,
    SecondGuest,
    Setting,
    changes,
    maxima,
)
from labconsole.report.figures import size_words
from labconsole.report.tables import number, percent, target_words, with_interval

COLLAPSE_RATIO = 0.02
"""Below the maximum by more than this share, and detectably, at a higher offered load: a collapse."""

SPREAD_FACTOR = 5.0
"""A point's deviation relative to its mean, against the median of all points of the same platform."""

MIN_SPREAD_RATIO = 0.02

NOTHING_LOST_RATIO = 0.001
"""Of what was offered: below that a maximum is the load's, not the platform's."""

LOADS_NAMED = 5
"""Of a finding that is seen at many loads."""

SECOND_LOSES_RATIO = 0.01
"""Of what the second guest was offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``kind`` is stable, for machines; ``sentence`` for people; ``run_ids`` are the evidence."""

    kind: str
    sentence: str
    run_ids: tuple[str, ...]


def find_all(
    points: Sequence[Point], runs: pd.DataFrame, digest: Digest, second: Sequence[SecondGuest] = ()
) -> list[Finding]:
    """Every finding, in a fixed order of kinds. ``runs`` and ``points``: those that enter; ``digest``: of all."""
    against_idle = changes(points, CPU_LOADS, CPU_BASELINES)
    against_none = changes(points, (IDLE, *FORWARDING), NETWORK_BASELINES)
    against_none = [c for c in against_none if c.subject.background != c.baseline.background]
    return [
        *collapses(points),
        *not_reached(points),
        *background_effects([*against_idle, *against_none]),
        *second_guest_losses(second),
        *wide_spreads(points),
        *outlying(points),
        *order_effects(runs),
        *indistinguishable(points),
        *_told("generator_throttled", digest.throttled, _throttled),
        *_told("generator_short", digest.short, _short),
        *_told("unequal_streams", digest.unequal, _unequal),
        *_told("lost_before_guest", digest.before_guest, _before_guest),
        *_told("lost_before_uut", digest.before_uut, _before_uut),
        *_told("instrument_limited", digest.limited, _limited),
        *_told("background_not_achieved", digest.missed, _missed),
    ]


def _where(point: Point) -> str:
    size = size_words(point.frame_size_bytes, point.frame_size_includes_fcs)
    beside = "" if point.background == DEDICATED else f", background {point.background}"
    return f"{point.platform}, {size}, {count(point.sources, 'source')}{beside}"


def count(number_of: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number_of} {what}{'' if number_of == 1 else 's'}"


def collapses(points: Sequence[Point]) -> Iterator[Finding]:
    """Settings whose measured rate falls beyond their maximum while more is offered."""
    by_setting: dict[object, list[Point]] = {}
    for point in points:
        by_setting.setdefault(point.key, []).append(point)
    for key, best in maxima(points).items():
        fallen = [
            p
            for p in by_setting[key]
            if p.offered_bps.mean > best.offered_bps.mean
            and p.measured_bps.mean < best.measured_bps.mean * (1 - COLLAPSE_RATIO)
            and difference(best.measured_values_bps, p.measured_values_bps).detectable
        ]
        if fallen:
            worst = min(fallen, key=lambda p: p.measured_bps.mean)
            share = 1 - worst.measured_bps.mean / best.measured_bps.mean
            yield Finding(
                kind="collapse",
                sentence=(
                    f"{_where(best)}: collapses beyond its maximum; {with_interval(best.measured_bps)} Mbit/s measured "
                    f"at {number(best.offered_bps.mean / 1e6)} offered, {with_interval(worst.measured_bps)} at "
                    f"{number(worst.offered_bps.mean / 1e6)} ({percent(share)} less)."
                ),
                run_ids=(*best.run_ids, *worst.run_ids),
            )


def not_reached(points: Sequence[Point]) -> Iterator[Finding]:
    """By platform, maxima that the load set and not the platform: next to nothing is lost at the highest load."""
    highest = highest_loads(points)
    held: dict[str, list[Point]] = {}
    for key, best in maxima(points).items():
        lost = best.loss_ratio
        if lost is not None and lost.mean < NOTHING_LOST_RATIO and best is highest[key]:
            held.setdefault(best.platform, []).append(best)
    for platform, found in held.items():
        where = "; ".join(f"{_where(p).partition(', ')[2]} ({with_interval(p.measured_bps)} Mbit/s)" for p in found)
        yield Finding(
            kind="maximum_not_reached",
            sentence=(
                f"{platform}: next to nothing is lost at the highest load, so that its maximum may lie beyond, and "
                f"what looks the same there need not be: {where}."
            ),
            run_ids=tuple(chain.from_iterable(point.run_ids for point in found)),
        )


def highest_loads(points: Sequence[Point]) -> dict[Setting, Point]:
    """For every setting the point at which most was offered."""
    return design_points.maxima(points, lambda point: point.key, lambda point: point.offered_bps.mean)


def background_effects(found: Sequence[Change]) -> Iterator[Finding]:
    """By platform, maxima that background load moves detectably; by load, those where it shows nothing."""
    moved: dict[tuple[str, str, str], list[Change]] = {}
    nothing: dict[tuple[str, str], list[Change]] = {}
    for change in found:
        s, b = change.subject, change.baseline
        if change.detectable:
            moved.setdefault((s.platform, s.background, b.background), []).append(change)
        elif change.detectable is False:
            nothing.setdefault((s.background, b.background), []).append(change)
    for (platform, background, baseline), held in moved.items():
        yield Finding(
            kind="background_effect",
            sentence=(
                f"{platform}, background {background} against {_baseline(baseline)}: the maximum changes by "
                f"{'; '.join(f'{change_words(c)} at {_setting(c)}' for c in held)}."
            ),
            run_ids=_behind(held),
        )
    for (background, baseline), held in nothing.items():
        where = "; ".join(f"{c.subject.platform}, {_setting(c)}: {change_words(c)}" for c in held)
        yield Finding(
            kind="no_detectable_difference",
            sentence=(
                f"Background {background} against {_baseline(baseline)}: no detectable difference of the maximum: "
                f"{where}."
            ),
            run_ids=_behind(held),
        )


def _setting(change: Change) -> str:
    s = change.subject
    return f"{size_words(s.frame_size_bytes, s.frame_size_includes_fcs)}, {count(s.sources, 'source')}"


def _behind(held: Sequence[Change]) -> tuple[str, ...]:
    return tuple(chain.from_iterable((*c.baseline.run_ids, *c.subject.run_ids) for c in held))


def _baseline(background: str) -> str:
    return {DEDICATED: "no second guest", IDLE: "an idle second guest"}.get(background, background)


def change_words(change: Change) -> str:
    """``−0.4 % (interval −1.0 % to 0.2 %)``."""
    low, high = change.ratio.ci_low, change.ratio.ci_high
    interval = "" if low is None or high is None else f" (interval {percent(low - 1)} to {percent(high - 1)})"
    return f"{percent(change.value - 1)}{interval}"


def second_guest_losses(found: Sequence[SecondGuest]) -> Iterator[Finding]:
    """Second guests that do not forward what they are offered (the papers' tables 2 and 3, all loads together)."""
    for guest in found:
        lost = guest.lost_ratio
        told = difference_of(guest)
        if lost is not None and lost > SECOND_LOSES_RATIO and told:
            size = size_words(guest.frame_size_bytes, guest.frame_size_includes_fcs)
            yield Finding(
                kind="second_guest_loses",
                sentence=(
                    f"{guest.platform}, background {guest.background}: beside {size} through the first guest "
                    f"({count(guest.sources, 'source')}) the second loses {percent(lost)} of what it is offered "
                    f"({with_interval(guest.measured_bps)} of {with_interval(guest.offered_bps)} Mbit/s)."
                ),
                run_ids=guest.run_ids,
            )


def difference_of(guest: SecondGuest) -> bool:
    """Whether in and out of a second guest lie apart beyond their intervals; False where there are none."""
    low, high = guest.offered_bps.ci_low, guest.measured_bps.ci_high
    return low is not None and high is not None and high < low


def wide_spreads(points: Sequence[Point]) -> Iterator[Finding]:
    """Points whose repetitions differ far more than those of the platform's other points."""
    spreads: dict[str, list[tuple[float, Point]]] = {}
    for p in points:
        if p.measured_bps.sd is not None and p.n >= 3 and p.measured_bps.mean > 0:
            spreads.setdefault(p.platform, []).append((p.measured_bps.sd / p.measured_bps.mean, p))
    for held in spreads.values():
        usual = sorted(value for value, _ in held)[len(held) // 2]
        for value, p in held:
            if value > MIN_SPREAD_RATIO and value > SPREAD_FACTOR * usual:
                yield Finding(
                    kind="wide_spread",
                    sentence=(
                        f"{_where(p)}, target {target_words(p.target_bps)}: the repetitions differ by "
                        f"{percent(value)} of their mean (standard deviation), where {percent(usual)} is usual on "
                        "this platform."
                    ),
                    run_ids=p.run_ids,
                )


def outlying(points: Sequence[Point]) -> Iterator[Finding]:
    """Runs that lie apart from the other repetitions of their point. They stay in its mean."""
    for p in points:
        places = outliers(p.measured_values_bps)
        if places:
            apart = ", ".join(number(p.measured_values_bps[place] / 1e6) for place in places)
            yield Finding(
                kind="outlier",
                sentence=(
                    f"{_where(p)}, target {target_words(p.target_bps)}: {apart} Mbit/s measured in {len(places)} of "
                    f"{p.n} runs, far from the others ({with_interval(p.measured_bps)} with all; Rosner's test, 5 %)."
                ),
                run_ids=tuple(p.run_ids[place] for place in places),
            )


def order_effects(runs: pd.DataFrame) -> Iterator[Finding]:
    """Plans whose results depend on when in the schedule they were taken, on one testbed."""
    planned = runs[runs["plan_hash"].notna()].sort_values(["started_at", "run_id"])
    for _, taken in planned.groupby(["plan_hash", "testbed_fingerprint"], observed=True, sort=True):
        values = [float(value) for value in taken["measured_bps"]]
        points = [int(point) for point in taken["plan_point"]]
        found = order_effect(range(1, len(values) + 1), values, points, relative=True)
        if not found.detectable or found.change is None or found.slope_per_position is None:
            continue
        low, high = (
            (bound or 0.0) * found.change / found.slope_per_position for bound in (found.ci_low, found.ci_high)
        )
        yield Finding(
            kind="order_effect",
            sentence=(
                f"Plan {taken['plan_name'].iloc[0]}: measured rates change by {_signed(found.change)} from its "
                f"first run to its last (95 % interval {_signed(low)} to {_signed(high)}), each point against its own "
                "mean: the testbed drifted."
            ),
            run_ids=tuple(taken["run_id"]),
        )


def indistinguishable(points: Sequence[Point]) -> Iterator[Finding]:
    """Settings in which the maxima of some platforms show no detectable difference (Welch, 95 %), pair by pair.

    Beside no second guest, where that was measured: what a load does to a platform is told against itself.
    """
    by_setting: dict[tuple[object, ...], list[Point]] = {}
    dedicated = [point for point in points if point.background == DEDICATED]
    for key, point in maxima(dedicated or points).items():
        by_setting.setdefault(key[1:], []).append(point)
    for held in by_setting.values():
        pairs = [
            (a, b, compared)
            for a, b in combinations(held, 2)
            for compared in (difference(a.measured_values_bps, b.measured_values_bps),)
            if compared.detectable is False
        ]
        if not pairs:
            continue
        words = "; ".join(
            f"{a.platform} and {b.platform} ({with_interval(a.measured_bps)} and {with_interval(b.measured_bps)} Mbit/s"
            f"{_interval(compared)})"
            for a, b, compared in pairs
        )
        of = {id(point): point for a, b, _ in pairs for point in (a, b)}.values()
        yield Finding(
            kind="no_detectable_difference",
            sentence=f"{_where(held[0]).partition(', ')[2]}: no detectable difference of the maxima of {words}.",
            run_ids=tuple(chain.from_iterable(point.run_ids for point in of)),
        )


def _interval(compared: Difference) -> str:
    if compared.ci_low is None or compared.ci_high is None:
        return ""
    low, high = number(compared.ci_low / 1e6), number(compared.ci_high / 1e6)
    return f"; 95 % interval of the difference {low} to {high}"


def _told(kind: str, found: Sequence[Evidence], words: Callable[[str, list[Evidence]], str]) -> Iterator[Finding]:
    """One finding for each platform and frame size, with the loads at which it was seen."""
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


def _unequal(asked: str, held: list[Evidence]) -> str:
    worst = min(evidence.value for evidence in held)
    return (
        f"{asked}: the streams of one trial fare unequally in {count(len(held), 'run')} "
        f"(Jain's index down to {worst:.3f}, 1 is equal)."
    )


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


def _limited(asked: str, held: list[Evidence]) -> str:
    runs = len(held)
    which = "1 run is" if runs == 1 else f"{runs} runs are"
    they = "it says" if runs == 1 else "they say"
    return f"{asked}: {which} beyond the calibrated instrument; {they} nothing of the platform ({held[0].detail})."


def _missed(asked: str, held: list[Evidence]) -> str:
    runs = len({evidence.run_id for evidence in held})
    return (
        f"{asked}: the background load was not what was asked for in {count(runs, 'run')}, which enter no mean "
        f"({held[0].detail})."
    )


def _signed(ratio: float) -> str:
    return f"{'+' if ratio >= 0 else ''}{percent(ratio, 2)}"
