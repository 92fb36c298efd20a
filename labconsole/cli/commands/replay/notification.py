"""Runs a user's command when a replay ends: words without a shell, with the outcome as JSON on its input."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from labconsole.cli.output import print_error
from labconsole.errors import ConfigError

OPTION: Final = "--notify"
LONGEST_S: Final = 60.0
_OUTPUT_CHARACTERS: Final = 200


def parse_notify_command(command: str | None) -> tuple[str, ...] | None:
    """Split the command into words. Raises ConfigError, before anything is measured, if it could not be run."""
    if command is None:
        return None
    try:
        arguments = tuple(shlex.split(command))
    except ValueError as exc:
        raise ConfigError(f"cannot be split into words: {exc}", key=OPTION, value=command) from None
    if not arguments or shutil.which(arguments[0]) is None:
        raise ConfigError("no such program", key=OPTION, value=arguments[0] if arguments else command)
    return arguments


def notify(command: Sequence[str], outcome: Mapping[str, Any]) -> None:
    """Run the command and wait for a minute at most. Its errors are reported and have no other effect. Blocking."""
    try:
        done = subprocess.run(
            command,
            input=json.dumps(outcome) + "\n",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        print_error(f"{OPTION}: {command[0]} did not end within {LONGEST_S:g} s, and was ended")
        return
    except OSError as exc:
        print_error(f"{OPTION}: {command[0]} cannot be run: {exc.strerror or exc}")
        return
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        why = f": {said[-1][:_OUTPUT_CHARACTERS]}" if said else ""
        print_error(f"{OPTION}: {command[0]} ended with status {done.returncode}{why}")
