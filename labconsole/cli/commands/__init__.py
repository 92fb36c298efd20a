"""The commands: each file or folder here is one, and contains its entry for ``labconsole --help``.

Its module has ``about``, ``add_arguments(parser)`` and ``run(args)``. ``--help`` imports all of them, so their heads
import only modules that load quickly; ``run`` and its callees import the rest.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol, cast


class About(NamedTuple):
    """A command's line in the list of commands, and the head of its own help."""

    place: int
    """Position in the list, which is sorted by these numbers."""
    summary: str
    description: str | None = None
    draws: bool = False
    """It draws on the terminal with its own escape sequences and sanitizes its output; nothing is logged there."""


class Command(Protocol):
    """The module of a command."""

    about: About

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options, arguments and actions."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit status. Raises LabError."""


def names() -> set[str]:
    """The names of all commands. Imports none of them, nor pkgutil, which takes longer than all of them."""
    places = [Path(place) for place in __path__]
    files = {path.stem for place in places for path in place.glob("[!_]*.py")}
    return files | {path.parent.name for place in places for path in place.glob("*/__init__.py")}


def load(name: str) -> Command:
    """The command of this name."""
    return cast("Command", import_module(f"{__name__}.{name}"))
