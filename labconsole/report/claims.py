"""All claims of one report as one family: p values adjusted by Holm, and the word for each row. Pure.

A claim is a "different", or a sentence with an effect. However many tables a report has, its claims are one family, so
that a report without any effect makes a false claim in at most 5 % of cases (S. Holm, Scand. J. Statist. 6, 1979).
Equivalence within a margin is tested by two one-sided tests (Schuirmann 1987), with Holm over the rows so tested.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from labconsole.measure.statistics.distributions import student_t_quantile
from labconsole.measure.statistics.effects import (
    MINIMUM_BLOCKS,
    SIGNIFICANCE,
    Effect,
    Word,
    equivalence_p,
    find_detectable_effect,
    holm,
    word,
)

Kind = Literal["background", "pair", "collapse", "second-guest", "streams"]

NO_MARGIN = {False: "no margin was declared", True: "the plans' margins differ between runs, and none is used"}
"""Why no margin is used, by whether several were declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A possible claim: an effect, or why there is none."""

    table: str
    kind: Kind
    effect: Effect | None
    why: str | None
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A question with its answer. ``p``: of the plain test. ``adjusted_p``: in the family, or None if not tested;
    ``why`` has the reason.

    ``smallest_ratio``: the smallest change that this row would have shown with 80 % power at 0.05;
    ``smallest_of_family_ratio``: the same at 0.05 over the number of claims.
    """

    table: str
    kind: Kind
    effect: Effect | None
    word: Word
    why: str | None
    adjusted_p: float | None
    equivalence_p: float | None
    smallest_ratio: float | None
    smallest_of_family_ratio: float | None
    run_ids: tuple[str, ...] = ()

    @property
    def p(self) -> float | None:
        """p of this row's plain test alone."""
        return None if self.effect is None else self.effect.p

    @property
    def different(self) -> bool:
        """Whether the report may call it different."""
        return self.word in ("different", "different, within the margin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The claims of one report on runs. ``p_values``: of all ``size`` claims that were tested, those on other trials
    last. ``margin_ratio``: None if nothing is called equivalent.

    ``declared``: where the margin is from. ``tables``: those that may conclude, or None for all. ``differ``: which of
    "margin" and "claims" the runs declare differently, so that their declarations are not used.
    """

    claims: tuple[Claim, ...]
    size: int
    margin_ratio: float | None = None
    declared: Literal["plan", "option"] | None = None
    tables: tuple[str, ...] | None = None
    differ: tuple[str, ...] = ()
    p_values: tuple[float, ...] = ()
    beside: int = 0
    """The number of tested claims on other trials."""
    beside_different: int = 0
    """The number of those that are called different."""

    @property
    def different(self) -> int:
        """The number of claims that may be called different."""
        return self.beside_different + sum(claim.different for claim in self.claims)

    def price(self, blocks: int) -> tuple[float, float] | None:
        """What the smallest p of the family requires with this number of blocks.

        Returns |t|, and the same in standard deviations of a block.
        """
        if blocks < MINIMUM_BLOCKS or not self.size:
            return None
        t = student_t_quantile(1 - SIGNIFICANCE / (2 * self.size), float(blocks - 1))
        return t, t / math.sqrt(blocks)


def answer_questions(
    questions: Sequence[Question],
    *,
    margin_ratio: float | None = None,
    declared: Literal["plan", "option"] | None = None,
    tables: Collection[str] | None = None,
    differ: tuple[str, ...] = (),
    other_p_values: Sequence[float] = (),
) -> Family:
    """Answer these questions, in their order. ``other_p_values``: of the report's other claims."""
    tested = [q for q in questions if _p(q) is not None and (tables is None or q.table in tables)]
    p_values = (*(_p(q) or 0.0 for q in tested), *other_p_values)
    of_all = holm(p_values)
    adjusted = dict(zip(map(id, tested), of_all, strict=False))
    equal: dict[int, float] = {}
    if margin_ratio is not None:
        for question in tested:
            if question.kind in ("background", "pair") and question.effect is not None:
                p = equivalence_p(question.effect, margin_ratio)
                if p is not None:
                    equal[id(question)] = p
        equal = dict(zip(equal, holm(list(equal.values())), strict=True))
    return Family(
        claims=tuple(_claim(q, adjusted.get(id(q)), equal.get(id(q)), len(p_values), tables) for q in questions),
        size=len(p_values),
        p_values=p_values,
        beside=len(other_p_values),
        beside_different=sum(p <= SIGNIFICANCE for p in of_all[len(tested) :]),
        margin_ratio=margin_ratio,
        declared=declared if margin_ratio is not None else None,
        tables=None if tables is None else tuple(tables),
        differ=differ,
    )


def _p(question: Question) -> float | None:
    return None if question.why is not None or question.effect is None else question.effect.p


def _claim(
    question: Question, adjusted: float | None, equal: float | None, size: int, tables: Collection[str] | None
) -> Claim:
    effect, why = question.effect, question.why
    if why is None and adjusted is None:
        left_out = tables is not None and question.table not in tables
        why = "the plan claims nothing here" if left_out else None if effect is None else effect.absent
    two_sided = question.kind in ("background", "pair", "streams")
    able = effect is not None and adjusted is not None and two_sided
    return Claim(
        table=question.table,
        kind=question.kind,
        effect=effect,
        word=word(adjusted, equal),
        why=why,
        adjusted_p=adjusted,
        equivalence_p=equal,
        smallest_ratio=find_detectable_effect(effect) if able and effect is not None else None,
        smallest_of_family_ratio=find_detectable_effect(effect, SIGNIFICANCE / size)
        if able and effect is not None
        else None,
        run_ids=question.run_ids,
    )
