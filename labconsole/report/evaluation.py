"""From runs to conclusions: which enter, design points, maxima, comparisons, claims. Pure and fast, without pandas.

How to call it, from a report or a simulation::

    from labconsole.report.evaluation import evaluate
    made = evaluate(rows, margin_ratio=0.02, fixed={("raw", 64, 1, "none"): "max", …})
    [claim for claim in made.claims.claims if claim.different]

``rows``: every stored run of the plans concerned, as RunSummary or anything with its attributes
(measure/design_points.py, RunLike). To be told from format 1 a row needs ``format=2, method=2, role="measured"``,
``set_up`` (an id), ``block`` from 1, ``attempt=1``, ``plan_hash, plan_point, repetition`` and a ``boot_id`` that the
set-ups of a block share; ``set_up_trials`` None asks for no whole set-ups. Rates: ``offered_pps/bps, measured_pps/bps,
forwarding_pps/bps``. Counts: ``offered_packets``, ``loss_packets``, ``uut_lost_packets``, ``late_packets``: where less
than 0.1 % is lost or late at the highest load, the maximum is "at least" and nothing is claimed of it, so that a
simulation has to lose something. ``fixed`` stands for the pilot that records tell of, and ``facts`` for what else
only they know. One ``Evaluation.claims`` is one family.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from labconsole.errors import MeasurementError
from labconsole.measure.admission import Admission, admit
from labconsole.measure.components import Components, components, pooled_components
from labconsole.measure.design_points import OF_THE_PLATFORM, ONE_SET_UP, RunLike
from labconsole.measure.effects import Effect, paired_effect, share_effect, unpaired_effect
from labconsole.measure.maximum import collapse, second_guest_loses
from labconsole.measure.setups import SetUpMean, mean_of, mean_over_set_ups, set_up_means
from labconsole.report.claims import Claim, Family, Question, answer
from labconsole.report.points import (
    CPU_LOADS,
    DEDICATED,
    FORWARDING,
    IDLE,
    Point,
    Reading,
    RunFacts,
    Setting,
    SettingPoints,
    Values,
    make_points,
    make_settings,
    platform_order,
)

CPU_BASELINES = (IDLE, DEDICATED)
"""Of table 1: section 3.4 of the paper starts from a second guest without load. Without one, no second guest."""

NETWORK_BASELINES = (DEDICATED, IDLE)
"""Of figure 5: the dedicated maximum. Where there is none, beside an idle second guest."""

ONE_SET_UP_WHY = "one set-up"
NOT_REACHED = "a maximum was not reached"
NO_LOAD_CHOSEN = "too few set-ups to choose the load by"
UNKNOWN_REACHED = "whether the maximum was reached is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The maximum of one setting against another's, over the loads at which both were measured.

    ``change_ratio``: of the means as they stand, subject / baseline - 1; the claim has the effect that blocks show.
    """

    subject: Reading
    baseline: Reading
    loads: int
    change_ratio: float | None
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """A setting's rate at the highest load against that at its maximum."""

    reading: Reading
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondGuest:
    """The second guest beside one setting of the first. ``target_bps`` None with ``all_loads``: over all of them."""

    setting: Setting
    target_bps: int | None
    all_loads: bool
    offered_bps: SetUpMean
    measured_bps: SetUpMean
    run_ids: tuple[str, ...]
    claim: Claim | None = None

    @property
    def lost_ratio(self) -> float | None:
        """Of the means; None where nothing was offered."""
        return 1 - self.measured_bps.mean / self.offered_bps.mean if self.offered_bps.mean else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShare:
    """One stream of several at a setting's maximum: its share of what was forwarded, 1 / streams is fair."""

    reading: Reading
    stream: str
    streams: int
    share: float
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All that follows from the runs. ``table_1``, ``figure_5``, ``ranking``: comparisons, each with its claim."""

    admission: Admission
    points: tuple[Point, ...]
    settings: dict[Setting, SettingPoints]
    table_1: tuple[Comparison, ...]
    figure_5: tuple[Comparison, ...]
    idle: tuple[Comparison, ...]
    ranking: tuple[Comparison, ...]
    collapses: tuple[Collapse, ...]
    second_guests: tuple[SecondGuest, ...]
    second_by_load: tuple[SecondGuest, ...]
    streams: tuple[StreamShare, ...]
    claims: Family
    spread: dict[str, Components]

    @property
    def maxima(self) -> tuple[Reading, ...]:
        """Of every setting."""
        return tuple(setting.read() for setting in self.settings.values())


def evaluate(
    rows: Iterable[RunLike],
    *,
    meant: Collection[str] | None = None,
    facts: Mapping[str, RunFacts] | None = None,
    margin_ratio: float | None = None,
    claims: Collection[str] | None = None,
    fixed: Mapping[Any, int | str] | None = None,
    pool: Collection[str] = (),
    searched: bool = False,
) -> Evaluation:
    """Everything that these runs carry.

    ``meant``: ids of the runs that are reported on, None: all; whether a set-up is whole is judged from all ``rows``.
    ``margin_ratio``: given afterwards; else as all records declare it. ``claims``: tables that may conclude, likewise.
    """
    known = facts or {}
    admission = admit(list(rows), searched)
    entered = [run for run in admission.entered if meant is None or run.run_id in meant]
    points = make_points(entered, pool)
    settings = make_settings(points, known, fixed)
    asked = _Asked()
    cpu = _against(settings, CPU_LOADS, CPU_BASELINES, "table-1", asked)
    idle = _against(settings, (IDLE,), (DEDICATED,), "table-1", asked)
    network = _against(settings, FORWARDING, NETWORK_BASELINES, "figure-5", asked)
    pairs = _pairs(settings, asked)
    fallen = _collapses(settings, asked)
    second = _second_guests(points, known, True, asked)
    shares = _streams(settings, known, asked)
    declared_margin, declared_claims = _declared(entered, known)
    family = answer(
        asked.questions,
        margin_ratio=declared_margin if margin_ratio is None else margin_ratio,
        declared="plan" if margin_ratio is None else "option",
        tables=declared_claims if claims is None else claims,
    )
    taken = iter(family.claims)

    def compared(found: Sequence[_Compared]) -> tuple[Comparison, ...]:
        return tuple(
            Comparison(subject=a, baseline=b, loads=loads, change_ratio=_ratio(a, b), claim=next(taken))
            for a, b, loads in found
        )

    return Evaluation(
        admission=admission,
        points=tuple(points),
        settings=settings,
        table_1=compared(cpu),
        idle=compared(idle),
        figure_5=compared(network),
        ranking=compared(pairs),
        collapses=tuple(Collapse(reading=reading, claim=next(taken)) for reading in fallen),
        second_guests=tuple(_claimed(guest, next(taken)) for guest in second),
        streams=tuple(
            StreamShare(reading=reading, stream=name, streams=count, share=share, claim=next(taken))
            for reading, name, count, share in shares
        ),
        second_by_load=tuple(_second_guests(points, known, False, None)),
        claims=family,
        spread=_spread(points),
    )


class _Asked:
    """The questions of a report in the order of its tables."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def ask(self, **question: Any) -> None:
        self.questions.append(Question(**question))


_Compared = tuple[Reading, Reading, int]


def _against(
    settings: Mapping[Setting, SettingPoints],
    backgrounds: Sequence[str],
    baselines: Sequence[str],
    table: str,
    asked: _Asked,
) -> list[_Compared]:
    """Maxima beside each background against the first of ``baselines`` that was measured for the same setting.

    Over the loads at which both were measured: a platform that collapses beyond its maximum would else seem slowed by
    a background that was only tried at the highest load.
    """
    found = []
    for setting, held in settings.items():
        if setting.background not in backgrounds:
            continue
        for name in baselines:
            other = settings.get(setting._replace(background=name))
            common = held.loads & other.loads if other is not None else frozenset()
            if other is not None and common:
                found.append(_compare(held, other, common, table, asked))
                break
    return found


def _pairs(settings: Mapping[Setting, SettingPoints], asked: _Asked) -> list[_Compared]:
    """Every two platforms beside no second guest, the one that forwards more first."""
    groups: dict[tuple[Any, ...], list[SettingPoints]] = {}
    for setting, held in settings.items():
        if setting.background == DEDICATED:
            alike = setting.conditions._replace(**dict.fromkeys(OF_THE_PLATFORM))
            groups.setdefault((setting[1:4], alike), []).append(held)
    found = []
    for group in groups.values():
        for one, other in combinations(group, 2):
            common = one.loads & other.loads
            if common:
                more = one.read(common).rate.mean >= other.read(common).rate.mean
                found.append(_compare(*((one, other) if more else (other, one)), common, "ranking", asked))
    return found


def _compare(
    one: SettingPoints, other: SettingPoints, common: frozenset[float], table: str, asked: _Asked
) -> _Compared:
    subject = one.read(None if common == one.loads else common)
    baseline = other.read(None if common == other.loads else common)
    effect, why = effect_of(subject, baseline)
    ids = (*baseline.point.run_ids, *subject.point.run_ids)
    kind = "pair" if table == "ranking" else "background"
    asked.ask(table=table, kind=kind, effect=effect, why=why, run_ids=ids)
    return subject, baseline, len(common)


def effect_of(subject: Reading, baseline: Reading) -> tuple[Effect | None, str | None]:
    """The effect and why it may not be claimed: paired by block where set-ups share one boot, else over boots."""
    if ONE_SET_UP in subject.means_bps or ONE_SET_UP in baseline.means_bps:
        return None, ONE_SET_UP_WHY
    if not (subject.can_claim and baseline.can_claim):
        return None, NO_LOAD_CHOSEN
    if subject.at_least or baseline.at_least:
        return None, NOT_REACHED
    if subject.at_least is None or baseline.at_least is None:
        return None, UNKNOWN_REACHED
    counts = (subject.point.packets, baseline.point.packets)
    packets = None if None in counts else float(min(count for count in counts if count is not None))
    boots, others = subject.point.boots, baseline.point.boots
    shared = [
        block for block in subject.means_bps
        if block in baseline.means_bps and boots[block] == others[block]
    ]  # fmt: skip
    if shared:
        effect = paired_effect(
            {block: subject.means_bps[block] for block in shared},
            {block: baseline.means_bps[block] for block in shared},
            packets=packets or None,
        )
        return effect, effect.absent
    ours, theirs = _by_boot(subject), _by_boot(baseline)
    if ours.keys() & theirs.keys():
        return None, "set-ups of one boot that share no block"
    if min(len(ours), len(theirs)) < 3:
        return None, "no blocks in common, and fewer than 3 boots a side"
    effect = unpaired_effect(list(ours.values()), list(theirs.values()), packets=packets or None)
    return effect, effect.absent


def _by_boot(reading: Reading) -> dict[str, float]:
    """Mean of each boot's set-ups; boots that are not known make none."""
    boots: dict[str, list[float]] = {}
    for block, mean in reading.means_bps.items():
        boot = reading.point.boots[block]
        if boot is not None:
            boots.setdefault(boot, []).append(mean)
    return {boot: mean_of(means) for boot, means in boots.items()}


def _ratio(subject: Reading, baseline: Reading) -> float | None:
    return subject.rate.mean / baseline.rate.mean - 1 if baseline.rate.mean > 0 else None


def _collapses(settings: Mapping[Setting, SettingPoints], asked: _Asked) -> list[Reading]:
    """One question for each setting whose maximum lies below its highest load."""
    found = []
    for setting in settings.values():
        reading = setting.read()
        if not reading.is_maximum or reading.point is reading.highest or ONE_SET_UP in reading.means_bps:
            continue
        counts = (reading.point.packets, reading.highest.packets)
        packets = None if None in counts else float(min(count for count in counts if count is not None))
        effect = collapse(reading.choice, reading.highest.values_bps, packets=packets or None)
        if effect is not None:
            ids = (*reading.point.run_ids, *reading.highest.run_ids)
            asked.ask(table="collapse", kind="collapse", effect=effect, why=effect.absent, run_ids=ids)
            found.append(reading)
    return found


def _second_guests(
    points: Sequence[Point], facts: Mapping[str, RunFacts], all_loads: bool, asked: _Asked | None
) -> list[SecondGuest]:
    """Offered and measured of the second guest beside each point of the first, or beside all its loads together.

    The papers' tables 2 and 3 average over the loads. Runs whose second guest sent nothing known do not enter.
    """
    groups: dict[Any, list[Point]] = {}
    for point in points:
        if point.background in FORWARDING:
            groups.setdefault(point.key if all_loads else (point.key, point.load), []).append(point)
    found = []
    for held in groups.values():
        offered: Values = {}
        measured: Values = {}
        run_ids: list[str] = []
        for point in held:
            for run_id, block in zip(point.run_ids, point.blocks_of_runs, strict=True):
                fact = facts.get(run_id)
                if fact is not None and fact.second_bps is not None:
                    run_ids.append(run_id)
                    offered.setdefault(block, []).append(fact.second_bps[0])
                    measured.setdefault(block, []).append(fact.second_bps[1])
        if not run_ids:
            continue
        if asked is not None:
            table = f"table-{2 + FORWARDING.index(held[0].background)}"
            asked.ask(table=table, kind="second-guest", run_ids=tuple(run_ids), **_in_and_out(offered, measured))
        found.append(
            SecondGuest(
                setting=held[0].key,
                target_bps=None if all_loads else held[0].target_bps,
                all_loads=all_loads,
                offered_bps=mean_over_set_ups(offered),
                measured_bps=mean_over_set_ups(measured),
                run_ids=tuple(run_ids),
            )
        )
    return found


def _in_and_out(offered: Values, measured: Values) -> dict[str, Any]:
    if ONE_SET_UP in offered:
        return {"effect": None, "why": ONE_SET_UP_WHY}
    effect = second_guest_loses(set_up_means(measured), set_up_means(offered))
    return {"effect": effect, "why": effect.absent}


def _claimed(guest: SecondGuest, claim: Claim) -> SecondGuest:
    return SecondGuest(
        setting=guest.setting, target_bps=guest.target_bps, all_loads=guest.all_loads, offered_bps=guest.offered_bps,
        measured_bps=guest.measured_bps, run_ids=guest.run_ids, claim=claim,
    )  # fmt: skip


def _streams(
    settings: Mapping[Setting, SettingPoints], facts: Mapping[str, RunFacts], asked: _Asked
) -> list[tuple[Reading, str, int, float]]:
    """How far each stream lies from its fair share at a setting's maximum; of two, one says what the other does."""
    found = []
    for setting in settings.values():
        if setting.setting.sources < 2:
            continue
        reading = setting.read()
        shares: dict[str, Values] = {}
        ids = []
        for run_id, block in zip(reading.point.run_ids, reading.point.blocks_of_runs, strict=True):
            known = facts.get(run_id)
            if known is not None and known.shares and block in reading.means_bps:
                ids.append(run_id)
                for name, share in known.shares.items():
                    shares.setdefault(name, {}).setdefault(block, []).append(share)
        count, names = len(shares), sorted(shares)
        for name in names if count > 2 else names[: count - 1]:
            means = set_up_means(shares[name])
            packets = reading.point.packets
            effect = why = None
            if ONE_SET_UP in means:
                why = ONE_SET_UP_WHY
            else:
                effect = share_effect(means, count, packets=packets / count if packets else None)
                why = effect.absent
            asked.ask(table="streams", kind="streams", effect=effect, why=why, run_ids=tuple(ids))
            found.append((reading, name, count, mean_of(list(means.values()))))
    return found


def _declared(entered: Sequence[RunLike], facts: Mapping[str, RunFacts]) -> tuple[float | None, tuple[str, ...] | None]:
    """Margin and claims as all records declare them; None where they differ, or say none."""
    held = [facts[run.run_id] for run in entered if run.run_id in facts]
    margins, claims = {each.margin_ratio for each in held}, {each.claims for each in held}
    return margins.pop() if len(margins) == 1 else None, claims.pop() if len(claims) == 1 else None


def _spread(points: Sequence[Point]) -> dict[str, Components]:
    """Where the spread comes from, by platform: over those of its points that have blocks and repetitions enough."""
    parts: dict[str, list[Components]] = {}
    for point in points:
        if point.set_ups < 3 or point.n < 2 * point.set_ups:
            continue
        try:
            parts.setdefault(point.platform, []).append(components(point.values_bps))
        except MeasurementError:  # a set-up with one trial left, or a rate of zero
            continue
    return {name: pooled_components(parts[name]) for name in sorted(parts, key=platform_order) if parts[name]}
