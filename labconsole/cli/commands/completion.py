"""``labconsole completion``: completion scripts for bash and zsh."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

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
    """Add the command's options."""
    add_common(parser)
    parser.add_argument("shell", choices=("bash", "zsh"), help="shell")


def run(args: argparse.Namespace) -> int:
    """Return 0 on success."""
    sys.stdout.write(completions(args.build_parser(), args.shell))
    return 0


PLATFORMS = "_labconsole_platforms"
_NAMES = r"""sed -n '/^platforms:/,/^[^ #]/s/^  \([A-Za-z0-9._-]*\):.*/\1/p' hosts.yaml 2>/dev/null"""
"""Platform names of the testbed in the current directory: only its own file knows them."""

PREAMBLE = {
    "bash": f'{PLATFORMS}() {{\n  compgen -W "$({_NAMES})" -- "$1"\n}}',
    "zsh": f'{PLATFORMS}() {{\n  compadd -- ${{(f)"$({_NAMES})"}}\n}}',
}


def completions(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a shell. Options for paths complete files, and options with known values complete those."""
    import shtab

    values = _values()
    for prog, action in _actions(parser):
        named: Any = action
        flags = [flag for flag in action.option_strings if flag in values or flag in ("--platform", "--platforms")]
        if action.type is Path or action.option_strings in (["--store"], ["--ssh-config"]):
            named.complete = shtab.FILE
        elif flags and action.choices is None:
            own = values.get(f"{prog} {flags[0]}", values.get(flags[0]))
            if own is None:
                named.complete = dict.fromkeys(("bash", "zsh"), PLATFORMS)
            else:
                action.choices = own
    return shtab.complete(parser, shell, preamble=PREAMBLE[shell]).rstrip() + "\n"


def _values() -> dict[str, Sequence[str]]:
    """Values of options that the parser leaves to the command, where the options of one command follow its name. If an
    option takes several values, each is one.
    """
    from labconsole.lab.spec import KNOWN_PLATFORMS
    from labconsole.measure.groups import CONDITIONS
    from labconsole.model.design_point import BACKGROUNDS
    from labconsole.model.jobs import JOBS
    from labconsole.model.plan.search import FURTHER, PRESETS
    from labconsole.report.files import FORMATS
    from labconsole.report.reference import papers

    return {
        "--background": BACKGROUNDS,
        "--goals": (*PRESETS, *FURTHER),
        "--jobs": tuple(JOBS),
        **_factor_values(),
        "--formats": FORMATS,
        "--pool": CONDITIONS,
        "--reference": tuple(papers()),
        "labconsole lab up --platforms": KNOWN_PLATFORMS,
    }


def _factor_values() -> dict[str, Sequence[str]]:
    """Values of options for factors of guests that are one of some words."""
    from labconsole.model.plan.guest_kind import guest_kinds

    found: dict[str, Sequence[str]] = {}
    for kind in guest_kinds().values():
        fields = kind.planned.Factors.model_fields
        for option in kind.command.options:
            each = get_args(fields[option.factor].annotation)[:1] if option.factor in fields else ()
            if each and get_origin(each[0]) is Literal:
                found[option.flag] = get_args(each[0])
    return found


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """Each action with the words of its command."""
    for action in parser._actions:
        yield parser.prog, action
        inner: Any = action.choices if isinstance(action, argparse._SubParsersAction) else {}
        for each in inner.values():
            yield from _actions(each)
