"""What all commands write in the same way: JSON lines and plain lines on stdout, complaints on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any


def json_line(data: Mapping[str, Any]) -> None:
    """One object on stdout, at once."""
    import json

    plain_lines(json.dumps(data))


def plain_lines(*lines: str) -> None:
    """Text on stdout, at once."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def answer(data: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """The same to machines or to people."""
    if as_json:
        json_line(data)
    else:
        plain_lines(*lines)


def complain(sentence: object) -> None:
    """One sentence on stderr, by the program's name."""
    sys.stderr.write(f"labconsole: {sentence}\n")
