"""Differences that are told one by one while they are few: a bundle may be made to have any number of them."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]
"""Told one difference, as a sentence that begins with its place."""

MAX_DIFFERENCES = 500
"""Told one by one; of more only the number is."""

MAX_SENTENCE_CHARACTERS = 2000


class Differences:
    """Counts differences and tells the first ``MAX_DIFFERENCES`` of them. Called with one, as a ``Tell``."""

    def __init__(self, tell: Tell) -> None:
        self.count = 0
        self._tell = tell

    def __call__(self, sentence: str) -> None:
        self.count += 1
        if self.count <= MAX_DIFFERENCES:
            self._tell(cut(sentence))

    def end(self) -> None:
        """Tell how many more there are."""
        if self.count > MAX_DIFFERENCES:
            self._tell(f"{self.count - MAX_DIFFERENCES} more differences are not listed")


def cut(sentence: str) -> str:
    """A sentence as far as anybody would read it."""
    return sentence if len(sentence) <= MAX_SENTENCE_CHARACTERS else sentence[: MAX_SENTENCE_CHARACTERS - 1] + "…"
