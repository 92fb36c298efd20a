"""The engine's events for listeners. Events report what happens; samples are in telemetry.py.

The module knows nothing of screens: the console and the headless commands get the same objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from labconsole.model.design_point import DesignPoint
from labconsole.model.record.run import PlanRef, RunRecord


class NodeState(StrEnum):
    """Connection state of one node."""

    IDLE = "not connected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"
    FAILED = "failed"


class Phase(StrEnum):
    """The phases of a trial, in order (docs/method.md, "The course of a trial")."""

    PREPARING = "preparing"
    LEARNING = "learning"
    ARMING = "arming"
    SENDING = "sending"
    DRAINING = "draining"
    COUNTING = "counting"
    SAVED = "saved"
    SETTLING = "settling"
    MEASURING = "measuring"
    """Guests run the measured work: a trial of an experiment with guests has no further phases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged:
    """A node was connected, was lost, or could not be reached."""

    node: str
    state: NodeState
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A trial begins: ``repetition`` of ``repetitions``, both counted from 1."""

    run_id: str
    request: DesignPoint
    repetition: int
    repetitions: int
    plan: PlanRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestTrialStarted:
    """A trial of an experiment with guests begins. ``words`` describe it; ``plan`` is the plan's name or None.

    ``request`` is the testbed that it needs, as a design point without a load.
    """

    run_id: str
    request: DesignPoint
    words: str
    plan: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseChanged:
    """A trial enters a phase that lasts about ``expected_s`` seconds, or None if unknown."""

    run_id: str
    phase: Phase
    expected_s: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    """A trial ended; the record says how. ``saved`` is False if the store refused it.

    ``kept`` is False for trials that are not to be saved: warm-ups and checks.
    """

    record: RunRecord
    saved: bool
    kept: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message for the operator. ``severity``: information, warning or error.

    ``is_raised``: the same sentence is raised as an error when the batch ends.
    """

    severity: str
    message: str
    node: str | None = None
    is_raised: bool = False


Event = NodeChanged | TrialStarted | GuestTrialStarted | PhaseChanged | TrialFinished | Notice
Listener = Callable[[Event], None]
