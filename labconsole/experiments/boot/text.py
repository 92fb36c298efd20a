"""Starts of guests as plain lines of text: when all were up, by both clocks, and their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labconsole.experiments.boot.derived_values import resolution_s
from labconsole.experiments.boot.plan import BootPoint
from labconsole.experiments.boot.record import BootRecord, GuestBootRecord, IdleSwitches
from labconsole.experiments.boot.summary import (
    BootLines,
    BootPointResult,
    BootsSummary,
    StartComparison,
    summarize_boots,
)
from labconsole.measure.statistics.as_json import effect_json, line_json, mean_json
from labconsole.measure.statistics.regression import LineInBlocks, OverBlocks
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.plan.guest_kind import GuestText
from labconsole.report.formatting import format_noun_count, format_ratio
from labconsole.report.trial_text import describe_left_out
from labconsole.text.cells import UNKNOWN, format_decimal

MAX_GUESTS = 20
MIB = 2**20


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f} s"


def _mib(size_bytes: int | float | None) -> str:
    return UNKNOWN if size_bytes is None else f"{size_bytes / MIB:.1f} MiB"


def format_boot_result(record: BootRecord) -> str:
    """The time and memory of all guests."""
    used = None if record.memory is None else record.memory.used_bytes
    return f"{_seconds(record.startup_s)}, {_mib(used)}"


def format_trial(record: BootRecord) -> list[str]:
    """The trial between its request and its verdict."""
    error = "" if record.clock_error_s is None else f" ± {record.clock_error_s * 1e3:.1f} ms"
    spread = "" if record.sd_s is None else f", sd between guests {record.sd_s:.3f} s"
    lines = [f"all up after {_seconds(record.startup_s)}{error} by the clock outside{spread}"]
    known_s = resolution_s(record.guests, record.clock_error_s)
    if record.startup_s is not None:
        steps = "by how much is not known" if known_s is None else f"by {known_s:.3f} s at most"
        lines.append(f"they may have been up earlier, {steps}: the route to the timekeeper is retried in steps")
    lines.append(f"by their own report, and the clock of the unit under test, after {_seconds(record.ready_s)}")
    in_order = sorted(record.guests, key=lambda each: (each.mark_s is None, each.mark_s or 0.0))
    lines += [_guest_line(each) for each in in_order[:MAX_GUESTS]]
    if len(in_order) > MAX_GUESTS:
        lines.append(f"and {len(in_order) - MAX_GUESTS} more guests")
    if record.memory is not None:
        memory = record.memory
        lines.append(
            f"memory after {memory.quiet_s:g} s of quiet: {_format_available_memory(memory.used_bytes)}; their "
            f"processes {_mib(memory.pss_bytes)}, their control groups {_mib(memory.cgroup_bytes)}"
        )
        unknown = [each for each in record.guests if each.cgroup_reason is not None]
        if unknown:
            lines.append(
                f"control groups of {len(unknown)} of {len(record.guests)} guests are not known; "
                f"{unknown[0].guest}: {unknown[0].cgroup_reason}"
            )
        if memory.hypervisor_command is not None:
            lines.append(
                f"by the report of the hypervisor ({memory.hypervisor_command}) {_mib(memory.hypervisor_bytes)}"
            )
        lines += [f"the kernel merges equal pages (KSM): {memory.ksm_pages_sharing} saved"] if memory.ksm_run else []
    lines += _idle_lines(record.idle)
    if record.files is None and record.guests:
        lines.append("the platform names no files that guests start from, so the page cache is unknown")
    for file in record.files or ():
        lines.append(f"{file.option}: {file.cached_pages} of {file.pages} pages in memory before the start")
    return lines


def _format_available_memory(used_bytes: int | None) -> str:
    """The used memory, by available memory."""
    if used_bytes is not None and used_bytes < 0:
        return f"{_mib(-used_bytes)} more available"
    return f"{_mib(used_bytes)} less available"


def _idle_lines(idle: IdleSwitches | None) -> list[str]:
    """The kernel's context switches while idle."""
    if idle is None or (idle.before is None and idle.standing is None):
        return []
    before, standing = [
        UNKNOWN
        if quiet is None
        else f"{format_decimal(quiet.switches_per_s, 1)}/s in {quiet.took_ns / 1e9:.1f} s of quiet"
        for quiet in (idle.before, idle.standing)
    ]
    return [f"context switches of the unit under test: before the start {before}, with all guests idle {standing}"]


def _guest_line(guest: GuestBootRecord) -> str:
    times = f"{_seconds(guest.mark_s)} (since its own start {_seconds(guest.own_s)}); by its own report "
    return f"{guest.guest:<6} {times}{_seconds(guest.ready_s)}; {_mib(guest.pss_bytes)}{_format_guest_entry(guest)}"


def _format_guest_entry(guest: GuestBootRecord) -> str:
    """How the console got into the guest, as part of its time."""
    way = guest.way_in
    if way is None:
        return ""
    gap = "" if way.gap_s is None else f", {way.gap_s:.3f} s after the previous one"
    bridge = "" if way.joined_s is None else f", on the bridge after {way.joined_s:.3f} s"
    return f"; led inside at try {way.tries}{gap}{bridge}"


def summary_lines(summary: BootsSummary) -> list[str]:
    """Times and memory of all points, fitted lines over the number of guests, cold against hot."""
    names = {key: f"{name}, {key.start}" for key, name in summary.names.items()}
    lines = [
        "until all guests are up, in s by the clock outside, and their memory in MiB; mean over set-ups with its "
        "95 % interval; only valid trials enter"
    ]
    lines += [f"testbed {', '.join(sorted(set(summary.testbeds.values())))}"] if summary.testbeds else []
    for each in summary.points:
        lines.append(f"  {_format_point(each, names[each.key])}")
    fitted = [each for each in summary.lines if each.startup_s is not None]
    if fitted:
        lines.append("over the number of guests: of all together, and more for each (within blocks, 95 % intervals)")
    for found in fitted:
        lines.append(f"  {names[found.key]}: {_format_line(found.startup_s, _plain_seconds)}")
        for name, line in (
            ("available", found.used_bytes),
            ("processes", found.pss_bytes),
            ("control groups", found.cgroup_bytes),
            ("the hypervisor's report", found.hypervisor_bytes),
        ):
            if line is not None:
                lines.append(f"    memory by {name}: {_format_line(line, _mib)}")
    for title, compared in (
        ("longer from cold than from hot, paired by block", summary.cold_against_hot),
        ("longer on one platform than on another, paired by block", summary.between_platforms),
    ):
        if compared:
            lines.append(f"{title}; p adjusted by Holm over all that is compared here")
        for claim in compared:
            p = "" if claim.adjusted_p is None else f", p {claim.adjusted_p:.2g}"
            pair = f"{names[claim.key]}, compared with {names[claim.than]}, {format_noun_count(claim.guests, 'guest')}"
            times = "" if claim.effect.ci_low is None else " times"
            lines.append(
                f"  {pair}: {format_ratio(claim.effect)}{times}, {claim.effect.blocks} blocks{p}: {claim.word}"
            )
    return lines


def _plain_seconds(value: float) -> str:
    return f"{value:.3f} s"


def _format_point(found: BootPointResult, name: str) -> str:
    text = f"{name}, {format_noun_count(found.guests, 'guest')}: {_format_mean(found.startup_s)}"
    text += f"; memory {_format_mean(found.used_bytes, MIB, 1)}, of processes {_format_mean(found.pss_bytes, MIB, 1)}"
    if found.hypervisor_bytes is not None:
        text += f", by the hypervisor's report {_format_mean(found.hypervisor_bytes, MIB, 1)}"
    if found.before_switches_per_s is not None or found.standing_switches_per_s is not None:
        text += f"; context switches/s before {_format_mean(found.before_switches_per_s, places=1)}"
        text += f", with all idle {_format_mean(found.standing_switches_per_s, places=1)}"
        text += f", more for each guest {_format_mean(found.guest_switches_per_s, places=1)}"
    return text + describe_left_out(found.left_out)


def _format_mean(found: SetUpMean | None, unit: float = 1.0, places: int = 3) -> str:
    if found is None:
        return UNKNOWN
    of = f"{format_noun_count(found.trials, 'trial')} in {format_noun_count(found.set_ups, 'set-up')}"
    if found.half_width is None:
        return f"{found.mean / unit:.{places}f} ({of}, too few)"
    about = "" if found.scope == "set-ups" else ", this set-up only"
    return f"{found.mean / unit:.{places}f} ± {found.half_width / unit:.{places}f} ({of}{about})"


def _format_line(line: LineInBlocks | None, form: Callable[[float], str]) -> str:
    if line is None:
        return UNKNOWN

    def part(each: OverBlocks) -> str:
        bounds = "" if each.low is None or each.high is None else f" ({form(each.low)} to {form(each.high)})"
        return form(each.mean) + bounds

    bent = "; a line does not describe it" if line.bent else ""
    of = f"{line.blocks} block{'s' if line.blocks > 1 else ''}{f', {line.absent}' if line.absent else bent}"
    return f"{part(line.constant)} and {part(line.slope)} a guest, of {of}"


def summary_json(found: BootsSummary) -> dict[str, Any]:
    """As ``experiment boot --summary --json`` prints it: the keys are a format, whatever the fields are called."""
    return {
        "points": [_boot_point_found(each) for each in found.points],
        "lines": [_boot_lines(each) for each in found.lines],
        "cold_against_hot": [_starts_compared(each) for each in found.cold_against_hot],
        "between_platforms": [_starts_compared(each) for each in found.between_platforms],
        "testbeds": dict(found.testbeds),
        "superseded": found.superseded,
    }


def _boot_point_found(found: BootPointResult) -> dict[str, Any]:
    return {
        "key": found.key,
        "guests": found.guests,
        "startup_s": mean_json(found.startup_s),
        "ready_s": mean_json(found.ready_s),
        "first_s": mean_json(found.first_s),
        "sd_s": mean_json(found.sd_s),
        "resolution_s": found.resolution_s,
        "used_bytes": mean_json(found.used_bytes),
        "pss_bytes": mean_json(found.pss_bytes),
        "cgroup_bytes": mean_json(found.cgroup_bytes),
        "hypervisor_bytes": mean_json(found.hypervisor_bytes),
        "before_switches_per_s": mean_json(found.before_switches_per_s),
        "standing_switches_per_s": mean_json(found.standing_switches_per_s),
        "guest_switches_per_s": mean_json(found.guest_switches_per_s),
        "left_out": dict(found.left_out),
        "boot_ids": found.boot_ids,
    }


def _boot_lines(found: BootLines) -> dict[str, Any]:
    return {
        "key": found.key,
        "startup_s": line_json(found.startup_s),
        "used_bytes": line_json(found.used_bytes),
        "pss_bytes": line_json(found.pss_bytes),
        "cgroup_bytes": line_json(found.cgroup_bytes),
        "hypervisor_bytes": line_json(found.hypervisor_bytes),
    }


def _starts_compared(found: StartComparison) -> dict[str, Any]:
    return {
        "key": found.key,
        "than": found.than,
        "guests": found.guests,
        "effect": effect_json(found.effect),
        "adjusted_p": found.adjusted_p,
        "word": found.word,
    }


def _point(record: BootRecord) -> BootPoint:
    return BootPoint.from_request(record.requested, cpu="any")


TEXT = GuestText(
    request=lambda record: _point(record).words(),
    result=format_boot_result,
    columns=lambda record: _point(record).format_factors(),
    lines=format_trial,
    summarize=summarize_boots,
    summary_lines=summary_lines,
    summary_json=summary_json,
)
