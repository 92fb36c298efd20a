"""Saving a session's measurements as a plan file, after asking for its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from labconsole.engine.protocol import SessionLike
from labconsole.errors import ConfigError
from labconsole.model.plan.writer import plan_from_requests, plan_text, write_plan
from labconsole.tui.console import clock
from labconsole.tui.parts import plan_files
from labconsole.tui.parts.dialogs import AskText
from labconsole.tui.parts.screen import Application


def ask_and_save(
    app: Application, session: SessionLike, ask: Callable[[AskText], object], saved: Callable[[], object]
) -> None:
    """``ask`` shows the question. ``saved`` is called once the file is written. The console knows what was measured."""
    done = [(request, max(1, trials)) for request, trials in app.state.done.items()]
    name = f"session-{datetime.fromtimestamp(clock.wall_s(), UTC):%Y%m%d-%H%M}"
    try:
        sample = plan_from_requests(name, done, session.inventory)
    except ConfigError as exc:
        app.tell(str(exc), "warning")
        return
    kind = "a list of points" if sample.listed else "a full matrix"
    explanation = (
        f"{len(sample.points)} points ({kind}), {sample.trials} trials. The file goes to {plan_files.DIRECTORY}/."
    )

    async def take(name: str) -> str:
        try:
            plan = plan_from_requests(name.strip(), done, session.inventory)
            ended = f"{datetime.fromtimestamp(clock.wall_s(), UTC):%Y-%m-%d %H:%M} UTC"
            remark = f"What was measured on {session.inventory.testbed} in the session that ended {ended}."
            path = plan_files.DIRECTORY / f"{plan.name}.yaml"
            await asyncio.to_thread(write_plan, path, plan_text(plan, [remark]))
        except ConfigError as exc:
            return str(exc)
        app.tell(f"Saved {path}; `labconsole replay {path}` repeats it.")
        saved()
        return ""

    ask(AskText("Save this session as a plan. Its name:", name, explanation, take))
