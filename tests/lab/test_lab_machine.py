"""What a lab in a QEMU machine is made of; the machine itself is in test_pktgen_truth.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.images import debian_kernel, load_modules
from labconsole.lab.machines.whole_lab import MODULES
from labconsole.lab.spec import LabSpec
from support.requirements import require


def test_a_machine_that_does_not_boot_says_what_it_said_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("busybox", "apt-get", "dpkg-deb")
    state, programs = tmp_path / "state", tmp_path / "bin"
    state.mkdir()
    programs.mkdir()
    broken = programs / "qemu-system-x86_64"
    broken.write_text("#!/bin/sh\necho no such accelerator >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with pytest.raises(LabSetupError, match=r"the machine ended after .*its log ends: no such accelerator"):
        lab.up(LabSpec(name=f"n{os.getpid()}", sources=1, generator="pktgen"))
    assert list(state.iterdir()) == []


def test_modules_come_after_what_they_depend_on() -> None:
    require("apt-get", "dpkg-deb")
    names = [name for name, _ in load_modules(debian_kernel().modules, MODULES)]
    assert names.index("9pnet") < names.index("9p")
    assert names.index("virtio_pci_modern_dev") < names.index("virtio_pci")
    assert names.index("pktgen") >= 0
    with pytest.raises(LabSetupError, match="no module nonsense"):
        load_modules(debian_kernel().modules, ["nonsense"])
