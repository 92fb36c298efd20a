"""A relative effect, or a value with its interval, as a table cell. Pure."""

from __future__ import annotations

from labconsole.measure.statistics.effects import Effect
from labconsole.measure.statistics.line_in_blocks import OverBlocks
from labconsole.report.formatting import UNKNOWN, format_number, format_percent


def format_effect(effect: Effect) -> str:
    """Format ``+1.2 % (+0.8 % to +1.6 %)``, or why there is none."""
    if effect.change is None:
        return effect.absent or UNKNOWN
    change = _signed(effect.change)
    if effect.ci_low is None or effect.ci_high is None:
        return f"{change} ({effect.absent or 'no interval'})"
    return f"{change} ({_signed(effect.ci_low)} to {_signed(effect.ci_high)})"


def format_ratio(effect: Effect) -> str:
    """Format ``2.01 (1.95 to 2.07)``, as a multiple."""
    if effect.change is None:
        return effect.absent or UNKNOWN
    if effect.ci_low is None or effect.ci_high is None:
        return f"{format_number(1 + effect.change, 2)} ({effect.absent or 'no interval'})"
    change, low, high = (format_number(1 + each, 2) for each in (effect.change, effect.ci_low, effect.ci_high))
    return f"{change} ({low} to {high})"


def _signed(ratio: float) -> str:
    return ("+" if ratio > 0 else "") + format_percent(ratio)


def format_interval(value: float, low: float | None, high: float | None, places: int) -> str:
    """Format ``0.521 (0.355 to 0.687)``."""
    bounds = "" if low is None or high is None else f" ({format_number(low, places)} to {format_number(high, places)})"
    return format_number(value, places) + bounds


def format_line_part(part: OverBlocks | None, places: int, unit: float = 1.0) -> str:
    """A parameter of a line in ``unit``, formatted as in format_interval()."""
    if part is None:
        return UNKNOWN
    low, high = (None if bound is None else bound / unit for bound in (part.low, part.high))
    return format_interval(part.mean / unit, low, high, places)
