"""What a lab lacks is named with the command that installs it, and installed when that was asked for."""

from __future__ import annotations

import os
import subprocess

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import prerequisites
from labconsole.lab.guests.guest_image import (
    JOB_TOOLS,
    LARGE_JOB_TOOLS,
    LOAD_TOOLS,
    applets,
    guest_programs,
    load_with_libraries,
    parents,
)
from labconsole.lab.platforms import find_tools


class Machine:
    """Has every program but those of the packages that are not installed yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lacks: dict[str, str], *, works: bool = True) -> None:
        self.lacks, self.works = dict(lacks), works
        self.ran: list[str] = []
        monkeypatch.setattr(prerequisites, "tool", lambda name: None if name in self.lacks else f"/bin/{name}")
        monkeypatch.setattr(prerequisites, "_ran", self.apt)
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def apt(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        words = argv[argv.index("apt-get") + 1 :]
        self.ran.append(words[0])
        if words[0] == "install" and self.works:
            self.lacks = {name: package for name, package in self.lacks.items() if package not in words}
        status = 0 if self.works else 100
        return subprocess.CompletedProcess(argv, status, "", "E: Unable to locate package lxc\n")


def test_what_is_missing_is_named_with_what_to_type(monkeypatch) -> None:
    machine = Machine(monkeypatch, {"lxc-start": "lxc", "stress": "stress"})
    with pytest.raises(LabSetupError) as raised:
        prerequisites.check_tools(more=find_tools(["lxc"]))
    assert str(raised.value) == (
        "the lab needs lxc-start, stress; run `apt-get install -y lxc stress` (or use --install)"
    )
    assert machine.ran == []


def test_what_is_missing_is_installed_on_request_and_what_is_useful_too(monkeypatch, capsys) -> None:
    machine = Machine(monkeypatch, {"lxc-start": "lxc", "stress": "stress"})
    prerequisites.check_tools(more={"lxc-start": "lxc"}, useful=LOAD_TOOLS, install=True)
    assert machine.ran == ["install"]
    assert machine.lacks == {}
    assert capsys.readouterr().err == "installing Debian packages: lxc stress\n"


def test_a_failed_installation_is_tried_with_new_lists_and_told_in_apts_words(monkeypatch) -> None:
    machine = Machine(monkeypatch, {"lxc-start": "lxc"}, works=False)
    with pytest.raises(LabSetupError, match=r"cannot install lxc \(E: Unable to locate package lxc\); run apt-get in"):
        prerequisites.check_tools(more={"lxc-start": "lxc"}, install=True)
    assert machine.ran == ["install", "update", "install"]


def test_a_program_comes_with_what_it_is_linked_with() -> None:
    files = load_with_libraries("cat")
    assert "bin/cat" in files
    assert any("libc.so" in name for name in files)
    assert all(not name.startswith("/") for name in files)
    ordered = parents(files)
    assert ordered.index("lib") < ordered.index(next(name for name in ordered if name.startswith("lib/")))


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(LabSetupError, match="nosuch is not installed"):
        load_with_libraries("nosuch")


def test_only_a_busybox_says_what_it_can_be_called_as(tmp_path) -> None:
    script = tmp_path / "busybox"
    script.write_text("#!/bin/sh\necho sh; echo ls; echo busybox\n")
    script.chmod(0o755)
    assert applets(script) == ["sh", "ls"]
    script.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(LabSetupError, match="does not list its applets"):
        applets(script)


def test_the_programs_of_jobs_are_needed_only_where_a_lab_is_told_so() -> None:
    assert LARGE_JOB_TOOLS.items() <= find_tools(["lxc"], jobs=True).items()
    assert not LARGE_JOB_TOOLS.keys() & set(guest_programs(jobs=True)), "no image is to carry them"
    assert JOB_TOOLS.items() <= find_tools(["container"], jobs=True).items()
    assert not JOB_TOOLS.keys() & find_tools(["container", "lxc", "uml", "qemu-virtio"]).keys()
    assert set(guest_programs(jobs=True)) == {*guest_programs(jobs=False), *JOB_TOOLS}
