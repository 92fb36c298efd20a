"""Which saved runs are meant, as one types it: ``platform=raw size=64 verdict!=valid offered>1e5 note~warm``.

Words apart by blanks must all hold; a word without an operator is looked for in everything that is text. What is not
known (None) equals nothing and is neither more nor less than anything; ``note=`` asks for runs where it is absent.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labconsole.units import format_target, parse_rate_bps

Test = Callable[[Any], bool]

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


class QueryError(ValueError):
    """Raised for a word that cannot be understood; reads as a sentence with what is allowed."""


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed text, which selects the runs for which every word holds.

    ``fields``: which field each of the tests asks for, "" where a word is looked for in everything.
    """

    text: str
    tests: tuple[Test, ...]
    fields: tuple[str, ...] = ()

    def select(self, runs: list[Any]) -> list[Any]:
        """The runs that are meant, in their order. Twenty thousand take some 20 ms."""
        if not self.tests:
            return list(runs)
        if len(self.tests) == 1:
            return list(filter(self.tests[0], runs))
        return [run for run in runs if all(test(run) for test in self.tests)]


@dataclass(frozen=True, slots=True)
class _Field:
    kind: str
    get: Callable[[Any], Any]
    words: str


def _attribute(name: str) -> Callable[[Any], Any]:
    return operator.attrgetter(name)


def _target(run: Any) -> Any:
    return "max" if run.target_bps is None else run.target_bps


def _codes(run: Any) -> str:
    return " ".join(run.reason_codes)


FIELDS: dict[str, _Field] = {
    "platform": _Field("text", _attribute("platform"), "the platform"),
    "size": _Field("number", _attribute("frame_size_bytes"), "frame size in bytes"),
    "sources": _Field("number", _attribute("sources"), "number of sources"),
    "target": _Field("target", _target, "requested bandwidth per source, such as 100Mbit, or max"),
    "background": _Field("text", _attribute("background"), "background load"),
    "duration": _Field("number", _attribute("duration_s"), "seconds of traffic"),
    "verdict": _Field("text", _attribute("verdict"), "valid, suspect or invalid"),
    "reason": _Field("text", _codes, "codes of the reasons for the verdict"),
    "offered": _Field("number", _attribute("offered_pps"), "packets per second offered"),
    "measured": _Field("number", _attribute("measured_pps"), "packets per second measured"),
    "offered_bps": _Field("rate", _attribute("offered_bps"), "bandwidth offered"),
    "measured_bps": _Field("rate", _attribute("measured_bps"), "bandwidth measured"),
    "loss": _Field("ratio", _attribute("loss_ratio"), "share lost, such as 0.01 or 1%"),
    "lost": _Field("number", _attribute("loss_packets"), "packets lost"),
    "note": _Field("text", _attribute("note"), "the note on the run"),
    "started": _Field("time", _attribute("started_at"), "UTC, such as 2026-11-21 or 2026-11-21T14"),
    "generator": _Field("text", _attribute("generator"), "the generator that ran"),
    "testbed": _Field("text", _attribute("testbed"), "name of the testbed"),
    "fingerprint": _Field("text", _attribute("testbed_fingerprint"), "fingerprint of the testbed"),
    "emulated": _Field("bool", _attribute("emulated"), "yes or no"),
    "plan": _Field("text", _attribute("plan_name"), "name of the plan"),
    "point": _Field("number", _attribute("plan_point"), "point of the plan"),
    "repetition": _Field("number", _attribute("repetition"), "repetition in the plan"),
    "run": _Field("text", _attribute("run_id"), "the run's id"),
    "block": _Field("number", _attribute("block"), "block of the plan, 0 is the pilot's"),
    "set_up": _Field("text", _attribute("set_up"), "id of the set-up it was measured in"),
    "attempt": _Field("number", _attribute("attempt"), "number of the attempt at its place in the plan"),
    "role": _Field("text", _attribute("role"), "measured, pilot or telemetry"),
    "method": _Field("number", _attribute("method"), "version of the method that computes the numbers"),
    "format": _Field("number", _attribute("format"), "format of the record"),
    "kernel": _Field("text", _attribute("uut_kernel"), "kernel of the unit under test"),
    "hypervisor": _Field("text", _attribute("hypervisor"), "hypervisor with its version"),
    "forwarding": _Field("number", _attribute("forwarding_pps"), "packets per second over the window of arrivals"),
    "late": _Field("number", _attribute("late_packets"), "packets that arrived after the sending time"),
}
"""What can be asked for; every factor of a run is among them."""


def parse_query(text: str) -> Query:
    """Understand a typed text. Raises QueryError about the first word that makes no sense."""
    tokens = _TOKEN.findall(text)
    return Query(text, tuple(_term(token) for token in tokens), tuple(_field_of(token) for token in tokens))


def parse_typing(text: str) -> tuple[Query, str]:
    """What makes sense of a text that is still being typed, and what is wrong with the rest of it, "" when nothing is.

    A last word that begins the name of a field is not looked for yet: with ``=`` after it, it will be that field.
    """
    tokens = _TOKEN.findall(text)
    if tokens and not text[-1:].isspace() and any(name.startswith(tokens[-1].lower()) for name in FIELDS):
        tokens.pop()
    tests: list[Test] = []
    names: list[str] = []
    problem = ""
    for token in tokens:
        try:
            tests.append(_term(token))
            names.append(_field_of(token))
        except QueryError as exc:
            problem = problem or str(exc)
    return Query(text, tuple(tests), tuple(names)), problem


def _field_of(token: str) -> str:
    match = _TERM.fullmatch(token)
    return "" if match is None else match[1].lower()


def _term(token: str) -> Test:
    match = _TERM.fullmatch(token)
    if match is None:
        return _anywhere(_unquoted(token))
    name, sign, value = match[1].lower(), match[2], _unquoted(match[3])
    field = FIELDS.get(name)
    if field is None:
        near = difflib.get_close_matches(name, FIELDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(FIELDS)}"
        raise QueryError(f"there is no field {match[1]!r}; {hint}")
    if sign in ("~", "!~"):
        return _contains(field, value.casefold(), sign == "!~")
    if sign in _ORDER:
        if not value:
            raise QueryError(f"{name}{sign} needs a value: {field.words}")
        return _ordered(name, field, sign, value)
    if not value:
        absent: Test = lambda run: field.get(run) in (None, "")  # noqa: E731
        return absent if sign == "=" else lambda run: not absent(run)
    return _equal(name, field, value, sign == "!=")


def _unquoted(text: str) -> str:
    return text.replace('"', "")


def _anywhere(word: str) -> Test:
    """A plain word: anywhere in what is text."""
    sought = word.casefold()

    def test(run: Any) -> bool:
        target = run.target_bps
        return (
            sought
            in (
                f"{run.run_id} {run.platform} {run.verdict} {' '.join(run.reason_codes)} {run.background} "
                f"{run.generator} {run.testbed} {run.plan_name or ''} {run.note or ''} "
                f"{'max' if target is None else format_target(target)}"
            ).casefold()
        )

    return test


def _contains(field: _Field, sought: str, negated: bool) -> Test:
    get = field.get

    def test(run: Any) -> bool:
        value = get(run)
        return (value is not None and sought in str(value).casefold()) is not negated

    return test


def _ordered(name: str, field: _Field, sign: str, text: str) -> Test:
    get, compare = field.get, _ORDER[sign]
    if field.kind in ("text", "bool"):
        raise QueryError(f"{name} cannot be compared by size; allowed: {name}=…, {name}!=…, {name}~…")
    limit = _value(name, field, text)
    if field.kind == "time":  # so much of the time as was typed: started>2026-11-20 is the day after, and later
        length = len(limit)
        return lambda run: compare(get(run)[:length], limit)
    if limit == "max":
        raise QueryError("'max' is not a number; allowed: target=max, target!=max")

    def test(run: Any) -> bool:
        value = get(run)
        return isinstance(value, int | float) and compare(value, limit)

    return test


def _equal(name: str, field: _Field, text: str, negated: bool) -> Test:
    get, texts = field.get, [part for part in text.split(",") if part]
    values = frozenset(_value(name, field, part) for part in texts)
    if field.kind == "time":
        wanted = tuple(values)
        return lambda run: get(run).startswith(wanted) is not negated
    if field.kind == "text":
        if name == "reason":  # several codes in one run
            return lambda run: (not values.isdisjoint(run.reason_codes)) is not negated
        return lambda run: ((get(run) or "").casefold() in values) is not negated
    return lambda run: (get(run) in values) is not negated


def _value(name: str, field: _Field, text: str) -> Any:
    """A typed value in the unit of its field. Raises QueryError with what is allowed."""
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
    if field.kind == "target" and text.casefold() == "max":
        return "max"
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
