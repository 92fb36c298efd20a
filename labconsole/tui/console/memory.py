"""What the console keeps between sessions: the last set-up per testbed, the theme, named views of the run list."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from labconsole.tui.console.form import FormValues

# -- state file --------------------------------------------------------------------------------------------------------
# A small file that the console keeps between sessions: written whole or not at all, read with a size limit.

log = logging.getLogger("labconsole.tui")

MOST_BYTES = 1_000_000


def write_atomically(path: Path, text: str) -> None:
    """Replace the file's contents. Raises OSError and then keeps the old contents."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def read_mapping(path: Path) -> dict[str, object]:
    """Return the file's JSON object, or an empty one if it is missing or unreadable. Only the log reports that."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        log.info("could not read %s: %s", path, exc)
        return {}
    return kept if isinstance(kept, dict) else {}


# -- views -------------------------------------------------------------------------------------------------------------
# Named views of the list of runs, kept between sessions: filter, order and columns.
#
# Losing them costs some typing, never more: a file that cannot be read is only reported in the log.

MOST_VIEWS = 100
MOST_VIEW_CHARACTERS = 1000
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
    if not isinstance(text, str) or not text.isprintable() or len(text) > MOST_VIEW_CHARACTERS:
        return None
    if not isinstance(sort, str) or not isinstance(descending, bool) or not isinstance(hidden, list):
        return None
    return View(text, sort, descending, tuple(str(name) for name in hidden[:MOST_VIEWS]))


# -- memory ------------------------------------------------------------------------------------------------------------
# Memory of the last set-up run on each testbed, and of the last theme. Losing it costs a few keys, never more.
#
# So a file that cannot be read or written is only reported in the log.

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
