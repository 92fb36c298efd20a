"""The recipes of what plugs in: a toy of each, in a directory of its own, is found wherever its kind is asked about.

Nothing of labconsole is edited for it; that is what "one new file" means.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labconsole.cli.main import main
from labconsole.engine import testbed
from labconsole.engine.check import context, runner, tools, uut
from labconsole.engine.check.context import CheckContext, Wave, check, find_checks
from labconsole.engine.check.result import CheckFinding, failed
from labconsole.model.plan.estimate import estimate
from labconsole.model.plan.loader import load_plan
from labconsole.platforms.loading import build_driver, guest_processes
from labconsole.wire.survey import Survey, TakeSurvey
from support.asking import partly
from support.driver_table import table
from support.fake_session import make_inventory
from support.plugged_in import plugged_in

DRIVER = """\
from pydantic import BaseModel, ConfigDict, Field

from labconsole.contracts.driver import DriverInfo, Prepared, StreamPath
from labconsole.platforms.base.options import read_options


class AbacusOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    beads: int = Field(default=10, description="on each wire")


class AbacusDriver:
    about = DriverInfo(
        name="abacus", summary="beads on wires", tried="on a desk", Options=AbacusOptions, tools=("abacusctl",),
        load_inside=False, boot_s=7.0, processes=("abacus-.*",),
    )

    def __init__(self, name, options):
        self.options = read_options(AbacusOptions, "abacus", name, options)

    def refusal(self, background):
        return None

    def commands(self, wirings, second=None):
        return [f"abacusctl start --beads {self.options.beads} {each.uut_in} {each.uut_out}" for each in wirings]

    async def prepare(self, uut, wirings, *, second=None):
        return Prepared(paths={each.name: StreamPath(destination_mac=each.sink_mac, points=()) for each in wirings})

    async def restore(self, uut):
        pass


DRIVER = AbacusDriver
"""
PLATFORMS = {"raw": {"driver": "raw"}, "wood": {"driver": "abacus", "beads": 3}}
PLAN = """\
plan: toys
platforms: [raw, wood]
frame_sizes: [64]
sources: [1]
targets: [1Mbit]
backgrounds: [none, light]
duration_s: 1.0
"""


def a_session(inventory: Any) -> Any:
    """A session as the command line makes it, but for nodes and a store."""
    return testbed.Testbed(
        inventory,
        connect=cast(Any, None),
        driver_for=build_driver,
        guest_processes=guest_processes,
        store=cast(Any, None),
    )


def test_a_driver_is_one_new_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    with plugged_in(tmp_path / "site", "labconsole.drivers", {"abacus": DRIVER}):
        inventory = make_inventory(platforms=PLATFORMS)
        session = a_session(inventory)
        plan = load_plan(tmp_path / "plan.yaml", inventory, also=session.check_background)
        sent: list[TakeSurvey] = []

        async def ask(request: TakeSurvey, *, timeout_s: float) -> Survey:
            sent.append(request)
            return partly(Survey, {"tools": {"stress": "/usr/bin/stress"}})

        async def check() -> Any:
            bench = CheckContext(session, plan, fix=False)
            session._pool.links["uut"] = SimpleNamespace(ask=ask)
            return await tools.platform(bench, "uut")

        # The check asks for its program, and for the load's, and sends what its guests' processes are called.
        found = asyncio.run(check())
        assert (found.status, found.evidence) == ("fail", "no abacusctl (for wood)")
        assert sent[0].tools == ["nft", "abacusctl", "stress"]
        assert {"abacus-.*", "qemu-kvm"} <= set(sent[0].guests or ())
        # The plan's estimate reckons with its boot: one guest without a background, two with one.
        with_it = estimate(plan, inventory, session.boots_s)
        assert with_it.total_s - estimate(plan, inventory, {}).total_s == pytest.approx(
            with_it.platform_switches / 2 * 1.5 * 7.0
        )
        # The dry run says its commands, the schema its options, the manual's table its row.
        assert main(["schema", "hosts"]) == 0
        schema = json.loads(capsys.readouterr().out)["$defs"]
        assert schema["abacus"]["properties"]["beads"] == {
            "default": 10,
            "description": "on each wire",
            "title": "Beads",
            "type": "integer",
        }
        assert {"$ref": "#/$defs/abacus"} in schema["Platform"]["oneOf"]
        assert "| `abacus` | beads on wires | `beads` (on each wire; default 10) | on a desk |\n" in table()
    assert "abacus" not in table()


def test_a_check_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    async def dust(bench: CheckContext, node: str) -> CheckFinding:
        return failed(f"1 g on {node}", "wipe it")

    dust.__module__ = uut.__name__  # as if it stood in the file of its subject
    check("uut.dust", "dust", roles=("uut",), wave=Wave.FIRST)(dust)
    try:
        entered = find_checks(runner.SUBJECTS)
        assert [(each.id, each.title) for each in entered if each.run is dust] == [("uut.dust", "dust")]
        # Checks of its wave come before the others, in the order of the subjects.
        ids = [each.id for each in entered]
        assert ids.index("lease") < ids.index("nic.present") < ids.index("uut.dust") < ids.index("tools.capture")
        monkeypatch.setattr(runner, "CHECKS", entered)
        assert runner.catalogue()["uut.dust"] == "dust"
    finally:
        context._BY_MODULE[uut.__name__].pop()
