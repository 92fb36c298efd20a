"""Points of curves as text for other programs: names with units, values in base units, the filter of their runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from labconsole.measure.curves import X_FACTORS, Curve, CurvePoint, CurveSpec
from labconsole.model.design_point import format_target_per_source
from labconsole.text.sanitize import format_tsv_line
from labconsole.units import format_target


def format_filter(point: CurvePoint) -> str:
    """Format the filter that selects the runs of a point."""
    d = point.design
    quoted = f'"{d.background}"' if " " in d.background else d.background
    return (
        f"verdict=valid,suspect platform={d.platform} size={d.frame.bytes} sources={d.sources} "
        f"target={format_target(d.target_bps)} background={quoted} generator={d.conditions.generator} "
        f"testbed={d.conditions.testbed}"
    )


def values(curve: Curve, point: CurvePoint, spec: CurveSpec) -> dict[str, Any]:
    """One point by field, with the unit in each name. Unknown values are None."""
    unit = "pps" if spec.unit == "pps" else "bps"
    x = {"sources": "sources", "size": "frame_size_bytes"}.get(spec.effective_x, f"{spec.effective_x}_{unit}")
    y = "loss_ratio" if spec.y == "loss" else f"{spec.y}_{unit}"
    d, summary = point.design, point.y
    return {
        "curve": curve.label,
        f"x_{x}" if spec.effective_x in X_FACTORS else x: point.x,
        "trials": summary.trials,
        "set_ups": summary.set_ups,
        f"mean_{y}": summary.mean,
        f"ci95_low_{y}": summary.ci_low,
        f"ci95_high_{y}": summary.ci_high,
        "interval_of": summary.scope,
        f"minimum_{y}": summary.minimum,
        f"maximum_{y}": summary.maximum,
        "platform": d.platform,
        "size_bytes": d.frame.bytes,
        "sources": d.sources,
        "target": format_target_per_source(d.target_bps, d.frame),
        "background": d.background,
        "runs_filter": format_filter(point),
    }


def rows(points: Iterable[tuple[Curve, CurvePoint]], spec: CurveSpec) -> list[str]:
    """A line of names, then one per point, with tabs between."""
    records = [values(curve, point, spec) for curve, point in points]
    return [format_tsv_line(records[0]), *(format_tsv_line(each.values()) for each in records)] if records else []
