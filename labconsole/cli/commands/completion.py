"""``labconsole completion``: what bash or zsh complete the command line by."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labconsole.cli.commands import About
from labconsole.cli.options import add_common

about = About(
    190,
    "print completions for a shell",
    description="Print the completions of this version for a shell, such as: labconsole completion bash > "
    "~/.local/share/bash-completion/completions/labconsole, or, for zsh, into a file _labconsole in a directory of "
    "$fpath.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    add_common(parser)
    parser.add_argument("shell", choices=("bash", "zsh"), help="shell")


def run(args: argparse.Namespace) -> int:
    """0 when it is printed."""
    sys.stdout.write(completions(args.build_parser(), args.shell))
    return 0


def completions(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a shell; what takes a path completes files."""
    import shtab

    for action in _actions(parser):
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return shtab.complete(parser, shell).rstrip() + "\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        inner: Any = action.choices if isinstance(action, argparse._SubParsersAction) else {}
        for each in inner.values():
            yield from _actions(each)
