"""Creates reasons with a verdict's codes; their weights are in model/record/verdict_codes.py."""

from __future__ import annotations

from typing import Any

from labconsole.model.record.run import Figures, Reason
from labconsole.model.record.verdict_codes import WEIGHT


def reason(code: str, detail: str, **evidence: Any) -> Reason:
    """A reason with a known code.

    The sentence should contain all that a reader needs, the evidence all for a program.
    """
    if code not in WEIGHT:
        raise ValueError(f"{code} is not a verdict code")
    return Reason(code=code, detail=detail, evidence=evidence or None)


def each_place(merged: Reason) -> list[Figures]:
    """The evidence of a reason, place by place: a reason for several places has them in ``places``."""
    evidence = merged.evidence or {}
    places = evidence.get("places")
    return list(places) if isinstance(places, list) else [evidence]
