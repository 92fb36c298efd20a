"""What a check says: a status, the evidence for it with numbers and units, and a hint that says what to do.

``id`` and ``node`` together name a result for good; scripts and screens may rely on them (docs/check.md lists them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

Values = dict[str, Any]
"""Figures of a finding for programs, by name: each check has its own."""


class CheckStatus(StrEnum):
    """How a check came out. ``skipped`` means that it could not be asked, and the evidence says why."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check on one node, or on the testbed as a whole (``node`` None).

    ``fixable``: ``fix=True`` would put it right; ``fixed``: it did, and the evidence says what was changed and for how
    long. ``values`` holds the figures of the evidence for machines, with their units in their names.
    """

    id: str
    node: str | None
    title: str
    status: CheckStatus
    evidence: str
    hint: str | None = None
    fixable: bool = False
    fixed: bool = False
    took_s: float = 0.0
    values: Values = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "status": str(self.status)}


OnResult = Callable[[CheckResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """What a check's own code says; the runner adds which check it was, on which node, and how long it took."""

    status: CheckStatus
    evidence: str
    hint: str | None = None
    fixable: bool = False
    fixed: bool = False
    values: Values = field(default_factory=dict)


def passed(evidence: str, **values: Any) -> CheckFinding:
    """Nothing to complain about."""
    return CheckFinding(status=CheckStatus.PASS, evidence=evidence, values=values)


def warned(evidence: str, hint: str, *, fixable: bool = False, **values: Any) -> CheckFinding:
    """One can measure, and the numbers may suffer from it."""
    return CheckFinding(status=CheckStatus.WARN, evidence=evidence, hint=hint, fixable=fixable, values=values)


def failed(evidence: str, hint: str, *, fixable: bool = False, **values: Any) -> CheckFinding:
    """Measuring like this fails, or gives numbers that nobody can stand behind."""
    return CheckFinding(status=CheckStatus.FAIL, evidence=evidence, hint=hint, fixable=fixable, values=values)


def skipped(reason: str) -> CheckFinding:
    """It could not be asked."""
    return CheckFinding(status=CheckStatus.SKIPPED, evidence=reason)


def repaired(evidence: str, **values: Any) -> CheckFinding:
    """It was wrong, and has been put right; the evidence says what was done and for how long it holds."""
    return CheckFinding(status=CheckStatus.PASS, evidence=evidence, fixed=True, values=values)
