"""The request of one trial, beyond the testbed's settings for all trials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from labconsole.contracts.ports import StoredMaximum
from labconsole.engine.trial.setup import TrialSettings
from labconsole.model.design_point import DesignPoint
from labconsole.model.record.run import PlanRef, Role, RunRecord
from labconsole.model.tolerances import Tolerances


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """One trial. If ``settings``, ``tolerances`` or ``settle_s`` is None, the testbed's value applies.

    ``repetition`` of ``repetitions`` is only for listeners. ``keep``: store the record. ``reference``: the maximum that
    defines a forwarding second guest's load, or None for the newest stored one.
    """

    request: DesignPoint
    plan: PlanRef | None = None
    repetition: int = 1
    repetitions: int = 1
    settings: TrialSettings | None = None
    tolerances: Tolerances | None = None
    settle_s: float | None = None
    keep: bool = True
    role: Role = "measured"
    reference: StoredMaximum | None = None
    anew: bool = False
    """Undo the current set-up first, so that this trial begins its own."""


Take = Callable[[TrialRequest], Awaitable[RunRecord]]
"""Takes one trial; provided by a session that has leased the testbed."""
