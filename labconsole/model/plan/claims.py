"""The tables of a report that may conclude something, and how many claims a plan makes in them: the one list."""

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
"""By the name that a plan's key ``claims`` gives. Every claim of a report is one of a family (Holm 1979): fewer tables
leave fewer claims, and each of them weighs more."""


def most_claims(requests: Iterable[DesignPoint], tables: Collection[str] | None = None) -> int:
    """How many claims a report of these points makes at most; ``tables``: those that may conclude, None: all."""
    asked = settings(list(dict.fromkeys(requests)))
    found = dict.fromkeys(CLAIMS, 0)
    alone: dict[DesignPoint, list[str]] = {}
    for held, points in asked.items():
        beside = {
            name for name in ("none", "idle") if _with_background(held, name) in asked and name != held.background
        }
        if held.background == "none":
            alone.setdefault(_with_platform(held, ""), []).append(held.platform)
        elif held.background in FORWARDING_SHARES:
            found["figure-5-numbers"] += bool(beside)
            found["table-2" if held.background == "forwarding-50" else "table-3"] += 1
        else:
            found["table-1"] += bool(beside)
        found["collapse"] += len(points) > 1
        found["streams"] += held.sources if held.sources > 2 else held.sources - 1
    found["ranking"] = sum(len(list(combinations(platforms, 2))) for platforms in alone.values())
    return sum(count for name, count in found.items() if tables is None or name in tables)


def _with_background(held: DesignPoint, background: str) -> DesignPoint:
    return replace(held, background=background)


def _with_platform(held: DesignPoint, platform: str) -> DesignPoint:
    return replace(held, platform=platform)
