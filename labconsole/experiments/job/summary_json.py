"""Job trials summarized as plain data: the keys are a format, whatever the fields are called."""

from __future__ import annotations

from typing import Any

from labconsole.experiments.job.points import PointTimes
from labconsole.experiments.job.summary import GuestsCurve, IsolationResult, JobsSummary, Overhead
from labconsole.measure.statistics.as_json import effect_json, line_json, mean_json


def summary_json(found: JobsSummary) -> dict[str, Any]:
    """As ``experiment job --summary --json`` prints it."""
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
