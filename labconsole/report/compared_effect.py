"""An effect between two sides of a comparison: over which replicates it is, and what may be said of it. Pure.

The replicate is the highest level that both sides have enough of: blocks that both were taken in, boots of the machine,
or set-ups. One comparison is one family (S. Holm, Scand. J. Statist. 6, 1979).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from labconsole.measure.statistics.effects import (
    MINIMUM_BLOCKS,
    Effect,
    Word,
    equivalence_p,
    holm,
    smallest_effect_of,
    unpaired_effect,
    word,
)
from labconsole.report.comparisons import UNKNOWN_BOOTS, means_of_boots
from labconsole.report.words import UNKNOWN

Scope = Literal["blocks", "boots", "set-ups"]
Found = tuple[Effect | None, Scope | None, str | None]
"""The effect and what it is over, or why there is none."""

FEW_SET_UPS: Final = "fewer than 3 set-ups a side"
SHARED_BOOTS: Final = "some boots of the machine are on both sides, and the others may differ"
NOTHING_LOST: Final = "both sides forwarded all that they were offered"
ONE_FULL: Final = "one side forwarded all that it was offered"
LOSS_UNKNOWN: Final = "what the unit under test lost is not known"
OFFERED_LESS: Final = "one side forwarded all that it was offered, which is less than the other one forwarded"

OVER: Final[dict[Scope, str]] = {"blocks": "blocks of both", "boots": "boots", "set-ups": "set-ups"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEffect:
    """``effect``: after / before - 1, ``why`` there is none. ``bound``: one side forwarded all that it was offered, so
    that the difference is at least this. ``adjusted_p``, ``equivalence_adjusted_p``: in the family of all that is
    compared. ``smallest_ratio``: the smallest change that this row would have shown with 80 % power at 0.05.
    """

    effect: Effect | None
    scope: Scope | None
    why: str | None
    bound: bool = False
    adjusted_p: float | None = None
    equivalence_adjusted_p: float | None = None
    smallest_ratio: float | None = None

    @property
    def bound_words(self) -> str:
        """Why a ``bound`` is one."""
        return ONE_FULL

    @property
    def word(self) -> Word:
        """What may be said of it."""
        return word(self.adjusted_p, self.equivalence_adjusted_p)


def boot_count(boots: Mapping[Hashable, str | None]) -> int:
    """How many boots of the unit under test are known among those of set-ups."""
    return len(set(boots.values()) - {None})


def over_words(change: ComparedEffect, boots: Sequence[int], set_ups: Sequence[int]) -> str:
    """What the effect is over, and how many of these either side has; before, then after."""
    if change.effect is None or change.scope is None:
        return UNKNOWN
    if change.scope == "blocks":
        return f"{change.effect.blocks} {OVER['blocks']}"
    before, after = boots if change.scope == "boots" else set_ups
    return f"{before} and {after} {OVER[change.scope]}"


class InFamily(NamedTuple):
    """What an effect comes to as one of a family; fields are those of ComparedEffect."""

    adjusted_p: float | None
    equivalence_adjusted_p: float | None
    smallest_ratio: float | None


def in_family(changes: Sequence[ComparedEffect], margin_ratio: float | None) -> list[InFamily]:
    """Of each, in the order given. Equivalence is tested where both values are the unit under test's own."""
    effects = {place: each.effect for place, each in enumerate(changes) if each.effect is not None}
    p_values = {place: effect.p for place, effect in effects.items() if effect.p is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    alike: dict[int, float] = {}
    for place in adjusted:
        p = None if margin_ratio is None or changes[place].bound else equivalence_p(effects[place], margin_ratio)
        if p is not None:
            alike[place] = p
    alike = dict(zip(alike, holm(list(alike.values())), strict=True))
    return [
        InFamily(
            adjusted.get(place), alike.get(place), smallest_effect_of(effects[place]) if place in adjusted else None
        )
        for place in range(len(changes))
    ]


def over_boots_or_set_ups(
    ours: Mapping[Hashable, float],
    theirs: Mapping[Hashable, float],
    boots: tuple[Mapping[Hashable, str | None], Mapping[Hashable, str | None]],
    packets: float | None,
) -> Found:
    """Welch's t over the means of boots, or, where a side has fewer than three, over those of set-ups.

    ``boots``: of our set-ups and of theirs. ``packets`` as in unpaired_effect().
    """
    by_boot = [means_of_boots(means, of) for means, of in zip((ours, theirs), boots, strict=True)]
    if min(map(len, by_boot)) >= MINIMUM_BLOCKS:
        if by_boot[0].keys() & by_boot[1].keys():
            return None, None, SHARED_BOOTS
        return told(unpaired_effect(*(list(each.values()) for each in by_boot), packets=packets), "boots")
    if min(len(ours), len(theirs)) < MINIMUM_BLOCKS:
        return None, None, FEW_SET_UPS
    if None in (*boots[0].values(), *boots[1].values()):
        return None, None, UNKNOWN_BOOTS
    return told(unpaired_effect(list(ours.values()), list(theirs.values()), packets=packets), "set-ups")


def told(effect: Effect, scope: Scope) -> Found:
    """The effect, or why it is absent."""
    return (effect, scope, None) if effect.absent is None else (None, None, effect.absent)
