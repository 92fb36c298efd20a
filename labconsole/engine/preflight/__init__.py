"""``labconsole check``: is this testbed fit to measure on? Every check with evidence and a hint (docs/check.md)."""

from labconsole.engine.preflight.result import CheckResult, CheckStatus, OnResult
from labconsole.engine.preflight.runner import catalogue, preflight

__all__ = ["CheckResult", "CheckStatus", "OnResult", "catalogue", "preflight"]
