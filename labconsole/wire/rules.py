"""The vocabulary that describes messages: which values are valid, and which form of a value is kept.

A check takes a value and its name for error messages, and returns the value to keep in its place: the same, or its
cleaned form. It raises WireError("bad_message") and nothing else, whatever JSON can contain. Unprintable keys are
refused rather than cleaned: a cleaned key could become equal to one that has been checked already.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Callable, List, NamedTuple

from labconsole.wire.clean import clean, clean_lines
from labconsole.wire.codec import WireError, encodable, usable

MAX_NAME = 255
MAX_SENTENCE = 4096
MAX_DEPTH = 6
MAX_ITEMS = 100_000
S64 = 2**63
U64 = 2**64

Check = Callable[[Any, str], Any]


def bad(where: str, what: str) -> WireError:
    """Build the error that ``where`` ``what``."""
    return WireError("bad_message", f"{where} {what}")


def count(value: Any, where: str) -> int:
    """Check a count or a clock: not negative, and within a signed 64-bit column."""
    # The exact type, because true and false would pass for 1 and 0.
    if type(value) is not int or not 0 <= value < S64:
        raise bad(where, "is not a whole number from 0")
    return value


def unsigned(value: Any, where: str) -> int:
    """Check a driver's count, which may use all 64 bits."""
    if type(value) is not int or not 0 <= value < U64:
        raise bad(where, "is not a whole number from 0")
    return value


def whole(lowest: int, highest: int) -> Check:
    """Build a check for a whole number in this range, ends included."""

    def check(value: Any, where: str) -> int:
        if type(value) is not int or not lowest <= value <= highest:
            raise bad(where, f"is not a whole number from {lowest} to {highest}")
        return value

    return check


def amount(value: Any, where: str) -> float:
    """Check a rate or a mean: not negative, and so far from a float's limits that what follows from it is finite."""
    if type(value) not in (int, float) or not 0 <= value < S64:
        raise bad(where, "is not a number from 0")
    number: float = value
    return number


def finite(value: Any, where: str) -> float:
    """Check a number of either sign, which is as far from a float's limits."""
    if type(value) not in (int, float) or not -S64 <= value < S64:
        raise bad(where, "is not a number")
    number: float = value
    return number


def between(lowest: float, highest: float) -> Check:
    """Build a check for a number in this range, ends included."""

    def check(value: Any, where: str) -> Any:
        if type(value) not in (int, float) or not lowest <= value <= highest:
            raise bad(where, f"is not a number from {lowest:g} to {highest:g}")
        return value

    return check


def above(bound: float, highest: float) -> Check:
    """Build a check for a number above ``bound`` and at most ``highest``."""

    def check(value: Any, where: str) -> Any:
        if type(value) not in (int, float) or not bound < value <= highest:
            raise bad(where, f"is not a number above {bound:g} and at most {highest:g}")
        return value

    return check


def flag(value: Any, where: str) -> bool:
    """Check for true or false."""
    if type(value) is not bool:
        raise bad(where, "is not true or false")
    return value


def name(value: Any, where: str) -> str:
    """Clean a name; refuse it if too long, because cutting could make two names equal."""
    if type(value) is not str:
        raise bad(where, "is not text")
    if len(value) > MAX_NAME:
        raise bad(where, f"is longer than {MAX_NAME} characters")
    return clean(value, MAX_NAME)


def sentence(value: Any, where: str) -> str:
    """Clean a text for people to one line and cut it."""
    if type(value) is not str:
        raise bad(where, "is not text")
    return clean(value, MAX_SENTENCE)


def lines(most: int) -> Check:
    """Build a check for a program's output, unchanged with line feeds and tabs; too long is refused, as half would
    mislead.
    """

    def check(value: Any, where: str) -> str:
        if type(value) is not str or len(value) > most:
            raise bad(where, f"is not text of at most {most} characters")
        return clean_lines(value)

    return check


def maybe(inner: Check) -> Check:
    """Build a check that allows null for what is not known, else applies ``inner``."""
    return lambda value, where: None if value is None else inner(value, where)


def rising_pairs(most: int) -> Check:
    """Build a check for (number, count) pairs: rising numbers below ``most`` with counts of at least one."""

    def check(value: Any, where: str) -> "list[tuple[int, int]]":
        if type(value) is not list or len(value) > most:
            raise bad(where, f"is not a list of at most {most} pairs")
        last = -1
        for pair in value:
            if type(pair) is not list or len(pair) != 2 or not all(type(each) is int for each in pair):
                raise bad(where, "has an entry that is not a pair of whole numbers")
            if not last < pair[0] < most or not 0 < pair[1] < S64:
                raise bad(where, "has numbers that do not rise, or counts of nothing")
            last = pair[0]
        return [(number, count) for number, count in value]

    return check


def list_of(inner: Check, most: int) -> Check:
    """Build a check for a list of at most ``most`` items."""

    def check(value: Any, where: str) -> list[Any]:
        if type(value) is not list or len(value) > most:
            raise bad(where, f"is not a list of at most {most}")
        return [inner(item, where) for item in value]

    return check


def mapping(key: Callable[[str], bool], inner: Check, most: int) -> Check:
    """Build a check for an object of at most ``most`` entries whose keys all satisfy ``key``."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if type(value) is not dict or len(value) > most:
            raise bad(where, f"is not an object of at most {most} entries")
        if not all(map(key, value)):
            raise bad(where, "has an invalid key")
        return {word: inner(item, where) for word, item in value.items()}

    return check


def fields(known: dict[str, Check]) -> Check:
    """Build a check for an object with all of these keys, changed in place; other entries must be plain."""
    others = plain()

    def check(value: Any, where: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise bad(where, "is not an object")
        for key, inner in known.items():
            if key not in value:
                raise bad(where, f"has no {key}")
            value[key] = inner(value[key], key)
        if len(value) > len(known):
            value.update(others({key: item for key, item in value.items() if key not in known}, where))
        return value

    return check


def plain(*, most: int = MAX_ITEMS, characters: int = MAX_SENTENCE) -> Check:
    """Build a check for arbitrary data: finite 64-bit numbers, clean text, shallow nesting, at most ``most`` items."""

    def check(value: Any, where: str) -> Any:
        left = most

        def keep(item: Any, depth: int) -> Any:
            nonlocal left
            left -= 1
            if left < 0 or depth > MAX_DEPTH:
                raise bad(where, "is nested too deeply or too large")
            if item is None or type(item) is bool:
                return item
            if type(item) is str:
                return clean(item, characters)
            if type(item) is int:
                if not -S64 <= item < U64:
                    raise bad(where, "has a number beyond 64 bits")
                return item
            if type(item) is float:
                if not math.isfinite(item):
                    raise bad(where, "has a value that is not a number")
                return item
            if type(item) is list:
                return [keep(inner, depth + 1) for inner in item]
            if type(item) is not dict:
                raise bad(where, "has a type that JSON does not have")
            if not all(map(printable, item)):
                raise bad(where, "has an invalid key")
            return {key: keep(inner, depth + 1) for key, inner in item.items()}

        return keep(value, 0)

    return check


def printable(key: str) -> bool:
    """Whether a key is short and harmless to a terminal."""
    return len(key) <= MAX_NAME and key.isprintable()


def word(value: Any, where: str) -> str:
    """Check a name sent to this node: not cleaned, so refused if the kernel would not accept it as a name."""
    if type(value) is not str or not usable(value):
        raise bad(where, "is not a valid name")
    return value


def key_name(value: Any, where: str) -> str:
    """Check a name that the reply uses as a key: it is refused if it is not valid as a key."""
    if type(value) is not str or not printable(value):
        raise bad(where, f"is not a printable name of at most {MAX_NAME} characters")
    return value


def free(value: Any, where: str) -> str:
    """Check free text sent to this node; it is not cleaned."""
    if type(value) is not str or not encodable(value):
        raise bad(where, "is not text")
    return value


def run_length(key: str) -> bool:
    """Whether a key is a decimal whole number with no more digits than 2^63."""
    return key.isascii() and key.isdigit() and len(key) <= 19


class Rule(NamedTuple):
    """The valid values of a field, in its annotation: ``Annotated[int, Rule(count)]``."""

    check: Check


class Most(NamedTuple):
    """The most items of a list or a mapping, and the rule for its keys: ``Annotated[List[Link], Most(4096)]``."""

    entries: int
    key: Callable[[str], bool] = printable


Count = Annotated[int, Rule(count)]
Unsigned = Annotated[int, Rule(unsigned)]
Signed = Annotated[int, Rule(whole(-S64, S64 - 1))]
Port = Annotated[int, Rule(whole(0, 65535))]
Index = Annotated[int, Rule(whole(0, 2**31 - 1))]
Amount = Annotated[float, Rule(amount)]
Finite = Annotated[float, Rule(finite)]
Name = Annotated[str, Rule(name)]
Sentence = Annotated[str, Rule(sentence)]
Word = Annotated[str, Rule(word)]
Free = Annotated[str, Rule(free)]
WordList = Annotated[List[Word], Most(MAX_ITEMS)]
Key = Annotated[str, Rule(key_name)]
