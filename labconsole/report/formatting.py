"""Formatting of numbers, intervals, losses, effects, settings and environments in reports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol

from labconsole.contracts.report import Cell
from labconsole.measure.statistics.bounded_means import LossEstimate, share_if_none
from labconsole.measure.statistics.effects import Effect, digits_to_tell
from labconsole.measure.statistics.regression import OverBlocks
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.design_point import INCLUDES_FCS, FrameSize
from labconsole.model.record.annotations import PlanNote
from labconsole.report.points import DEDICATED, IDLE, MaximumReading, PointSummary, Setting
from labconsole.report.sample import RunCoverage

# -- formatting --------------------------------------------------------------------------------------------------------
# Formatting of numbers, intervals, losses, sizes and settings in reports.

UNKNOWN = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEAST_IN_PERCENT = 1e-3

SIZE_COLUMNS = ("frame_size_bytes", INCLUDES_FCS)
"""Columns of a table's CSV, in the order of ``size_cells``."""


class MeanWithInterval(Protocol):
    """The parts of a mean that formatting needs."""

    @property
    def mean(self) -> float: ...
    @property
    def ci_low(self) -> float | None: ...
    @property
    def ci_high(self) -> float | None: ...


def format_note(noted: PlanNote) -> str:
    """A note in one line, with its author and time."""
    return f"{' '.join((noted.note.text or '').split())} ({noted.note.author}, {noted.note.written_at[:19]}Z)"


def format_number(value: float | None, places: int = 1) -> str:
    """Format a number with thin-space thousands."""
    return UNKNOWN if value is None else f"{value:,.{places}f}".replace(",", "\u2009").replace("-", "−")


def format_percent(ratio: float, places: int = 1) -> str:
    """Format a share of one as percent, with a sign only if it is negative."""
    return f"{format_number(ratio * 100, places)} %"


def format_with_interval(summary: MeanWithInterval, scale: float = 1e6, places: int = 1) -> str:
    """``mean ± half width`` of the 95 % interval, or the mean alone if there is no interval."""
    mean = format_number(summary.mean / scale, places)
    if summary.ci_low is None or summary.ci_high is None:
        return mean
    return f"{mean} ± {format_number((summary.ci_high - summary.ci_low) / 2 / scale, places)}"


def format_mean(
    found: SetUpMean | None, unit: float = 1.0, places: int = 0, form: Callable[[float, int], str] = format_number
) -> str:
    """``mean ± half width`` of the interval over set-ups; the mean alone of one set-up, which represents no other.

    Means that Student's interval does not fit (bounded_means.py) have instead

    - ``0.0 (at most 7.1, in at most 45 % of set-ups)``: events that did not occur; the first bound assumes independent
      bins or packets;
    - ``0.9998 (at least 0.9993)``: an index with a lower bound alone;
    - ``0.95 (0.91 to 0.97)``: an interval that is not centred on the mean;
    - ``3.0 (trials 1.0 to 7.0)``: no interval, but the lowest and highest trial.

    ``form``: writes a number with its places.
    """
    if found is None:
        return UNKNOWN
    mean = form(found.mean / unit, places)
    if found.method == "no interval":
        least, most = found.minimum / unit, found.maximum / unit
        alone = found.trials < 2
        return mean if alone else f"{mean} (trials {form(least, places)} to {form(most, places)})"
    if found.ci_low is None or found.scope != "set-ups":
        return mean
    if found.half_width is not None:
        return f"{mean} ± {form(found.half_width / unit, places)}"
    low = found.ci_low / unit
    if found.ci_high is None:
        return f"{mean} (at least {form(low, digits_to_tell(low, 1.0, places))})"  # an index that ends at 1
    high = found.ci_high / unit
    if found.method == "counts over set-ups":
        places = digits_to_tell(high, least=places)
        if found.mean == 0:
            set_ups = f"in at most {100 * share_if_none(found.set_ups):.0f} % of set-ups"
            return f"{mean} (at most {form(high, places)}, {set_ups})"
    return f"{mean} ({form(low, places)} to {form(high, places)})"


def format_scientific(value: float, digits: int = 2) -> str:
    """Format ``3.3·10⁻⁶``."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.removesuffix(".0") if digits > 1 else mantissa
    return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def format_share(ratio: float) -> str:
    """Format a share in percent if that takes few digits, else as a power of ten."""
    if ratio == 0 or ratio >= LEAST_IN_PERCENT:
        return f"{format_number(ratio * 100, 2)} %"
    return format_scientific(ratio)


def format_loss(loss: LossEstimate | None) -> str:
    """Format ``1.20 % (1.10 % to 1.31 %)``; with none lost, an upper limit of the ratio, never 0 ± 0.

    Bounds from these packets alone, those of fewer than three trials, are marked "of this run".
    """
    if loss is None or loss.ratio is None:
        return UNKNOWN
    if loss.upper_if_none_lost is not None:
        return (
            f"none of {format_number(loss.offered_packets, 0)}: below {format_scientific(loss.upper_if_none_lost, 1)}"
        )
    if loss.low is None or loss.high is None:
        return format_share(loss.ratio)
    mark = ", of this run" if loss.method == "of this run" else ""
    return f"{format_share(loss.ratio)} ({format_share(loss.low)} to {format_share(loss.high)}{mark})"


def format_bounds(low: float | None, high: float | None) -> str:
    """Bounds of a relative change in percent, with enough digits to tell their side of 0."""
    if low is None or high is None:
        return UNKNOWN
    return " to ".join(format_number(100 * bound, digits_to_tell(100 * bound)) for bound in (low, high))


def format_p_value(p: float | None) -> str:
    """Format a p value with two digits."""
    return UNKNOWN if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_target_number(target_bps: int | None, frame: FrameSize | None) -> str:
    """Format Mbit/s, max, or 1 ns."""
    if target_bps is None:
        return "max"
    return "1 ns" if frame is not None and frame.wish(target_bps) == "1ns" else format_number(target_bps / 1e6, 0)


class DesignPointLike(Protocol):
    """A design point, of a plan's file or of runs."""

    @property
    def platform(self) -> str: ...
    @property
    def frame(self) -> FrameSize: ...
    @property
    def sources(self) -> int: ...
    @property
    def target_bps(self) -> int | Literal["max"] | None: ...
    @property
    def background(self) -> str: ...


def format_design_point(point: DesignPointLike) -> str:
    """Format ``raw, 64 B, 1 × 100 Mbit/s``."""
    target = format_target_number(None if point.target_bps == "max" else point.target_bps, point.frame)
    unit = " Mbit/s" if target[:1].isdigit() and not target.endswith("ns") else ""
    background = "" if point.background == DEDICATED else f", background {point.background}"
    return f"{point.platform}, {format_frame_size(point.frame)}, {point.sources} × {target}{unit}{background}"


def target_cell(of: PointSummary | RunCoverage) -> Cell:
    """The target per source in bits per second, or max."""
    return "max" if of.target_bps is None else of.target_bps


def format_size_number(frame: FrameSize | None) -> str:
    """The frame size for a heading that has its unit, with its convention if that is not the paper's."""
    return UNKNOWN if frame is None else f"{frame.bytes}{' with FCS' if frame.includes_fcs else ''}"


def size_cells(frame: FrameSize | None) -> tuple[int | None, bool | None]:
    """The frame size with its convention; both are None for mixed sizes."""
    return (None, None) if frame is None else (frame.bytes, frame.includes_fcs)


def format_set_ups(rate: SetUpMean) -> str:
    """Format ``5 × 3`` set-ups by trials, ``1 × 9``; if set-ups differ, ``5, 14 trials``."""
    if rate.trials % rate.set_ups == 0:
        return f"{rate.set_ups} × {rate.trials // rate.set_ups}"
    return f"{rate.set_ups}, {rate.trials} trials"


def format_span(counts: Iterable[int]) -> str:
    """Format ``3``, ``3 to 5``, or none."""
    values = sorted(set(counts))
    return "none" if not values else str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def format_left_out(left_out: Mapping[str, int]) -> str:
    """Format ``3 guests_missing, 1 swapped``: excluded trials by reason code."""
    return ", ".join(f"{trials} {code}" for code, trials in left_out.items())


def format_noun_count(number_of: int, what: str) -> str:
    """Format ``1 run``, ``2 runs``."""
    return f"{number_of} {what}{'' if number_of == 1 else 's'}"


def format_frame_size(frame: FrameSize) -> str:
    """Format ``64 B``, with its convention if that is not the paper's."""
    return f"{frame.bytes} B" + (" with FCS" if frame.includes_fcs else "")


def format_setting(setting: Setting) -> str:
    """Frame size and sources, as sentences name them."""
    return f"{format_frame_size(setting.frame)}, {format_noun_count(setting.sources, 'source')}"


def format_full_setting(setting: Setting) -> str:
    """The whole setting as text."""
    background = "" if setting.background == DEDICATED else f", background {setting.background}"
    return f"{setting.platform}, {format_setting(setting)}{background}"


def format_point_setting(point: PointSummary) -> str:
    """The setting of a point as text."""
    return format_full_setting(point.key)


def describe_baseline(background: str) -> str:
    """The baseline that a background is compared with."""
    return {DEDICATED: "no second guest", IDLE: "an idle second guest"}.get(background, background)


def name_reading(reading: MaximumReading) -> str:
    """Name a reading of a setting: a maximum, or the rate at its only load."""
    return "maximum" if reading.is_maximum else "rate"


# -- effect formatting -------------------------------------------------------------------------------------------------
# A relative effect, or a value with its interval, as a table cell.


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
