"""Result of a check: a status, its evidence with numbers and units, and a hint that says what to do.

``id`` and ``node`` together permanently identify a result; scripts and screens may rely on them (docs/check.md lists
them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Values = dict[str, Any]
"""A finding's figures for programs, by name; each check has its own."""


class CheckStatus(StrEnum):
    """Status of a check. ``skipped`` means that it could not run; the evidence says why."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check on one node, or on the testbed as a whole (``node`` None).

    ``fixable``: ``fix=True`` would correct it. ``fixed``: it was corrected; the evidence says what changed and for how
    long. ``values`` contains the figures of the evidence for programs, with units in their names.
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
        """The result as plain data."""
        return {
            "id": self.id,
            "node": self.node,
            "title": self.title,
            "status": str(self.status),
            "evidence": self.evidence,
            "hint": self.hint,
            "fixable": self.fixable,
            "fixed": self.fixed,
            "took_s": self.took_s,
            "values": self.values,
        }


OnResult = Callable[[CheckResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """Finding of a check's code; the runner adds the check's id, the node and the time taken."""

    status: CheckStatus
    evidence: str
    hint: str | None = None
    fixable: bool = False
    fixed: bool = False
    values: Values = field(default_factory=dict)


def passed(evidence: str, **values: Any) -> CheckFinding:
    """A finding without problems."""
    return CheckFinding(status=CheckStatus.PASS, evidence=evidence, values=values)


def warned(evidence: str, hint: str, *, fixable: bool = False, **values: Any) -> CheckFinding:
    """A finding that allows measuring, but may affect the numbers."""
    return CheckFinding(status=CheckStatus.WARN, evidence=evidence, hint=hint, fixable=fixable, values=values)


def failed(evidence: str, hint: str, *, fixable: bool = False, **values: Any) -> CheckFinding:
    """A finding that makes measuring fail or its numbers indefensible."""
    return CheckFinding(status=CheckStatus.FAIL, evidence=evidence, hint=hint, fixable=fixable, values=values)


def skipped(reason: str) -> CheckFinding:
    """A finding for a check that could not run."""
    return CheckFinding(status=CheckStatus.SKIPPED, evidence=reason)


def repaired(evidence: str, **values: Any) -> CheckFinding:
    """A problem that was corrected; the evidence says what was done and for how long."""
    return CheckFinding(status=CheckStatus.PASS, evidence=evidence, fixed=True, values=values)
