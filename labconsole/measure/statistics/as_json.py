"""Statistics as plain data: the keys by which commands and files know them, whatever the fields are called."""

from __future__ import annotations

from typing import Any

from labconsole.measure.statistics.components import Advice, Components
from labconsole.measure.statistics.effects import Effect
from labconsole.measure.statistics.regression import LineInBlocks, OverBlocks
from labconsole.measure.statistics.repetitions import Difference
from labconsole.measure.statistics.set_ups import SetUpMean


def mean_json(found: SetUpMean | None) -> dict[str, Any] | None:
    """A mean over set-ups, if there is one."""
    if found is None:
        return None
    return {
        "mean": found.mean,
        "ci_low": found.ci_low,
        "ci_high": found.ci_high,
        "sd": found.sd,
        "set_ups": found.set_ups,
        "trials": found.trials,
        "scope": found.scope,
        "minimum": found.minimum,
        "maximum": found.maximum,
        "median": found.median,
        "method": found.method,
    }


def effect_json(found: Effect | None) -> dict[str, Any] | None:
    """A relative change, if there is one."""
    if found is None:
        return None
    return {
        "change": found.change,
        "ci_low": found.ci_low,
        "ci_high": found.ci_high,
        "p": found.p,
        "blocks": found.blocks,
        "sd_log": found.sd_log,
        "degrees": found.degrees,
        "paired": found.paired,
        "ci90_low": found.ci90_low,
        "ci90_high": found.ci90_high,
        "absent": found.absent,
        "mean_log": found.mean_log,
        "error_log": found.error_log,
        "level": found.level,
    }


def line_json(found: LineInBlocks | None) -> dict[str, Any] | None:
    """A line through the means of blocks, if there is one."""
    if found is None:
        return None
    return {
        "slope": _over_blocks(found.slope),
        "constant": _over_blocks(found.constant),
        "bend": _over_blocks(found.bend),
        "blocks": found.blocks,
        "places": found.places,
        "absent": found.absent,
    }


def _over_blocks(found: OverBlocks | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
    }


def difference_json(found: Difference | None) -> dict[str, Any] | None:
    """A difference of two means, if there is one."""
    if found is None:
        return None
    return {
        "mean": found.mean,
        "ci_low": found.ci_low,
        "ci_high": found.ci_high,
        "degrees": found.degrees,
        "detectable": found.detectable,
        "ci_level": found.ci_level,
    }


def components_json(found: Components | None) -> dict[str, Any] | None:
    """The components of a spread, if they are known."""
    if found is None:
        return None
    return {
        "variance_within": found.variance_within,
        "variance_of_means": found.variance_of_means,
        "variance_between": found.variance_between,
        "set_ups": found.set_ups,
        "repetitions": found.repetitions,
        "points": found.points,
    }


def advice_json(found: Advice) -> dict[str, Any]:
    """The advised number of set-ups and repetitions."""
    return {
        "repetitions": found.repetitions,
        "set_ups": found.set_ups,
        "half_width_ratio": found.half_width_ratio,
        "smallest_effect_ratio": found.smallest_effect_ratio,
        "total_s": found.total_s,
        "variance_upper": found.variance_upper,
        "components": components_json(found.components),
    }
