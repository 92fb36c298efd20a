"""The tables of a report that may conclude something: what a plan's key ``claims`` may name. The one list of them."""

from __future__ import annotations

CLAIMS = ("figure-5-numbers", "table-1", "table-2", "table-3", "ranking", "collapse", "streams")
"""Every claim of a report is one of a family (Holm 1979): fewer tables leave fewer claims, and each weighs more."""
