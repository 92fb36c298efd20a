"""Rows of one's own result and a paper's statement on the same, and the columns of the statement. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from labconsole.report.reference import format_printed_value
from labconsole.report.table_builder import TableColumn, column, join_columns

Own = TypeVar("Own")


class PaperRow(NamedTuple, Generic[Own]):
    """``own``: the own result. ``paper``: a row of a paper's table of sentences (``shape``), or of printed numbers."""

    own: Own
    paper: Mapping[str, str]


def paper_columns(heading: str = "paper's platform") -> TableColumn[PaperRow[Own]]:
    """The paper's statement, last in the table: the platform, what it says, and where. ``heading``: of the platform."""
    columns: list[TableColumn[PaperRow[Own]]] = [
        column("paper_platform", heading, lambda row: row.paper["platform"]),
        column("paper", "the paper", lambda row: row.paper.get("shape") or format_printed_value(row.paper)),
        column("where", "where", lambda row: row.paper["where"]),
    ]
    return join_columns(columns)
