"""The first start, without a hosts.yaml: driven by keys, with the engine's own discovery on scripted nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from labconsole.errors import LeaseHeld, NodeUnreachable
from labconsole.model.inventory import load_inventory
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.dialogs import Confirm
from labconsole.tui.parts.overlay import Help
from labconsole.tui.screens.check.screen import CheckScreen
from labconsole.tui.screens.first.panels import DiscoveryText, MachineRow, TypedField
from labconsole.tui.screens.first.screen import FirstScreen, FirstStart
from support.driven_console import SIZES, picture, shown, text, until
from support.fake_lab_session import LabSession
from support.wired_nodes import WiredNodes

pytestmark = pytest.mark.asyncio

CABLES = [("src1/eth1", "dut1/eth1"), ("snk1/eth1", "dut1/eth2")]


@dataclass
class Started:
    """The console without a testbed."""

    app: ConsoleApp
    pilot: Pilot[int]
    nodes: WiredNodes
    hosts: Path
    opened: list[LabSession] = field(default_factory=list)

    async def type(self, words: str) -> None:
        await self.pilot.press(*("enter" if key == "\n" else key for key in words))

    async def shown(self, *words: str) -> str:
        return await shown(self.app, self.pilot, *words)

    async def machines(self, words: str = "lab@dut1\nsrc1\nsnk1\n\n") -> None:
        """Go to the machines and type these; the focus is then on what begins."""
        await self.pilot.press("enter")
        await self.shown("Name of testbed")
        await self.type(words)


@asynccontextmanager
async def started(
    directory: Path, size: tuple[int, int] = (80, 24), nodes: WiredNodes | None = None
) -> AsyncIterator[Started]:
    nodes = nodes or WiredNodes(CABLES)
    hosts = directory / "hosts.yaml"
    opened: list[LabSession] = []

    def session(path: Path) -> LabSession:
        load_inventory(path)
        opened.append(LabSession())
        return opened[-1]

    app = ConsoleApp(None, first=FirstStart(hosts, nodes.hold, session, lambda: 77))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, FirstScreen) and app.screen.is_mounted)
        here = Started(app, pilot, nodes, hosts, opened)
        await here.shown("What do you")
        yield here


@pytest.mark.parametrize("size", SIZES)
async def test_machines_are_typed_in_found_written_and_checked(size: tuple[int, int], tmp_path: Path) -> None:
    nodes = WiredNodes(CABLES, down=["dut1/eth2"])
    async with started(tmp_path, size, nodes) as first:
        await first.machines()
        await first.pilot.press("enter")
        await first.shown("Send 5 frames from each of these 4 ports?")
        (page,) = (each for each in first.app.screen_stack if isinstance(each, FirstScreen))
        told = ["".join(part for part, _ in row) for row in page.query_one("#cables", DiscoveryText).lines(80)]
        assert " dut1: eth1 (ixgbe), eth2 (ixgbe, down)" in told
        assert not any(what == "PrepareGenerator" for _, what in nodes.asked)
        nodes.go_on.clear()
        await first.pilot.press("y")
        await first.shown("dut1  sends from eth1, port 1 of 2", "trying the ports")
        nodes.go_on.set()
        found = await first.shown("hosts.yaml, as it would be written", "┤ eth1   eth2 ├")
        assert [line.split()[0] for line in found.splitlines() if "┤" in line] == ["src1/eth1"]
        assert nodes.let_go == 1
        assert ("dut1", "UndoChanges") in nodes.asked
        assert not first.hosts.exists()
        await first.pilot.press("w")
        await until(first.pilot, lambda: isinstance(first.app.screen, Confirm))
        await first.pilot.press("y")
        await until(first.pilot, lambda: isinstance(first.app.screen, CheckScreen))
        await first.shown("5 Check", "checked in")
        written = load_inventory(first.hosts)
        assert (written.nodes["dut1"].user, str(written.streams[0].source)) == ("lab", "src1/eth1")
        await first.pilot.press("1")
        await first.shown("1 Bench", "Set-up")


async def test_every_page_fits_and_names_the_keys_that_work_on_it(tmp_path: Path) -> None:
    async with started(tmp_path) as first:
        assert picture(first.app)[-1].split() == ["enter", "Choose", "?", "Help", "q", "Quit"]
        await first.pilot.press("question_mark")
        await until(first.pilot, lambda: isinstance(first.app.screen, Help))
        assert "On the First start screen" in text(first.app)
        await first.pilot.press("escape", "enter")
        await first.shown("Name of testbed", "Discover")
        keys = ["^r", "Discover", "esc", "Back", "?", "Help"]  # q is typed
        await until(first.pilot, lambda: picture(first.app)[-1].split() == keys)
        await first.type("a-b+c")
        await first.shown("a-b+c")
        for key in ("f3", "f10"):  # of other screens, which there are none of yet
            await first.pilot.press(key)
        assert isinstance(first.app.screen, FirstScreen)
        front: Screen[Any] = first.app.screen
        offered = {command.title for command in first.app.get_system_commands(front)}
        assert "Discover" in offered
        assert not offered & {"Bench", "Since you left", "Copy run id", "Write"}
        await first.pilot.press("escape")
        await first.shown("What do you")


async def test_what_makes_no_sense_is_one_sentence_and_asks_nobody(tmp_path: Path) -> None:
    async with started(tmp_path, (120, 40)) as first:
        await first.machines("dut1\nsrc1:0\n\n")
        await first.pilot.press("enter")
        await first.shown("the port is not a number from 1 to 65535")
        await first.pilot.press("escape", "enter")
        await first.shown("Name of testbed", "dut1")  # what was typed is kept
        assert first.nodes.requests == []


async def test_rows_come_as_they_are_needed_and_say_roles(tmp_path: Path) -> None:
    nodes = WiredNodes([("src1/eth1", "dut1/eth1"), ("src2/eth1", "dut1/eth2"), ("t/eth1", "dut1/eth3")])
    async with started(tmp_path, (120, 40), nodes) as first:
        await first.machines("dut1\nsrc1\nt\nsrc2\n")
        await first.pilot.press("up", "shift+tab", "left", "left", "left")  # to the role of src2
        await first.shown("‹source              › src2")
        await first.pilot.press("ctrl+r")
        await first.shown("from each of these 6 ports?")
        (request,) = nodes.requests
        assert [(each.name, each.roles) for each in request.asked] == [
            ("dut1", ("uut",)),
            ("src1", ("source",)),
            ("t", ("sink",)),
            ("src2", ("source",)),
        ]
        await first.pilot.press("n")
        await first.shown("nothing was sent", "Name of testbed")
        assert nodes.let_go == 1


async def test_what_is_typed_faster_than_rows_are_made_goes_where_it_belongs(tmp_path: Path) -> None:
    """Enter comes before the form was told of a change: what follows it would be keys of the console's, such as q."""
    async with started(tmp_path, (120, 40)) as first:
        await first.machines("one\ntwo\nthree\n")
        *_, last = first.app.screen.query(MachineRow).results(MachineRow)
        login = last.query_one(TypedField)
        login.value = "four"
        await login.action_submit()
        *_, before, new = first.app.screen.query(MachineRow).results(MachineRow)
        assert (before, first.app.focused) == (last, new.query_one(TypedField))
        await first.type("q\n")
        assert new.address == "q"


@pytest.mark.parametrize("way", ["escape", "ctrl+q"])
async def test_who_leaves_meanwhile_leaves_nothing_behind(way: str, tmp_path: Path) -> None:
    nodes = WiredNodes(CABLES, down=["dut1/eth2"])
    async with started(tmp_path, (80, 24), nodes) as first:
        await first.machines()
        await first.pilot.press("enter")
        await first.shown("Send 5 frames")
        nodes.go_on.clear()
        await first.pilot.press("y")
        await until(first.pilot, lambda: ("dut1", "StartGenerator") in nodes.asked)
        await first.pilot.press(way, way)
        if way == "escape":
            await first.shown("cancelled; what was changed on the machines was undone")
        else:
            await until(first.pilot, lambda: first.app._exit)
        done = {node: [what for name, what in nodes.asked if name == node] for node in ("dut1", "src1", "snk1")}
        assert all(each[-1] == "UndoChanges" and "CloseGenerator" in each for each in done.values()), done
        assert nodes.let_go == 1
    assert not first.hosts.exists()


async def test_who_quits_at_the_question_leaves_nothing_behind(tmp_path: Path) -> None:
    async with started(tmp_path) as first:
        await first.machines()
        await first.pilot.press("enter")
        await first.shown("Send 5 frames")
        await first.pilot.press("ctrl+q")
        await until(first.pilot, lambda: first.app._exit)
        assert first.nodes.let_go == 1
        assert not any(what == "PrepareGenerator" for _, what in first.nodes.asked)


async def test_a_machine_out_of_reach_is_said_and_one_may_try_again(tmp_path: Path) -> None:
    async with started(tmp_path) as first:
        first.nodes.refusal = NodeUnreachable("src1", "src1:22: connection refused")
        await first.machines()
        await first.pilot.press("enter")
        await first.shown("src1: src1:22: connection refused")
        await first.pilot.press("escape", "ctrl+r")
        await first.shown("Send 5 frames")


async def test_machines_that_are_measured_on_are_taken_over_after_asking_only(tmp_path: Path) -> None:
    async with started(tmp_path) as first:
        first.nodes.refusal = LeaseHeld("src1", "held by somebody")
        await first.machines()
        await first.pilot.press("enter")
        await first.shown("Take it over?", "held by somebody")
        await first.pilot.press("y")
        await first.shown("Send 5 frames")
        assert [request.take_over for request in first.nodes.requests] == [False, True]


async def test_without_a_path_through_the_uut_there_is_nothing_to_write(tmp_path: Path) -> None:
    async with started(tmp_path, (120, 40), WiredNodes(CABLES[:1])) as first:
        await first.machines("dut1\nsrc1\n\n")
        await first.pilot.press("enter")
        await first.shown("Send 5 frames")
        await first.pilot.press("y")
        await first.shown("no path through the unit under test was found", "src1/eth1")
        assert "Write" not in picture(first.app)[-1]
        await first.pilot.press("w")
        await first.pilot.pause()
        assert not isinstance(first.app.screen, Confirm)


async def test_a_file_that_has_come_meanwhile_is_kept(tmp_path: Path) -> None:
    async with started(tmp_path) as first:
        await first.machines()
        await first.pilot.press("enter")
        await first.shown("Send 5 frames")
        await first.pilot.press("y")
        await first.shown("as it would be written")
        first.hosts.write_text("mine\n")
        await first.pilot.press("w")
        await until(first.pilot, lambda: isinstance(first.app.screen, Confirm))
        await first.pilot.press("y")
        await first.shown("overwritten;")  # the sentence breaks where the path is that long
        assert first.hosts.read_text() == "mine\n"
        assert first.opened == []


async def test_a_demo_or_a_blank_file_follow_once_the_console_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with started(tmp_path) as first:
        await first.pilot.press("down", "enter")
        await until(first.pilot, lambda: first.app._exit)
        assert first.app.afterwards is not None
        assert first.app.afterwards() == 77
        assert not first.hosts.exists()
    async with started(tmp_path) as first:
        await first.pilot.press("down", "down", "enter")
        await until(first.pilot, lambda: first.app._exit)
        await asyncio.sleep(0)
        assert "nodes:" in first.hosts.read_text()
        assert first.app.afterwards is not None
        assert first.app.afterwards() == 0
        assert f"labconsole check --hosts {first.hosts}" in capsys.readouterr().out
