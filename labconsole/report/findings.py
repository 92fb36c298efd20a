"""What a reader should be pointed to, in sentences, each with the runs behind it. Pure.

A sentence that compares rests on a claim of the report's family (claims.py) that came out different, or equivalent
within a declared margin. Noise gets none: what is inconclusive stands in its table. Marks (marks.py) claim nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from labconsole.measure.effects import Effect
from labconsole.report.claims import Claim
from labconsole.report.comparisons import Comparison
from labconsole.report.evaluation import Evaluation
from labconsole.report.points import DEDICATED, IDLE, Point, Reading, Setting
from labconsole.report.tables import bounds_words, number, percent, with_interval

COMPARES = ("platforms_differ", "background_effect", "equivalent", "collapse", "second_guest_loses", "unequal_streams")
"""Kinds that rest on a claim; every other kind is a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``kind`` is stable, for machines; ``sentence`` for people; ``run_ids`` are the evidence."""

    kind: str
    sentence: str
    run_ids: tuple[str, ...]


def claimed(made: Evaluation) -> Iterator[Finding]:
    """Sentences of claims, in a fixed order of kinds."""
    yield from _pairs(made)
    yield from _backgrounds(made)
    yield from _equivalent(made)
    yield from _collapses(made)
    yield from _second_guests(made)
    yield from _streams(made)


def count(number_of: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number_of} {what}{'' if number_of == 1 else 's'}"


def size_words(size: int, includes_fcs: bool) -> str:
    """``64 B`` with its convention where it is not the paper's."""
    return f"{size} B" + (" with FCS" if includes_fcs else "")


def setting_words(setting: Setting) -> str:
    """Frame size and sources, as sentences name them."""
    size = size_words(setting.frame_size_bytes, setting.frame_size_includes_fcs)
    return f"{size}, {count(setting.sources, 'source')}"


def where(setting: Setting) -> str:
    """The whole setting in words."""
    beside = "" if setting.background == DEDICATED else f", background {setting.background}"
    return f"{setting.platform}, {setting_words(setting)}{beside}"


def point_where(point: Point) -> str:
    """The setting of a point in words."""
    return where(point.key)


def change_words(effect: Effect) -> str:
    """``−0.4 % (interval −1.0 % to −0.02 %)``, with digits enough to tell the side of 0."""
    bounds = bounds_words(effect.ci_low, effect.ci_high)
    return f"{percent(effect.change or 0.0)} (95 % interval {bounds} %)"


def baseline_words(background: str) -> str:
    """What a background is compared with."""
    return {DEDICATED: "no second guest", IDLE: "an idle second guest"}.get(background, background)


def thing(reading: Reading) -> str:
    """What is read from a setting: a maximum, or the rate at its one load."""
    return "maximum" if reading.is_maximum else "rate"


def _behind(claims: Sequence[Claim]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(claim.run_ids for claim in claims)))


def _grouped(found: Sequence[Comparison], key: Callable[[Comparison], object]) -> list[list[Comparison]]:
    groups: dict[object, list[Comparison]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return list(groups.values())


def _pairs(made: Evaluation) -> Iterator[Finding]:
    """For each frame size and number of sources, the pairs of platforms that differ."""
    different = [pair for pair in made.ranking if pair.claim.different]
    for held in _grouped(different, lambda pair: pair.subject.setting[1:4]):
        words = "; ".join(
            f"{pair.subject.setting.platform} more than {pair.baseline.setting.platform} by {_effect(pair.claim)}"
            for pair in held
        )
        yield Finding(
            kind="platforms_differ",
            sentence=f"{setting_words(held[0].subject.setting)}: forwards {words}.",
            run_ids=_behind([pair.claim for pair in held]),
        )


def _effect(claim: Claim) -> str:
    return "" if claim.effect is None else change_words(claim.effect)


def _backgrounds(made: Evaluation) -> Iterator[Finding]:
    """By platform, maxima that background load moves."""
    moved = [each for each in (*made.table_1, *made.idle, *made.figure_5) if each.claim.different]
    for held in _grouped(
        moved, lambda c: (c.subject.setting.platform, c.subject.setting.background, c.baseline.setting.background)
    ):
        first = held[0]
        words = "; ".join(f"{_effect(c.claim)} at {setting_words(c.subject.setting)}" for c in held)
        yield Finding(
            kind="background_effect",
            sentence=(
                f"{first.subject.setting.platform}, background {first.subject.setting.background} against "
                f"{baseline_words(first.baseline.setting.background)}: the {thing(first.subject)} changes by {words}."
            ),
            run_ids=_behind([c.claim for c in held]),
        )


def _equivalent(made: Evaluation) -> Iterator[Finding]:
    """What is equivalent within the margin, where one was declared."""
    margin = made.claims.margin_ratio
    if margin is None:
        return
    pairs = [pair for pair in made.ranking if pair.claim.word == "equivalent"]
    beside = [c for c in (*made.table_1, *made.idle, *made.figure_5) if c.claim.word == "equivalent"]
    for held in _grouped(pairs, lambda pair: pair.subject.setting[1:4]):
        words = "; ".join(
            f"{pair.subject.setting.platform} and {pair.baseline.setting.platform} ({_effect(pair.claim)})"
            for pair in held
        )
        yield Finding(
            kind="equivalent",
            sentence=f"{setting_words(held[0].subject.setting)}: equivalent within ± {100 * margin:g} %: {words}.",
            run_ids=_behind([pair.claim for pair in held]),
        )
    for held in _grouped(beside, lambda c: (c.subject.setting.background, c.baseline.setting.background)):
        words = "; ".join(
            f"{c.subject.setting.platform}, {setting_words(c.subject.setting)}: {_effect(c.claim)}" for c in held
        )
        yield Finding(
            kind="equivalent",
            sentence=(
                f"Background {held[0].subject.setting.background} against "
                f"{baseline_words(held[0].baseline.setting.background)}: equivalent within ± {100 * margin:g} %: "
                f"{words}."
            ),
            run_ids=_behind([c.claim for c in held]),
        )


def _collapses(made: Evaluation) -> Iterator[Finding]:
    for each in made.collapses:
        if each.claim.different:
            r = each.reading
            yield Finding(
                kind="collapse",
                sentence=(
                    f"{where(r.setting)}: collapses beyond its maximum; {with_interval(r.rate)} Mbit/s forwarded at "
                    f"{number(r.point.offered_bps.mean / 1e6)} offered, {with_interval(r.highest.rate_bps)} at "
                    f"{number(r.highest.offered_bps.mean / 1e6)}: {_effect(each.claim)}."
                ),
                run_ids=each.claim.run_ids,
            )


def _second_guests(made: Evaluation) -> Iterator[Finding]:
    for guest in made.second_guests:
        claim, setting = guest.claim, guest.setting
        if claim is not None and claim.different:
            yield Finding(
                kind="second_guest_loses",
                sentence=(
                    f"{setting.platform}, background {setting.background}: beside {setting_words(setting)} through the "
                    f"first guest the second gives on {with_interval(guest.measured_bps)} of "
                    f"{with_interval(guest.offered_bps)} Mbit/s: {_effect(claim)}."
                ),
                run_ids=guest.run_ids,
            )


def _streams(made: Evaluation) -> Iterator[Finding]:
    for each in made.streams:
        if each.claim.different:
            yield Finding(
                kind="unequal_streams",
                sentence=(
                    f"{where(each.reading.setting)}: the streams of one trial fare unequally; {each.stream} has "
                    f"{percent(each.share)} of what is forwarded: {_effect(each.claim)} against an equal share."
                ),
                run_ids=each.claim.run_ids,
            )
