"""What a wheel installs works by itself: the local lab, a run and its report, without the clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the clone."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "labconsole", source / "labconsole", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs" / "shell", source / "docs" / "shell")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(source)]
    subprocess.run(argv, check=True, timeout=300)
    (built,) = out.glob("labconsole-*.whl")
    return built


def test_it_ships_man_page_completions_types_and_every_file_that_is_no_module(wheel: Path):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    shipped = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert shipped == {
        "share/man/man1/labconsole.1",
        "share/bash-completion/completions/labconsole",
        "share/zsh/site-functions/_labconsole",
    }
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "labconsole").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert here - set(names) == set()


def test_a_lab_is_built_measured_and_reported_from_it(wheel: Path, tmp_path: Path):
    installed, home = tmp_path / "installed", tmp_path / "home"
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(wheel)]
    subprocess.run(argv, check=True, timeout=300)
    env = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }
    name = f"wheel{os.getpid()}"

    def labconsole(*words: str) -> str:
        argv = [sys.executable, "-m", "labconsole", *words]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=120)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    found = subprocess.run(
        [sys.executable, "-c", "import labconsole; print(labconsole.__file__)"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
    )
    assert found.stdout.startswith(str(installed)), found.stdout + found.stderr
    looked = [json.loads(line) for line in labconsole("doctor", "--json").splitlines()]
    assert {each["status"] for each in looked if each["subject"] in ("labconsole", "local lab")} == {"ok"}
    labconsole("lab", "up", "--name", name, "--sources", "1")
    try:
        hosts = str(home / "state" / "labconsole" / "labs" / name / "hosts.yaml")
        told = json.loads(labconsole("run", "--hosts", hosts, "--platform", "container", "--duration", "0.5", "--json"))
        assert told["total"]["loss_packets"] == 0
        assert "1 run" in labconsole("report")
    finally:
        labconsole("lab", "down", "--name", name)
