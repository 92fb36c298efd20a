"""The words in which messages are described: what a value must be, and what of it is kept.

A check takes a value and what to call it in a complaint, and returns the value to keep in its place: the same, or its
cleaned form. It raises WireError("bad_message") and nothing else, whatever JSON can hold. Keys are refused rather than
cleaned when they are not printable: a cleaned key could become one that has been checked already.
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
    """The complaint that ``where`` ``what``."""
    return WireError("bad_message", f"{where} {what}")


def count(value: Any, where: str) -> int:
    """A count or a clock: what a column of 64 bits with a sign can hold, and not negative."""
    # The exact type, because true and false would pass for 1 and 0.
    if type(value) is not int or not 0 <= value < S64:
        raise bad(where, "is not a whole number from 0")
    return value


def unsigned(value: Any, where: str) -> int:
    """A count of a driver's, which may use all 64 bits."""
    if type(value) is not int or not 0 <= value < U64:
        raise bad(where, "is not a whole number from 0")
    return value


def whole(lowest: int, highest: int) -> Check:
    """A whole number in this range, ends included."""

    def check(value: Any, where: str) -> int:
        if type(value) is not int or not lowest <= value <= highest:
            raise bad(where, f"is not a whole number from {lowest} to {highest}")
        return value

    return check


def amount(value: Any, where: str) -> float:
    """A rate or a mean: finite and not negative."""
    if type(value) is int and 0 <= value < S64:
        return value
    if type(value) is not float or not math.isfinite(value) or value < 0:
        raise bad(where, "is not a number from 0")
    return value


def finite(value: Any, where: str) -> float:
    """A number of either sign."""
    if type(value) is int and -S64 <= value < S64:
        return value
    if type(value) is not float or not math.isfinite(value):
        raise bad(where, "is not a number")
    return value


def between(lowest: float, highest: float) -> Check:
    """A number in this range, ends included."""

    def check(value: Any, where: str) -> Any:
        if type(value) not in (int, float) or not lowest <= value <= highest:
            raise bad(where, f"is not a number from {lowest:g} to {highest:g}")
        return value

    return check


def above(bound: float, highest: float) -> Check:
    """A number above the first and at most the second."""

    def check(value: Any, where: str) -> Any:
        if type(value) not in (int, float) or not bound < value <= highest:
            raise bad(where, f"is not a number above {bound:g} and at most {highest:g}")
        return value

    return check


def flag(value: Any, where: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise bad(where, "is not true or false")
    return value


def name(value: Any, where: str) -> str:
    """A name: cleaned, and refused when it is too long, because two names must not become one by being cut."""
    if type(value) is not str:
        raise bad(where, "is not text")
    if len(value) > MAX_NAME:
        raise bad(where, f"is longer than {MAX_NAME} characters")
    return clean(value, MAX_NAME)


def sentence(value: Any, where: str) -> str:
    """Words for people: cleaned to one line and cut."""
    if type(value) is not str:
        raise bad(where, "is not text")
    return clean(value, MAX_SENTENCE)


def lines(most: int) -> Check:
    """A program's words as they are, line feeds and tabs included: refused when too long, for half would be a lie."""

    def check(value: Any, where: str) -> str:
        if type(value) is not str or len(value) > most:
            raise bad(where, f"is not text of at most {most} characters")
        return clean_lines(value)

    return check


def maybe(inner: Check) -> Check:
    """Null for what is not known, else as ``inner``."""
    return lambda value, where: None if value is None else inner(value, where)


def rising_pairs(most: int) -> Check:
    """(number, count): numbers below ``most`` that rise, each with at least one, as a list that has only those."""

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
    """A list of at most ``most``."""

    def check(value: Any, where: str) -> list[Any]:
        if type(value) is not list or len(value) > most:
            raise bad(where, f"is not a list of at most {most}")
        return [inner(item, where) for item in value]

    return check


def mapping(key: Callable[[str], bool], inner: Check, most: int) -> Check:
    """An object of at most ``most`` entries, any of whose keys is one to ``key``."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if type(value) is not dict or len(value) > most:
            raise bad(where, f"is not an object of at most {most} entries")
        if not all(map(key, value)):
            raise bad(where, "has an invalid key")
        return {word: inner(item, where) for word, item in value.items()}

    return check


def fields(known: dict[str, Check]) -> Check:
    """An object with all of these keys, changed in place; what else it has must be plain."""
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
    """Anything a reader is prepared for: finite 64-bit numbers, cleaned text, not deep, at most ``most`` items."""

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
    """Whether a key is short and would do a terminal no harm."""
    return len(key) <= MAX_NAME and key.isprintable()


def word(value: Any, where: str) -> str:
    """A name that this node is given: kept as it is, so refused when the kernel would not take it for one."""
    if type(value) is not str or not usable(value):
        raise bad(where, "is not a valid name")
    return value


def key_name(value: Any, where: str) -> str:
    """A name that comes back as a key of the answer, so refused when no key may be like it."""
    if type(value) is not str or not printable(value):
        raise bad(where, f"is not a printable name of at most {MAX_NAME} characters")
    return value


def free(value: Any, where: str) -> str:
    """Text of any kind that this node is given, kept as it is."""
    if type(value) is not str or not encodable(value):
        raise bad(where, "is not text")
    return value


def run_length(key: str) -> bool:
    """Whether a key is a whole number in decimal digits, of at most the digits that 2^63 has."""
    return key.isascii() and key.isdigit() and len(key) <= 19


class Rule(NamedTuple):
    """What a field's value must be, in its annotation: ``Annotated[int, Rule(count)]``."""

    check: Check


class Most(NamedTuple):
    """How long a list or a mapping may be, and what its keys must be: ``Annotated[List[Link], Most(4096)]``."""

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
Words = Annotated[List[Word], Most(MAX_ITEMS)]
Key = Annotated[str, Rule(key_name)]
