"""What all commands write in the same way: JSON lines and plain lines on stdout, complaints on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from labconsole.text.sanitize import single_line, unwrap_stream


def print_json_line(data: Mapping[str, Any]) -> None:
    """One object on stdout, at once."""
    import json

    print_lines(json.dumps(data))


def print_lines(*lines: str) -> None:
    """Lines on stdout, each of them one, at once and all of it: what a full pipe had no room for when a signal came,
    Python's own file loses.
    """
    text = "".join(f"{single_line(line)}\n" for line in lines)
    stream = unwrap_stream(sys.stdout)
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError):  # a host of the program that keeps what is said
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    stream.flush()
    left = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
    while left:
        left = left[os.write(descriptor, left) :]


def answer(data: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """The same to machines or to people."""
    if as_json:
        print_json_line(data)
    else:
        print_lines(*lines)


def print_error(sentence: object) -> None:
    """One sentence on stderr, by the program's name."""
    sys.stderr.write(f"labconsole: {single_line(str(sentence))}\n")
