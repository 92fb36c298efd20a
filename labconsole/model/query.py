"""A typed query for saved runs: ``platform=raw size=64 verdict!=valid offered>1e5 note~warm``.

Words separated by blanks must all match; a word without an operator is searched for in all text. An unknown value
(None) equals nothing and is neither more nor less than anything; ``note=`` selects runs without it.

Each word becomes a term, which is plain data: a store queries its database for the same runs, see
``store.sql.query_terms``.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from labconsole.units import format_target, parse_rate_bps

Test = Callable[[Any], bool]
Sign = Literal["", "=", "~", "<", ">", "<=", ">="]

_TOKEN = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_TERM = re.compile(r"([A-Za-z_]+)(!=|<=|>=|!~|=|<|>|~)(.*)", re.DOTALL)
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([kMG]?)")
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d*)?)?)?)?)?)?Z?")
_SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

MAX_CHARACTERS, MAX_WORDS = 1 << 16, 100
"""Of one query. Each word is tested on each run, and a query may be another person's, in a bundle."""


class QueryError(ValueError):
    """Raised for an invalid word; its text is a sentence with the allowed values."""


@dataclass(frozen=True, slots=True)
class Term:
    """One word. ``field`` is one of FIELDS, or "" for a word that is searched for everywhere.

    ``sign``: "=" one of ``values`` (for a time: begins with one), "" absent, "~" contains the only value, or a
    comparison with it. Texts in ``values`` are case-folded; ``negated`` inverts the term.
    """

    field: str
    sign: Sign
    values: tuple[Any, ...] = ()
    negated: bool = False

    def test(self) -> Test:
        """A function that tests the term on one run."""
        if not self.field:
            return _anywhere(self.values[0])
        field = FIELDS[self.field]
        if self.sign == "":
            return _absent(field, self.negated)
        if self.sign == "~":
            return _contains(field, self.values[0], self.negated)
        if self.sign == "=":
            return _equal(self.field, field, self.values, self.negated)
        return _ordered(field, self.sign, self.values[0])


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query, which selects the runs that match every word."""

    text: str
    terms: tuple[Term, ...] = ()

    def select(self, runs: list[Any]) -> list[Any]:
        """The matching runs, in their order. Twenty thousand take some 20 ms."""
        tests = [term.test() for term in self.terms]
        if not tests:
            return list(runs)
        if len(tests) == 1:
            return list(filter(tests[0], runs))
        return [run for run in runs if all(test(run) for test in tests)]


@dataclass(frozen=True, slots=True)
class Askable:
    """A field of queries. ``kind`` decides how values are typed and compared; ``words`` lists the allowed values."""

    kind: str
    get: Callable[[Any], Any]
    words: str


def _attribute(name: str) -> Callable[[Any], Any]:
    return operator.attrgetter(name)


NO_PACE = ("max", "1ns")
"""Targets without a rate."""


def _target(run: Any) -> Any:
    if run.target_bps is None:
        return "max"
    return run.target_bps if run.frame is None else run.frame.wish(run.target_bps)


def _codes(run: Any) -> str:
    return " ".join(run.reason_codes)


FIELDS: dict[str, Askable] = {
    "platform": Askable("text", _attribute("platform"), "the platform"),
    "size": Askable("number", _attribute("frame_size_bytes"), "frame size in bytes"),
    "sources": Askable("number", _attribute("sources"), "number of sources"),
    "target": Askable("target", _target, "requested bandwidth per source, such as 100Mbit, or max or 1ns"),
    "background": Askable("text", _attribute("background"), "background load"),
    "duration": Askable("number", _attribute("duration_s"), "seconds of traffic"),
    "verdict": Askable("text", _attribute("verdict"), "valid, suspect or invalid"),
    "reason": Askable("text", _codes, "codes of the reasons for the verdict"),
    "offered": Askable("number", _attribute("offered_pps"), "packets per second offered"),
    "measured": Askable("number", _attribute("measured_pps"), "packets per second measured"),
    "offered_bps": Askable("rate", _attribute("offered_bps"), "bandwidth offered"),
    "measured_bps": Askable("rate", _attribute("measured_bps"), "bandwidth measured"),
    "loss": Askable("ratio", _attribute("loss_ratio"), "share lost, such as 0.01 or 1%"),
    "lost": Askable("number", _attribute("loss_packets"), "packets lost"),
    "note": Askable("text", _attribute("note"), "the note on the run"),
    "started": Askable("time", _attribute("started_at"), "UTC, such as 2026-11-21 or 2026-11-21T14"),
    "generator": Askable("text", _attribute("generator"), "the generator that ran"),
    "testbed": Askable("text", _attribute("testbed"), "name of the testbed"),
    "fingerprint": Askable("text", _attribute("testbed_fingerprint"), "fingerprint of the testbed"),
    "emulated": Askable("bool", _attribute("emulated"), "yes or no"),
    "plan": Askable("text", _attribute("plan_name"), "name of the plan"),
    "point": Askable("number", _attribute("plan_point"), "point of the plan"),
    "repetition": Askable("number", _attribute("repetition"), "repetition in the plan"),
    "run": Askable("text", _attribute("run_id"), "the run's id"),
    "block": Askable("number", _attribute("block"), "block of the plan, 0 is the pilot's"),
    "set_up": Askable("text", _attribute("set_up"), "id of the set-up it was measured in"),
    "attempt": Askable("number", _attribute("attempt"), "number of the attempt at its place in the plan"),
    "role": Askable("text", _attribute("role"), "measured, pilot or telemetry"),
    "method": Askable("number", _attribute("method"), "version of the method that computes the numbers"),
    "format": Askable("number", _attribute("format"), "format of the record"),
    "kernel": Askable("text", _attribute("uut_kernel"), "kernel of the unit under test"),
    "hypervisor": Askable("text", _attribute("hypervisor"), "hypervisor with its version"),
    "forwarding": Askable("number", _attribute("forwarding_pps"), "packets per second over the window of arrivals"),
    "late": Askable("number", _attribute("late_packets"), "packets that arrived after the sending time"),
}
"""The fields of queries; every factor of a run is among them."""


def parse_query(text: str) -> Query:
    """Parse a query. Raises QueryError for the first invalid word, and for a query that is too long."""
    return Query(text, tuple(_term(token) for token in _split(text)))


def find_bare_words(text: str) -> list[str]:
    """Its words that name no field, as typed. Raises QueryError as ``parse_query`` does."""
    return [token for token in _split(text) if not _term(token).field]


def parse_typing(text: str) -> tuple[Query, str]:
    """The valid part of a query that is still being typed, and the problem of the rest, or "".

    A last word that begins the name of a field is not searched for yet: followed by ``=``, it will be that field.
    """
    tokens = _TOKEN.findall(text)
    if tokens and not text[-1:].isspace() and any(name.startswith(tokens[-1].lower()) for name in FIELDS):
        tokens.pop()
    terms: list[Term] = []
    problem = ""
    for token in tokens:
        try:
            terms.append(_term(token))
        except QueryError as exc:
            problem = problem or str(exc)
    return Query(text, tuple(terms)), problem


def _split(text: str) -> list[str]:
    """The words of a query. Raises QueryError for too many of them, or too many characters."""
    if len(text) > MAX_CHARACTERS:
        raise QueryError(f"a filter has {len(text)} characters; allowed: {MAX_CHARACTERS}")
    tokens = _TOKEN.findall(text)
    if len(tokens) > MAX_WORDS:
        raise QueryError(f"a filter has {len(tokens)} words; allowed: {MAX_WORDS}")
    return tokens


def _term(token: str) -> Term:
    match = _TERM.fullmatch(token)
    if match is None:
        return Term("", "~", (_unquoted(token).casefold(),))
    name, sign, value = match[1].lower(), match[2], _unquoted(match[3])
    field = FIELDS.get(name)
    if field is None:
        near = difflib.get_close_matches(name, FIELDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(FIELDS)}"
        raise QueryError(f"there is no field {match[1]!r}; {hint}")
    if sign in ("~", "!~"):
        return Term(name, "~", (value.casefold(),), sign == "!~")
    if sign in _ORDER:
        if not value:
            raise QueryError(f"{name}{sign} needs a value: {field.words}")
        return Term(name, cast(Sign, sign), (_limit(name, field, value),))
    if not value:
        return Term(name, "", (), sign == "!=")
    return Term(name, "=", tuple(_value(name, field, part) for part in value.split(",") if part), sign == "!=")


def _unquoted(text: str) -> str:
    return text.replace('"', "")


def _limit(name: str, field: Askable, text: str) -> Any:
    if field.kind in ("text", "bool"):
        raise QueryError(f"{name} cannot be compared by size; allowed: {name}=…, {name}!=…, {name}~…")
    limit = _value(name, field, text)
    if limit in NO_PACE:
        raise QueryError(f"{limit!r} is not a number; allowed: target={limit}, target!={limit}")
    return limit


def _anywhere(sought: str) -> Test:
    """A test for a plain word, in all text."""

    def test(run: Any) -> bool:
        return (
            sought
            in (
                f"{run.run_id} {run.platform} {run.verdict} {' '.join(run.reason_codes)} {run.background} "
                f"{run.generator} {run.testbed} {run.plan_name or ''} {run.note or ''} "
                f"{format_target(_target(run))}"
            ).casefold()
        )

    return test


def _absent(field: Askable, negated: bool) -> Test:
    get = field.get
    return lambda run: (get(run) in (None, "")) is not negated


def _contains(field: Askable, sought: str, negated: bool) -> Test:
    get = field.get

    def test(run: Any) -> bool:
        value = get(run)
        return (value is not None and sought in str(value).casefold()) is not negated

    return test


def _ordered(field: Askable, sign: str, limit: Any) -> Test:
    get, compare = field.get, _ORDER[sign]
    if field.kind == "time":  # compares as many digits as were typed: started>2026-11-20 is the day after, and later
        length = len(limit)
        return lambda run: compare(get(run)[:length], limit)

    def test(run: Any) -> bool:
        value = get(run)
        return isinstance(value, int | float) and compare(value, limit)

    return test


def _equal(name: str, field: Askable, wanted: tuple[Any, ...], negated: bool) -> Test:
    get, values = field.get, frozenset(wanted)
    if field.kind == "time":
        return lambda run: get(run).startswith(wanted) is not negated
    if field.kind == "text":
        if name == "reason":  # one run may have several codes
            return lambda run: (not values.isdisjoint(run.reason_codes)) is not negated
        return lambda run: ((get(run) or "").casefold() in values) is not negated
    return lambda run: (get(run) in values) is not negated


def _value(name: str, field: Askable, text: str) -> Any:
    """Parse a typed value in the unit of its field. Raises QueryError with the allowed values."""
    if field.kind == "text":
        return text.casefold()
    if field.kind == "time":
        if not _DATE.fullmatch(text):
            raise QueryError(f"{name}: {text!r} is not a valid time; allowed: {field.words}")
        return text.replace(" ", "T").rstrip("Z")
    if field.kind == "bool":
        if text.casefold() not in ("yes", "no", "true", "false"):
            raise QueryError(f"{name}: {text!r}; allowed: {field.words}")
        return text.casefold() in ("yes", "true")
    if field.kind == "target" and text.casefold() in NO_PACE:
        return text.casefold()
    if field.kind in ("target", "rate") and "b" in text:
        try:
            return parse_rate_bps(text)
        except ValueError as exc:
            raise QueryError(f"{name}: {text!r} is not a valid rate; allowed: {exc}") from None
    percent = field.kind == "ratio" and text.endswith("%")
    match = _NUMBER.fullmatch(text.rstrip("%") if percent else text)
    if match is None:
        raise QueryError(f"{name}: {text!r} is not a number; allowed: {field.words}")
    return float(match[1]) * _SI[match[2]] / (100 if percent else 1)
