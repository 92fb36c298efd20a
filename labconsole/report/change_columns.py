"""Columns that comparisons of forwarding rates and of other quantities share. Pure."""

from __future__ import annotations

from typing import Final

from labconsole.measure.statistics.effects import digits_to_tell
from labconsole.report.changes import Change
from labconsole.report.compared_effect import format_replicates
from labconsole.report.formatting import UNKNOWN, format_bounds, format_number, format_p_value
from labconsole.report.quantity_changes import QuantityChange
from labconsole.report.table_builder import TableColumn, csv_column, csv_columns, printed_column

AnyChange = Change | QuantityChange


def _bounds(change: AnyChange) -> tuple[float | None, float | None]:
    effect = change.effect
    return (None, None) if effect is None else (effect.ci_low, effect.ci_high)


def _format_percent(ratio: float | None) -> str:
    """A ratio in percent, with enough digits to tell it from zero."""
    return UNKNOWN if ratio is None else format_number(100 * ratio, digits_to_tell(100 * ratio))


EFFECT_COLUMNS: Final[list[TableColumn[AnyChange]]] = [
    csv_column("change_ratio", lambda change: change.change_ratio),
    csv_columns(("change_ci_low_ratio", "change_ci_high_ratio"), _bounds),
    csv_column("at_least", lambda change: change.bound),
    csv_column("over", lambda change: change.scope),
    csv_column("p", lambda change: None if change.effect is None else change.effect.p),
    csv_column("adjusted_p", lambda change: change.adjusted_p),
    csv_column("equivalence_p", lambda change: change.equivalence_adjusted_p),
    csv_column("smallest_effect_ratio", lambda change: change.smallest_ratio),
    csv_column("word", lambda change: change.word),
]
"""The effect in the CSV, but for the reason of a row without one."""

PRINTED_CHANGE: Final[list[TableColumn[AnyChange]]] = [
    printed_column("change, %", lambda change: _format_percent(change.change_ratio)),
    printed_column("95 % interval, %", lambda change: format_bounds(*_bounds(change))),
]

PRINTED_SUPPORT: Final[list[TableColumn[AnyChange]]] = [
    printed_column("would have shown, %", lambda change: _format_percent(change.smallest_ratio)),
    printed_column("p, Holm", lambda change: format_p_value(change.adjusted_p)),
    printed_column("over", lambda change: format_replicates(change, change.sides)),
]
"""What supports a printed change, last in its row."""
