"""Plans of guests, without a file."""

from __future__ import annotations

from typing import Any

from labconsole.model.plan.crews import CrewTrial, PlannedCrews
from labconsole.model.strict_model import StrictModel


def hash_of(planned: type[PlannedCrews[Any, Any]], factors: StrictModel, trial: CrewTrial[Any], salt: str = "") -> str:
    """The hash of this trial in a plan of these factors."""
    return planned(factors, (), 1, 1, seed=0, salt=salt).hash_of(trial)
