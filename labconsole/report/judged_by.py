"""By which tolerances trials were judged, where not by the usual: a reader takes "valid" for the usual word. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from labconsole.model.tolerances import Tolerances
from labconsole.report.words import count

Unusual = tuple[str, float]
"""Name and value of a tolerance."""


def unusual(tolerances: Mapping[str, float]) -> list[Unusual]:
    """Those that a plan set otherwise; names that this version does not know are left out."""
    usual = Tolerances().model_dump()
    return [(name, value) for name, value in tolerances.items() if name in usual and value != usual[name]]


def judged_by(unusual_of: Iterable[Unusual]) -> list[str]:
    """A sentence. ``unusual_of``: of every trial that is reported what was unusual."""
    usual = Tolerances().model_dump()
    alike: dict[int, list[str]] = {}
    for (name, value), trials in sorted(Counter(unusual_of).items()):
        alike.setdefault(trials, []).append(f"{name} {value:g} instead of {usual[name]:g}")
    words = [f"{count(trials, 'trial')} by {', '.join(each)}" for trials, each in sorted(alike.items(), reverse=True)]
    return [f"Judged by other tolerances than the usual: {'; '.join(words)}."] if words else []
