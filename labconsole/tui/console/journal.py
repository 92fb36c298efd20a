"""The journal for the Log screen: the console's notes and log records of labconsole's own loggers.

It is bounded, so that memory stays flat. It starts with the console, because an operator looks at it only after
something happened.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

from labconsole.text.sanitize import sanitize_line
from labconsole.tui.console import clock

MOST_ENTRIES = 5000
MAX_CHARACTERS = 2000
"""Maximum characters kept of one entry: a node may send more than an operator reads."""

LOGGER = "labconsole"
SEVERITIES = ("debug", "information", "warning", "error")


@dataclass(frozen=True, slots=True)
class Entry:
    """A journal entry. ``source`` is "console" for notes, or the logger's name."""

    number: int
    at_wall_s: float
    severity: str
    node: str
    source: str
    text: str
    brief: str = ""
    """A shorter text, for places where the full one would be cut."""

    def line(self, stamp: str) -> str:
        """The entry as copied: one line, whatever the text."""
        node = f" {self.node}" if self.node else ""
        return sanitize_line(f"{stamp} {self.severity}{node} [{self.source}] {self.text}")


class EventLog:
    """The newest entries, oldest first. ``total`` counts all entries ever added and changes with each."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=MOST_ENTRIES)
        self.total = 0

    def add(
        self, at_wall_s: float, severity: str, text: str, *, node: str = "", source: str = "console", brief: str = ""
    ) -> None:
        """Add an entry."""
        self.total += 1
        known = severity if severity in SEVERITIES else "information"
        self.entries.append(
            Entry(self.total, at_wall_s, known, node[:100], source, text[:MAX_CHARACTERS], brief[:MAX_CHARACTERS])
        )


class JournalHandler(logging.Handler):
    """Adds log records to a journal. Threads may log: appending to a deque is thread-safe."""

    def __init__(self, journal: EventLog) -> None:
        super().__init__()
        self._journal = journal
        self._level = logging.NOTSET

    def attach(self) -> None:
        """Start logging, from level debug on: a fault is often diagnosed from records that seemed useless before it."""
        logger = logging.getLogger(LOGGER)
        self._level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)

    def detach(self) -> None:
        """Stop logging, and restore the loggers."""
        logger = logging.getLogger(LOGGER)
        logger.removeHandler(self)
        logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        """Add one record. An exception's last line is part of it."""
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
