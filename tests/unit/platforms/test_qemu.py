"""What a QEMU guest is started with, and which options are refused."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.contracts.driver import StreamWiring
from labconsole.errors import ConfigError
from labconsole.platforms.base.image import booted_guests
from labconsole.platforms.drivers.qemu import QemuDriver

WIRING = StreamWiring(
    name="s1",
    uut_in="eth1",
    uut_in_mac="02:00:00:00:00:01",
    uut_out="eth5",
    uut_out_mac="02:00:00:00:00:05",
    sink_mac="02:00:00:00:00:AA",
    source_ip="198.18.1.1",
    sink_ip="198.19.1.1",
)
NEEDED = {"kernel": "/boot/vmlinuz", "initrd": "/srv/guest.cpio"}


def argv(**options: Any) -> list[str]:
    return QemuDriver("q", {**NEEDED, **options}).argv(booted_guests([WIRING], None)[0])


def test_the_command_line_says_everything_that_the_guest_has() -> None:
    words = argv(nic_model="vmxnet3", accel="tcg", memory_mib=512, vcpus=2, cpu="1")
    assert words[:4] == ["taskset", "-c", "1", "qemu-system-x86_64"]
    assert words.count("-netdev") == 2
    assert "vmxnet3,netdev=n0,mac=02:6c:67:00:01:01" in words
    assert words[words.index("-m") + 1] == "512"
    assert words[words.index("-accel") + 1] == "tcg"
    told = words[words.index("-append") + 1]
    assert "lc.stream=02:6c:67:00:01:01,02:6c:67:00:01:02,198.18.1.1,198.19.1.1,02:00:00:00:00:aa" in told


def test_a_guests_clock_goes_by_its_instructions_only_where_that_is_asked_for() -> None:
    assert "-icount" not in argv(accel="tcg")
    words = argv(accel="tcg", icount=6)
    assert words[words.index("-icount") + 1] == "shift=6"


def test_a_second_guest_has_nics_bridges_memory_and_cpus_of_its_own() -> None:
    driver = QemuDriver("q", {**NEEDED, "accel": "tcg", "cpu": 0, "second_cpu": 1, "second_memory_mib": 2048})
    beside = replace(WIRING, name="s2", uut_in="eth2", uut_out="eth6", source_ip="198.18.2.1", sink_ip="198.19.2.1")
    first, second = booted_guests([WIRING], [beside])
    words = driver.argv(second)
    assert words[:3] == ["taskset", "-c", "1"]
    assert words[words.index("-m") + 1] == "2048"
    assert not {nic for pair in first.nics for nic in pair} & {nic for pair in second.nics for nic in pair}
    assert first.paths().keys() | second.paths().keys() == {"s1", "s2"}
    lines = driver.commands([WIRING], [beside])
    assert "ip link set eth2 master lcbi2 up" in lines
    assert shlex.join(words) in lines
    assert shlex.join(driver.argv(first)) in lines


def test_a_second_guest_without_a_stream_has_no_nic() -> None:
    _, second = booted_guests([WIRING], [])
    assert "-netdev" not in QemuDriver("q", NEEDED).argv(second)
    assert second.changes() == []


@pytest.mark.parametrize(
    ("options", "key", "allowed"),
    [
        ({"nic_model": "ne2000"}, "platforms.q.nic_model", "vmxnet3"),
        ({"accel": "xen"}, "platforms.q.accel", "kvm, tcg"),
        ({"memory_mib": 1}, "platforms.q.memory_mib", "greater than or equal to 64"),
        ({"memory_mib": "much"}, "platforms.q.memory_mib", "valid integer"),
        ({"vcpus": True}, "platforms.q.vcpus", "valid integer"),
        ({"icount": 11}, "platforms.q.icount", "less than or equal to 10"),
        ({"disk": "x"}, "platforms.q.disk", "kernel"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_what_can(options: dict[str, Any], key: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as raised:
        argv(**options)
    assert key in str(raised.value)
    assert allowed in str(raised.value)


def test_a_guest_needs_a_kernel() -> None:
    with pytest.raises(ConfigError, match=r"platforms\.q\.kernel"):
        QemuDriver("q", {"initrd": "/x"})


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            f"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\n{'a' * 64}  /boot/vmlinuz\n{'b' * 64}  /srv/guest.cpio\n",
            {"qemu": "7.2.22", "kernel": "a" * 12, "initrd": "b" * 12},
        ),
        (f"sh: 1: no such program\n-\n{'b' * 64}  /srv/guest.cpio\n", {"initrd": "b" * 12}),
        (
            f"9.1\n<script>  /boot/vmlinuz\n{'c' * 64}  /srv/guest.cpio\n{'d' * 64}  /etc/shadow\n",
            {"qemu": "9.1", "initrd": "c" * 12},
        ),
        ("", {}),
    ],
)
def test_program_and_image_are_told_by_version_and_sum_as_far_as_the_node_says_them(said: str, found: object) -> None:
    class Uut:
        name = "uut"

        async def ask(self, request: Any, *, timeout_s: float) -> Any:
            assert timeout_s > request.timeout_s
            assert request.argv[-3:] == ["qemu-system-x86_64", "/boot/vmlinuz", "/srv/guest.cpio"]
            return SimpleNamespace(stdout=said)

    uut: Any = Uut()
    assert asyncio.run(QemuDriver("q", NEEDED)._versions(uut)) == found
