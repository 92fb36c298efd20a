"""What the headless commands write, made harmless to a terminal in one place.

A record may come from somebody else's export and a message from a node: either may hold escape sequences, overrides
of the text's direction or half a surrogate pair. Rather than trusting every command to remember that, all their output
goes through here. JSON lines are not touched by it: they are ASCII, with everything else escaped.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

INSTEAD = "·"
_UNUSUAL = re.compile(r"[^\t\n -~]")
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def harmless(text: str) -> str:
    """``text`` with a middle dot for every character that is not a printable one, a tab or a line feed."""
    return _UNUSUAL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    return INSTEAD if unicodedata.category(char) in _HARMFUL else char


class HarmlessStream:
    """A text stream that writes only what is harmless; everything else about it is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write ``text``, cleaned."""
        return self.stream.write(harmless(text))

    def writelines(self, lines: Any) -> None:
        """Write each of ``lines``, cleaned."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def harmless_output() -> Iterator[None]:
    """All that is written to stdout and stderr inside is harmless."""
    with (
        redirect_stdout(cast(TextIO, HarmlessStream(sys.stdout))),
        redirect_stderr(cast(TextIO, HarmlessStream(sys.stderr))),
    ):
        yield


def undisguised(stream: TextIO) -> TextIO:
    """The stream behind a harmless one, for who draws with escape sequences of its own."""
    return stream.stream if isinstance(stream, HarmlessStream) else stream
