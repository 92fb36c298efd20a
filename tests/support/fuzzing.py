"""How hard the property tests of untrusted input try: the same inputs each time, or with LABCONSOLE_FUZZ=long new ones.

The long profile takes minutes, draws fresh inputs and keeps what failed in .hypothesis.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

LONG = os.environ.get("LABCONSOLE_FUZZ") == "long"
TIMES = 50

HOSTILE = "\x1b]0;owned\x07\x1b[2J[red]x[/]<script>\u202egnp.\ud800\r\n$(touch x);`id`'\"&%n\x9b31m"
"""Escape sequences, markup of rich and of HTML, an override of the text's direction, half a character, shell words."""

TEXT = st.one_of(
    st.text(max_size=20),
    st.sampled_from([HOSTILE, "", "\0", "../../x", "-", "A" * 5000, "\x1b[31m", "[bold]", "nan", "1e999"]),
)
NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**400, -(10**30)]),
    st.floats(),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)


def tries(examples: int) -> Callable[[Any], Any]:
    """Settings for a test that runs so many examples in the suite."""
    return settings(
        max_examples=examples * TIMES if LONG else examples,
        deadline=None,
        derandomize=not LONG,
        database=None if not LONG else settings().database,
        suppress_health_check=list(HealthCheck),
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every way into nested lists and dicts."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def get(value: Any, path: tuple[Any, ...]) -> Any:
    """What stands at the end of ``path``."""
    for key in path:
        value = value[key]
    return value


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    """Change the place at the end of ``path``."""
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def changed_json(data: st.DataObject, value: Any) -> Any:
    """``value``, some places of which now hold something else."""
    for _ in range(data.draw(st.integers(1, 3))):
        found = list(places(value))
        if not found:
            break
        place = data.draw(st.sampled_from(found))
        put(value, place, data.draw(JSON | _of_the_same_type(get(value, place))))
    return value


def _of_the_same_type(value: Any) -> st.SearchStrategy[Any]:
    """Values that come past a check of types."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int):
        return st.integers(-1, 5) | st.integers(value - 1, value + 1) | NUMBERS
    if isinstance(value, float):
        return st.floats(allow_nan=False, allow_infinity=False) | st.just(value * 2)
    return TEXT if isinstance(value, str) else st.just([])


def changed_text(data: st.DataObject, text: str, words: Sequence[str]) -> str:
    """A text into which words, or a few characters, were put in place of others."""
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        word = data.draw(st.one_of(st.sampled_from(words), st.text(max_size=5)))
        text = text[:at] + word + text[at + data.draw(st.integers(0, 10)) :]
    return text


def mutated_bytes(data: st.DataObject, original: bytes) -> bytes:
    """A file with some bytes changed, a piece taken out, or its end gone."""
    content = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        if not content:
            break
        at = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["byte", "word", "cut", "drop", "twice"]))
        if kind == "byte":
            content[at] = data.draw(st.integers(0, 255))
        elif kind == "word":
            content[at : at + 4] = data.draw(
                st.sampled_from([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x01\0\0\0"])
            )
        elif kind == "cut":
            del content[at:]
        elif kind == "drop":
            del content[at : at + data.draw(st.integers(1, 40))]
        else:
            content[at:at] = content[at : at + 64]
    return bytes(content)


def harmful(text: str) -> list[str]:
    """The characters that a terminal would obey, line feeds and tabs aside."""
    return [
        char for char in text if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn")
    ]
