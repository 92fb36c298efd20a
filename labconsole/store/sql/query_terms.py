"""Filters of runs as SQL conditions: typed queries, and those on factors."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Float,
    Select,
    Text,
    and_,
    case,
    false,
    func,
    literal,
    not_,
    or_,
    true,
)
from sqlalchemy import cast as as_type
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from labconsole.model.design_point import FCS_BYTES, INCLUDES_FCS, PREAMBLE_AND_GAP_BYTES
from labconsole.model.query import FIELDS, Query, Term
from labconsole.model.record.summary import RunFilter
from labconsole.store.records import utc_text
from labconsole.store.sql.schema import notes, runs

# -- typed queries -----------------------------------------------------------------------------------------------------
# A typed filter as SQL conditions that hold for exactly the runs that ``Query.select`` would choose.
#
# Letters are folded as in Python, which no database does by itself. Text of ASCII alone is folded by ``lower``; other
# text by a function of the connection in SQLite, and by the table of foldings itself in PostgreSQL.

Condition = ColumnElement[bool]

_COLUMNS: dict[str, ColumnElement[Any]] = {
    "platform": runs.c.platform,
    "size": runs.c.frame_size_bytes,
    "sources": runs.c.sources,
    "target": runs.c.target_bps,
    "background": runs.c.background,
    "duration": runs.c.duration_s,
    "verdict": runs.c.verdict,
    "reason": runs.c.reason_codes,
    "offered": runs.c.offered_pps,
    "measured": runs.c.measured_pps,
    "offered_bps": runs.c.offered_bps,
    "measured_bps": runs.c.measured_bps,
    "loss": runs.c.loss_ratio,
    "lost": runs.c.loss_packets,
    "note": notes.c.text,
    "started": runs.c.started_at,
    "generator": runs.c.generator,
    "testbed": runs.c.testbed,
    "fingerprint": runs.c.testbed_fingerprint,
    "emulated": runs.c.emulated,
    "plan": runs.c.plan_name,
    "point": runs.c.plan_point,
    "repetition": runs.c.repetition,
    "run": runs.c.run_id,
    "block": runs.c.block,
    "set_up": runs.c.set_up,
    "attempt": runs.c.attempt,
    "role": runs.c.role,
    "method": runs.c.method,
    "format": runs.c.format,
    "kernel": runs.c.uut_kernel,
    "hypervisor": runs.c.hypervisor,
    "forwarding": runs.c.forwarding_pps,
    "late": runs.c.late_packets,
}
"""The column of each of model.query.FIELDS."""

_OF_TARGETS = set("0123456789.kmgtbiaxns")
"""All characters that occur in targets."""

_WIRE_BYTES = runs.c.frame_size_bytes + case(
    (runs.c[INCLUDES_FCS], PREAMBLE_AND_GAP_BYTES), else_=PREAMBLE_AND_GAP_BYTES + FCS_BYTES
)
_SHORTEST_DELAY: Condition = and_(
    runs.c.target_bps.is_not(None),
    runs.c.frame_size_bytes.is_not(None),
    runs.c.target_bps == literal(8 * 10**9, BigInteger) * _WIRE_BYTES,
)
"""Whether a delay of 1 ns was requested: see FrameSize.shortest_delay_bps."""

_COMPARED: dict[str, Callable[[Any, Any], Condition]] = {
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
    "<=": lambda one, other: one <= other,
    ">=": lambda one, other: one >= other,
}


def build_condition(query: Query) -> Condition:
    """The condition for all terms, on runs left joined with notes."""
    return and_(true(), *(_holds(term) for term in query.terms))


def asks_for_notes(query: Query) -> bool:
    """Whether the notes have to be joined."""
    return any(term.field in ("", "note") for term in query.terms)


def _holds(term: Term) -> Condition:
    known = _known(term)
    return not_(known) if term.negated else known


def _known(term: Term) -> Condition:
    """The condition of a term without its negation. It is never NULL, because negating NULL would lose runs."""
    if term.sign == "~" and not _storable(term.values[0]):
        return false()
    if not term.field:
        return _anywhere(term.values[0])
    kind, column = FIELDS[term.field].kind, _COLUMNS[term.field]
    if term.sign == "":
        if kind == "target":
            return false()  # "max" is a value
        return or_(column.is_(None), column == "") if kind == "text" else column.is_(None)
    if term.sign == "~":
        return _contains(_cast_to_text(term.field, kind, column), term.values[0])
    if term.sign == "=":
        return or_(false(), *(_equals(term.field, kind, column, value) for value in term.values))
    if kind == "time":
        limit = term.values[0]
        return _COMPARED[term.sign](func.substr(column, 1, len(limit)), literal(limit, Text))
    known = and_(column.is_not(None), _COMPARED[term.sign](column, _number(term.values[0])))
    return and_(known, not_(_SHORTEST_DELAY)) if kind == "target" else known


def _equals(name: str, kind: str, column: ColumnElement[Any], value: Any) -> Condition:
    if kind == "time":
        return func.substr(column, 1, len(value)) == literal(value, Text)
    if kind == "target" and value == "max":
        return column.is_(None)
    if kind == "target":
        rate = and_(column.is_not(None), not_(_SHORTEST_DELAY))
        return _SHORTEST_DELAY if value == "1ns" else and_(rate, column == _number(value))
    if kind == "bool":
        return column.is_(value)
    if kind != "text":
        return and_(column.is_not(None), column == _number(value))
    if not _storable(value):
        return false()
    if name == "reason":  # several in one run, separated by commas and case-sensitive
        return false() if "," in value else _has(literal(",") + column + literal(","), f",{value},")
    return and_(column.is_not(None), casefold(column) == literal(value, Text))


def _storable(text: str) -> bool:
    """Whether a database could store this text; if not, no run contains it."""
    return "\0" not in text and text.encode(errors="ignore").decode() == text


def _number(value: Any) -> ColumnElement[Any]:
    """A literal with a decimal point: otherwise the comparison would truncate it to the column's type."""
    return literal(value, BigInteger) if isinstance(value, int) else literal(value, Float)


def _has(text: ColumnElement[Any], sought: str) -> Condition:
    return find_in(text, literal(sought, Text)) > 0


def _contains(text: ColumnElement[Any], sought: str) -> Condition:
    """Whether a text, case-folded, contains an already case-folded one; false if there is no text."""
    pattern = "".join(f"\\{letter}" if letter in "\\%_" else letter for letter in sought)
    return and_(text.is_not(None), contains_folded(text, literal(sought, Text), literal(f"%{pattern}%", Text)))


def _anywhere(sought: str) -> Condition:
    """Whether a plain word is in the text that model.query composes of a run."""
    parts = [
        runs.c.run_id,
        runs.c.platform,
        runs.c.verdict,
        func.replace(runs.c.reason_codes, ",", " "),
        runs.c.background,
        runs.c.generator,
        runs.c.testbed,
        func.coalesce(runs.c.plan_name, ""),
        func.coalesce(notes.c.text, ""),
        _format_target(runs.c.target_bps),
    ]
    if " " not in sought:  # it must be within one of them, which is quicker to check
        plain = (runs.c.run_id, runs.c.platform, runs.c.verdict, runs.c.background, runs.c.generator, runs.c.testbed)
        texts: list[ColumnElement[Any]] = [*plain, runs.c.plan_name, notes.c.text]
        if "," not in sought:
            texts.append(runs.c.reason_codes)
        found = [_contains(text, sought) for text in texts]
        if set(sought) <= _OF_TARGETS:
            found.append(_contains(parts[-1], sought))
        return or_(*found)
    text: ColumnElement[Any] = parts[0]
    for word in parts[1:]:
        text = text.op("||")(literal(" ")).op("||")(word)
    return _contains(text, sought)


def _format_target(target: ColumnElement[Any]) -> ColumnElement[Any]:
    """The text that units.format_target returns."""

    def scaled(scale: int, suffix: str) -> ColumnElement[Any]:
        whole, rest = as_type(target // literal(scale, BigInteger), Text), target % literal(scale, BigInteger)
        digits = func.substr(as_type(literal(scale, BigInteger) + rest, Text), 2)
        fraction = case((rest == 0, ""), else_=literal(".").op("||")(func.rtrim(digits, "0")))
        return whole.op("||")(fraction).op("||")(f"{suffix}bit")

    units = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
    choices = [(target >= literal(scale, BigInteger), scaled(scale, suffix)) for scale, suffix in units]
    named = (target.is_(None), "max"), (_SHORTEST_DELAY, "1ns")
    return case(*named, *choices, else_=as_type(target, Text).op("||")("bit"))


def _cast_to_text(name: str, kind: str, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A value as str() writes it."""
    if kind == "target":
        return case((column.is_(None), "max"), (_SHORTEST_DELAY, "1ns"), else_=as_type(column, Text))
    if kind == "bool":
        return case((column.is_(True), "True"), else_="False")
    if name == "reason":
        return func.replace(column, ",", " ")
    if kind in ("text", "time"):
        return column
    return number_text(column) if isinstance(column.type, Float) else as_type(column, Text)


class casefold(FunctionElement[str]):
    """str.casefold of a text."""

    type = Text()
    inherit_cache = True


class contains_folded(FunctionElement[bool]):
    """Whether the first text, case-folded, contains the second; the third is that as a pattern of LIKE."""

    type = Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> Any:
        """Unchanged: SQLAlchemy would compare it with 1 in SQLite, which then evaluates both halves of the OR."""
        return self


class number_text(FunctionElement[str]):
    """The repr of a float."""

    type = Text()
    inherit_cache = True


class find_in(FunctionElement[int]):
    """The position of the second text in the first, or 0 if it is not there."""

    type = BigInteger()
    inherit_cache = True


def add_functions(connection: sqlite3.Connection) -> None:
    """Add the functions that the conditions need to a connection to SQLite."""
    connection.create_function("py_casefold", 1, _nullable(str.casefold), deterministic=True)
    connection.create_function("py_repr", 1, _nullable(repr), deterministic=True)


def _nullable(function: Callable[[Any], str]) -> Callable[[Any], str | None]:
    return lambda value: None if value is None else function(value)


@compiles(casefold, "sqlite")
def _casefold_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    text = compiler.process(next(iter(element.clauses)), **kw)
    return f"CASE WHEN length(CAST({text} AS BLOB)) = length({text}) THEN lower({text}) ELSE py_casefold({text}) END"


@compiles(contains_folded, "sqlite")
def _contains_folded_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    # LIKE folds ASCII, four times as fast as lower() does. Its matches are correct, but it may miss other letters.
    text, sought, pattern = (compiler.process(each, **kw) for each in element.clauses)
    folded = f"length(CAST({text} AS BLOB)) <> length({text}) AND instr(py_casefold({text}), {sought})"
    return f"({text} LIKE {pattern} ESCAPE '\\' OR ({folded}))"


@compiles(contains_folded, "postgresql")
def _contains_folded_postgresql(element: Any, compiler: Any, **kw: Any) -> str:
    text, sought, _ = element.clauses
    return f"(strpos({compiler.process(casefold(text), **kw)}, {compiler.process(sought, **kw)}) > 0)"


@compiles(casefold, "postgresql")
def _casefold_postgresql(element: Any, compiler: Any, **kw: Any) -> str:
    text = compiler.process(next(iter(element.clauses)), **kw)
    single, folded, several = _foldings()
    other = f"translate({text}, '{single}', '{folded}')"
    for letter, letters in several:
        other = f"replace({other}, '{letter}', '{letters}')"
    return f'CASE WHEN octet_length({text}) = char_length({text}) THEN lower(({text}) COLLATE "C") ELSE {other} END'


@cache
def _foldings() -> tuple[str, str, list[tuple[str, str]]]:
    """Letters that fold to one other letter, their foldings, and the letters that fold to several."""
    changed = [
        (chr(code), chr(code).casefold()) for code in range(sys.maxunicode + 1) if chr(code).casefold() != chr(code)
    ]
    single = [(one, other) for one, other in changed if len(other) == 1]
    return (
        "".join(one for one, _ in single),
        "".join(other for _, other in single),
        [c for c in changed if len(c[1]) > 1],
    )


@compiles(number_text, "sqlite")
def _number_text_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    return f"py_repr({compiler.process(next(iter(element.clauses)), **kw)})"


@compiles(number_text, "postgresql")
def _number_text_postgresql(element: Any, compiler: Any, **kw: Any) -> str:
    # The server also writes the shortest digits that give the same number, but writes a whole number without its point,
    # and uses an exponent from 1e15 on, not from 1e16.
    value = compiler.process(next(iter(element.clauses)), **kw)
    whole = f"{value} = trunc({value}) AND abs({value}) < 1e16"
    return f"CASE WHEN {whole} THEN ({value})::numeric::bigint::text || '.0' ELSE ({value})::text END"


@compiles(find_in, "sqlite")
def _find_in_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    return f"instr({compiler.process(element.clauses, **kw)})"


@compiles(find_in, "postgresql")
def _find_in_postgresql(element: Any, compiler: Any, **kw: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **kw)})"


# -- factors -----------------------------------------------------------------------------------------------------------
# A filter on the factors of runs as SQL conditions.


def matching(statement: Select[Any], where: RunFilter) -> Select[Any]:
    """The statement with the conditions of a filter."""
    for field in fields(where):
        wanted = getattr(where, field.name)
        if wanted is None:
            continue
        if field.name == "since":
            statement = statement.where(runs.c.started_at >= utc_text(wanted, "since"))
        elif field.name == "until":
            statement = statement.where(runs.c.started_at < utc_text(wanted, "until"))
        else:
            column = runs.c[field.name]
            values = [wanted] if isinstance(wanted, (str, int)) else list(wanted)
            known = column.in_([value for value in values if value != "max"])
            asks_max = field.name == "target_bps" and "max" in values
            statement = statement.where(or_(known, column.is_(None)) if asks_max else known)
    return statement
