"""``tools/once_more.py``: what fails once is run again and named; what fails twice fails the whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "tools" / "once_more.py"
FAILS_ONCE = """
import pathlib
def test_disturbed():
    seen = pathlib.Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
def test_fine():
    pass
"""


def run_on(directory: Path, tests: str) -> tuple[int, str]:
    (directory / "test_these.py").write_text(tests)
    argv = [sys.executable, str(PROGRAM), "-q", "test_these.py"]
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def test_what_was_disturbed_is_run_again_and_named(tmp_path: Path):
    status, said = run_on(tmp_path, FAILS_ONCE)
    assert status == 0
    assert "failed once: test_these.py::test_disturbed; twice: none" in said
    assert "assert not True" in said


@pytest.mark.parametrize(
    ("tests", "last_line"),
    [
        ("def test_wrong():\n    assert 0\n", "failed once: none; twice: test_these.py::test_wrong"),
        ("\n".join(f"def test_wrong_{number}():\n    assert 0\n" for number in range(6)), None),
    ],
)
def test_what_fails_twice_or_in_number_fails_the_whole(tmp_path: Path, tests: str, last_line: str | None):
    status, said = run_on(tmp_path, tests)
    assert status == 1
    assert (last_line in said) if last_line else ("once more" not in said)


def test_what_cannot_be_run_is_not_run_again(tmp_path: Path):
    status, said = run_on(tmp_path, "import no_such_module_anywhere\n")
    assert (status, "once more" in said) == (2, False)
