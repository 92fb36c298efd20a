"""Evaluates runs: which enter, design points, maxima, comparisons, claims. Pure and fast, without pandas.

Call from a report or a simulation::

    from labconsole.report.evaluation import evaluate
    made = evaluate(rows, margin_ratio=0.02, fixed={("raw", 64, 1, "none"): "max", …})
    [claim for claim in made.claims.claims if claim.different]

``rows``: every stored run of these plans, as RunSummary or anything with its attributes (measure/groups.py, RunRow).
A row that is not of format 1 needs ``format=2, method=2, role="measured"``, ``set_up`` (an id), ``block`` from 1,
``attempt=1``, ``plan_hash, plan_point, repetition`` and a ``boot_id`` that the set-ups of a block share.
``set_up_trials``: None requires no whole set-ups. Rates: ``offered_pps/bps, measured_pps/bps, forwarding_pps/bps``.
Counts: ``offered_packets``, ``loss_packets``, ``uut_lost_packets``, ``late_packets``. If less than 0.1 % is lost or
late at the highest load, the maximum is "at least" and nothing is claimed of it, so a simulation has to lose something.
``fixed`` replaces the pilot in records, and ``facts`` their other contents. One ``Evaluation.claims`` is one family.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from labconsole.errors import MeasurementError
from labconsole.measure.admission import Admission, admit
from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.components import Components, components, pooled_components
from labconsole.report.claims import Family, answer_questions
from labconsole.report.comparisons import (
    CPU_BASELINES,
    NETWORK_BASELINES,
    Collapse,
    Comparison,
    MaximumPair,
    QuestionList,
    SecondGuestSummary,
    StreamShare,
    add_claim,
    compare_platforms,
    compare_streams,
    compare_with_baseline,
    derive_change_of_means,
    find_collapses,
    summarize_second_guests,
)
from labconsole.report.points import (
    CPU_LOADS,
    DEDICATED,
    FORWARDING,
    IDLE,
    MaximumReading,
    PointSummary,
    RunFacts,
    Setting,
    SettingPoints,
    make_points,
    make_settings,
    mixed,
    platform_order,
)
from labconsole.report.sample import collect_orders


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All that follows from the runs.

    ``cpu_loads``, ``idle``, ``network_loads``: for each background. ``ranking``: pairs of platforms.
    """

    admission: Admission
    points: tuple[PointSummary, ...]
    settings: dict[Setting, SettingPoints]
    cpu_loads: tuple[Comparison, ...]
    network_loads: tuple[Comparison, ...]
    idle: tuple[Comparison, ...]
    ranking: tuple[Comparison, ...]
    collapses: tuple[Collapse, ...]
    second_guests: tuple[SecondGuestSummary, ...]
    second_by_load: tuple[SecondGuestSummary, ...]
    streams: tuple[StreamShare, ...]
    claims: Family
    spread: dict[str, Components]

    @property
    def maxima(self) -> tuple[MaximumReading, ...]:
        """The maximum of every setting."""
        return tuple(setting.read() for setting in self.settings.values())


def evaluate(
    rows: Iterable[RunRow],
    *,
    admission: Admission | None = None,
    facts: Mapping[str, RunFacts] | None = None,
    margin_ratio: float | None = None,
    claims: Collection[str] | None = None,
    fixed: Mapping[Any, int | str] | None = None,
    pool: Collection[str] = (),
    other_p_values: Sequence[float] = (),
) -> Evaluation:
    """Derive everything that these runs support.

    ``admission``: judged from all stored runs, if ``rows`` are a part of them. ``margin_ratio``: set after measuring,
    else as all records declare it. ``claims``: tables that may conclude, likewise. ``other_p_values``: of the report's
    claims on trials other than runs.
    """
    known = facts or {}
    every_run = list(rows)
    judged = admit(every_run) if admission is None else admission
    entered = [run for run in every_run if run.run_id not in judged.left_out]
    points = make_points(entered, pool, judged.stretches)
    settings = make_settings(points, known, fixed)
    questions = QuestionList(collect_orders(entered, judged.begun, known))
    cpu = compare_with_baseline(settings, CPU_LOADS, CPU_BASELINES, "table-1", questions)
    idle = compare_with_baseline(settings, (IDLE,), (DEDICATED,), "table-1", questions)
    network = compare_with_baseline(settings, FORWARDING, NETWORK_BASELINES, "figure-5-numbers", questions)
    ranked = compare_platforms(settings, questions)
    fallen = find_collapses(settings, questions)
    second = summarize_second_guests(points, known, True, questions)
    shares = compare_streams(settings, known, questions)
    declared = _declared(entered, known)
    family = answer_questions(
        questions.questions,
        margin_ratio=declared.margin_ratio if margin_ratio is None else margin_ratio,
        declared="plan" if margin_ratio is None else "option",
        tables=declared.claims if claims is None else claims,
        differ=tuple(
            name
            for name, given in (("margin", margin_ratio), ("claims", claims))
            if given is None and name in declared.differ
        ),
        other_p_values=other_p_values,
    )
    taken = iter(family.claims)

    def compared(found: Sequence[MaximumPair]) -> tuple[Comparison, ...]:
        return tuple(
            Comparison(subject=a, baseline=b, loads=loads, change_ratio=derive_change_of_means(a, b), claim=next(taken))
            for a, b, loads in found
        )

    return Evaluation(
        admission=judged,
        points=tuple(points),
        settings=settings,
        cpu_loads=compared(cpu),
        idle=compared(idle),
        network_loads=compared(network),
        ranking=compared(ranked),
        collapses=tuple(Collapse(reading=reading, claim=next(taken)) for reading in fallen),
        second_guests=tuple(add_claim(guest, next(taken)) for guest in second),
        streams=tuple(
            StreamShare(reading=reading, stream=name, streams=count, share=share, claim=next(taken))
            for reading, name, count, share in shares
        ),
        second_by_load=tuple(summarize_second_guests(points, known, False, None)),
        claims=family,
        spread=_spread(points),
    )


class _Declared(NamedTuple):
    """Declarations of the runs' plans on claims. ``differ``: those on which they disagree; these are None."""

    margin_ratio: float | None
    claims: tuple[str, ...] | None
    differ: tuple[str, ...]


def _declared(entered: Sequence[RunRow], facts: Mapping[str, RunFacts]) -> _Declared:
    """Margin and claims as all records of blocks declare them. A plan may gain them while it is measured."""
    of_blocks = [facts[run.run_id] for run in entered if run.block and run.run_id in facts]
    margins, claims = {each.margin_ratio for each in of_blocks}, {each.claims for each in of_blocks}
    return _Declared(
        margins.pop() if len(margins) == 1 else None,
        claims.pop() if len(claims) == 1 else None,
        tuple(name for name, said in (("margin", margins), ("claims", claims)) if len(said) > 1),
    )


def _spread(points: Sequence[PointSummary]) -> dict[str, Components]:
    """Components of the spread, by platform: over its points that have enough blocks and repetitions.

    A point that pools runs without a set-up with set-ups is left out.
    """
    parts: dict[str, list[Components]] = {}
    for point in points:
        if point.set_ups < 3 or point.n < 2 * point.set_ups or mixed(point.values_bps):
            continue
        try:
            parts.setdefault(point.platform, []).append(components(point.values_bps))
        except MeasurementError:  # a set-up with one trial left, or a rate of zero
            continue
    return {name: pooled_components(parts[name]) for name in sorted(parts, key=platform_order) if parts[name]}
