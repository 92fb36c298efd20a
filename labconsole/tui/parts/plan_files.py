"""The plan files that the console offers: those in its start directory and in ``plans/`` below it. Writes one, too.

Reading is blocking and cached: a file is parsed again only if it changed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from labconsole.engine.protocol import SessionLike
from labconsole.errors import ConfigError, OtherTestbed
from labconsole.model.inventory import Inventory
from labconsole.model.plan.loader import AlsoCheck, load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.writer import plan_from_requests, plan_text, write_plan
from labconsole.tui.console import clock
from labconsole.tui.parts.dialogs import AskText
from labconsole.tui.parts.screen import Application

DIRECTORY = Path("plans")
HERE = Path()
SUFFIXES = (".yaml", ".yml")
_PLAN_KEY = re.compile(rb"^(\xef\xbb\xbf)?plan[ \t]*:", re.MULTILINE)
HEAD_BYTES = 64 * 1024
"""Bytes of a file that are read to decide whether it is a plan."""


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One file: a plan resolved for this testbed, or why it is none (file, line, key, what is allowed)."""

    path: Path
    stamp: tuple[int, int]
    plan: Plan | None
    problem: str
    needs: tuple[str, ...] = ()
    """What this testbed lacks, as text: the plan is valid, but for another testbed."""

    @property
    def name(self) -> str:
        return self.path.name


def scan(inventory: Inventory, known: Mapping[Path, PlanEntry], also: AlsoCheck | None = None) -> list[PlanEntry]:
    """Find every plan file, by name: all YAML files in ``plans/``, and those here that have the key ``plan``.

    A directory that does not exist counts as empty. Raises ConfigError if one cannot be read.
    """
    found = []
    for path in (*_yaml_files(DIRECTORY), *filter(_has_plan_key, _yaml_files(HERE))):
        try:
            status = path.stat()
        except OSError:
            continue  # removed meanwhile, or a dangling link
        stamp = (status.st_mtime_ns, status.st_size)
        entry = known.get(path)
        found.append(entry if entry is not None and entry.stamp == stamp else read(path, stamp, inventory, also))
    return found


def _yaml_files(directory: Path) -> list[Path]:
    try:
        found = [p for p in directory.iterdir() if p.suffix in SUFFIXES and not p.name.startswith(".")]
        return sorted(p for p in found if p.is_file())  # opening a pipe would wait for its other end
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise ConfigError(f"could not be read: {exc.strerror or exc}", file=str(directory)) from exc


def _has_plan_key(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return _PLAN_KEY.search(stream.read(HEAD_BYTES)) is not None
    except OSError:
        return False


def read(path: Path, stamp: tuple[int, int], inventory: Inventory, also: AlsoCheck | None = None) -> PlanEntry:
    """Read one file."""
    try:
        return PlanEntry(path, stamp, load_plan(path, inventory, also=also), "")
    except OtherTestbed as exc:
        return PlanEntry(path, stamp, None, str(exc), exc.needs)
    except ConfigError as exc:
        return PlanEntry(path, stamp, None, "\n".join(exc.sentences))


# -- session plan ------------------------------------------------------------------------------------------------------
# A session's measurements as a plan file, after asking for its name.


def ask_and_save_session(
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
    explanation = f"{len(sample.points)} points ({kind}), {sample.trials} trials. The file goes to {DIRECTORY}/."

    async def take(name: str) -> str:
        try:
            plan = plan_from_requests(name.strip(), done, session.inventory)
            ended = f"{datetime.fromtimestamp(clock.wall_s(), UTC):%Y-%m-%d %H:%M} UTC"
            remark = f"What was measured on {session.inventory.testbed} in the session that ended {ended}."
            path = DIRECTORY / f"{plan.name}.yaml"
            await asyncio.to_thread(write_plan, path, plan_text(plan, [remark]))
        except ConfigError as exc:
            return str(exc)
        app.tell(f"Saved {path}; `labconsole replay {path}` repeats it.")
        saved()
        return ""

    ask(AskText("Save this session as a plan. Its name:", name, explanation, take))
