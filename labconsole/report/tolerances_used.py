"""Tolerances used to judge trials, if not the defaults: a reader takes "valid" for the default word. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from labconsole.model.tolerances import Tolerances
from labconsole.report.formatting import format_noun_count

MOST = 1e15
NonDefaultTolerances = tuple[tuple[str, str], ...]
"""Non-default tolerances of one trial: names and values, by name; empty if there are none."""


def find_non_default_tolerances(tolerances: Mapping[str, Any]) -> NonDefaultTolerances:
    """Tolerances that a plan changed; names that this version does not know are left out."""
    usual = Tolerances().model_dump()
    return tuple(
        (name, _format_value(value))
        for name, value in sorted(tolerances.items())
        if name in usual and value != usual[name]
    )


def _format_value(value: Any) -> str:
    usable = type(value) in (int, float) and abs(value) <= MOST
    return f"{value:.10g}" if usable else "no usable number"


def describe_tolerances(trials: Iterable[NonDefaultTolerances]) -> list[str]:
    """A sentence on them; trials with the same tolerances are counted together. ``trials``: all that are reported."""
    usual = Tolerances().model_dump()
    judgements = []
    for alike, many in sorted(Counter(filter(None, trials)).items(), key=lambda each: (-each[1], each[0])):
        values = ", ".join(f"{name} {value} instead of {_format_value(usual[name])}" for name, value in alike)
        judgements.append(f"{format_noun_count(many, 'trial')} by {values}")
    return [f"Judged by other tolerances than the usual: {'; '.join(judgements)}."] if judgements else []
