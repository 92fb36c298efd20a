"""Measuring from Python: sessions, and one design point now or the missing trials of plans. Async and blocking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from labconsole.api.design_point_parser import parse_design_point, refuse_unknown
from labconsole.api.plan_files import exclusive_replay, refuse_twice
from labconsole.api.testbed import open_session
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome, Progress
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.live.events import NodeState
from labconsole.engine.testbed import Testbed
from labconsole.errors import ConfigError, NodeUnreachable
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import build_occasion_plan
from labconsole.model.record.run import RunRecord
from labconsole.model.yaml_file import locate_errors
from labconsole.store.open import open_store
from labconsole.store.writing import RunStore

# -- sessions ----------------------------------------------------------------------------------------------------------
# A session with connected nodes, and a separate event loop for callers without one or with a running one.

T = TypeVar("T")


@asynccontextmanager
async def connected(session: Testbed[RunStore], nodes: Sequence[str]) -> AsyncIterator[None]:
    """Connect to these nodes and close everything afterwards. Raises NodeUnreachable, naming every unreachable node."""
    try:
        await session.connect(list(nodes))
        failed = [name for name in nodes if session.telemetry.nodes[name].state is not NodeState.CONNECTED]
        if failed:
            reasons = "; ".join(f"{name}: {session.telemetry.nodes[name].message}" for name in failed[1:])
            first = NodeUnreachable(failed[0], session.telemetry.nodes[failed[0]].message)
            raise NodeUnreachable(failed[0], first.message + (f"; {reasons}" if reasons else ""))
        yield
    finally:
        await session.close()


def run_in_own_loop(work: Callable[[], Coroutine[None, None, T]]) -> T:
    """Return the coroutine's result. It runs in a thread, because a notebook has a loop that runs already.

    An interrupt cancels it, so that everything is undone on the nodes, and is raised then.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work())

    def body() -> T:
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(task)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    with ThreadPoolExecutor(1, "labconsole") as thread:
        future = thread.submit(body)
        try:
            return future.result()
        except BaseException:
            with suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(task.cancel)
            raise


# -- measuring ---------------------------------------------------------------------------------------------------------


def load_testbed(hosts: str | Path = "hosts.yaml") -> Inventory:
    """Load a testbed from its file: ``nodes``, ``platforms``, ``streams``, ``defaults``. Raises ConfigError."""
    return load_inventory(Path(hosts))


async def run_async(
    testbed: Inventory | str | Path = "hosts.yaml",
    *,
    store: str | Path | None = None,
    repetitions: int = 1,
    take_over: bool = False,
    **point: Any,
) -> list[RunRecord]:
    """Measure one design point and save every run; returns their records, each with its verdict.

    ``point``: platform, frame_size_bytes, includes_fcs, sources, target, duration_s, background, generator, observe, as
    for `labconsole run`. ``store``: a file or URL, or None for the user's own. Raises LabError.
    """
    refuse_unknown(point, "run", parse_design_point, run_async)
    inventory = _inventory(testbed)
    request = parse_design_point(inventory, **point)
    if repetitions < 1:
        raise ConfigError("must be 1 or more", key="repetitions", value=repetitions)
    with open_store(None if store is None else str(store)) as opened:
        session = open_session(inventory, opened)
        session.check_background(request)
        async with connected(session, session.nodes_of(request)):
            return await session.run(request, repetitions, take_over=take_over)


def run(testbed: Inventory | str | Path = "hosts.yaml", **options: Any) -> list[RunRecord]:
    """The blocking form of run_async()."""
    return run_in_own_loop(lambda: run_async(testbed, **options))


@dataclass(frozen=True, slots=True)
class Replayed:
    """How plans ended, by the name that their runs have. ``complete``: whether all requested trials are stored."""

    outcomes: dict[str, Outcome]

    @property
    def complete(self) -> bool:
        """Whether all plans are complete."""
        return all(outcome.complete for outcome in self.outcomes.values())


async def replay_async(
    plans: str | Path | Sequence[str | Path],
    testbed: Inventory | str | Path = "hosts.yaml",
    *,
    store: str | Path | None = None,
    occasion: str | None = None,
    take_over: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Replayed:
    """Measure the missing trials of plans, one plan after the other, and save each at once. Raises LabError.

    ``occasion``: measure the plans once more, under this name (docs/compare.md).
    """
    inventory = _inventory(testbed)
    paths = [Path(plans)] if isinstance(plans, str | Path) else [Path(each) for each in plans]
    with open_store(None if store is None else str(store)) as opened:
        session = open_session(inventory, opened)
        read = [load_plan(path, inventory, also=session.check_background) for path in paths]
        meant = [plan if occasion is None else build_occasion_plan(plan, occasion) for plan in read]
        refuse_twice(paths, meant)
        if len({plan.name for plan in meant}) < len(meant):
            raise ConfigError("two of these plans have the same name", value=", ".join(plan.name for plan in meant))
        for path, plan in zip(paths, meant, strict=True):
            for experiment in session.experiments:
                with locate_errors(path):
                    experiment.refuse(experiment.steps(plan, None), plan, inventory, session.stage)
        executions = [PlanExecution(plan, session, on_progress) for plan in meant]
        needed = [node for plan in meant for point in plan.points for node in session.nodes_of(point.request)]
        with exclusive_replay(opened, inventory, meant):
            async with connected(session, list(dict.fromkeys(needed)) or [inventory.uut]):
                await PlanRunner(executions, session, take_over=take_over).run()
    return Replayed({execution.plan.name: execution.outcome for execution in executions})


def replay(
    plans: str | Path | Sequence[str | Path], testbed: Inventory | str | Path = "hosts.yaml", **options: Any
) -> Replayed:
    """The blocking form of replay_async()."""
    refuse_unknown(options, "replay", replay_async)
    return run_in_own_loop(lambda: replay_async(plans, testbed, **options))


def _inventory(testbed: Inventory | str | Path) -> Inventory:
    return testbed if isinstance(testbed, Inventory) else load_testbed(testbed)
