"""What guests start from and are given, and the mark that each sends when it is up."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labconsole.contracts.crew import BootMark, CrewMember, CrewWanted
from labconsole.lab.guests.guest_image import INIT
from labconsole.measure.external_timing import Nonce
from labconsole.platforms.base.guest_shell import (
    LACKS,
    LEAST_PAYLOAD_BYTES,
    LOOP,
    MAX_LINE_BYTES,
    MOST_PAYLOAD_BYTES,
    installed_loop,
    mark_line,
    marked_loop,
    nonces,
)
from labconsole.platforms.drivers.container import ContainerDriver
from labconsole.platforms.drivers.esxi import EsxiDriver
from labconsole.platforms.drivers.libvirt import LibvirtDriver
from labconsole.platforms.drivers.lxc import LxcDriver
from labconsole.platforms.drivers.qemu import QemuDriver
from labconsole.platforms.drivers.raw import RawDriver
from labconsole.platforms.drivers.uml import UmlDriver
from labconsole.platforms.drivers.virtualbox import VirtualBoxDriver
from labconsole.platforms.drivers.xl import XlDriver

MARK = BootMark("198.18.100.7", Nonce(700, 0x0A))
UML = UmlDriver("p", {"initrd": "/srv/uml.cpio", "crew_root": "/srv/root", "memory_mib": 96})
QEMU = QemuDriver("p", {"kernel": "/boot/k", "initrd": "/srv/q.cpio", "accel": "tcg"})
LXC = LxcDriver("p", {"guest": "fw", "crew_root": "/srv/root"})
CONTAINER = ContainerDriver("p", {})


def wanted(count: int, **more: Any) -> CrewWanted:
    members = (
        CrewMember(name=f"g{n}", address=f"198.18.64.{n}/18", mac=f"02:6c:77:00:00:{n:02x}", **more)
        for n in range(1, count + 1)
    )
    return CrewWanted(members=tuple(members), port="eth5")


@pytest.mark.parametrize(
    ("driver", "files"),
    [
        (UML, {"kernel": "linux.uml", "initrd": "/srv/uml.cpio", "crew_root": "/srv/root"}),
        (QEMU, {"kernel": "/boot/k", "initrd": "/srv/q.cpio"}),
        (LXC, {"crew_root": "/srv/root"}),
        (CONTAINER, {}),
    ],
)
def test_what_guests_start_from_is_what_options_name(driver: Any, files: dict[str, str]) -> None:
    offer = driver.crew_offer(wanted(2))
    assert (dict(offer.files), offer.place) == (files, "/var/tmp")


def test_memory_that_is_only_a_limit_is_not_given() -> None:
    assert UML.crew_offer(wanted(3)).memory_mib == 3 * 96
    assert UML.crew_offer(wanted(3, memory_mib=200)).memory_mib == 600
    assert LXC.crew_offer(wanted(3, memory_mib=200)).memory_mib is None
    assert CONTAINER.crew_offer(wanted(3)).memory_mib is None


def test_guests_that_nobody_starts_are_refused_in_words() -> None:
    assert "processes of the bare host" in (RawDriver("raw", {}).crew_offer(wanted(1)).never_started or "")


def test_installed_guests_start_from_what_the_operator_names() -> None:
    named = {"guest": "fw", "guests": ["one", "two", "three"]}
    assert LxcDriver("p", named).crew_offer(wanted(1)).files == {}
    files = ["/srv/{guest}/rootfs", "/boot/vmlinuz"]
    offer = LxcDriver("p", {**named, "guest_files": files}).crew_offer(wanted(2))
    assert offer.installed
    assert offer.memory_mib is None
    assert dict(offer.files) == {
        "guest_files[0] one": "/srv/one/rootfs",
        "guest_files[0] two": "/srv/two/rootfs",
        "guest_files[1]": "/boot/vmlinuz",
    }


def test_whether_guests_have_interfaces_of_their_own_and_find_programs_is_known_beforehand() -> None:
    named = {"guest": "fw", "guests": ["one"], "guest_shell": ["ssh", "{guest}"]}
    of_esx = {**named, "uri": "esx://host"}
    known = {
        "xl": XlDriver("p", named),
        "xl elsewhere": XlDriver("p", {**named, "ssh": "root@xen"}),
        "esxi": EsxiDriver("p", named),
        "virtualbox": VirtualBoxDriver("p", named),
        "esx": LibvirtDriver("p", of_esx),
        "libvirt": LibvirtDriver("p", {**named, "uri": "qemu:///system"}),
        "raw": RawDriver("raw", {}),
        "uml": UML,
        "lxc": LXC,
        "container": CONTAINER,
        "qemu": QEMU,
    }
    offers = {name: driver.crew_offer(wanted(1)) for name, driver in known.items()}  # type: ignore[attr-defined]
    own = {name for name, offer in offers.items() if offer.own_interfaces}
    assert own == {"xl", "libvirt", "uml", "lxc", "container", "qemu"}
    assert {offer.no_programs for offer in offers.values()} == {None}
    without = UmlDriver("p", {"initrd": "/srv/uml.cpio"}).crew_offer(wanted(1)).no_programs
    assert without == "platform p has no `crew_root` in hosts.yaml, the directory in which its guests find programs"


TOOLS = {
    "ip": """case "$*" in
"-o link") echo '1: lo: <UP> mtu 9\\    link/loopback 00:00:00:00:00:00 brd 0'
  test -e there && echo '7: eth0@if3: <UP> mtu 9\\    link/ether 02:00:00:00:0a:01 brd ff'; touch there;;
"neigh show"*) read -r state <states; sed -i 1d states; echo "$3 dev eth0 $state";;
*) echo "ip $*" >>done;;
esac
""",
    "busybox": """echo "busybox $1" >>done
case $1 in ping) read -r way <pings; sed -i 1d pings; test "$way" = answered;; esac
""",
}
"""Programs of a guest that do as they are told beforehand. Its NIC is there at the second look."""


@pytest.mark.parametrize(
    ("pings", "states", "tries"),
    [
        (["answered"], [], 1),
        (["", "answered"], ["FAILED"], 2),
        (["", "", "answered"], ["FAILED", "INCOMPLETE", "FAILED"], 3),
        ([""], ["lladdr 02:00:00:00:00:01 REACHABLE"], 1),
        ([""], ["INCOMPLETE", "lladdr 02:00:00:00:00:01 DELAY"], 1),
    ],
)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_an_installed_guest_finds_its_nic_and_sends_its_mark_once(
    shell: str, pings: list[str], states: list[str], tries: int, tmp_path: Path
) -> None:
    """Again only while nobody answers for the timekeeper's address, for then it did not leave."""
    for name, script in TOOLS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "pings").write_text("".join(f"{each}\n" for each in pings))
    (tmp_path / "states").write_text("".join(f"{each}\n" for each in states))
    line = installed_loop(MARK, "02:00:00:00:0a:01", "198.18.64.1/18")
    # Without its words about the neighbours of all NICs, which here are the machine's.
    argv = [shell, "-c", line.replace("/proc/sys/net", "/nowhere")]
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        argv, cwd=tmp_path, env={"PATH": path}, input="", capture_output=True, text=True, timeout=20, check=True
    )
    assert f"mark {tries}\n" in done.stdout
    assert done.stdout.startswith("there is no NIC 02:00:00:00:0a:01\n")
    assert done.stdout.endswith("LABCONSOLE-GUEST-READY\n")
    did = (tmp_path / "done").read_text().splitlines()
    assert did.count("busybox ping") == len(pings)
    assert [each for each in did if each.startswith("ip")] == [
        "ip address add 198.18.64.1/18 dev eth0",
        "ip link set eth0 up",
    ]


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    "loop",
    [marked_loop(None), marked_loop(MARK), installed_loop(MARK, "02:00:00:00:0a:01", "198.18.64.1/18")],
    ids=["job", "start", "installed"],
)
def test_a_guest_without_busybox_says_so_and_ends(shell: str, loop: str) -> None:
    argv = [shutil.which(shell) or shell, "-c", loop]
    done = subprocess.run(argv, env={"PATH": "/nowhere"}, input="", capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{LACKS}\n", "")


def test_a_line_for_a_guests_shell_fits_into_a_terminals() -> None:
    assert len(installed_loop(MARK, "02:00:00:00:0a:01", "198.18.64.1/18")) < MAX_LINE_BYTES


def test_what_leads_nowhere_ends_and_what_leads_inside_hands_lines_over() -> None:
    """It is tried again when it has ended."""
    xl, pipe = XlDriver("p", {"guest": "fw"}), subprocess.PIPE
    nowhere, inside = xl.way_in("one", ["sh", "-c", "echo refused >&2; exit 9"]), xl.way_in("one", ["env"])
    assert nowhere is not None
    assert inside is not None
    with subprocess.Popen([*nowhere, "sh", "-c", LOOP], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.wait(timeout=10) == 9
        assert process.stderr is not None
        assert process.stderr.read() == "refused\n"
    with subprocess.Popen([*inside, "sh", "-c", LOOP], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "LABCONSOLE-GUEST-READY\n"
        process.stdin.write("echo it is $((6 * 7))\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["it is 42\n", "LABCONSOLE-DONE 0\n"]
        process.stdin.close()
        assert process.wait(timeout=10) == 0


@pytest.mark.parametrize("driver", [UML, QEMU, LXC, CONTAINER])
def test_each_guest_is_told_its_mark_and_only_where_it_is_to_send_one(driver: Any) -> None:
    marked = replace(wanted(1), members=(replace(wanted(1).members[0], boot_mark=MARK),))
    (plain, told) = ("\n".join(driver.crew_commands(crew)) for crew in (wanted(1), marked))
    as_word, as_line = "lc.mark=198.18.100.7,700,0a", mark_line(MARK.nonce, MARK.address)
    assert (as_word in told) or (as_line in told)
    assert "lc.mark" not in plain
    assert "ping -q" not in plain


def test_the_mark_comes_before_the_word() -> None:
    assert re.search(r"ping .*-s 700 -p 0a 198\.18\.100\.7 .*LABCONSOLE''-GUEST-READY", marked_loop(MARK))
    assert INIT.index('marked $(echo "$mark"') < INIT.index('echo "LABCONSOLE-GUEST-READY')


def test_no_two_guests_have_one_nonce() -> None:
    drawn = nonces(500)
    assert len(set(drawn)) == 500
    assert all(LEAST_PAYLOAD_BYTES <= each.payload_bytes <= MOST_PAYLOAD_BYTES for each in drawn)
