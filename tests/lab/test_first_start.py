"""The first start without a hosts.yaml, typed into a terminal: a testbed is found, and the console opens on it."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import load_inventory


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

    def close(self) -> int:
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"first{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


def test_machines_become_a_testbed_and_the_console_opens(testbed, tmp_path):
    home, here = tmp_path / "home", tmp_path / "here"
    (home / ".ssh").mkdir(parents=True)
    here.mkdir()
    shutil.copy(testbed.hosts_file.parent / "ssh_config", home / ".ssh" / "config")
    addresses = {name: node.address for name, node in load_inventory(testbed.hosts_file).nodes.items()}
    terminal = Terminal(here, home)
    terminal.until("1, 2 or q:")
    terminal.type("1\n")
    terminal.until("which forwards:")
    terminal.type("nowhere.invalid\n")
    terminal.until("blanks between them:")
    terminal.type(f"{addresses['snk1']}\n")
    terminal.until("as root? [Y/n]")
    terminal.type("\n")
    terminal.until("1, 2 or q:")
    assert "nowhere.invalid" in terminal.shown
    terminal.type("1\n")
    terminal.until("which forwards:")
    terminal.type(f"{addresses['uut']}\n")
    terminal.until("blanks between them:")
    terminal.type(f"{addresses['src1']} {addresses['snk1']}\n")
    terminal.until("as root? [Y/n]")
    terminal.type("y\n")
    terminal.until("Send 5 frames from each of these 4 ports? [y/N]")
    terminal.type("y\n")
    terminal.until("Write hosts.yaml? [y/N]")
    terminal.type("y\n")
    terminal.until("connecting to the testbed")
    assert load_inventory(here / "hosts.yaml").streams
    terminal.close()  # as a terminal's window is


def test_who_leaves_leaves(tmp_path):
    terminal = Terminal(tmp_path, tmp_path)
    terminal.until("1, 2 or q:")
    terminal.type("q\n")
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.child, 0)[1]) == 0
    assert list(tmp_path.glob("hosts.yaml")) == []
