"""The first start without a hosts.yaml, on real nodes: a testbed is found by keys alone, and who leaves leaves nothing."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from labconsole.api.discovery import leased_nodes
from labconsole.api.testbed import open_session
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import load_inventory
from labconsole.store.open import LazyStore
from labconsole.tui.app import ConsoleApp
from labconsole.tui.screens.check.screen import CheckScreen
from labconsole.tui.screens.first.screen import FirstStart
from support.driven_console import shown, text, until
from support.live_lab import lab_state, wait_until

NODES = ("uut", "src1", "snk1")


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"first{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


def inside(testbed: lab.LabStatus, node: str, command: str) -> None:
    done = lab.execute(testbed.spec.name, node, command.split())
    assert done.status == 0, done.stderr


@asynccontextmanager
async def first(testbed: lab.LabStatus, directory: Path) -> AsyncIterator[tuple[ConsoleApp, Pilot[int]]]:
    """The console without a testbed; the machines of the lab are typed in, and the focus is on what begins."""
    store = str(directory / "runs.sqlite")
    means = FirstStart(
        directory / "hosts.yaml",
        leased_nodes,
        lambda path: open_session(load_inventory(path), LazyStore(store)),
        lambda: 0,
    )
    app = ConsoleApp(None, first=means)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "What do you" in text(app))
        await pilot.press("enter")
        await shown(app, pilot, "Name of testbed")
        for node in NODES:
            await pilot.press(*load_inventory(testbed.hosts_file).nodes[node].address, "enter")
        await pilot.press("down", "down")  # past how to log in, to the SSH configuration
        await pilot.press(*str(testbed.hosts_file.parent / "ssh_config"), "ctrl+r")
        yield app, pilot


@pytest.mark.asyncio
async def test_machines_become_a_testbed_that_is_checked_and_nothing_is_left(testbed, tmp_path):
    before = lab_state(testbed.spec.name)
    async with first(testbed, tmp_path) as (app, pilot):
        await shown(app, pilot, "Send 5 frames from each of these 4 ports?")
        await pilot.press("y")
        await shown(app, pilot, "hosts.yaml, as it would be written", "stream s1")
        assert lab_state(testbed.spec.name) == before
        await pilot.press("w")
        await shown(app, pilot, "The testbed is checked then")
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, CheckScreen))
        async with asyncio.timeout(60):
            while "checked in" not in text(app):
                await pilot.pause(0.1)
        assert " fail" not in text(app).splitlines()[2]
        await pilot.press("q")
        await until(pilot, lambda: bool(app._exit))
    real, read = load_inventory(testbed.hosts_file), load_inventory(tmp_path / "hosts.yaml")
    ends = [(str(each.source.interface), each.uut_in, each.uut_out) for each in (*real.streams, *read.streams)]
    assert ends[0] == ends[1]
    await asyncio.to_thread(
        wait_until, lambda: lab_state(testbed.spec.name) == before, timeout_s=10, what="the nodes as they were"
    )


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["escape", "ctrl+q"])
async def test_who_leaves_while_ports_are_tried_leaves_nothing_behind(testbed, tmp_path, key):
    """A port is down and set up: a cut off discovery would leave it so, or an agent, or its lease."""
    inside(testbed, "uut", "ip link set eth5 down")
    inside(testbed, "snk1", "ip link set eth1 down")
    try:
        before = lab_state(testbed.spec.name)
        async with first(testbed, tmp_path) as (app, pilot):
            await shown(app, pilot, "Send 5 frames from each of these 4 ports?")
            await pilot.press("y")
            await until(pilot, lambda: any(word in text(app) for word in ("sends from", "sets up")))
            await pilot.press(key)
            if key == "escape":
                await shown(app, pilot, "cancelled; what was changed on the machines was undone")
            else:
                await until(pilot, lambda: bool(app._exit))
        assert not (tmp_path / "hosts.yaml").exists()
        await asyncio.to_thread(
            wait_until, lambda: lab_state(testbed.spec.name) == before, timeout_s=10, what="the nodes as they were"
        )
    finally:
        inside(testbed, "snk1", "ip link set eth1 up")
        inside(testbed, "uut", "ip link set eth5 up")


class Terminal:
    """The program on a terminal of its own, in a directory of its own."""

    def __init__(self, directory: Path, home: Path) -> None:
        self.child, self.descriptor = pty.fork()
        if self.child == 0:
            os.chdir(directory)
            env = {**os.environ, "HOME": str(home), "TERM": "xterm-256color", "LINES": "24", "COLUMNS": "80"}
            os.execve(sys.executable, [sys.executable, "-m", "labconsole"], env)
        self.shown = ""

    def until(self, words: str, within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while words not in self.shown:
            assert time.monotonic() < deadline, self.shown[-2000:]
            if select.select([self.descriptor], [], [], 0.2)[0]:
                try:
                    read = os.read(self.descriptor, 65536)
                except OSError:
                    read = b""
                assert read, self.shown[-2000:]
                self.shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read.decode(errors="replace"))

    def type(self, text: str) -> None:
        self.shown = ""
        os.write(self.descriptor, text.encode())

    def status(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def test_the_command_begins_so_and_a_closed_terminal_leaves_nothing_behind(testbed, tmp_path):
    before = lab_state(testbed.spec.name)
    home, here = tmp_path / "home", tmp_path / "here"
    (home / ".ssh").mkdir(parents=True)
    here.mkdir()
    shutil.copy(testbed.hosts_file.parent / "ssh_config", home / ".ssh" / "config")
    terminal = Terminal(here, home)
    terminal.until("A blank file")
    terminal.type("\r")
    terminal.until("Name of testbed")
    addresses = load_inventory(testbed.hosts_file).nodes
    terminal.type("".join(f"{addresses[node].address}\r" for node in NODES) + "\r\r")
    terminal.until("Send 5 frames from each of these 4 ports?")
    assert lab_state(testbed.spec.name) != before  # agents wait on the nodes
    os.kill(terminal.child, signal.SIGHUP)
    os.close(terminal.descriptor)
    terminal.status()
    wait_until(lambda: lab_state(testbed.spec.name) == before, timeout_s=10, what="the nodes as they were")
    assert list(here.iterdir()) == []


def test_who_leaves_at_once_leaves(tmp_path):
    terminal = Terminal(tmp_path, tmp_path)
    terminal.until("A blank file")
    terminal.type("q")
    assert terminal.status() == 0
    assert list(tmp_path.glob("hosts.yaml")) == []
