"""Checks the numbers of a report's tables against the runs, by an independent path. Pure.

It calls nothing of what made the tables: runs are grouped here by the columns of a table's row, and means, intervals
and p-values come from intervals.py. A row whose group of runs cannot be found has no support. The results of a second
guest and of one trial's streams are in the records only, so of their claims only the adjustment is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from labconsole.measure.recompute.intervals import (
    RecomputedEffect,
    recompute_holm,
    recompute_loss,
    recompute_mean,
    recompute_paired_effect,
    recompute_unpaired_effect,
)
from labconsole.measure.run_row import RunRow
from labconsole.model.design_point import INCLUDES_FCS
from labconsole.model.plan.guest_kind import guest_kinds

Row = Mapping[str, str]
Tables = Mapping[str, Sequence[Row]]
"""By name without ``.csv``, rows by column."""

OF_GUESTS = tuple(name for kind in guest_kinds().values() for name in kind.claim_tables)
"""Tables of other trials than runs, whose claims are in the same family."""

ABSTRACTS = tuple(name for kind in guest_kinds().values() for name in kind.abstract_tables)
"""Tables whose rows have p-values of the family, and classifications of their own."""

CLAIMING = ("table-1", "figure-5-numbers", "table-2", "table-3", "ranking", "collapse", "streams")
"""All claims of one report are one family (Holm 1979)."""

CLOSE = 1e-6
"""The agreement of two quadratures of Student's t."""

SIGNIFICANCE = 0.05
COLLAPSED = 0.98
"""A rate at the highest load below this share of the maximum is a collapse."""

OWN_PACKETS, OWN_RATIO = 20, 1e-4
"""The surplus that a unit under test may forward by frames of its own, or as a share of offered packets."""

FEWEST_BOOTS = 3
ALONE = "one set-up"
CONDITIONS: dict[str, Callable[[RunRow], object]] = {
    "duration": lambda run: run.duration_s,
    "testbed": lambda run: run.testbed,
    "fingerprint": lambda run: run.testbed_fingerprint,
    "kernel": lambda run: run.uut_kernel,
    "hypervisor": lambda run: run.hypervisor,
    "generator": lambda run: run.generator,
    "method": lambda run: run.method,
}
"""Conditions that must be equal in addition to the factors, by the name under which a report pools them."""


def wrong_cells(
    tables: Tables, entered: Iterable[RunRow], pool: Collection[str], stored: Iterable[RunRow]
) -> Iterator[str]:
    """Cells that do not follow from the runs which enter, each as a sentence that begins with its table and row.

    ``stored``: all runs, including those that enter nothing: they show which set-ups of a block are contiguous.
    """
    groups = _Groups(entered, pool, _Begun(stored))
    for number, row in enumerate(tables.get("results", ()), 2):
        yield from _format_mismatches("results", number, row, groups.check_point(row))
    for name, of in (("table-1", _Pair.background), ("figure-5-numbers", _Pair.background), ("ranking", _Pair.rank)):
        for number, row in enumerate(tables.get(name, ()), 2):
            yield from _format_mismatches(name, number, row, groups.check_effect(of(row), row))
    for number, row in enumerate(tables.get("collapse", ()), 2):
        yield from _format_mismatches("collapse", number, row, groups.check_effect(_Pair.fall(row), row))
    yield from _family(tables)


def _format_mismatches(
    name: str, number: int, row: Row, cells: Iterable[tuple[str, str | float | None]]
) -> Iterator[str]:
    for column, again in cells:
        where = f"report/{name}.csv: line {number}, {column}" if column else f"report/{name}.csv: line {number}"
        if not column:
            yield f"{where}: no runs that enter support it"
        else:
            yield f"{where}: is {row.get(column, '') or 'empty'}, the runs give {'nothing' if again is None else again}"


class _Begun:
    """The start of each plan's set-ups on each testbed, which shows whether two of them are contiguous."""

    def __init__(self, stored: Iterable[RunRow]) -> None:
        self._earliest: dict[tuple[object, ...], str] = {}
        for run in stored:
            if run.set_up and run.block:
                key = (run.plan_hash, run.testbed_fingerprint, run.block, run.set_up)
                self._earliest[key] = min(self._earliest.get(key, run.started_at), run.started_at)

    def is_contiguous(self, runs: Iterable[RunRow]) -> bool:
        """Whether no set-up of another block of their plan began between the set-ups of these runs of one block."""
        keys = {(run.plan_hash, run.testbed_fingerprint, run.block, run.set_up) for run in runs}
        times = [self._earliest[key] for key in keys]
        plan, block = {key[:2] for key in keys}, {key[2] for key in keys}
        return not any(
            min(times) < begun < max(times)
            for key, begun in self._earliest.items()
            if key[:2] in plan and key[2] not in block
        )


class _SetUpTrials:
    """The trials of one design point that enter, by set-up."""

    def __init__(self) -> None:
        self.runs: dict[object, list[RunRow]] = {}

    def values(self, of: Callable[[RunRow], float | None]) -> dict[object, list[float]]:
        found = {block: [value for run in runs if (value := of(run)) is not None] for block, runs in self.runs.items()}
        return {block: values for block, values in found.items() if values}

    def losses(self) -> list[list[tuple[int, int]]]:
        """Packets lost and offered by each trial whose counters were read, by set-up; empty if one is impossible."""
        sides = all((run.method or 1) > 1 for runs in self.runs.values() for run in runs)
        known = [[pair for run in runs if (pair := _counted(run, sides)) is not None] for runs in self.runs.values()]
        if not all(_possible(*pair) for pairs in known for pair in pairs):
            return []
        return [[(max(lost, 0), offered) for lost, offered in pairs] for pairs in known if pairs]

    @property
    def mixed(self) -> bool:
        """Whether there are runs with and without a set-up: then no interval is over set-ups."""
        return len(self.runs) > 1 and ALONE in self.runs

    @property
    def trials(self) -> int:
        return sum(len(runs) for runs in self.runs.values())

    @property
    def packets(self) -> float | None:
        """The fewest arrivals in one trial."""
        arrived = [
            None if run.offered_packets is None or run.loss_packets is None else run.offered_packets - run.loss_packets
            for runs in self.runs.values()
            for run in runs
        ]
        known = [count for count in arrived if count is not None]
        return float(min(known)) if known and len(known) == len(arrived) else None


class _Pair:
    """The two groups that a row compares. ``of``: a row as one of them; ``against``: as the other."""

    def __init__(self, of: Row, against: Row, null: float = 1.0, alternative: str = "two-sided") -> None:
        self.of, self.against, self.null, self.alternative = of, against, null, alternative

    @classmethod
    def background(cls, row: Row) -> _Pair:
        """The same platform with another background."""
        return cls(row, {**row, "background": row["baseline"], "target_bps": row["baseline_target_bps"]})

    @classmethod
    def rank(cls, row: Row) -> _Pair:
        """Two platforms without a second guest."""
        own = {**row, "background": "none"}
        return cls(own, {**own, "platform": row["other_platform"], "target_bps": row["other_target_bps"]})

    @classmethod
    def fall(cls, row: Row) -> _Pair:
        """The highest load against that of the maximum."""
        return cls({**row, "target_bps": row["highest_target_bps"]}, row, COLLAPSED, "less")


class _Groups:
    """Runs that enter, by everything that must be equal."""

    def __init__(self, entered: Iterable[RunRow], pool: Collection[str], begun: _Begun) -> None:
        self._begun = begun
        self._groups: dict[tuple[object, ...], dict[tuple[object, ...], _SetUpTrials]] = {}
        for run in entered:
            if rate_bps(run) is None or run.offered_bps is None or run.frame is None:
                continue
            target = "max" if run.target_bps in (None, "max") else str(run.target_bps)
            key = (
                run.platform,
                *map(str, run.frame.columns().values()),
                str(run.sources),
                target,
                run.background,
            )
            conditions = tuple(None if name in pool else of(run) for name, of in CONDITIONS.items())
            group = self._groups.setdefault(key, {}).setdefault(conditions, _SetUpTrials())
            block = (run.block, run.plan_hash, run.testbed_fingerprint) if run.set_up and run.block else ALONE
            group.runs.setdefault(block, []).append(run)

    def _of(self, row: Row) -> list[tuple[tuple[object, ...], _SetUpTrials]]:
        """The groups for a row with their conditions, which follow a platform's name if they distinguish it."""
        factors = ("frame_size_bytes", INCLUDES_FCS, "sources", "target_bps", "background")
        cell = row.get("platform", "")
        names = {key[0] for key in self._groups if cell == key[0] or cell.startswith(f"{key[0]} (")}
        return [
            found
            for name in sorted(names, key=lambda name: len(str(name)), reverse=True)
            for found in self._groups.get((name, *(_plain(row.get(factor, "")) for factor in factors)), {}).items()
        ]

    def check_point(self, row: Row) -> list[tuple[str, str | float | None]]:
        """Differing cells of a design point, compared with the closest group."""
        checks = [_differing(row, _recompute_point(group)) for _, group in self._of(row)]
        return min(checks, key=len) if checks else [("", None)]

    def check_effect(self, pair: _Pair, row: Row) -> list[tuple[str, str | float | None]]:
        """Differing cells of a comparison. A row without a claim has none."""
        if not row.get("p"):
            return []
        checks = [
            _differing(row, cells)
            for conditions, one in self._of(pair.of)
            for other_conditions, other in self._of(pair.against)
            if _alike(conditions, other_conditions)
            for cells in _recompute_effects(one, other, pair, self._begun)
        ]
        return min(checks, key=len) if checks else [("", None)]


def _alike(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether only conditions of a platform differ."""
    own = ("kernel", "hypervisor")
    return all(a == b or name in own for name, a, b in zip(CONDITIONS, one, other, strict=True))


def _plain(text: str) -> str:
    return {"true": "True", "false": "False"}.get(text, text)


def rate_bps(run: RunRow) -> float | None:
    """The rate over the window of arrivals; over the sending time by method 1, or with under two arrivals a stream."""
    if run.forwarding_bps is not None:
        return run.forwarding_bps
    if (run.method or 1) == 1:
        return run.measured_bps
    arrived = (
        None if run.offered_packets is None or run.loss_packets is None else run.offered_packets - run.loss_packets
    )
    return run.measured_bps if arrived is not None and arrived <= run.sources else None


def _counted(run: RunRow, sides: bool) -> tuple[int, int] | None:
    """Packets lost and offered by the counters, or None if one was not read."""
    lost, offered = run.uut_lost_packets if sides else run.loss_packets, run.offered_packets
    return None if lost is None or offered is None else (lost, offered)


def _possible(lost: int, offered: int) -> bool:
    """Whether the loss is at most the offered packets, and a surplus can be the unit under test's own packets."""
    return -max(OWN_PACKETS, offered * OWN_RATIO) <= lost <= offered


def _recompute_point(group: _SetUpTrials) -> dict[str, float | None]:
    """Cells of a row of results.csv."""
    mean, low, high = recompute_mean(group.values(rate_bps))
    if group.mixed:
        low = high = None
    found: dict[str, float | None] = {
        "set_ups": len(group.runs) - group.mixed,
        "trials": group.trials,
        "offered_mean_bps": recompute_mean(group.values(lambda run: run.offered_bps))[0],
        "forwarding_mean_bps": mean,
        "forwarding_ci_low_bps": low,
        "forwarding_ci_high_bps": high,
    }
    by_set_up = group.losses()
    trials = [pair for pairs in by_set_up for pair in pairs]
    found["loss_trials"] = len(trials)
    if not trials:
        return found
    one = len(by_set_up) == 1 or group.mixed
    units = trials if one else [(sum(x for x, _ in pairs), sum(n for _, n in pairs)) for pairs in by_set_up]
    lost, sent = sum(x for x, _ in units), sum(n for _, n in units)
    ratio, low, high = recompute_loss([x for x, _ in units], [n for _, n in units], of_trials=one)
    if group.mixed:
        low = high = None
    found |= {"lost_packets": lost, "offered_packets": sent, "loss_ratio": ratio}
    found |= {"loss_ci_low_ratio": low, "loss_ci_high_ratio": high}
    if sent and not lost:
        found["loss_below_ratio"] = -math.expm1(math.log(0.05) / sent)
        found["lossy_trials_below_ratio"] = -math.expm1(math.log(0.05) / len(trials))
    return found


def _recompute_effects(
    one: _SetUpTrials, other: _SetUpTrials, pair: _Pair, begun: _Begun
) -> Iterator[dict[str, float | None]]:
    """Cells of a claim: over all blocks, and without the first, on which a load may have been chosen.

    Two set-ups of a block are a pair if they are known to share a boot and are contiguous. For a collapse both sides
    are one set-up. Boots are compared if no block that a value is read from has one boot on both sides, and no boot is
    on both.
    """
    counts = [group.packets for group in (one, other)]
    packets = None if None in counts else min(count for count in counts if count is not None) or None
    means, boots = [], []
    for group in (one, other):
        values = group.values(rate_bps)
        means.append({block: sum(trials) / len(trials) for block, trials in values.items() if block != ALONE})
        known = {block: [run.boot_id for run in runs if run.boot_id] for block, runs in group.runs.items()}
        boots.append({block: ids[0] if ids else None for block, ids in known.items()})
    common, within = sorted(means[0].keys() & means[1].keys(), key=repr), pair.alternative == "less"
    of_one_boot = [b for b in common if within or (boots[0][b] is not None and boots[0][b] == boots[1][b])]
    shared = [b for b in of_one_boot if within or begun.is_contiguous([*one.runs[b], *other.runs[b]])]
    for ours, theirs in product(*(_block_subsets(side_means) for side_means in means)):
        if not within and not any(block in ours and block in theirs for block in of_one_boot):
            sides = [_average_by_boot(ours, boots[0]), _average_by_boot(theirs, boots[1])]
            if sides[0].keys().isdisjoint(sides[1]) and min(len(side) for side in sides) >= FEWEST_BOOTS:
                yield _claim_cells(recompute_unpaired_effect(*(list(side.values()) for side in sides), packets=packets))
        blocks = [block for block in shared if block in ours and block in theirs]
        subject, baseline = ({block: side[block] for block in blocks} for side in means)
        effect = recompute_paired_effect(
            subject, baseline, packets=packets, null=pair.null, alternative=pair.alternative
        )
        yield {**_claim_cells(effect), "blocks": len(blocks)}


def _block_subsets(means: Mapping[Any, float]) -> Iterator[Mapping[Any, float]]:
    """All set-ups of a point, and those that remain if its load was chosen on the first block."""
    yield means
    if means:
        first = min(means)
        yield {block: mean for block, mean in means.items() if block != first}


def _average_by_boot(means: Mapping[object, float], boots: Mapping[object, str | None]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for block, mean in means.items():
        boot = boots[block]
        if boot is not None:
            found.setdefault(boot, []).append(mean)
    return {boot: sum(boot_means) / len(boot_means) for boot, boot_means in found.items()}


def _claim_cells(effect: RecomputedEffect) -> dict[str, float | None]:
    return {
        "change_ratio": effect.change,
        "change_ci_low_ratio": effect.ci_low,
        "change_ci_high_ratio": effect.ci_high,
        "p": effect.p,
    }


def _differing(row: Row, again: Mapping[str, float | None]) -> list[tuple[str, str | float | None]]:
    return [(column, value) for column, value in again.items() if not _close(row.get(column, ""), value)]


def _close(cell: str, value: float | None) -> bool:
    if value is None or not cell:
        return value is None and not cell
    try:
        return math.isclose(float(cell), value, rel_tol=CLOSE, abs_tol=1e-12)
    except ValueError:
        return False


def _family(tables: Tables) -> Iterator[str]:
    """Adjusted p-values over all claims, and the classification that each allows."""
    claims = [
        (name, number, row)
        for name in (*CLAIMING, *OF_GUESTS)
        for number, row in enumerate(tables.get(name, ()), 2)
        if row.get("adjusted_p")
    ]
    try:
        own = [float(row["p"]) for _, _, row in claims]
        other_claims = [
            float(p) for name in ABSTRACTS for row in tables.get(name, ()) for p in row.get("claims_p", "").split()
        ]
    except ValueError:
        yield "report: a claim has an adjusted p and no p"
        return
    for (name, number, row), again in zip(claims, recompute_holm([*own, *other_claims]), strict=False):
        if not _close(row["adjusted_p"], again):
            yield f"report/{name}.csv: line {number}, adjusted_p: is {row['adjusted_p']}, the claims give {again}"
        if row.get("word", "").startswith("different") != (again <= SIGNIFICANCE):
            yield f"report/{name}.csv: line {number}, word: is {row.get('word')!r} at an adjusted p of {again:.3g}"
    for name in (*CLAIMING, *OF_GUESTS):
        for number, row in enumerate(tables.get(name, ()), 2):
            if not row.get("adjusted_p") and row.get("word", "").startswith("different"):
                yield f"report/{name}.csv: line {number}, word: is {row['word']!r} without an adjusted p"
