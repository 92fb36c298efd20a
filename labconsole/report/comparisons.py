"""The comparisons of a report: which two maxima to compare, and with which effect; collapses, second guests, streams.
Pure.

A comparison uses the loads at which both settings were measured. It is paired by block if the set-ups of a block shared
one boot of the machine and were measured without interruption, in the order that the plan drew. If something forbids a
claim, the question has the reason.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from labconsole.measure.groups import OF_THE_PLATFORM, ONE_SET_UP
from labconsole.measure.maximum import collapse, second_guest_loses
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS, Effect, paired_effect, share_effect, unpaired_effect
from labconsole.measure.statistics.set_ups import SetUpMean, mean_of, set_up_means
from labconsole.report.claims import Claim, Question
from labconsole.report.points import (
    DEDICATED,
    FORWARDING,
    IDLE,
    MaximumReading,
    PointSummary,
    RunFacts,
    Setting,
    SettingPoints,
    Values,
    mean_of_point,
)
from labconsole.report.sample import SetUpOrders, find_order_objection

CPU_BASELINES = (IDLE, DEDICATED)
"""Baselines of table 1: section 3.4 of the paper starts from an idle second guest. Without one, no second guest."""

NETWORK_BASELINES = (DEDICATED, IDLE)
"""Baselines of figure 5: the dedicated maximum. Without one, that next to an idle second guest."""

ONE_SET_UP_WHY = "one set-up"
NOT_REACHED = "a maximum was not reached"
NO_LOAD_CHOSEN = "too few set-ups to choose the load by"
PILOTS_LOAD_MISSING = "no run entered at the load that the pilot chose"
NOT_IN_ONE_STRETCH = "set-ups of one block were taken at different times: raise set_ups and replay the whole plan"
UNKNOWN_BOOTS = "which boots of the machine the set-ups belong to is not known"
UNKNOWN_REACHED = "whether the maximum was reached is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The maximum of one setting against another's, over the loads at which both were measured.

    ``change_ratio``: of the raw means, subject / baseline - 1; the claim has the effect over blocks.
    """

    subject: MaximumReading
    baseline: MaximumReading
    loads: int
    change_ratio: float | None
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """A setting's rate at the highest load, compared with its maximum."""

    reading: MaximumReading
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondGuestSummary:
    """The second guest next to one setting of the first. ``target_bps``: None with ``all_loads``, for all of them."""

    setting: Setting
    target_bps: int | None
    all_loads: bool
    offered_bps: SetUpMean
    measured_bps: SetUpMean
    run_ids: tuple[str, ...]
    claim: Claim | None = None

    @property
    def lost_ratio(self) -> float | None:
        """Loss ratio of the means, or None if nothing was offered."""
        return 1 - self.measured_bps.mean / self.offered_bps.mean if self.offered_bps.mean else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShare:
    """One of several streams at a setting's maximum: its share of the forwarded packets; 1 / streams is fair."""

    reading: MaximumReading
    stream: str
    streams: int
    share: float
    claim: Claim


class QuestionList:
    """The questions of a report in the order of its tables. ``drawn``: the order in which set-ups were measured."""

    def __init__(self, drawn: SetUpOrders) -> None:
        self.drawn = drawn
        self.questions: list[Question] = []

    def ask(self, **question: Any) -> None:
        self.questions.append(Question(**question))


MaximumPair = tuple[MaximumReading, MaximumReading, int]


def compare_with_baseline(
    settings: Mapping[Setting, SettingPoints],
    backgrounds: Sequence[str],
    baselines: Sequence[str],
    table: str,
    questions: QuestionList,
) -> list[MaximumPair]:
    """Compare maxima with each background against the first of ``baselines`` that was measured for the same setting.

    Uses the loads at which both were measured: otherwise a background that was only tried at the highest load would
    seem to slow a platform that collapses beyond its maximum.
    """
    found = []
    for setting, points in settings.items():
        if setting.background not in backgrounds:
            continue
        for name in baselines:
            other = settings.get(setting._replace(background=name))
            common = points.loads & other.loads if other is not None else frozenset()
            if other is not None and common:
                found.append(_compare(points, other, common, table, questions))
                break
    return found


def compare_platforms(settings: Mapping[Setting, SettingPoints], questions: QuestionList) -> list[MaximumPair]:
    """Every two platforms without a second guest, the faster one first."""
    groups: dict[tuple[Any, ...], list[SettingPoints]] = {}
    for setting, points in settings.items():
        if setting.background == DEDICATED:
            alike = setting.conditions._replace(**dict.fromkeys(OF_THE_PLATFORM))
            groups.setdefault((setting[1:4], alike), []).append(points)
    found = []
    for group in groups.values():
        for one, other in combinations(group, 2):
            common = one.loads & other.loads
            if common:
                more = one.read(common).rate.mean >= other.read(common).rate.mean
                found.append(_compare(*((one, other) if more else (other, one)), common, "ranking", questions))
    return found


def _compare(
    one: SettingPoints, other: SettingPoints, common: frozenset[float], table: str, questions: QuestionList
) -> MaximumPair:
    subject = one.read(None if common == one.loads else common)
    baseline = other.read(None if common == other.loads else common)
    effect, why = derive_effect(subject, baseline, questions.drawn)
    ids = (*baseline.point.run_ids, *subject.point.run_ids)
    kind = "pair" if table == "ranking" else "background"
    questions.ask(table=table, kind=kind, effect=effect, why=why, run_ids=ids)
    return subject, baseline, len(common)


def derive_effect(
    subject: MaximumReading, baseline: MaximumReading, drawn: SetUpOrders
) -> tuple[Effect | None, str | None]:
    """The effect, and why it may not be claimed: paired by block if set-ups belong together, else over boots."""
    if subject.at_least or baseline.at_least:
        return None, NOT_REACHED
    if ONE_SET_UP in subject.means_bps or ONE_SET_UP in baseline.means_bps:
        return None, ONE_SET_UP_WHY
    if not (subject.can_claim and baseline.can_claim):
        missing = "the pilot's load was not measured" in (subject.choice.method, baseline.choice.method)
        return None, PILOTS_LOAD_MISSING if missing else NO_LOAD_CHOSEN
    if subject.at_least is None or baseline.at_least is None:
        return None, UNKNOWN_REACHED
    counts = (subject.point.packets, baseline.point.packets)
    packets = None if None in counts else float(min(count for count in counts if count is not None))
    of_one_boot = _find_blocks_of_one_boot(subject, baseline)
    shared = find_paired_blocks(subject, baseline)
    if len(shared) < min(len(of_one_boot), MINIMUM_BLOCKS):
        return None, NOT_IN_ONE_STRETCH
    undrawn = find_order_objection(
        subject.point, baseline.point, find_contiguous_blocks(subject.point, baseline.point), drawn
    )
    if undrawn is not None:
        return None, undrawn
    if shared:
        effect = paired_effect(
            {block: subject.means_bps[block] for block in shared},
            {block: baseline.means_bps[block] for block in shared},
            packets=packets or None,
        )
        return effect, effect.absent
    ours, theirs = (average_by_boot(reading.means_bps, reading.point.boots) for reading in (subject, baseline))
    if ours.keys() & theirs.keys():
        return None, "set-ups of one boot that share no block"
    if min(len(ours), len(theirs)) < 3:
        if any(None in reading.point.boots.values() for reading in (subject, baseline)):
            return None, UNKNOWN_BOOTS
        return None, "no blocks in common, and fewer than 3 boots a side"
    effect = unpaired_effect(list(ours.values()), list(theirs.values()), packets=packets or None)
    return effect, effect.absent


def find_paired_blocks(subject: MaximumReading, baseline: MaximumReading) -> list[Hashable]:
    """The blocks whose two set-ups may be compared: of one boot, and measured without interruption."""
    return [
        block
        for block in _find_blocks_of_one_boot(subject, baseline)
        if _is_contiguous(subject.point, baseline.point, block)
    ]


def _find_blocks_of_one_boot(subject: MaximumReading, baseline: MaximumReading) -> list[Hashable]:
    """Blocks whose two set-ups are known to share a boot; two unknown boots do not count as the same."""
    boots, others = subject.point.boots, baseline.point.boots
    common = [block for block in subject.means_bps if block in baseline.means_bps]
    return [block for block in common if boots[block] is not None and boots[block] == others[block]]


def find_contiguous_blocks(one: PointSummary, other: PointSummary) -> list[Hashable]:
    """Contiguous blocks among all those of two points, including one that chose a load: its order was drawn as well."""
    common = [block for block in one.boots if block in other.boots]
    of_one_boot = [block for block in common if one.boots[block] is not None and one.boots[block] == other.boots[block]]
    return [block for block in of_one_boot if _is_contiguous(one, other, block)]


def _is_contiguous(one: PointSummary, other: PointSummary, block: Hashable) -> bool:
    """Whether no set-up of another block of the plan began between the two: measure/admission.py."""
    stretch = one.stretches[block]
    return stretch is not None and stretch == other.stretches[block]


def average_by_boot(means: Mapping[Hashable, float], boots: Mapping[Hashable, str | None]) -> dict[str, float]:
    """Mean of each boot's set-ups, from those of the blocks; unknown boots are left out."""
    found: dict[str, list[float]] = {}
    for block, mean in means.items():
        boot = boots[block]
        if boot is not None:
            found.setdefault(boot, []).append(mean)
    return {boot: mean_of(values) for boot, values in found.items()}


def derive_change_of_means(subject: MaximumReading, baseline: MaximumReading) -> float | None:
    return subject.rate.mean / baseline.rate.mean - 1 if baseline.rate.mean > 0 else None


def find_collapses(settings: Mapping[Setting, SettingPoints], questions: QuestionList) -> list[MaximumReading]:
    """One question for each setting whose maximum is below its highest load.

    Both loads share their set-ups: other effects of the platform cancel out, but not the time of each load within one.
    """
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
            undrawn = find_order_objection(reading.point, reading.highest, tuple(reading.means_bps), questions.drawn)
            questions.ask(
                table="collapse",
                kind="collapse",
                effect=effect if undrawn is None else None,
                why=undrawn or effect.absent,
                run_ids=ids,
            )
            found.append(reading)
    return found


def summarize_second_guests(
    points: Sequence[PointSummary], facts: Mapping[str, RunFacts], all_loads: bool, questions: QuestionList | None
) -> list[SecondGuestSummary]:
    """Offered and measured packets of the second guest next to each point of the first, or over all its loads.

    The papers' tables 2 and 3 average over the loads. Runs whose second guest sent an unknown amount do not enter.
    """
    groups: dict[Any, list[PointSummary]] = {}
    for point in points:
        if point.background in FORWARDING:
            groups.setdefault(point.key if all_loads else (point.key, point.load), []).append(point)
    found = []
    for group in groups.values():
        offered: Values = {}
        measured: Values = {}
        run_ids: list[str] = []
        for point in group:
            for run_id, block in zip(point.run_ids, point.blocks_of_runs, strict=True):
                fact = facts.get(run_id)
                if fact is not None and fact.second_bps is not None:
                    run_ids.append(run_id)
                    offered.setdefault(block, []).append(fact.second_bps[0])
                    measured.setdefault(block, []).append(fact.second_bps[1])
        if not run_ids:
            continue
        if questions is not None:
            table = f"table-{2 + FORWARDING.index(group[0].background)}"
            packets = [known for run_id in run_ids if (known := facts[run_id].second_packets) is not None]
            questions.ask(
                table=table,
                kind="second-guest",
                run_ids=tuple(run_ids),
                **_derive_second_guest_effect(offered, measured, min(packets, default=None)),
            )
        found.append(
            SecondGuestSummary(
                setting=group[0].key,
                target_bps=None if all_loads else group[0].target_bps,
                all_loads=all_loads,
                offered_bps=mean_of_point(offered),
                measured_bps=mean_of_point(measured),
                run_ids=tuple(run_ids),
            )
        )
    return found


def _derive_second_guest_effect(offered: Values, measured: Values, packets: int | None) -> dict[str, Any]:
    if ONE_SET_UP in offered:
        return {"effect": None, "why": ONE_SET_UP_WHY}
    effect = second_guest_loses(set_up_means(measured), set_up_means(offered), packets=packets)
    return {"effect": effect, "why": effect.absent}


def add_claim(guest: SecondGuestSummary, claim: Claim) -> SecondGuestSummary:
    return SecondGuestSummary(
        setting=guest.setting,
        target_bps=guest.target_bps,
        all_loads=guest.all_loads,
        offered_bps=guest.offered_bps,
        measured_bps=guest.measured_bps,
        run_ids=guest.run_ids,
        claim=claim,
    )


def compare_streams(
    settings: Mapping[Setting, SettingPoints], facts: Mapping[str, RunFacts], questions: QuestionList
) -> list[tuple[MaximumReading, str, int, float]]:
    """Difference of each stream from its fair share at a setting's maximum; of two streams one determines the other."""
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
            questions.ask(table="streams", kind="streams", effect=effect, why=why, run_ids=tuple(ids))
            found.append((reading, name, count, mean_of(list(means.values()))))
    return found
