"""The set-up panel without a screen: its text, its meaning, its errors, and the rates that sources reached."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint, TargetWish
from labconsole.model.inventory import Inventory
from labconsole.model.limits_check import refusals
from labconsole.model.record.envelope import Envelope
from labconsole.model.record.summary import RunSummary
from labconsole.text.cells import format_duration, format_percent, format_rounded, safe
from labconsole.units import counted, format_rate_bps, parse_rate_bps, parse_target

# -- form --------------------------------------------------------------------------------------------------------------
# The set-up panel without a screen: its text, its meaning, its errors.
#
# ``model.limits_check`` alone decides whether a testbed can do something. This module only has the wordings.

FRAME_SIZE_PRESETS = ("60", "64", "128", "256", "500", "512", "1000", "1024", "1280", "1500")
TARGET_PRESETS = ("10Mbit", "100Mbit", "200Mbit", "400Mbit", "600Mbit", "800Mbit", "900Mbit", "1Gbit", "max")
DURATION_PRESETS = ("1", "2", "5", "10", "30", "60", "120")
REPETITION_PRESETS = ("1", "3", "5", "9", "20")
TARGET_PREFIX = re.compile(r"m(a(x)?)?|\d{1,6}(\.\d{0,3})?([kMGT](b(i(t)?)?)?)?|")
NUMBER_PREFIX = re.compile(r"\d{0,6}")
SECONDS_PREFIX = re.compile(r"\d{0,5}(\.\d{0,3})?")
MAX_REPETITIONS = 1000

BACKGROUND_HINTS = {
    "none": ("no second guest",),
    "idle": ("an idle second guest", "a second, idle guest"),
    "light": ("second guest: stress --cpu 1", "stress --cpu 1"),
    "heavy": ("second guest: stress --cpu 8 --vm 4", "stress --cpu 8 --vm 4"),
    "forwarding-50": ("second guest forwards 64 B at 50 % of its maximum", "at 50 % of its maximum"),
    "forwarding-95": ("second guest forwards 64 B at 95 % of its maximum", "at 95 % of its maximum"),
}


@dataclass(frozen=True, slots=True)
class FormValues:
    """The panel's fields as text."""

    platform: str
    frame_size: str
    sources: str
    target: str
    background: str
    duration: str
    repetitions: str

    def to_json(self) -> dict[str, str]:
        """As the console's file has it."""
        return {
            "platform": self.platform,
            "frame_size": self.frame_size,
            "sources": self.sources,
            "target": self.target,
            "background": self.background,
            "duration": self.duration,
            "repetitions": self.repetitions,
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a field: a short text next to it, what is allowed below it, all of it when Run refuses."""

    short: str
    sentence: str
    allowed: str


@dataclass(frozen=True, slots=True)
class FormReading:
    """The meaning of a form. ``request`` is None if any field is wrong. Hints go from longest to shortest wording."""

    request: DesignPoint | None
    repetitions: int
    problems: dict[str, Problem] = field(default_factory=dict)
    hints: dict[str, tuple[str, ...]] = field(default_factory=dict)


def initial_values(inventory: Inventory) -> FormValues:
    """A first trial that every testbed can do: small frames far below the slowest link, all streams."""
    slowest_bps = min(s.link_speed_bps for s in inventory.streams)
    # The nodes of an emulated testbed share their CPUs.
    modest_bps = slowest_bps // (100 if inventory.emulated else 10)
    target = next((p for p in reversed(TARGET_PRESETS[:-1]) if parse_rate_bps(p) <= modest_bps), TARGET_PRESETS[0])
    return FormValues(next(iter(inventory.platforms)), "64", str(len(inventory.streams)), target, "none", "5", "1")


def _target(text: str) -> TargetWish:
    if re.search(r"[kMGT]$", text):
        text += "bit"
    elif text.endswith(("b", "bi")):
        text = text[: text.rindex("b")] + "bit"
    return parse_target(text)


def _problem(name: str, message: str, allowed: str) -> Problem:
    error = ConfigError(message, key=name, allowed=allowed)
    return Problem(error.message, str(error), allowed)


def _parse(values: FormValues, problems: dict[str, Problem]) -> tuple[int, int, TargetWish, float, int]:
    def whole(name: str, text: str, allowed: str) -> int:
        if not text.isascii() or not text.isdigit():
            problems[name] = _problem(name, "is not a whole number", allowed)
            return 0
        return int(text)

    frame_size = whole("frame_size", values.frame_size, "bytes, such as 64")
    sources = whole("sources", values.sources, "1 or more")
    repetitions = whole("repetitions", values.repetitions, f"1 to {MAX_REPETITIONS}")
    if "repetitions" not in problems and not 1 <= repetitions <= MAX_REPETITIONS:
        problems["repetitions"] = _problem("repetitions", "is out of range", f"1 to {MAX_REPETITIONS}")
    target: TargetWish = "max"
    try:
        target = _target(values.target)
    except ValueError as exc:
        problems["target"] = _problem("target", "is not a valid target", str(exc))
    duration_s = 0.0
    try:
        duration_s = float(values.duration)
    except ValueError:
        problems["duration"] = _problem("duration", "is not a number", "seconds, such as 10 or 0.5")
    return frame_size, sources, target, duration_s, repetitions


def _refused(exc: ConfigError) -> tuple[str, Problem]:
    return exc.key or "platform", Problem(exc.message, str(exc), exc.allowed or "")


def read_form(
    values: FormValues, inventory: Inventory, also: Callable[[DesignPoint], None] | None = None
) -> FormReading:
    """Parse, check and explain a form. ``also``: raises ConfigError for anything a platform cannot do."""
    problems: dict[str, Problem] = {}
    frame_size, sources, target, duration_s, repetitions = _parse(values, problems)
    frame = inventory.defaults.frame(frame_size)
    request = DesignPoint(
        platform=values.platform,
        frame=frame,
        sources=sources,
        target=frame.target(target),
        duration_s=duration_s,
        background=values.background,
        generator=inventory.defaults.generator,
        observe=inventory.defaults.observe,
    )
    if not problems:
        for refusal in refusals(request, inventory):
            problems.setdefault(*_refused(refusal))
    if not problems and also is not None:
        try:
            also(request)
        except ConfigError as exc:
            problems.setdefault(*_refused(exc))
    hints = _hints(request, repetitions, inventory, problems)
    return FormReading(None if problems else request, repetitions, problems, hints)


def _hints(
    request: DesignPoint, repetitions: int, inventory: Inventory, problems: dict[str, Problem]
) -> dict[str, tuple[str, ...]]:
    hints: dict[str, tuple[str, ...]] = {"background": _background_hint(request, inventory, problems)}
    platform = inventory.platforms.get(request.platform)
    if platform is not None:
        # Paths on the unit under test do not distinguish platforms.
        shown = {k: v for k, v in platform.options.items() if isinstance(v, str | int) and not str(v).startswith("/")}
        options = ", ".join(f"{k} {v}" for k, v in shown.items())
        driver = f"driver {platform.driver}" + (f", {options}" if options else "")
        # Two platforms of one driver differ in their options, so options come before the driver's text.
        hints["platform"] = tuple(safe(text, 60) for text in (driver, options or driver))
    if "sources" not in problems:
        names = ", ".join(s.name for s in inventory.streams[: request.sources])
        many = counted(len(inventory.streams), "stream")
        hints["sources"] = (f"of {many}: {names}", f"of {many}")
    if "frame_size" not in problems:
        on_wire, fcs = request.frame.wire_bytes, request.frame.convention
        named = "RFC 2544" if request.frame.includes_fcs else "as pktgen counts"
        hints["frame_size"] = (
            f"bytes {fcs} ({named}), {format_rounded(on_wire)} B on the wire",
            f"B {fcs}, {format_rounded(on_wire)} on wire",
            f"B {fcs}",
        )
        if "target" not in problems:
            hints["target"] = _target_hint(request, inventory)
    if "duration" not in problems:
        hints["duration"], hints["repetitions"] = _time_hints(request, repetitions, inventory, problems)
    return hints


def _background_hint(request: DesignPoint, inventory: Inventory, problems: dict[str, Problem]) -> tuple[str, ...]:
    wordings = BACKGROUND_HINTS.get(request.background, ("",))
    if request.background == "none" or "sources" in problems:
        return wordings
    own = inventory.second_stream(request.sources)
    return (f"{wordings[0]}; second stream: {own.name if own is not None else 'none free'}", *wordings)


def _target_hint(request: DesignPoint, inventory: Inventory) -> tuple[str, ...]:
    stream = inventory.streams[0]
    line = request.frame.rate_pps(stream.link_speed_bps)
    if request.paced_bps is None:
        gap = "no delay" if request.target == "max" else "a delay of 1 ns"
        return (
            f"per source: {gap} between packets; line rate {format_rounded(line)} packets/s",
            f"{gap}; line rate {format_rounded(line)} pps",
            f"line rate {format_rounded(line)} pps",
        )
    delay = request.delay_ns
    pps = 1e9 / delay if delay else math.nan
    share = request.frame.rate_bps(pps) / stream.link_speed_bps
    link = format_rate_bps(stream.link_speed_bps)
    rate, spacing, part = (
        format_rounded(pps),
        format_rounded(delay),
        f"{format_percent(share, 1 if share < 0.1 else 0)} %",
    )
    return (
        f"per source: {rate} packets/s, delay {spacing} ns, {part} of {link} on the wire",
        f"{rate} packets/s, delay {spacing} ns, {part} of {link}",
        f"{rate} packets/s, delay {spacing} ns, {part} of line",
        f"{rate} pps, {spacing} ns, {part} of line",
        f"{rate} pps, {part} of line",
        f"{rate} pps",
    )


def _time_hints(
    request: DesignPoint, repetitions: int, inventory: Inventory, problems: dict[str, Problem]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    defaults = inventory.defaults
    each_s = request.duration_s + defaults.drain_s + defaults.settle_s
    packets = request.intended_packets if not problems else None
    tail = f", {format_rounded(packets)} packets per source" if packets is not None else ""
    duration = (
        f"s of traffic{tail}; {format_duration(each_s)} including drain and settle",
        f"s of traffic; {format_duration(each_s)} in all",
        f"s; {format_duration(each_s)} in all",
    )
    if "repetitions" in problems:
        return duration, ("",)
    return duration, (
        f"at least {format_duration(each_s * repetitions)} in all",
        f"{format_duration(each_s * repetitions)} or more",
    )


# -- source limits -----------------------------------------------------------------------------------------------------
# The highest rates that sources reached, to warn of a target beyond them while it is typed. Pure.
#
# They come from the calibration, if it covers the frame size and the number of sources, or else from past runs that
# fell short of their target. Either is an observation, no promise: the machine may have been busy.

SHORT_RATIO = 0.97
"""A run that offered less than this share of its target had a source at its limit."""


@dataclass(frozen=True, slots=True)
class SourceLimit:
    """``name``: the source, or "a source" if runs give only the sum of all."""

    name: str
    pps: float
    origin: str

    def wordings(self, intended_pps: float | None) -> tuple[str, ...]:
        """Warnings for a higher target, longest first. Empty if the target is not higher."""
        if intended_pps is None or intended_pps <= self.pps:
            return ()
        rate = format_rounded(float(f"{self.pps:.2g}"))
        return (
            f"{self.name} tops out near {rate} packets/s ({self.origin}); this asks for {format_rounded(intended_pps)}",
            f"{self.name} tops out near {rate} pps ({self.origin})",
            f"{self.name}: about {rate} pps",
            f"at most {rate} pps",
        )


def find_source_limit(
    request: DesignPoint, envelope: Envelope | None, past: Iterable[RunSummary]
) -> SourceLimit | None:
    """The limit of the weakest source, or None if neither a calibration nor a run covers such frames."""
    calibrated = _find_calibrated_limit(request, envelope)
    return calibrated if calibrated is not None else _find_observed_limit(request, past)


def _find_calibrated_limit(request: DesignPoint, envelope: Envelope | None) -> SourceLimit | None:
    point = envelope.point_for(request.frame.pkt_size_bytes, request.sources) if envelope is not None else None
    if point is None:
        return None
    reached = [
        (most, stream.source.partition("/")[0])
        for stream in point.streams[: request.sources]
        if (most := point.most_offered_pps(stream.stream)) is not None
    ]
    if not reached:
        return None
    pps, name = min(reached)
    return SourceLimit(name, pps, "calibration")


def _find_observed_limit(request: DesignPoint, past: Iterable[RunSummary]) -> SourceLimit | None:
    """The highest rate that runs with these frames and sources offered per source, if one of them fell short."""
    most, short = 0.0, False
    for run in past:
        same = (run.frame, run.sources) == (request.frame, request.sources)
        if not same or run.offered_pps is None or run.verdict == "invalid":
            continue
        if request.generator not in ("auto", run.generator):
            continue
        each_pps = run.offered_pps / run.sources
        most = max(most, each_pps)
        if run.target_bps in (None, "max"):
            short = True
        else:
            short = short or each_pps < SHORT_RATIO * request.frame.rate_pps(float(run.target_bps))
    return SourceLimit("a source", most, "past runs") if short and most else None
