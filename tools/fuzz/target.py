"""A target: a reader of what others made, good inputs of its kind, and a way to change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from labconsole.errors import LabError
from support.fuzzing import mutated_bytes

Read = Callable[[bytes], None]
"""Reads one input. Raises one of the target's ``refusals`` for what it does not take."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """``open_reader``: called once, with a directory for files. ``draw``: an input made of a seed. ``words``: of the
    format, for a fuzzer that puts them together. ``input_s``: processor time that one input may take.
    """

    name: str
    summary: str
    load_seeds: Callable[[], Sequence[bytes]]
    open_reader: Callable[[Path], Read]
    refusals: tuple[type[Exception], ...] = (LabError,)
    draw: Callable[[st.DataObject, bytes], bytes] = mutated_bytes
    words: Sequence[str] = ()
    input_s: float = 5.0
