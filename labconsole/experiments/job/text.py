"""Jobs in guests as plain lines of text: the time of each copy by the clock outside, and the verdict."""

from __future__ import annotations

from typing import Any

from labconsole.experiments.job.disk_verdict import format_mib
from labconsole.experiments.job.live_view import format_times
from labconsole.experiments.job.plan import JobPoint
from labconsole.experiments.job.points import PointKey, PointTimes
from labconsole.experiments.job.record import CopyRecord, DiskRecord, JobRecord
from labconsole.experiments.job.report_data import format_cpu_limits, memory_of
from labconsole.experiments.job.summary import GuestsCurve, IsolationResult, JobsSummary, Overhead, summarize_jobs
from labconsole.measure.statistics.as_json import effect_json, line_json, mean_json
from labconsole.measure.statistics.effects import Effect
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.jobs import JOBS
from labconsole.model.plan.guest_kind import GuestText
from labconsole.report.formatting import format_effect
from labconsole.report.trial_text import describe_left_out
from labconsole.text.cells import UNKNOWN

MAX_COPIES = 20


def format_job_request(record: JobRecord) -> str:
    """The request in one line."""
    request = record.requested
    job = JOBS.get(request.job)
    size = job.words(request.size) if job is not None else f"{request.job} ({request.size})"
    working = {"one": "1 works", "all": "all work", "one-two": "1 and 2 copies"}[request.working]
    guests = f"{request.guests} guest{'s' if request.guests > 1 else ''}"
    return f"{request.platform}: {size}, {guests}, {working}, cpu {request.cpu}"


def format_trial(record: JobRecord) -> list[str]:
    """The trial between its request and its verdict."""
    lines = [f"time by the clock outside: {format_times(record)}"]
    lines += [_copy_line(copy) for copy in record.copies[:MAX_COPIES]]
    if len(record.copies) > MAX_COPIES:
        lines.append(f"and {len(record.copies) - MAX_COPIES} more copies")
    if record.empty is not None:
        lines.append(
            f"an empty job: {record.empty.mean_s * 1e3:.2f} ms, sd {record.empty.sd_s * 1e3:.2f} ms, "
            f"of {len(record.empty.each_s)}; subtracted"
        )
    if record.start_skew_s is not None:
        lines.append(f"the first and the last guest began {record.start_skew_s * 1e3:.1f} ms apart")
    for what, used in (("program", record.program), ("requested by", record.client)):
        if used is not None:
            digests = ", ".join(each[:12] for each in used.sha256) or "not known"
            lines.append(f"{what} {used.name}, SHA-256 {digests}")
    return lines + disk_lines(record.disk)


def disk_lines(seen: DiskRecord | None) -> list[str]:
    """Data that reached the device, compared with the work of the jobs."""
    if seen is None:
        return []

    def form(count: int | None) -> str:
        return "not known" if count is None else format_mib(count)

    read = "may have read from memory" if seen.job_read_bytes is None else f"read {format_mib(seen.job_read_bytes)}"
    return [
        f"disk {seen.device} ({seen.file_system}, {seen.place}) in the window: {form(seen.device_written_bytes)} "
        f"written, {form(seen.device_read_bytes)} read; the jobs wrote {format_mib(seen.job_written_bytes)}, and {read}"
    ]


def _copy_line(copy: CopyRecord) -> str:
    def form(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:.3f} s"

    name = copy.guest + (f", copy {copy.copy_number}" if copy.copy_number > 1 else "")
    ratio = "" if copy.clock_ratio is None else f" (clock ratio {copy.clock_ratio:.3f})"
    around = f"between its marks {form(copy.outside_s)}, by the guest's own clock {form(copy.inside_s)}{ratio}"
    return f"{name:<12} {form(copy.time_s)}; {around}, host {form(copy.host_s)}"


def summary_lines(summary: JobsSummary) -> list[str]:
    """Times, overheads, growth and isolation of all points, with intervals over set-ups."""
    lines = ["seconds by the clock outside, mean over set-ups with its 95 % interval; only valid trials enter"]
    emulated = " (emulated)" if summary.emulated else ""
    lines.append(f"testbed {', '.join(sorted(set(summary.testbeds.values()))) or UNKNOWN}{emulated}")
    if summary.superseded:
        trials = "1 trial does" if summary.superseded == 1 else f"{summary.superseded} trials do"
        lines.append(f"{trials} not enter: newer ones of the same point are stored")
    for each in summary.points:
        if each.key.working == "one-two" and not each.left_out and not each.apart:
            continue
        lines.append(
            f"  {_format_point_key(summary, each.key)}: {_format_point_times(each)}"
            + (f", sd between guests {each.between_guests_sd_s:.3f}" if each.between_guests_sd_s is not None else "")
            + describe_left_out(each.left_out)
        )
    if summary.overheads:
        lines.append(
            "longer than alone on the bare host, paired by block; Holm-adjusted over all of these"
            + ("" if summary.margin_ratio is None else f", equivalent within {summary.margin_ratio:.1%}")
        )
        lines += [
            f"  {_format_point_key(summary, each.key)}: {each.word}, {format_effect(each.effect)}, "
            f"{each.effect.blocks} blocks"
            for each in summary.overheads
        ]
    for heading, curves in (
        ("one guest works while others idle: growth of its time with their number", summary.one_works),
        ("all guests work: time of the slowest, as a line over their number", summary.all_work),
    ):
        if curves:
            lines.append(heading)
            lines += [f"  {_format_point_key(summary, each.key, guests=False)}: {_format_fit(each)}" for each in curves]
    if summary.isolation:
        lines.append(
            "isolation: the first guest with one copy, the second with two, compared with one that works alone"
        )
        for found in summary.isolation:
            ratios = [_format_ratio(each) for each in (found.first, found.second)]
            times = "" if ratios == [UNKNOWN, UNKNOWN] else f"; {' and '.join(ratios)} times"
            lines.append(f"  {_format_point_key(summary, found.key)}: {found.word}{times}")
    return lines


def _format_point_key(summary: JobsSummary, key: PointKey, *, guests: bool = True) -> str:
    """``lxc wait 5, 2 guests, one, cpu same``, and other distinguishing factors."""
    many = f", {key.guests} guest{'s' if key.guests > 1 else ''}, {key.working}" if guests else ""
    memory = [] if memory_of(key) is None else [f"{memory_of(key)} MiB"]
    name = f"{key.platform} {key.job} {key.size}{many}, cpu {key.cpu}"
    return ", ".join([name, *format_cpu_limits(key), *memory, *summary.apart(key)])


def _format_fit(curve: GuestsCurve) -> str:
    fit = curve.fit
    if fit is None:
        return str(curve.word)
    word = "" if curve.word is None else f"{curve.word}; "
    bounds = "" if fit.slope.low is None else f" ({fit.slope.low:+.4f} to {fit.slope.high:+.4f})"
    bent = "; a line does not describe it" if fit.bent else ""
    return (
        f"{word}{fit.slope.mean:+.4f} s per guest{bounds}, from {fit.constant.mean:.3f} s ({fit.blocks} blocks at "
        f"{fit.places} numbers of guests){bent}"
    )


def _format_point_times(found: PointTimes) -> str:
    """The time of the copies; of three that work apart, each guest's times."""
    if not found.apart:
        return _format_mean(found.seconds)
    first, second = (" and ".join(map(_format_mean, of)) for of in found.times_by_guest)
    return f"first guest, one copy {first}; second guest, two {second}"


def _format_mean(found: SetUpMean | None) -> str:
    if found is None:
        return "no valid trial"
    plural = ("s" if found.trials > 1 else ""), ("s" if found.set_ups > 1 else "")
    of = f"{found.trials} trial{plural[0]} in {found.set_ups} set-up{plural[1]}"
    if found.half_width is None:
        return f"{found.mean:.3f} ({of}, too few for an interval)"
    about = "" if found.scope == "set-ups" else ", this set-up only"
    return f"{found.mean:.3f} ± {found.half_width:.3f} ({of}{about})"


def _format_ratio(effect: Effect) -> str:
    if effect.change is None:
        return UNKNOWN
    if effect.ci_low is None or effect.ci_high is None:
        return f"{1 + effect.change:.2f}"
    return f"{1 + effect.change:.2f} ({1 + effect.ci_low:.2f} to {1 + effect.ci_high:.2f})"


def summary_json(found: JobsSummary) -> dict[str, Any]:
    """As ``experiment job --summary --json`` prints it: the keys are a format, whatever the fields are called."""
    return {
        "points": [_point_times(each) for each in found.points],
        "overheads": [_overhead(each) for each in found.overheads],
        "one_works": [_guests_curve(each) for each in found.one_works],
        "all_work": [_guests_curve(each) for each in found.all_work],
        "isolation": [_isolation_found(each) for each in found.isolation],
        "testbeds": dict(found.testbeds),
        "emulated": found.emulated,
        "superseded": found.superseded,
        "margin_ratio": found.margin_ratio,
        "bare_platforms": found.bare_platforms,
    }


def _point_times(found: PointTimes) -> dict[str, Any]:
    return {
        "key": found.key,
        "seconds": mean_json(found.seconds),
        "slowest": mean_json(found.slowest),
        "between_guests_sd_s": found.between_guests_sd_s,
        "jain": found.jain,
        "clock_ratio": found.clock_ratio,
        "left_out": dict(found.left_out),
        "job_ids": found.job_ids,
        "apart": [mean_json(each) for each in found.apart],
    }


def _overhead(found: Overhead) -> dict[str, Any]:
    return {
        "key": found.key,
        "bare": found.bare,
        "effect": effect_json(found.effect),
        "added_s": mean_json(found.added_s),
        "adjusted_p": found.adjusted_p,
        "word": found.word,
    }


def _guests_curve(found: GuestsCurve) -> dict[str, Any]:
    return {
        "key": found.key,
        "points": [_point_times(each) for each in found.points],
        "alone_s": found.alone_s,
        "fit": line_json(found.fit),
        "word": found.word,
    }


def _isolation_found(found: IsolationResult) -> dict[str, Any]:
    return {
        "key": found.key,
        "first": effect_json(found.first),
        "second": effect_json(found.second),
        "word": found.word,
        "held": found.held,
        "left_out": found.left_out,
    }


TEXT = GuestText(
    request=format_job_request,
    result=format_times,
    columns=lambda record: JobPoint.from_request(record.requested).format_factors(),
    lines=format_trial,
    summarize=summarize_jobs,
    summary_lines=summary_lines,
    summary_json=summary_json,
)
