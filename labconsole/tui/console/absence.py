"""The operator's presence, and a digest of events for an operator returning later.

Pure: takes events and wall clock readings. The events kept are bounded, and dropped ones are counted.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

from labconsole.model.record.run import RunRecord

AWAY_AFTER_S = 120.0
"""Time without a key or click after which the operator counts as away."""

MOST_RUNS = 100_000
MOST_EVENTS = 2_000

Kind = Literal["plan", "node", "trouble"]


@dataclass(frozen=True, slots=True)
class NotableEvent:
    """An event worth knowing afterwards. ``severity``: information, warning or error."""

    at_wall_s: float
    kind: Kind
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The facts kept of a run."""

    at_wall_s: float
    status: str
    reason_codes: tuple[str, ...]
    saved: bool


@dataclass(frozen=True, slots=True)
class Absence:
    """The time from the last key to the first one after it. ``until_wall_s`` is None while the operator is away."""

    from_wall_s: float
    until_wall_s: float | None


@dataclass(slots=True, kw_only=True)
class AbsenceDigest:
    """Events in a span of time. ``away``: it began with an absence. ``reasons``: codes, with counts of runs."""

    from_wall_s: float
    until_wall_s: float
    away: bool
    happenings: list[NotableEvent]
    verdicts: Counter[str]
    reasons: Counter[str]
    not_saved: int
    dropped: int

    @property
    def runs(self) -> int:
        """Number of runs that ended."""
        return self.verdicts.total()

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.runs or self.happenings)


@dataclass(slots=True)
class PresenceWatch:
    """Call ``seen`` with every key and click, ``tell`` and ``ended`` with what happens."""

    opened_wall_s: float
    last_seen_wall_s: float = field(init=False)
    absence: Absence | None = None
    happenings: deque[NotableEvent] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    runs: deque[EndedRun] = field(default_factory=lambda: deque(maxlen=MOST_RUNS))
    dropped: int = 0
    _read: bool = False

    def __post_init__(self) -> None:
        self.last_seen_wall_s = self.opened_wall_s

    def seen(self, wall_s: float) -> Absence | None:
        """Note that the operator is here. Returns the absence that this ends, or None. An unread absence goes on."""
        before, self.last_seen_wall_s = self.last_seen_wall_s, wall_s
        if wall_s - before < AWAY_AFTER_S:
            return None
        unread = self.absence is not None and not self._read
        self.absence = Absence(self.absence.from_wall_s if unread and self.absence is not None else before, wall_s)
        self._read = False
        return self.absence

    def read(self) -> None:
        """Mark the last absence as read."""
        self._read = True

    def idle_s(self, wall_s: float) -> float:
        """Time since the operator's last key or click."""
        return max(0.0, wall_s - self.last_seen_wall_s)

    def tell(self, happening: NotableEvent) -> None:
        """Keep an event."""
        self.dropped += len(self.happenings) == MOST_EVENTS
        self.happenings.append(happening)

    def ended(self, wall_s: float, record: RunRecord, *, saved: bool) -> None:
        """Keep a run that ended."""
        self.dropped += len(self.runs) == MOST_RUNS
        codes = tuple(dict.fromkeys(reason.code for reason in record.verdict.reasons))
        self.runs.append(EndedRun(wall_s, record.verdict.status, codes, saved))

    def digest(self, wall_s: float) -> AbsenceDigest:
        """Digest of the last absence and all after it, or since the start of the console if there was no absence."""
        from_s = self.absence.from_wall_s if self.absence is not None else self.opened_wall_s
        runs = [run for run in self.runs if run.at_wall_s >= from_s]
        happenings = [each for each in self.happenings if each.at_wall_s >= from_s]
        return AbsenceDigest(
            from_wall_s=from_s,
            away=self.absence is not None,
            until_wall_s=wall_s,
            happenings=happenings,
            verdicts=Counter(run.status for run in runs),
            reasons=Counter(code for run in runs for code in run.reason_codes),
            not_saved=sum(not run.saved for run in runs),
            dropped=self.dropped,
        )
