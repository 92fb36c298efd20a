"""The console and the demo draw for a person at a terminal: elsewhere they say so, in one line, and end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
STREAMS = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}


@pytest.mark.parametrize("words", [[], ["--read-only"], ["console", "--read-only"], ["demo"]])
@pytest.mark.parametrize("piped", STREAMS)
def test_without_a_terminal_nothing_is_painted(words: list[str], piped: str) -> None:
    master, slave = pty.openpty()
    streams: dict[str, Any] = dict.fromkeys(STREAMS, slave) | {piped: subprocess.PIPE}
    process = subprocess.Popen(
        [sys.executable, "-m", "labconsole", *words], **streams, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    os.close(slave)
    out, err = process.communicate(timeout=60)
    shown = os.read(master, 65536) if piped != "stderr" else err
    os.close(master)
    assert process.returncode == 2
    assert not out and b"\x1b" not in shown
    (line,) = shown.decode().splitlines()
    assert line.startswith(
        f"labconsole: {'demo' if words == ['demo'] else 'console'} needs a terminal, and its {STREAMS[piped]}"
    )


def test_the_console_of_lines_needs_none_and_no_command() -> None:
    command = [sys.executable, "-m", "labconsole", "--plain", "--hosts", "nowhere.yaml"]
    done = subprocess.run(command, input="", capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 2
    assert "nowhere.yaml" in done.stderr and "terminal" not in done.stderr


def test_threads_of_a_terminal_that_is_gone_keep_nobody() -> None:
    """As textual's reader: it never ends, and is no daemon."""
    script = """
import threading, time
from labconsole.cli import main as program
from labconsole.cli.commands import console

def leave(args):
    threading.Thread(target=time.sleep, args=(600,), name="textual-input").start()
    {ending}

console.run = leave
raise SystemExit(program.main(["console"]))
"""
    for ending, status in (("return 3", 3), ("raise OSError(5, 'Input/output error')", 1)):
        done = subprocess.run([sys.executable, "-c", script.format(ending=ending)], timeout=30, capture_output=True)
        assert done.returncode == status
