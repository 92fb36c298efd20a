"""Conclusions on guests' memory in the abstract of Quétier, Neri and Cappello, compared with one's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from labconsole.contracts.report import Experiments
from labconsole.experiments.boot.platform_comparison import MemoryComparison, compare_memory
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.units.starts import build_summary
from labconsole.measure.paired_blocks import adjusted
from labconsole.measure.statistics.effects import SIGNIFICANCE
from labconsole.measure.statistics.line_in_blocks import LineInBlocks, slope_p
from labconsole.report.effect_formatting import format_interval
from labconsole.report.material import Material
from labconsole.report.paper_abstracts import (
    ONE_FAMILY,
    PaperConclusion,
    ToolPair,
    build_abstract_unit,
    collect_p_values,
    format_kernels,
    format_one_platform,
    judge_all_different,
)

MIB = 2**20
OCCUPATION = "the tools behave differently in resource occupation"


def _conclude(material: Material) -> Iterator[PaperConclusion]:
    """Conclude for each start that was measured on several platforms."""
    summary = build_summary(material)
    compared = compare_memory(each for each in material.of("boot") if isinstance(each, BootRecord))
    tested = [_p(each) for each in compared]
    found = adjusted(tested, material.evaluation.claims.p_values)
    groups: dict[tuple[str, str], list[ToolPair]] = {}
    for each, plain, p in zip(compared, tested, found, strict=True):
        about = f"memory of each guest, {each.key.start} start"
        about += "".join(f", {mib} MiB given" for mib in each.key.crew)
        if len(summary.testbeds) > 1:
            about += f", on {summary.testbeds[each.key.testbed_fingerprint]}"
        about += format_kernels({point.key.kernel for point in summary.points}, each.key, each.than)
        apart = True if p is not None and p <= SIGNIFICANCE else None
        said = (
            f"{summary.names[each.key]} against {summary.names[each.than]}: {each.absent or _format_slope(each.line)}"
        )
        pair = ToolPair(each.key.platform, each.than.platform, said, apart, p=plain)
        groups.setdefault((each.key.testbed_fingerprint, about), []).append(pair)
    if summary.points and not groups:
        yield PaperConclusion(OCCUPATION, "memory of each guest", format_one_platform("the same start"), "not decided")
    for (_, about), pairs in groups.items():
        said = "; ".join(pair.said for pair in pairs)
        yield PaperConclusion(OCCUPATION, about, said, judge_all_different(pairs), collect_p_values(pairs))


def _claimed(experiments: Experiments, names: Mapping[str, str]) -> list[float]:
    """Return the p values of the lines of every two platforms."""
    compared = compare_memory(each for each in experiments.get("boot", ()) if isinstance(each, BootRecord))
    return [p for each in compared if (p := _p(each)) is not None]


def _p(compared: MemoryComparison) -> float | None:
    return None if compared.line is None or compared.absent else slope_p(compared.line)


def _format_slope(line: LineInBlocks | None) -> str:
    """``+41.2 MiB (35.0 to 47.4)``."""
    if line is None:
        return "no block has both"
    if line.slope.low is None or line.slope.high is None:
        return str(line.absent)
    mean, low, high = (each / MIB for each in (line.slope.mean, line.slope.low, line.slope.high))
    return f"{'+' if mean > 0 else ''}{format_interval(mean, low, high, 1)} MiB"


UNITS = (
    build_abstract_unit(
        "quetier",
        "quetier-abstract-memory",
        168,
        _conclude,
        "Of every two platforms: by how much more memory each guest of the one takes, by what the machine has left (as "
        "its hypervisor reports, else its kernel), as lines over the number of guests. Confirmed where every two are "
        "shown to differ; that none do, this does not show. Guests have the memory that their platform gives them. "
        "Nothing is decided where no start is valid, or some were left out because of their results. Differences are "
        f"taken in pairs of blocks. {ONE_FAMILY}",
        _claimed,
    ),
)
