"""Commands that a plan runs on the operator's machine before and after it.

Their output is not shown, only quoted if they fail: the screen belongs to the console, standard output to results.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
from collections.abc import Mapping
from contextlib import suppress

from labconsole.errors import MeasurementError
from labconsole.model.plan.execution_options import HookCommand
from labconsole.model.plan.plan import Plan

log = logging.getLogger("labconsole.plan")

KILL_AFTER_S = 5.0
QUOTED_CHARACTERS = 300


class Hooks:
    """The commands of one execution of a plan. Each runs once, also if a node is lost in between."""

    def __init__(self, plan: Plan, testbed: str) -> None:
        self._plan, self._testbed = plan, testbed
        self._trials = ""
        self._begun = self._ended = False

    async def before(self, trials: int) -> None:
        """Run the pre commands. ``trials``: grid trials to take. Raises MeasurementError if a command fails."""
        if not self._begun:
            self._begun = True
            self._trials = str(trials) if self._plan.grid else ""  # the number of a search's trials is unknown
            for command in self._plan.pre:
                await run_command(command, self._environment(""), "pre")

    async def after(self, ending: str) -> list[str]:
        """Run every post command if the pre commands were begun; return the failures."""
        problems: list[str] = []
        if self._begun and not self._ended:
            self._ended = True
            for command in self._plan.post:
                try:
                    await run_command(command, self._environment(ending), "post")
                except MeasurementError as exc:
                    problems.append(str(exc))
        return problems

    def _environment(self, ending: str) -> dict[str, str]:
        return {
            "LABCONSOLE_PLAN": self._plan.name,
            "LABCONSOLE_PLAN_HASH": self._plan.hash(),
            "LABCONSOLE_ROLE": self._plan.role,
            "LABCONSOLE_TESTBED": self._testbed,
            "LABCONSOLE_TRIALS": self._trials,
            "LABCONSOLE_ENDING": ending,
        }


async def run_command(command: HookCommand, environment: Mapping[str, str], key: str) -> None:
    """Run a command to its end. Raises MeasurementError if it cannot be started, fails or takes too long."""
    command_line = shlex.join(command.run)
    try:
        process = await asyncio.create_subprocess_exec(
            *command.run,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is for the console, which ends the command in order
        )
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise MeasurementError(f"{key} command {command_line} could not be started: {reason}") from exc
    try:
        async with asyncio.timeout(command.timeout_s):
            output, _ = await process.communicate()
    except TimeoutError:
        raise MeasurementError(f"{key} command {command_line} did not end within {command.timeout_s:g} s") from None
    finally:
        await _end(process)
    text = output.decode(errors="replace").strip()
    log.info("%s command %s: exit status %s: %s", key, command_line, process.returncode, text)
    if process.returncode != 0:
        output_end = f": {text[-QUOTED_CHARACTERS:]}" if text else ", and printed nothing"
        raise MeasurementError(f"{key} command {command_line} failed with exit status {process.returncode}{output_end}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate the process and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_AFTER_S):
                await process.wait()
