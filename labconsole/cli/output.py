"""Output of all commands: JSON lines and plain lines on stdout, errors on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from labconsole.text.sanitize import single_line, unwrap_stream


def print_json_line(data: Mapping[str, Any]) -> None:
    """Write one object to stdout, without buffering."""
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
    except (AttributeError, OSError):  # an embedding program that captures output
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    stream.flush()
    left = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
    while left:
        left = left[os.write(descriptor, left) :]


def answer(data: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print the same content for machines or for people."""
    if as_json:
        print_json_line(data)
    else:
        print_lines(*lines)


def print_error(sentence: object) -> None:
    """One sentence on stderr, by the program's name."""
    sys.stderr.write(f"labconsole: {single_line(str(sentence))}\n")


def print_progress(line: str) -> None:
    """One line on stderr on what is being measured. It may name a node's words, which add no lines of their own."""
    sys.stderr.write(f"{single_line(line)}\n")
    sys.stderr.flush()
