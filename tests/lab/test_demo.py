"""`labconsole demo` as its user has it: in a terminal, driven by keys, a run taken and saved, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import require, require_namespaces
from support import labconsole, records, wait_until

from labconsole import lab

SIZES = [(80, 24), (120, 40)]


class Terminal:
    """A tmux server of our own with one window."""

    def __init__(self, socket: Path, size: tuple[int, int], command: list[str], environment: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        settings = [f"{key}={value}" for key, value in environment.items()]
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "env", *settings, *command],
            check=True,
        )

    def keys(self, *keys: str) -> None:
        """Type."""
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def screen(self) -> str:
        """What stands on the screen; empty once the program has ended."""
        done = subprocess.run([*self._tmux, "capture-pane", "-p"], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def close(self) -> None:
        """End it whatever it does."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    require("tmux", "tcpdump", "nft", "tc", "ip")
    require_namespaces()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    yield tmp_path
    lab.down("local")


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40"])
def test_the_demo_takes_and_saves_a_run_and_removes_its_lab(home: Path, size: tuple[int, int]):
    terminal = Terminal(
        home / "tmux", size, [sys.executable, "-m", "labconsole", "demo"],
        {**os.environ, "TERM": "tmux-256color"},
    )  # fmt: skip
    try:
        wait_until(lambda: "7 of 7 nodes" in terminal.screen(), timeout_s=40, what="the console never connected")
        terminal.keys("r")
        wait_until(lambda: "sending" in terminal.screen(), timeout_s=20, what="the run never began to send")
        wait_until(lambda: "saved" in terminal.screen(), timeout_s=30, what="the run was never saved")
        terminal.keys("q")
        wait_until(lambda: lab.status("local") is None, timeout_s=20, what="the lab is still up")
        wait_until(lambda: terminal.screen() == "", timeout_s=20, what="the console is still there")
    finally:
        terminal.close()
    (run,) = records(labconsole("runs", "--json"))
    assert run["total"]["loss_packets"] == 0
    assert run["emulated"] is True


def test_the_demo_without_a_terminal_says_what_to_use():
    done = subprocess.run([sys.executable, "-m", "labconsole", "demo"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "lab up" in done.stderr
