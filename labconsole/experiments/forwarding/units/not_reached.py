"""Maxima that are limited by the load and not by the platform."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.report.formatting import format_full_setting, format_with_interval
from labconsole.report.material import Material
from labconsole.report.points import MaximumReading


def make(material: Material) -> Findings:
    """Return findings by platform: almost nothing is lost at the highest load."""
    found = tuple(_sentences(material.evaluation.maxima))
    return Findings(kind="maximum_not_reached", heading="Maxima that the load set, not the platform", found=found)


def _sentences(maxima: Iterable[MaximumReading]) -> Iterator[Finding]:
    by_platform: dict[str, list[str]] = {}
    ids: dict[str, list[str]] = {}
    for reading in maxima:
        if reading.at_least:
            place = format_full_setting(reading.setting).removeprefix(f"{reading.setting.platform}, ")
            text = f"{place} (at least {format_with_interval(reading.rate)} Mbit/s)"
            by_platform.setdefault(reading.setting.platform, []).append(text)
            ids.setdefault(reading.setting.platform, []).extend(reading.point.run_ids)
    for platform, texts in by_platform.items():
        yield Finding(
            sentence=(
                f"{platform}: less than 0.1 % is lost or late at the highest load, so the maximum lies there or "
                f"beyond, and nothing is concluded from it: {'; '.join(texts)}."
            ),
            run_ids=tuple(ids[platform]),
        )


UNITS = (ReportUnit(name="maximum_not_reached", place=70, make=make),)
