"""The man page and the completions that are shipped are those of the parser, and real shells complete by them."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shell_files import SHELL, shell_files

RENEW = "python tools/shell_files.py"


@pytest.mark.parametrize("name", ["labconsole.1", "bash/labconsole", "_labconsole"])
def test_what_is_shipped_is_what_the_parser_says(name: str) -> None:
    # Versions of argparse lay out differently.
    assert (SHELL / name).read_text().split() == shell_files()[name].split(), f"renew it: {RENEW}"


def test_the_man_page_has_every_command_and_no_sign_of_its_making() -> None:
    page = (SHELL / "labconsole.1").read_text()
    from labconsole.cli.commands import names

    for name in names():
        assert f"'labconsole {name}" in page
    assert "%%" not in page
    assert "%(" not in page


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("labconsole repl", "replay"),
        ("labconsole replay --occ", "--occasion"),
        ("labconsole lab st", "status"),
        ("labconsole baseline s", "set show"),
    ],
)
def test_bash_completes(line: str, expected: str) -> None:
    words = line.split()
    script = (
        f"source {SHELL / 'bash' / 'labconsole'}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        f'_shtab_labconsole; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected.split()


def test_bash_completes_files_where_a_path_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "nightly.yaml").touch()
    script = (
        f"cd {tmp_path}; source {SHELL / 'bash' / 'labconsole'}; COMP_WORDS=(labconsole replay ni); COMP_CWORD=2; "
        f'_shtab_labconsole; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["nightly.yaml"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("labconsole repl\t", "labconsole replay"), ("labconsole replay --occ\t", "labconsole replay --occasion")],
)
def test_zsh_completes(typed: str, expected: str, tmp_path: Path) -> None:
    """Typed into a real zsh on a terminal of its own."""
    shutil.copy(SHELL / "_labconsole", tmp_path)
    (tmp_path / ".zshrc").write_text(f"PS1='ready> '; fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u\n")
    child, terminal = pty.fork()
    if child == 0:
        env = {"ZDOTDIR": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"}
        os.execvpe("zsh", ["zsh", "-i"], env)
    try:
        _until(terminal, "ready> ")
        os.write(terminal, typed.encode())
        shown = _until(terminal, expected)
        assert expected in re.sub(r"[\x00-\x1f]", "", shown)
    finally:
        os.write(terminal, b"\x03exit\n")
        os.close(terminal)
        os.waitpid(child, 0)


def _until(terminal: int, words: str, within_s: float = 20.0) -> str:
    shown, deadline = "", time.monotonic() + within_s
    while words not in re.sub(r"[\x00-\x1f]", "", shown):
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


def test_the_command_prints_them() -> None:
    done = subprocess.run([sys.executable, "-m", "labconsole", "completion", "zsh"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.split() == (SHELL / "_labconsole").read_text().split()
