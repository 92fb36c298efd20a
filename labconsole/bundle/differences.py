"""Differences, reported one by one up to a limit: a crafted bundle may have any number of them."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]
"""Called with each difference, as a sentence that begins with its place."""

MAX_DIFFERENCES = 500
"""The number of differences reported one by one; the rest are only counted."""

MAX_SENTENCE_CHARACTERS = 2000


class Differences:
    """Counts differences and reports the first ``MAX_DIFFERENCES`` of them. Call it with a sentence, as a ``Tell``."""

    def __init__(self, tell: Tell) -> None:
        self.count = 0
        self._tell = tell

    def __call__(self, sentence: str) -> None:
        self.count += 1
        if self.count <= MAX_DIFFERENCES:
            self._tell(cut(sentence))

    def end(self) -> None:
        """Report how many more there are."""
        if self.count > MAX_DIFFERENCES:
            self._tell(f"{self.count - MAX_DIFFERENCES} more differences are not listed")


def cut(sentence: str) -> str:
    """A sentence, shortened to a readable length."""
    return sentence if len(sentence) <= MAX_SENTENCE_CHARACTERS else sentence[: MAX_SENTENCE_CHARACTERS - 1] + "…"
