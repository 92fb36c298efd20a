"""Making a reason with one of the verdict's codes; what they weigh stands in model/record/verdict_codes.py."""

from __future__ import annotations

from typing import Any

from labconsole.model.record.run import Figures, Reason
from labconsole.model.record.verdict_codes import WEIGHT


def reason(code: str, detail: str, **evidence: Any) -> Reason:
    """A reason with a known code; the sentence should say all that a person needs, the evidence what a program does."""
    if code not in WEIGHT:
        raise ValueError(f"{code} is not a verdict code")
    return Reason(code=code, detail=detail, evidence=evidence or None)


def each_place(told: Reason) -> list[Figures]:
    """The evidence of a reason, place by place: one that was seen at several places has them in ``places``."""
    evidence = told.evidence or {}
    places = evidence.get("places")
    return list(places) if isinstance(places, list) else [evidence]
