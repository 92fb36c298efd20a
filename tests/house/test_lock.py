"""tools/lock names what pyproject.toml asks for: one version of each package for a Python, and the hashes of its files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOME = Path(__file__).parents[2]
LOCK = HOME / "tools" / "lock"
PROJECT: dict[str, Any] = tomllib.loads((HOME / "pyproject.toml").read_text())
PYTHONS = ("3.11.2", "3.12.0", "3.13.0", "3.14.0")


def pins(file: str, python: str) -> dict[str, Requirement]:
    """The requirements of a lock file that hold for a Python on Linux, by package."""
    environment = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    found: dict[str, Requirement] = {}
    for entry in entries(file):
        requirement = Requirement(entry.partition(" \\")[0])
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{file}: {name} twice for Python {python}"
            found[name] = requirement
    return found


def entries(file: str) -> list[str]:
    lines = (line for line in (LOCK / file).read_text().splitlines() if not line.startswith("#"))
    return re.split(r"\n(?=\S)", "\n".join(lines))


def wanted(*extras: str) -> Iterator[Requirement]:
    project = PROJECT["project"]
    texts = [*PROJECT["build-system"]["requires"], *project["dependencies"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    for text in texts:
        requirement = Requirement(text)
        if requirement.name == project["name"]:
            yield from wanted(*requirement.extras)
        else:
            yield requirement


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("file", "extras"), [("run.txt", ()), ("test.txt", ("test",))])
def test_the_lock_has_a_version_of_every_package_that_is_asked_for(file: str, extras: tuple[str, ...], python: str):
    locked = pins(file, python)
    for requirement in wanted(*extras):
        pin = locked.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{file}: {requirement.name} is missing; run: make lock"
        (version,) = pin.specifier
        assert version.operator == "==" and requirement.specifier.contains(version.version, prereleases=True), (
            f"{file}: {pin} is not {requirement}; run: make lock"
        )


@pytest.mark.parametrize("file", ["run.txt", "test.txt"])
def test_every_package_of_the_lock_has_hashes_and_no_address(file: str):
    for entry in entries(file):
        first, *hashes = entry.split(" \\\n")
        assert hashes, first
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", each) for each in hashes), first
    assert "://" not in (LOCK / file).read_text()


@pytest.mark.parametrize("python", PYTHONS)
def test_what_runs_is_what_is_tested(python: str):
    tested = pins("test.txt", python)
    assert all(tested[name] == pin for name, pin in pins("run.txt", python).items())
