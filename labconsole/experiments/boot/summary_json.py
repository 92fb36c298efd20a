"""Boot trials summarized as plain data: the keys are a format, whatever the fields are called."""

from __future__ import annotations

from typing import Any

from labconsole.experiments.boot.summary import BootLines, BootPointResult, BootsSummary, StartComparison
from labconsole.measure.statistics.as_json import effect_json, line_json, mean_json


def summary_json(found: BootsSummary) -> dict[str, Any]:
    """As ``experiment boot --summary --json`` prints it."""
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
