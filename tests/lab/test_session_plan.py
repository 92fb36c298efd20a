"""What was done in a session, saved as a plan and replayed headless: the same points, each as often, none besides."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.engine.execution.progress import ExecutionStatus, TrialState
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.writer import plan_from_requests, plan_text, write_plan
from labconsole.model.record.run import RunRecord
from support.asking import asked
from support.live_lab import labconsole, records
from support.live_session import connected

PLAN = """\
plan: two
platforms: [raw]
frame_sizes: [64, 1000]
targets: [5Mbit]
duration_s: 0.3
repetitions: 2
settle_s: 0
drain_s: 0.2
max_redo: 0
"""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"sess{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


def ask(**changes) -> DesignPoint:
    base: dict[str, Any] = {
        "platform": "raw",
        "frame": FrameSize(64),
        "sources": 1,
        "target": 5_000_000,
        "duration_s": 0.3,
    }
    return DesignPoint(**(base | changes))


def test_a_sessions_plan_replays_to_exactly_what_was_done(testbed, tmp_path: Path):
    path, inventory = tmp_path / "plans" / "again.yaml", load_inventory(testbed.hosts_file)

    async def session_of_an_operator() -> list[RunRecord]:
        async with connected(testbed.hosts_file, tmp_path / "session.sqlite") as session:
            taken = await session.run(ask(), 2)
            taken += await session.run(ask(frame=FrameSize(1000)), 1)
            taken += await session.run(ask(platform="container", duration_s=0.2), 1)
            return taken

    taken = asyncio.run(session_of_an_operator())
    done = list(Counter(record.requested.point for record in taken).items())
    write_plan(path, plan_text(plan_from_requests("again", done, inventory)))

    replayed = labconsole("replay", str(path), "--json", hosts=testbed.hosts_file, store=tmp_path / "r.sqlite")
    assert replayed.returncode in (0, 1), replayed.stderr
    runs = records(labconsole("runs", "--json", "--limit", "1000", store=tmp_path / "r.sqlite"))
    again = {(run["plan"]["point"], run["plan"]["repetition"]): run["requested"] for run in runs}
    asked = Counter(DesignPoint.from_columns(each) for each in again.values())
    assert asked == Counter(dict(done))
    assert asked.keys() == {record.requested.point for record in taken}
    summary = json.loads(replayed.stdout.splitlines()[-1])
    assert summary["taken"] == sum(asked.values())


def test_a_plan_is_paused_on_a_real_testbed_keeps_it_and_goes_on(testbed, tmp_path: Path):
    path = tmp_path / "two.yaml"
    path.write_text(PLAN)

    async def operator() -> None:
        async with connected(testbed.hosts_file, tmp_path / "p.sqlite") as session:
            execution = session.execution(load_plan(path, session.inventory))
            running = asyncio.create_task(session.execute(execution))
            while execution.grid.count(TrialState.RUNNING) == 0:
                await asyncio.sleep(0.01)
            execution.pause()
            while execution.status is not ExecutionStatus.PAUSED:
                await asyncio.sleep(0.01)
            assert execution.grid.count(TrialState.PENDING) == 3
            link = session.links["uut"]
            assert (await asked(link, "lease.read"))["holder"]["own"]
            looked = await session.inspect("uut")
            assert looked.settings is not None
            assert any(command.op == "settings" for command in session.telemetry.nodes["uut"].history.commands)
            execution.resume()
            assert (await running).taken == 4
            assert execution.grid.count(TrialState.PENDING, TrialState.RUNNING) == 0
            assert (await asked(link, "lease.read"))["holder"] is None

    asyncio.run(asyncio.wait_for(operator(), 60))
