"""What is asked of one trial, beyond what the testbed says of all."""

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
    """One trial. ``settings``, ``tolerances`` and ``settle_s``: None is the testbed's.

    ``repetition`` of ``repetitions`` is told to listeners only; ``keep``: the record is stored; ``reference``: the
    maximum that a forwarding second guest's load is a share of, None: the newest stored one; ``anew``: what stands is
    undone first, so that this trial begins a set-up of its own.
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


Take = Callable[[TrialRequest], Awaitable[RunRecord]]
"""What a session that holds the testbed gives: it takes one trial."""
