"""Rates, targets, counts and ratios as people write them and read them. Pure functions."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Literal

MAX_RATE_DIGITS = 40
_RATE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kMGT]?)(?:bit/s|bit|bps|b/s)\s*$")
_RATIO = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(%?)\s*$")
MAX_RATE_BPS = 10**15
"""A thousand times what any link does: what is more is a slip, and would not fit the numbers made from it."""

_SI = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_rate_bps(text: str | int) -> int:
    """``"100Mbit"`` to 100000000. Accepts k, M, G, T with bit, bit/s, bps. Raises ValueError with what is allowed."""
    if isinstance(text, int) and not isinstance(text, bool):
        return _checked_rate_bps(text)
    match = _RATE.match(str(text))
    if not match:
        raise ValueError("a number with a unit, such as 10Mbit, 2.5Gbit or 900kbit")
    if len(match[1]) > MAX_RATE_DIGITS:
        raise ValueError(f"a number of at most {MAX_RATE_DIGITS} digits")
    return _checked_rate_bps(Fraction(match[1]) * _SI[match[2]])


def parse_target(text: str) -> int | Literal["max", "1ns"]:
    """A target as people write it: a rate with its unit to bit/s, or one of the words. Raises ValueError."""
    if text == "max" or text == "1ns":
        return text  # type: ignore[return-value]
    try:
        return parse_rate_bps(text)
    except ValueError as exc:
        raise ValueError(f"{exc}, or max, or 1ns") from None


def _checked_rate_bps(value: int | Fraction) -> int:
    if value <= 0:
        raise ValueError("a positive rate")
    if value > MAX_RATE_BPS:
        raise ValueError(f"a rate of at most {format_target(MAX_RATE_BPS)}")
    return round(value)


def format_rate_bps(rate_bps: float) -> str:
    """``100000000`` to ``"100 Mbit/s"``; three significant places at most after the point."""
    for suffix, scale in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if abs(rate_bps) >= scale:
            return f"{rate_bps / scale:.4g} {suffix}bit/s"
    return f"{rate_bps:.4g} bit/s"


def format_target(target_bps: int | str) -> str:
    """A target as the command line takes it: ``100Mbit``, ``max`` or ``1ns``."""
    if isinstance(target_bps, str):
        return target_bps
    for suffix, scale in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if target_bps >= scale:
            return f"{Decimal(target_bps) / scale:f}{suffix}bit"
    return f"{target_bps}bit"


def format_target_within(target_bps: int | str, cells: int) -> str:
    """The same where there is room for it, else rounded to four places: for tables, whose details have it in full."""
    whole = format_target(target_bps)
    if len(whole) <= cells or isinstance(target_bps, str):
        return whole
    return format_rate_bps(target_bps).replace(" ", "").removesuffix("/s")


def format_count(count: int) -> str:
    """A count with thin-space thousands."""
    return f"{count:,}".replace(",", "\u2009")


def counted(number_of: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{format_count(number_of)} {noun}{'' if number_of == 1 else 's'}"


def parse_ratio(text: str) -> float:
    """``"0.07"`` or ``"7%"`` to 0.07. Raises ValueError unless it lies in 0..1."""
    match = _RATIO.match(text)
    if not match:
        raise ValueError("a ratio from 0 to 1, such as 0.07 or 7%")
    value = float(match[1]) / (100 if match[2] else 1)
    if not 0 <= value <= 1:
        raise ValueError("a ratio from 0 to 1, such as 0.07 or 7%")
    return value
