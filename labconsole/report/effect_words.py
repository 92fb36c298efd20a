"""A relative effect, or a value with its interval, as a cell of a table says it. Pure."""

from __future__ import annotations

from labconsole.measure.statistics.effects import Effect
from labconsole.measure.statistics.line_in_blocks import OverBlocks
from labconsole.report.words import UNKNOWN, number, percent


def effect_words(effect: Effect) -> str:
    """``+1.2 % (+0.8 % to +1.6 %)``, or why there is none."""
    if effect.change is None:
        return effect.absent or UNKNOWN
    change = _signed(effect.change)
    if effect.ci_low is None or effect.ci_high is None:
        return f"{change} ({effect.absent or 'no interval'})"
    return f"{change} ({_signed(effect.ci_low)} to {_signed(effect.ci_high)})"


def ratio_words(effect: Effect) -> str:
    """``2.01 (1.95 to 2.07)``, as a multiple."""
    if effect.change is None:
        return effect.absent or UNKNOWN
    if effect.ci_low is None or effect.ci_high is None:
        return f"{number(1 + effect.change, 2)} ({effect.absent or 'no interval'})"
    return f"{number(1 + effect.change, 2)} ({number(1 + effect.ci_low, 2)} to {number(1 + effect.ci_high, 2)})"


def _signed(ratio: float) -> str:
    return ("+" if ratio > 0 else "") + percent(ratio)


def interval_words(value: float, low: float | None, high: float | None, places: int) -> str:
    """``0.521 (0.355 to 0.687)``."""
    bounds = "" if low is None or high is None else f" ({number(low, places)} to {number(high, places)})"
    return number(value, places) + bounds


def line_part_words(part: OverBlocks | None, places: int) -> str:
    """A part of a line, as above."""
    return UNKNOWN if part is None else interval_words(part.mean, part.low, part.high, places)
