"""Export of runs to a new file: the question for its name, and the writing in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from textual.app import App

from labconsole.engine.protocol import RunsStore
from labconsole.tui.console import clock
from labconsole.tui.parts.ask_text import AskText
from labconsole.tui.screens.runs import run_files
from labconsole.tui.screens.runs.run_files import RunsToWrite


class RunExport:
    """``ask`` for a file and write runs to it. ``tell`` reports the file, or why it was not written."""

    def __init__(self, app: App[Any], store: RunsStore, tell: Callable[[str, str], None]) -> None:
        self._app, self._store, self._tell = app, store, tell

    def ask(self, runs: RunsToWrite, which: str, instead: str = "") -> None:
        """Ask for the file's name. ``which``: the runs, such as "marked". ``instead``: how to export others."""
        name = f"runs-{datetime.fromtimestamp(clock.wall_s(), UTC):%Y%m%dT%H%M%SZ}.jsonl"
        noun = "run" if len(runs) == 1 else "runs"
        explanation = ".jsonl: records for `labconsole runs import`; .csv: one row per run. Existing files are kept."
        explanation = f"{explanation} {instead}" if instead else explanation
        self._app.push_screen(
            AskText(f"Export {len(runs)} {noun} {which}", name, explanation, partial(self._take, runs))
        )

    async def _take(self, runs: RunsToWrite, name: str) -> str:
        try:
            path, stream = await asyncio.to_thread(run_files.create, name)
        except ValueError as exc:
            return str(exc)
        write = partial(run_files.write, path, stream, runs, self._store)
        self._app.run_worker(self._write(write, str(path)), group="export")
        return ""

    async def _write(self, write: Callable[[], tuple[int, list[str]]], path: str) -> None:
        written, problems = await asyncio.to_thread(write)
        if problems:
            rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            self._tell(f"not exported to {path}: {problems[0]}{rest}", "warning" if written else "error")
        if written:
            self._tell(f"exported {written} {'run' if written == 1 else 'runs'} to {path}", "information")
