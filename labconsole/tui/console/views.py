"""Named views of the list of runs, kept between sessions: filter, order and columns.

Losing them costs some typing, never more: a file that cannot be read is only reported in the log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labconsole.tui.console.state_file import read_mapping, write_atomically

MOST_VIEWS = 100
MOST_CHARACTERS = 1000
NAME_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class View:
    """A filter as typed, the column to sort by, and the hidden columns."""

    filter: str
    sort: str = "started"
    descending: bool = True
    hidden: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the console's file has it."""
        return {"filter": self.filter, "sort": self.sort, "descending": self.descending, "hidden": self.hidden}


class SavedViews:
    """If ``path`` is None, they last as long as the console."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._views: dict[str, View] = {}

    def all(self) -> dict[str, View]:
        """Every view by its name. Reads the file each time, since another console may have changed it."""
        return dict(self._views) if self._path is None else self._read()

    def keep(self, name: str, view: View) -> str:
        """Keep a view, replacing one of that name. Returns why it could not be written, or ""."""
        views = {**self.all(), name: view}
        if len(views) > MOST_VIEWS:
            return f"there are {MOST_VIEWS} views already; remove one first"
        return self._write(views)

    def remove(self, name: str) -> str:
        """Remove a view. Returns why it could not be written, or ""."""
        return self._write({key: view for key, view in self.all().items() if key != name})

    def _write(self, views: dict[str, View]) -> str:
        if self._path is None:
            self._views = views
            return ""
        try:
            write_atomically(self._path, json.dumps({name: view.to_json() for name, view in views.items()}, indent=1))
        except OSError as exc:
            return f"{self._path} cannot be written: {exc.strerror or exc}"
        return ""

    def _read(self) -> dict[str, View]:
        assert self._path is not None
        views = {name: _view(value) for name, value in read_mapping(self._path).items()}
        return {name: view for name, view in list(views.items())[:MOST_VIEWS] if view is not None and is_name(name)}


def is_name(name: str) -> bool:
    """Whether the text can be the name of a view."""
    return bool(name.strip()) and name.isprintable() and len(name) <= NAME_CHARACTERS


def _view(value: object) -> View | None:
    """Read a view as written, or None if it is none."""
    if not isinstance(value, dict):
        return None
    text, sort, descending, hidden = (value.get(key) for key in ("filter", "sort", "descending", "hidden"))
    if not isinstance(text, str) or not text.isprintable() or len(text) > MOST_CHARACTERS:
        return None
    if not isinstance(sort, str) or not isinstance(descending, bool) or not isinstance(hidden, list):
        return None
    return View(text, sort, descending, tuple(str(name) for name in hidden[:MOST_VIEWS]))
