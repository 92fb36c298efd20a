"""A UUT that is a QEMU machine: what is booted, how its NICs are named, what hosts.yaml says of its platforms."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from labconsole.contracts.driver import DriverInfo, Prepared
from labconsole.errors import ConfigError, LabSetupError, NodeError
from labconsole.lab import commands, platforms
from labconsole.lab.files import hosts_yaml
from labconsole.lab.guests import domains
from labconsole.lab.images import DebianKernel, merge_into_usr
from labconsole.lab.machines import uut, uut_init
from labconsole.lab.machines import uut as uut_machine
from labconsole.lab.prerequisites import tool
from labconsole.lab.spec import DEFAULT_MACHINE_PLATFORMS, LabSpec, lay_out, shaper_burst_bytes
from labconsole.platforms.base.driver_wrapper import BootedDriver, take_boot
from support.asking import Asking

KERNEL = DebianKernel(Path("/cache/vmlinuz"), Path("/cache/6.1.0-56-amd64"))


def command(spec: LabSpec, directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(uut_machine, "tool", lambda name: tool(name) if name.startswith("mkfs") else f"/usr/bin/{name}")
    return uut_machine.command_line(spec, lay_out(spec, 0).node("uut"), KERNEL, directory, 7)


def test_the_machine_has_a_nic_for_each_port_of_the_uut_with_the_macs_of_the_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = LabSpec(uut="machine", sources=2)
    argv = command(spec, tmp_path, monkeypatch)
    devices = [word for word in argv if word.startswith("virtio-net-pci")]
    ports = lay_out(spec, 0).node("uut").interfaces
    assert devices[0].startswith("virtio-net-pci,netdev=management,")  # the first on the bus: eth0
    assert devices[1:] == [f"virtio-net-pci,netdev=nic-{port.name},mac={port.mac}" for port in ports]
    assert "tap,id=nic-eth1,ifname=nic-eth1,script=no,downscript=no" in argv


def test_the_accelerator_is_the_one_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "tcg" in command(LabSpec(uut="machine"), tmp_path, monkeypatch)
    assert "kvm" in command(LabSpec(uut="machine", accel="kvm"), tmp_path, monkeypatch)


def test_its_nics_are_of_the_model_that_was_asked_for_and_another_testbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = LabSpec(uut="machine", sources=2, nic="e1000")
    devices = [word.split(",")[:2] for word in command(spec, tmp_path, monkeypatch) if "netdev=" in word]
    assert devices[0] == ["virtio-net-pci", "netdev=management"]
    assert {model for model, _ in devices[1:]} == {"e1000"}
    named = [hosts_yaml(each, lay_out(each, 0), "/c") for each in (spec, replace(spec, nic="virtio"))]
    assert [re.search("^testbed: (.*)$", text, re.MULTILINE)[1] for text in named] == ["local-e1000", "local"]  # type: ignore[index]


def test_xen_boots_with_the_kernel_as_its_first_domain_and_its_tools_over_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "a,b"  # QEMU takes a comma for the end of a multiboot module
    directory.mkdir()
    (directory / "layer").symlink_to(tmp_path)
    argv = command(LabSpec(uut="machine", boot="xen"), directory, monkeypatch)
    assert argv[argv.index("-kernel") + 1] == str(directory / "xen")
    domain, initramfs = argv[argv.index("-initrd") + 1].replace(",,", "\0").split(",")
    assert domain.startswith("/cache/vmlinuz console=hvc0 ")
    assert initramfs.replace("\0", ",") == str(directory / "uut-xen.initramfs")
    assert any(f"path={tmp_path},mount_tag=layer" in word for word in argv)


def test_the_same_hardware_is_under_both_boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layer").symlink_to(tmp_path)

    def hardware(boot: Literal["linux", "xen"]) -> list[str]:
        argv = command(LabSpec(uut="machine", boot=boot), tmp_path, monkeypatch)
        start = argv.index("-kernel")
        return [*argv[:start], *argv[start + 6 : argv.index("-virtfs")]]

    assert hardware("linux") == hardware("xen")
    assert {"-smp", "-m", "-cpu"} <= set(hardware("xen"))


def test_the_machine_has_a_disk_where_the_lab_is_on_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("virtio-blk" in word for word in command(LabSpec(uut="machine"), tmp_path, monkeypatch))
    place = tmp_path / "a,b"
    place.mkdir()
    monkeypatch.setattr(uut, "DISK_SIZE_BYTES", 64 * 2**20)
    uut.write_disk(place)
    if not (place / uut.DISK_FILE).exists():
        pytest.skip("no mkfs.ext4, or tests are in memory")
    argv = command(LabSpec(uut="machine"), place, monkeypatch)
    (drive,) = [word for word in argv if word.startswith("if=none")]
    assert drive.endswith(f"a,,b/{uut.DISK_FILE}")
    assert "cache=none" in drive
    assert options_of(("lxc",), tmp_path)["lxc"]["guest_disk"] == "/disk"


def test_nics_take_the_labs_names_although_these_are_other_nics_names_before() -> None:
    node = lay_out(LabSpec(uut="machine", sources=1), 0).node("uut")
    first, last = node.interfaces
    assert (first.name, last.name) == ("eth1", "eth5")
    lines = uut_init.rename_lines(node, {first.mac: "eth5", last.mac: "eth1"})
    assert lines == [
        "link set eth5 name was-eth5",
        "link set eth1 name was-eth1",
        "link set was-eth5 name eth1",
        "link set was-eth1 name eth5",
    ]
    assert uut_init.rename_lines(node, {first.mac: "eth1", last.mac: "eth5"}) == []


def options_of(names: tuple[str, ...], directory: Path) -> dict[str, dict[str, Any]]:
    spec = LabSpec(name="m", uut="machine", platforms=names, sources=2)
    files = platforms.GuestFiles(Path("/k"), Path("/i"))
    lines = platforms.inventory_lines(names, files, lay_out(spec, 0), directory, "m", machine=True)
    read = YAML(typ="safe").load("\n".join(["platforms:", *lines]))
    return dict(read["platforms"])


def test_every_platform_says_what_the_machine_has_to_boot(tmp_path: Path) -> None:
    found = options_of(DEFAULT_MACHINE_PLATFORMS, tmp_path)
    assert {name: options["boot"] for name, options in found.items()} == {
        "raw": "linux",
        "raw-bridge": "linux",
        "lxc": "linux",
        "kvm": "linux",
        "xen": "xen",
    }
    assert found["kvm"]["accel"] == "kvm"
    assert found["xen"]["bridges"] == "made"


def test_the_domains_files_name_what_hosts_yaml_names(tmp_path: Path) -> None:
    layout = lay_out(LabSpec(uut="machine", sources=2), 0)
    files = tmp_path / domains.DIRECTORY
    domains.write_domains(files, layout, kernel=Path("/k"), initrd=Path("/i"), disks=Path("/disk"))
    told = options_of(("xen",), tmp_path)["xen"]
    for key, guest in (("config", "first"), ("second_config", "second")):
        text = Path(told[key]).read_text()
        assert f'name = "{guest}"' in text
        for nic in told["nics"]:
            if nic["guest"] == guest:
                assert f"mac={nic['in_mac']}," in text
                assert f"mac={nic['out_mac']}," in text
        words = text.partition('extra = "')[2].partition('"')[0]
        assert words.count("lc.stream=") == 2
        assert len(words) < 1024
    for number, guest in enumerate(told["guests"], start=1):
        text = Path(told["guest_config"].replace("{guest}", guest)).read_text()
        assert f'name = "{guest}"' in text
        assert re.findall("mac=([0-9a-f:]*),", text) == [f"02:6c:78:02:{nic}:0{number}" for nic in ("00", "01")]
        assert (told["guest_nic"], told["guest_inbound_nic"]) == (1, 2)
        assert f"target={told['guest_disk']}/{guest}.img'" in text
        assert f"lc.disk={told['guest_directory']}" in text
        assert f"{guest}.img" in domains.CREW_IMAGES


def test_domains_of_a_machine_without_a_disk_have_none(tmp_path: Path) -> None:
    layout = lay_out(LabSpec(uut="machine", sources=1), 0)
    domains.write_domains(tmp_path / "x", layout, kernel=Path("/k"), initrd=Path("/i"), disks=None)
    text = (tmp_path / "x" / "crew1.cfg").read_text()
    assert "disk = [  ]" in text
    assert "lc.disk" not in text


def test_more_streams_than_a_domains_command_line_can_tell_are_refused(tmp_path: Path) -> None:
    layout = lay_out(LabSpec(uut="machine", sources=domains.MAX_STREAMS + 1), 0)
    with pytest.raises(ConfigError, match="too many for platform xen"):
        domains.write_domains(tmp_path / "x", layout, kernel=Path("/k"), initrd=Path("/i"), disks=None)


@pytest.mark.parametrize(
    "options",
    [
        {"boot": "xen"},
        {"nic": "e1000"},
        {"uut": "machine", "nic": "rtl8139"},
        {"platforms": ("raw", "kvm")},
        {"uut": "machine", "generator": "pktgen"},
        {"uut": "machine", "ssh_server": "openssh"},
        {"uut": "machine", "boot": "hurd"},
    ],
)
def test_what_a_uut_that_is_no_machine_cannot_have_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        LabSpec(**options)


def test_the_links_of_a_machine_may_wait_longer_for_a_timer() -> None:
    assert shaper_burst_bytes(LabSpec(uut="machine")) == 10 * shaper_burst_bytes(LabSpec())


def test_what_a_package_has_in_lib_does_not_hide_the_link_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "lib" / "x").mkdir(parents=True)
    (tmp_path / "lib" / "x" / "one.so").write_text("1")
    (tmp_path / "usr" / "lib" / "x").mkdir(parents=True)
    (tmp_path / "usr" / "lib" / "x" / "two.so").write_text("2")
    merge_into_usr(tmp_path)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.so")) == [
        "usr/lib/x/one.so",
        "usr/lib/x/two.so",
    ]
    assert not (tmp_path / "lib").exists()


class FakeLink(Asking):
    """A UUT that says what it booted."""

    name = "uut"

    def __init__(self, said: str) -> None:
        self.said = said

    async def request(self, op: str, args: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        assert op == "exec"
        return {"stdout": self.said, "stderr": "", "exit_status": 0, "truncated": False}


class FakeDriver:
    """Prepares at once."""

    about = DriverInfo(name="fake", summary="", tried="", Options=BaseModel)
    prepared = 0

    def refusal(self, background: str) -> str | None:
        return None

    async def prepare(self, uut: Any, wirings: Any, *, second: Any = None) -> Prepared:
        self.prepared += 1

        async def attest(link: Any) -> dict[str, Any]:
            return {"driver": "fake"}

        return Prepared(paths={}, attestation={"driver": "fake"}, attest=attest)

    async def restore(self, uut: Any) -> None:
        return


def test_a_platform_is_measured_only_on_the_system_that_it_belongs_to() -> None:
    driver = FakeDriver()
    booted = BootedDriver("raw", "linux", driver)  # type: ignore[arg-type]
    for said in (json.dumps({"boot": "xen", "emulated": True, "accel": "tcg"}), "", "[]", "{"):
        with pytest.raises(NodeError, match="platform raw needs"):
            asyncio.run(booted.prepare(FakeLink(said), []))  # type: ignore[arg-type]
    assert driver.prepared == 0


def test_the_attestation_says_that_the_machine_is_emulated_and_by_what() -> None:
    booted = BootedDriver("raw", "linux", FakeDriver())  # type: ignore[arg-type]
    link: Any = FakeLink(json.dumps({"boot": "linux", "emulated": True, "accel": "tcg", "more": "\x1b[2J"}))
    prepared = asyncio.run(booted.prepare(link, []))
    machine = {"boot": "linux", "emulated": True, "accel": "tcg"}
    assert prepared.attestation == {"driver": "fake", "machine": machine}
    assert prepared.attest is not None
    attest = prepared.attest

    async def asked_again() -> dict[str, Any]:
        return await attest(link)

    assert asyncio.run(asked_again()) == prepared.attestation


def test_a_system_that_nothing_boots_is_refused_when_hosts_yaml_is_read() -> None:
    with pytest.raises(ConfigError, match="not a system the UUT can boot"):
        take_boot("raw", {"boot": "plan9"})
    options: dict[str, Any] = {"boot": "xen", "guest": "a"}
    assert take_boot("xen", options) == "xen"
    assert options == {"guest": "a"}


def test_who_may_make_no_taps_is_told_so_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(commands, "check_tools", lambda **_: None)
    monkeypatch.setattr(commands, "_TAP_DEVICE", str(tmp_path / "tun"))
    with pytest.raises(LabSetupError, match="root"):
        commands.up(LabSpec(name="m", uut="machine"))
    assert not any(tmp_path.iterdir())
