"""Everything that happened, for the Log screen: notes of the console and log records of labconsole's own loggers.

Bounded, so that memory stays flat. Kept from the start of the console, because what one wants to read is what happened
before one looked.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

from labconsole.text.sanitize import sanitize_line
from labconsole.tui.console import clock

MOST_ENTRIES = 5000
WORDS = 2000
"""Characters kept of one entry: a node may say more than anybody reads."""

LOGGER = "labconsole"
SEVERITIES = ("debug", "information", "warning", "error")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. ``source`` is "console" for notes, else the logger's name."""

    number: int
    at_wall_s: float
    severity: str
    node: str
    source: str
    text: str
    brief: str = ""
    """The same in fewer words, for where it is cut otherwise."""

    def line(self, stamp: str) -> str:
        """As copied: one line, whatever the text."""
        node = f" {self.node}" if self.node else ""
        return sanitize_line(f"{stamp} {self.severity}{node} [{self.source}] {self.text}")


class EventLog:
    """The newest entries, oldest first. ``total`` counts all there ever were and moves with every change."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=MOST_ENTRIES)
        self.total = 0

    def add(
        self, at_wall_s: float, severity: str, text: str, *, node: str = "", source: str = "console", brief: str = ""
    ) -> None:
        """Something happened."""
        self.total += 1
        known = severity if severity in SEVERITIES else "information"
        self.entries.append(Entry(self.total, at_wall_s, known, node[:100], source, text[:WORDS], brief[:WORDS]))


class JournalHandler(logging.Handler):
    """Brings log records to a journal. Threads may log; appending to a deque is safe from any of them."""

    def __init__(self, journal: EventLog) -> None:
        super().__init__()
        self._journal = journal
        self._level = logging.NOTSET

    def attach(self) -> None:
        """Begin: from debug on, because what one needs afterwards is what nobody asked for before."""
        logger = logging.getLogger(LOGGER)
        self._level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)

    def detach(self) -> None:
        """End, and leave the loggers as they were found."""
        logger = logging.getLogger(LOGGER)
        logger.removeHandler(self)
        logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        """One record; an exception's last line is part of it."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError) as exc:
            text = f"{record.msg} ({exc})"
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text += f" ({type(error).__name__}: {error})"
        severity = (
            "error"
            if record.levelno >= logging.ERROR
            else "warning"
            if record.levelno >= logging.WARNING
            else "information"
            if record.levelno >= logging.INFO
            else "debug"
        )
        source = record.name.removeprefix("labconsole.")
        self._journal.add(clock.wall_s(), severity, " ".join(text.split()), source=source)
