"""The commands: each file or folder here is one, and says itself what ``labconsole --help`` needs to know of it.

Its module has ``about``, ``add_arguments(parser)`` and ``run(args)``. All of them are imported for ``--help``, so they
import at their head only what takes no time; ``run`` and what it calls import the rest.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol, cast


class About(NamedTuple):
    """What the list of commands says of one, and what its own help begins with."""

    place: int
    """In the list, which is in the order of these numbers."""
    summary: str
    description: str | None = None
    draws: bool = False
    """It draws on the terminal with escape sequences of its own and cleans what it shows; nothing is logged there."""


class Command(Protocol):
    """The module of a command."""

    about: About

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its options, arguments and actions."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit status. Raises LabError."""


def names() -> set[str]:
    """The commands that there are. Imports none of them, nor pkgutil, which takes longer than all of them."""
    places = [Path(place) for place in __path__]
    files = {path.stem for place in places for path in place.glob("[!_]*.py")}
    return files | {path.parent.name for place in places for path in place.glob("*/__init__.py")}


def load(name: str) -> Command:
    """The command of this name."""
    return cast("Command", import_module(f"{__name__}.{name}"))
