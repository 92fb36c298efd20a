"""What a User-mode Linux is started with, what is refused, and where its register shim is needed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from labconsole.contracts.driver import StreamWiring
from labconsole.errors import ConfigError, NodeError
from labconsole.lab.guests import guest_image as in_lab
from labconsole.platforms.base.image import booted_guests
from labconsole.platforms.drivers.uml import UmlDriver
from support.asking import Asking

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
BESIDE = replace(WIRING, name="s2", uut_in="eth2", uut_out="eth6", source_ip="198.18.2.1", sink_ip="198.19.2.1")


def driver(**options: Any) -> UmlDriver:
    return UmlDriver("u", {"initrd": "/srv/uml.cpio", **options})


def test_the_command_line_says_everything_that_the_guest_has() -> None:
    words = driver(cpu=1, memory_mib=96, preload="/srv/shim.so").argv(booted_guests([WIRING], None)[0])
    assert words[:3] == ["taskset", "-c", "1"]
    kernel = words.index("linux.uml")
    assert words[kernel - 1] == "LD_PRELOAD=/srv/shim.so"
    assert {"umid=first", "mem=96M", "initrd=/srv/uml.cpio", "con0=fd:0,fd:1"} <= set(words[kernel:])
    assert "vec0:transport=tap,ifname=lcti1,depth=128,mac=02:6c:67:00:01:01" in words
    assert "vec1:transport=tap,ifname=lcto1,depth=128,mac=02:6c:67:00:01:02" in words
    assert "lc.stream=02:6c:67:00:01:01,02:6c:67:00:01:02,198.18.1.1,198.19.1.1,02:00:00:00:00:aa" in words


def test_what_it_writes_goes_into_a_file_system_that_ends_with_it() -> None:
    words = driver().argv(booted_guests([WIRING], None)[0])
    assert words[:2] == ["unshare", "--mount"]
    assert "mount -t tmpfs" in words[4]
    assert {"TMPDIR=/dev/shm", "uml_dir=/dev/shm/"} <= set(words)
    assert not any(word.startswith("LD_PRELOAD") for word in words)


def test_a_second_guest_has_nics_memory_and_cpus_of_its_own() -> None:
    made = driver(second_cpu=1, second_memory_mib=2048)
    first, second = (made.argv(guest) for guest in booted_guests([WIRING], [BESIDE]))
    assert first[0] == "unshare"
    assert second[:3] == ["taskset", "-c", "1"]
    assert "mem=2048M" in second
    assert "umid=second" in second
    assert "vec0:transport=tap,ifname=lcti2,depth=128,mac=02:6c:67:00:02:01" in second
    lines = made.commands([WIRING], [BESIDE])
    assert "ip link set eth2 master lcbi2 up" in lines


def test_with_sockets_on_the_nics_there_is_no_tap_no_bridge_and_no_hop_between() -> None:
    made = driver(transport="raw")
    (guest,) = booted_guests([WIRING], None)
    assert "vec1:transport=raw,ifname=eth5,depth=128,mac=02:6c:67:00:01:02" in made.argv(guest)
    assert len(made.commands([WIRING])) == 1
    assert [point.hop for point in made.paths(guest)["s1"].points] == ["uut_in", "uut_out"]


@pytest.mark.parametrize(
    ("options", "key", "allowed"),
    [
        ({"transport": "vde"}, "platforms.u.transport", "tap, raw"),
        ({"memory_mib": 1}, "platforms.u.memory_mib", "greater than or equal to 64"),
        ({"cpu": "all"}, "platforms.u.cpu", "list of CPUs"),
        ({"vcpus": 2}, "platforms.u.vcpus", "initrd"),
        ({"preload": "-x"}, "platforms.u.preload", "command line"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_what_can(options: dict[str, Any], key: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as raised:
        driver(**options)
    assert key in str(raised.value)
    assert allowed in str(raised.value)


class Uut(Asking):
    """Answers programs as a UUT would that has the files, this processor and this kernel. Changes are an error."""

    name = "uut"

    def __init__(self, *, amx: bool, version: str, absent: str = "") -> None:
        self.said = {"grep": "1\n" if amx else "0\n", "linux.uml": f"{version}\n", "sh": absent}

    async def request(self, op: str, args: dict[str, Any] | None = None, timeout_s: float = 10) -> dict[str, Any]:
        if op != "exec":
            raise NodeError(self.name, f"went on to {op}")
        assert args is not None
        return {"stdout": self.said[args["argv"][0]], "stderr": "", "exit_status": 0, "truncated": False}


@pytest.mark.parametrize(
    ("uut", "options", "told"),
    [
        (
            Uut(amx=True, version="6.1.176"),
            {},
            r"more registers \(AMX\) than User-mode Linux 6\.1\.176 can save.*preload",
        ),
        (Uut(amx=True, version="who knows"), {}, "preload"),
        (Uut(amx=True, version="6.16.3"), {}, "went on to links"),
        (Uut(amx=True, version="6.1.176"), {"preload": "/srv/shim.so"}, "went on to links"),
        (Uut(amx=False, version="6.1.176"), {}, "went on to links"),
        (Uut(amx=False, version="6.1.176", absent="/srv/uml.cpio\n"), {}, "cannot read /srv/uml.cpio"),
    ],
)
def test_what_cannot_boot_is_refused_before_anything_is_changed(uut: Uut, options: dict[str, Any], told: str) -> None:
    made = driver(**options)

    async def nothing(link: Any) -> None:
        return None

    made.restore = nothing  # type: ignore[method-assign, assignment]
    with pytest.raises(NodeError, match=told):
        asyncio.run(made.prepare(uut, [WIRING]))  # type: ignore[arg-type]


def test_only_a_processor_with_amx_needs_the_shim() -> None:
    assert in_lab.needs_shim("model name : x\nflags : fpu sse amx_bf16 amx_tile amx_int8\n")
    assert not in_lab.needs_shim("model name : amx_tile\nflags : fpu sse avx512f\n")


@pytest.mark.parametrize(("tap", "shim"), [(True, False), (False, True)])
def test_the_labs_entry_is_what_the_driver_takes(
    tap: bool, shim: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_lab, "TUN", tmp_path if tap else tmp_path / "none")
    monkeypatch.setattr(in_lab, "needs_shim", lambda: shim)
    entry = YAML(typ="safe").load(in_lab.inventory_options(tmp_path / "it's", 1))
    assert entry.pop("driver") == "uml"
    options = UmlDriver("u", entry).options
    assert (options.transport, options.second_cpu) == ("tap" if tap else "raw", "1")
    assert options.initrd == str(tmp_path / "it's" / in_lab.IMAGE_FILE)
    assert options.preload == (str(tmp_path / "it's" / in_lab.SHIM_FILE) if shim else None)
