"""`labconsole demo` as its user has it: in a terminal, driven by keys, a run taken and saved, nothing left behind."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from support.live_lab import labconsole, records, wait_until
from support.requirements import require, require_namespaces

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

    def cursor_line(self) -> str:
        """The line in which the program has put the cursor: that of the field that takes keys."""
        done = subprocess.run([*self._tmux, "display-message", "-p", "#{cursor_y}"], capture_output=True, text=True)
        lines = self.screen().splitlines()
        line = lines[int(done.stdout)] if done.returncode == 0 and int(done.stdout) < len(lines) else ""
        return line.strip("│ ")

    def close(self) -> None:
        """End it whatever it does."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    require("tmux", "tcpdump", "nft", "tc", "ip")
    require_namespaces()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield tmp_path
    lab.down("local")


def shape(value: object, path: str = "") -> set[str]:
    """Every key of a record, wherever it is; lists by all their items, without what depends on the moment."""
    if path.rpartition(".")[2] in OF_THE_MOMENT:
        return {path}
    if isinstance(value, dict):
        return {path}.union(*(shape(item, f"{path}.{key}") for key, item in value.items()))
    if isinstance(value, list):
        return {path}.union(*(shape(item, f"{path}[]") for item in value))
    return {path}


OF_THE_MOMENT = ("lost_runs", "drops", "counters", "influences", "reasons", "one_way_ns")
"""What a record holds only where there was something: counts by name, who else was there, doubts, delays long enough."""


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40"])
def test_the_demo_takes_and_saves_a_run_and_removes_its_lab(home: Path, size: tuple[int, int]):
    terminal = Terminal(
        home / "tmux",
        size,
        [sys.executable, "-m", "labconsole", "demo"],
        {**os.environ, "TERM": "tmux-256color"},
    )
    try:
        wait_until(lambda: "● 7" in terminal.screen(), timeout_s=60, what="the console never connected")
        terminal.keys("e")
        for label in ("Frame size", "Sources", "Target", "Background", "Duration"):
            terminal.keys("Tab")
            if label != "Background":  # words to choose from have no cursor
                reached = partial(lambda label: label in terminal.cursor_line(), label)
                wait_until(reached, timeout_s=10, what=f"{label} was not reached")
        terminal.keys("1")  # one second of traffic
        wait_until(
            lambda: terminal.cursor_line().split()[:2] == ["Duration", "1"],
            timeout_s=10,
            what="the duration was not taken",
        )
        terminal.keys("r")
        wait_until(lambda: "sending" in terminal.screen(), timeout_s=30, what="the run never began to send")
        wait_until(lambda: "last run" in terminal.screen(), timeout_s=40, what="the run was never saved")
        (run,) = records(labconsole("runs", "--json"))
        # The saved numbers are what stands on the screen, digit for digit.
        pps = f"{round(run['streams'][0]['measured_pps']):,}".replace(",", "\u2009")
        wait_until(lambda: pps in terminal.screen(), timeout_s=10, what=f"{pps} of the record is not on the screen")
        (line,) = [line for line in terminal.screen().splitlines() if "last run" in line]
        assert run["verdict"]["status"] in line
        assert f"loss {run['total']['loss_ratio'] * 100:.3f} %" in line
        status = lab.status("local")
        assert status is not None
        other = labconsole(
            "run",
            "--platform",
            "raw",
            "--frame-size",
            "64",
            "--sources",
            "3",
            "--target",
            "10Mbit",
            "--duration",
            "1",
            "--json",
            hosts=status.hosts_file,
        )
        headless = [line for line in records(other) if "streams" in line][-1]
        assert headless["requested"] == run["requested"]
        assert shape(headless) == shape(run)
        terminal.keys("q")
        wait_until(lambda: lab.status("local") is None, timeout_s=30, what="the lab is still up")
        wait_until(lambda: terminal.screen() == "", timeout_s=20, what="the console is still there")
    finally:
        terminal.close()
    assert run["total"]["loss_packets"] == 0
    assert run["emulated"] is True


@pytest.mark.parametrize("hang_up", [signal.SIG_DFL, signal.SIG_IGN], ids=["told", "not-told"])
@pytest.mark.parametrize("after_s", [0.2, 0.45, 0.7, 1.0])
def test_a_terminal_that_closes_while_the_demo_begins_leaves_no_lab(
    home: Path, after_s: float, hang_up: signal.Handlers
):
    """The lab is half built, or up and the console not yet on screen: nobody but the demo knows of it.

    Where it is not told of it (under nohup, or Python lost the exception), the console looks itself.
    """

    def on_a_terminal() -> None:
        signal.signal(signal.SIGHUP, hang_up)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    terminal, theirs = pty.openpty()
    demo = subprocess.Popen(
        [sys.executable, "-m", "labconsole", "demo"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=on_a_terminal,
    )
    os.close(theirs)
    time.sleep(after_s)
    os.close(terminal)
    try:
        demo.wait(30)
    finally:
        demo.kill()
        demo.wait()
    wait_until(lambda: not processes_of(home), timeout_s=20, what="the lab outlived its demo")
    assert lab.status("local") is None


def processes_of(home: Path) -> str:
    """Of the lab whose files are under ``home``."""
    return subprocess.run(["pgrep", "-f", str(home)], capture_output=True, text=True).stdout


def test_the_demo_without_a_terminal_says_what_to_use():
    done = subprocess.run([sys.executable, "-m", "labconsole", "demo"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "lab up" in done.stderr
