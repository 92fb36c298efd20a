"""Installed guests that labconsole has started, when the console is killed: of libvirt and Xen by programs on the node's
PATH that answer as `virsh` and `xl` do, and write down what they are asked.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.changed_starts import inventory_of
from support.live_lab import COMMAND, labconsole, wait_until

pytestmark = [pytest.mark.alone, pytest.mark.platforms]

PYTHON = """\
#!/bin/sh
PATH=DIRECTORY:$PATH exec python3 "$@"
"""

VIRSH = """\
#!/bin/sh
cd DIRECTORY; shift 2; echo "$*" >>asked; state=$(cat state)
case $1 in
(version) echo 'Using library: libvirt 9.0.0'; echo 'Running hypervisor: QEMU 7.2.0' ;;
(list) printf ' Id   Name   State\\n-----\\n 1   one   %s\\n' "$state" ;;
(domstate) echo "$state" ;;
(start) echo running >state ;;
(domid) test "$state" = running && echo 1 || echo - ;;
(shutdown) test "$state" = running && echo 'shut off' >state ;;
(destroy) exit 1 ;;
(domiflist) printf ' Interface   Type   Source   Model   MAC\\n---\\n vnet0   bridge   br0   virtio   52:54:00:00:00:01\\n' ;;
esac
"""

DEAF = VIRSH.replace("""test "$state" = running && echo 'shut off' >state""", "").replace(
    "exit 1", "echo 'shut off' >state"
)
"""Its guest is told, and goes on."""

XL = """\
#!/bin/sh
cd DIRECTORY; echo "$*" >>asked; state=$(cat state)
case $1 in
(info) echo 'xen_version : 4.17.0'; echo 'xen_scheduler : credit2'; echo 'release : 6.1.0' ;;
(list) echo 'Name   ID   Mem VCPUs State   Time(s)'; test "$state" != running || echo 'one   3   128   1   -b----   1.0' ;;
(create) echo running >state ;;
(domid) test "$state" = running && echo 3 ;;
(shutdown) echo 'PV control interface not available' >&2; exit 1 ;;
(destroy) echo 'shut off' >state ;;
(network-list) echo '0  0 52:54:00:00:00:01  0  4  -1/-1  x' ;;
esac
"""


@pytest.fixture(scope="module")
def made(lab_home: Path) -> Iterator[Path]:
    name = f"started{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=1, platforms=("raw",)))
    yield status.hosts_file
    lab.down(name)


def installed_on(made: Path, tmp_path: Path, driver: str, tool: str, program: str, **options: Any) -> tuple[Path, Path]:
    """The lab with a platform of such a program's guest: its directory on the UUT, and hosts.yaml. Its way in leads
    nowhere.
    """
    place = made.parent / tmp_path.name  # nodes have a /tmp of their own
    place.mkdir()
    (place / "state").write_text("shut off\n")
    for name, text in ((tool, program), ("python", PYTHON)):
        (place / name).write_text(text.replace("DIRECTORY", str(place)))
        (place / name).chmod(0o755)
    data = inventory_of(made)
    data["nodes"]["uut"]["python"] = str(place / "python")
    told = {
        "driver": driver,
        "guest": "other",
        "guests": ["one"],
        "guest_shell": ["sleep", "1000", "{guest}"],
        **options,
    }
    data["platforms"]["installed"] = told
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(json.dumps(data))
    return place, hosts


def test_a_node_that_cannot_do_its_part_shows_in_the_exit_status_whatever_else_was_taken(
    made: Path, tmp_path: Path
) -> None:
    place, hosts = installed_on(made, tmp_path, "libvirt", "virsh", VIRSH)
    (place / "state").write_text("paused\n")
    argv = ["experiment", "job", "--platforms", "raw,installed", "--jobs", "wait", "--size", "1", "--json"]
    done = labconsole(*argv, hosts=hosts, store=tmp_path / "store.sqlite")
    assert done.returncode == 3, done.stderr
    assert "guest one is paused; expected: running or stopped" in done.stderr
    assert [json.loads(line)["job"]["requested"]["platform"] for line in done.stdout.splitlines()] == ["raw"]


@pytest.mark.parametrize(
    ("driver", "tool", "program", "options", "last"),
    [
        ("libvirt", "virsh", VIRSH, {}, "shutdown one"),
        ("libvirt", "virsh", DEAF, {"graceful_s": 1}, "destroy one"),
        ("xl", "xl", XL, {"guest_config": "/etc/xen/{guest}.cfg"}, "destroy one"),
    ],
    ids=["libvirt", "libvirt-deaf", "xl"],
)
@pytest.mark.parametrize("kind", ["boot", "job"])
def test_a_console_that_is_killed_leaves_no_guest_running_that_it_has_started(
    made: Path, tmp_path: Path, kind: str, driver: str, tool: str, program: str, options: dict[str, Any], last: str
) -> None:
    """The console waits for its way in when it is killed."""
    place, hosts = installed_on(made, tmp_path, driver, tool, program, **options)
    asked, state = place / "asked", place / "state"
    argv = {"boot": ["--start", "hot"], "job": ["--jobs", "wait", "--size", "1"]}[kind]
    store, said = str(tmp_path / "store.sqlite"), tmp_path / "said"
    with said.open("w") as written:
        console = subprocess.Popen(
            [*COMMAND, "experiment", kind, "--platforms", "installed", "--hosts", str(hosts), "--store", store, *argv],
            stdout=subprocess.DEVNULL,
            stderr=written,
        )
        try:
            wait_until(
                lambda: "running" in state.read_text() or console.poll() is not None, timeout_s=60, what="a start"
            )
            assert console.poll() is None, said.read_text()
        finally:
            console.send_signal(signal.SIGKILL)
            console.wait()
    wait_until(lambda: "shut off" in state.read_text(), timeout_s=20, what="the guest still runs")
    assert [line for line in asked.read_text().splitlines() if not line.startswith("domid")][-1] == last
