"""Plans whose results depend on their position in the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.measure.groups import rate_of
from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS
from labconsole.measure.statistics.repetitions import order_effect
from labconsole.measure.statistics.set_ups import mean_of, set_up_means
from labconsole.report.digest import Digest
from labconsole.report.formatting import format_percent
from labconsole.report.material import Material

ORDER_LEVEL = 0.99
"""The level of the interval by which the report shows a change of a plan's rates over its blocks."""


def make(material: Material) -> Findings:
    """Return the findings on each plan on one testbed."""
    found = tuple(order_effects(material.kept.entered, material.digest))
    return Findings(kind="order_effect", heading="Rates that change over the course of a plan", found=found)


def order_effects(entered: Sequence[RunRow], digest: Digest) -> Iterator[Finding]:
    """Find plans whose results depend on their position in the schedule, on one testbed.

    In blocks, the means of the blocks are tested, because trials resemble each other within a set-up and over time.
    Without blocks there is only a slope, and no test for it: it is reported if independent trials would rarely show it.
    """
    groups: dict[tuple[str, str], list[RunRow]] = {}
    for run in sorted(entered, key=lambda run: (run.started_at, run.run_id)):
        if run.plan_hash is not None and run.plan_point is not None:
            groups.setdefault((run.plan_hash, run.testbed_fingerprint), []).append(run)
    for key in sorted(groups):
        taken = groups[key]
        in_blocks = [run for run in taken if run.block and run.set_up is not None]
        description = _describe_block_effect(in_blocks) if in_blocks else _describe_trial_effect(taken)
        if description is not None:
            facts = digest.planned.get(key)
            yield Finding(
                sentence=f"Plan {key[0] if facts is None else facts.name}: {description}",
                run_ids=tuple(run.run_id for run in in_blocks or taken),
            )


def _describe_block_effect(taken: Sequence[RunRow]) -> str | None:
    """Describe the change from the first block to the last if its 99 % interval excludes zero, else return None."""
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
        f"removes what a whole block has in common."
    )


def _describe_trial_effect(taken: Sequence[RunRow]) -> str | None:
    """Describe the slope if its 95 % interval, as if trials were independent, excludes zero, else return None."""
    values = [(rate_of(run) or (0.0, 0.0))[1] for run in taken]
    found = order_effect(range(1, len(values) + 1), values, [run.plan_point or 0 for run in taken], relative=True)
    if not found.detectable or found.change is None:
        return None
    return (
        f"measured rates change by {_signed(found.change)} from the first run to the last, each point against its own "
        "mean: a slope over the order of trials. Only one in 20 plans of independent trials without a trend shows "
        "such a slope, but up to two in three do if neighbouring trials are alike: a reason to look closer, not a test."
    )


def _signed(ratio: float) -> str:
    return f"{'+' if ratio >= 0 else ''}{format_percent(ratio, 2)}"


UNITS = (ReportUnit(name="order_effect", place=100, make=make),)
