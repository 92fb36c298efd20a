"""Naps as steps of a plan."""

from __future__ import annotations

from labconsole.engine.crew_experiment import CrewExperiment

from .plan import NapFactors, NapPoint
from .record import RECORD, NapRecord


class Naps(CrewExperiment[NapFactors, NapPoint, NapRecord]):
    """The kind of experiment for a plan's key ``nap``."""

    kind = RECORD


EXPERIMENT = Naps
