"""``support.forked_command``: a forked command does what one that Python starts does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.forked_command import run_command


@pytest.mark.parametrize(
    "words",
    [["--version"], ["run", "--target", "fast"], ["no-such-command"], ["analyze", "none.pcap"], ["lab", "status"]],
)
def test_it_prints_and_ends_as_if_started(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    argv = [sys.executable, "-m", "labconsole", *words]
    started = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    forked = run_command(words, 60)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_it_sees_the_directory_and_the_environment_of_its_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other"):
        (place := tmp_path / name).mkdir()
        (place / "hosts.yaml").write_text(f"testbed: {name}\n")
        monkeypatch.chdir(place)
        monkeypatch.setenv("XDG_DATA_HOME", str(place / "data"))
        assert run_command(["runs", "note", "none", "text"], 60).returncode != 0
        assert (place / "data").exists(), "its own store"


def test_what_python_reads_when_it_starts_has_python_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    assert "labconsole" not in run_command(["--version"], 60).stdout


def test_it_is_ended_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        run_command(["metrics", "--store", str(tmp_path / "none.sqlite"), "--listen", "127.0.0.1:0"], 0.01)
