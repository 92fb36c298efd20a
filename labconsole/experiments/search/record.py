"""The stored kind of load searches, which reports know too."""

from __future__ import annotations

from labconsole.model.record.search import SEARCH as RECORD

__all__ = ["RECORD"]
