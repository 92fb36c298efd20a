"""Memory of the last set-up run on each testbed, and of the last theme. Losing it costs a few keys, never more.

So a file that cannot be read or written is only reported in the log.
"""

from __future__ import annotations

import json
import logging
from dataclasses import fields
from pathlib import Path

from labconsole.tui.console.form import FormValues
from labconsole.tui.console.state_file import read_mapping, write_atomically
from labconsole.tui.console.views import SavedViews

log = logging.getLogger("labconsole.tui")

MOST_TESTBEDS = 100
MOST_CHARACTERS = 64


class ConsoleMemory:
    """``set_ups`` or ``theme`` is None if it is not to be kept."""

    def __init__(self, set_ups: Path | None, theme: Path | None = None) -> None:
        self._path, self._theme = set_ups, theme
        self.views = SavedViews(set_ups.with_name("views.json") if set_ups is not None else None)

    def recall(self, testbed: str) -> FormValues | None:
        """The last set-up run on a testbed, as typed, or None."""
        kept = self._read().get(testbed)
        names = [field.name for field in fields(FormValues)]
        if not isinstance(kept, dict) or sorted(kept) != sorted(names):
            return None
        values = [kept[name] for name in names]
        if not all(
            isinstance(value, str) and len(value) <= MOST_CHARACTERS and value.isprintable() for value in values
        ):
            return None
        return FormValues(*values)

    def keep(self, testbed: str, values: FormValues) -> None:
        """Remember a set-up, whole or not at all."""
        if self._path is None:
            return
        kept = {**self._read(), testbed: values.to_json()}
        _write(self._path, json.dumps(dict(list(kept.items())[-MOST_TESTBEDS:]), indent=1))

    def recall_theme(self) -> str | None:
        """The last chosen theme, or None."""
        if self._theme is None:
            return None
        try:
            with self._theme.open(encoding="utf-8") as file:
                return file.read(MOST_CHARACTERS).strip()
        except (OSError, ValueError):
            return None

    def keep_theme(self, name: str) -> None:
        """Remember a theme."""
        if self._theme is not None:
            _write(self._theme, f"{name}\n")

    def _read(self) -> dict[str, object]:
        return read_mapping(self._path) if self._path is not None else {}


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        write_atomically(path, text)
    except OSError as exc:
        log.info("could not save %s: %s", path, exc)
