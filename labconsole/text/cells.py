"""Numbers and foreign text as fixed-width cells.

Everything a node sends passes ``safe`` before it reaches the screen: control characters, escapes and combining marks
become a middle dot. The text is cut first, so a 10 kB name costs no more than a short one. Nothing is ever parsed as
markup.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from rich.cells import cell_len, set_cell_size

from labconsole.units import format_count

UNKNOWN = "–"
LEVELS = "▁▂▃▄▅▆▇█"


THIN_SPACE = "\u2009"
_UNIT = re.compile(r"(?<![\w.])(\d[\d.]*) (?=(?:s|B|MiB|ms)\b)")


def _harmless(char: str) -> bool:
    return (char.isprintable() and unicodedata.category(char)[0] != "M") or char == THIN_SPACE


@lru_cache(maxsize=8192)
def safe(text: str, width: int) -> str:
    """Return foreign text in at most ``width`` cells, harmless to a terminal. An ellipsis marks a cut."""
    head = text[: width + 1] if width > 0 else ""
    clean = "".join(c if _harmless(c) else "·" for c in head)
    if len(text) <= width and cell_len(clean) <= width:
        return clean
    return set_cell_size(clean, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def wrap_text(text: str, width: int, **how: Any) -> list[str]:
    """Wrap like ``textwrap``, but never separate a number from its unit."""
    joined = _UNIT.sub("\\1\N{NO-BREAK SPACE}", text)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in textwrap.wrap(joined, width, **how)]


def fit_wording(wordings: Iterable[str], width: int) -> str:
    """Return the first wording that fits, longest first. If none does, the last one is cut."""
    wording = ""
    for wording in wordings:
        if cell_len(wording) <= width:
            break
    return safe(wording, width)


def fit_ends(wordings: Iterable[str], width: int) -> str:
    """Return the first wording that fits, longest first. If none does, keep both ends of the last one: reasons come
    last.
    """
    wording = ""
    for wording in wordings:
        if cell_len(wording) <= width:
            return safe(wording, width)
    end = max(0, (width - 1) // 2)
    tail = safe(wording[-end:], end).lstrip() if end else ""
    return safe(wording, max(1, width - cell_len(tail))) + tail


def fit_parts(text: str, width: int) -> str:
    """Fit the first parts of ``a, b; c`` that fit whole, then an ellipsis if there is room. No number is cut.

    If the first part does not fit, as much of it as does.
    """
    if cell_len(text) <= width:
        return safe(text, width)
    ends = [match.start() for match in re.finditer("[,;] ", text[: width + 2])]
    for end in reversed(ends):
        if cell_len(text[:end]) + 2 <= width:
            return safe(text[:end], width - 2) + " …"
    return safe(text[: ends[0]] if ends else text, width)


def format_rounded(value: float | None) -> str:
    """A count or a packet rate with thin-space thousands."""
    return UNKNOWN if value is None or not math.isfinite(value) else format_count(round(value))


def format_decimal(value: float | None, places: int) -> str:
    """A number with a fixed number of decimals and thin-space thousands."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.{places}f}".replace(",", "\u2009")


def format_mbit(rate_bps: float | None) -> str:
    """A rate in Mbit/s."""
    return format_decimal(None if rate_bps is None else rate_bps / 1e6, 2)


def format_percent(ratio: float | None, places: int = 3) -> str:
    """Format a ratio in percent. A non-zero ratio never reads as zero."""
    if ratio is None or not math.isfinite(ratio):
        return UNKNOWN
    shown = f"{ratio * 100:.{places}f}"
    if ratio and float(shown) == 0:
        return ("<" if ratio > 0 else ">-") + f"{10**-places:.{places}f}"
    return shown


def format_duration(seconds: float) -> str:
    """A length of time for people: ``8 s``, ``2 min 05 s``, ``1 h 03 min``."""
    whole = max(0, math.ceil(seconds - 1e-6))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


SMALL_OVERRUN_S = 3.0
"""Error in the expected length of a step that is too small to mention."""


def format_time_left(left_s: float) -> str:
    """Format the time left of a step, after a comma. Empty if the step is about to end."""
    if left_s > 0:
        return f", {format_duration(left_s)} left"
    return f", {format_duration(-left_s)} longer than expected" if left_s < -SMALL_OVERRUN_S else ""


def format_short_time(stamp: str) -> str:
    """``2026-01-02T03:04:05.678Z`` as ``01-02 03:04:05`` (UTC)."""
    return safe(stamp[5:19].replace("T", " "), 14)


def scale_top(values: Iterable[float]) -> float:
    """Return the next 1, 2 or 5 times a power of ten at or above the largest value: a scale that does not flicker."""
    largest = max((v for v in values if math.isfinite(v)), default=0.0)
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= largest * (1 - 1e-9))


def sparkline(values: Iterable[float | None], top: float) -> str:
    """Draw one cell per value on the scale 0..top: blank for no sample, the lowest bar only for zero itself."""
    cells = []
    for value in values:
        if value is None or not math.isfinite(value):
            cells.append(" ")
        elif value <= 0:
            cells.append(LEVELS[0])
        else:
            cells.append(LEVELS[1 + min(6, int(7 * value / top))])
    return "".join(cells)
