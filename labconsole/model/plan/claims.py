"""The tables of a report that may conclude something, and a plan's number of claims in each. The only list."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import combinations

from labconsole.model.design_point import FORWARDING_SHARES, DesignPoint
from labconsole.model.plan.blocks import settings

CLAIMS: dict[str, str] = {
    "table-1": "background CPU load against none",
    "figure-5-numbers": "a forwarding second guest against none",
    "ranking": "pairs of platforms without a second guest",
    "collapse": "less forwarded at the highest load than at the maximum",
    "table-2": "second guests at 50 % that lose what they are offered",
    "table-3": "second guests at 95 % that lose what they are offered",
    "streams": "streams of one trial that fare unequally",
}
"""Descriptions by the name in a plan's key ``claims``. All claims of a report form one family (Holm 1979): fewer tables
leave fewer claims, and each of them weighs more.
"""


def most_claims(requests: Iterable[DesignPoint], tables: Collection[str] | None = None) -> int:
    """Maximum number of claims in a report of these points; ``tables``: those that may conclude, or None for all."""
    by_setting = settings(list(dict.fromkeys(requests)))
    found = dict.fromkeys(CLAIMS, 0)
    alone: dict[DesignPoint, list[str]] = {}
    for setting, points in by_setting.items():
        alternatives = {
            name
            for name in ("none", "idle")
            if _with_background(setting, name) in by_setting and name != setting.background
        }
        if setting.background == "none":
            alone.setdefault(_with_platform(setting, ""), []).append(setting.platform)
        elif setting.background in FORWARDING_SHARES:
            found["figure-5-numbers"] += bool(alternatives)
            found["table-2" if setting.background == "forwarding-50" else "table-3"] += 1
        else:
            found["table-1"] += bool(alternatives)
        found["collapse"] += len(points) > 1
        found["streams"] += setting.sources if setting.sources > 2 else setting.sources - 1
    found["ranking"] = sum(len(list(combinations(platforms, 2))) for platforms in alone.values())
    return sum(count for name, count in found.items() if tables is None or name in tables)


def _with_background(setting: DesignPoint, background: str) -> DesignPoint:
    return replace(setting, background=background)


def _with_platform(setting: DesignPoint, platform: str) -> DesignPoint:
    return replace(setting, platform=platform)
