"""Output of all commands: JSON lines and plain lines on stdout, errors on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from labconsole.text.sanitize import sanitize, unwrap_stream


def print_json_line(data: Mapping[str, Any]) -> None:
    """Write one object to stdout, without buffering."""
    import json

    print_lines(json.dumps(data))


def print_lines(*lines: str) -> None:
    """Write all of the text to stdout, without buffering.

    Python's own file loses text that a full pipe did not accept when a signal arrived.
    """
    text = "".join(f"{line}\n" for line in lines)
    stream = unwrap_stream(sys.stdout)
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError):  # an embedding program that captures output
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    stream.flush()
    cleaned = text if stream is sys.stdout else sanitize(text)
    left = memoryview(cleaned.encode(stream.encoding, stream.errors or "strict"))
    while left:
        left = left[os.write(descriptor, left) :]


def answer(data: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print the same content for machines or for people."""
    if as_json:
        print_json_line(data)
    else:
        print_lines(*lines)


def print_error(sentence: object) -> None:
    """Print one sentence on stderr, after the program's name."""
    sys.stderr.write(f"labconsole: {sentence}\n")
