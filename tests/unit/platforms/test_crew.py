"""Guests in number: what each is started with, what the agent makes for them, and which cannot be."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.contracts.crew import CrewMember, CrewWanted, InboundNic
from labconsole.errors import ConfigError, NodeError
from labconsole.network.control_groups import ControlGroups, settings
from labconsole.network.links import Bridge, NamespaceNic, Tap
from labconsole.platforms.base.crew import MOST, RunningCrew, crew_guests
from labconsole.platforms.base.crew_disks import CrewDisks
from labconsole.platforms.base.driver_wrapper import BootedDriver
from labconsole.platforms.drivers.bypass import BypassDriver
from labconsole.platforms.drivers.container import ContainerDriver
from labconsole.platforms.drivers.lxc import LxcDriver
from labconsole.platforms.drivers.qemu import QemuDriver
from labconsole.platforms.drivers.uml import UmlDriver

ROOT = "/srv/guest root"
MADE: dict[str, Any] = {
    "container": lambda **more: ContainerDriver("p", more),
    "lxc": lambda **more: LxcDriver("p", {"guest": "fw", "crew_root": ROOT, **more}),
    "uml": lambda **more: UmlDriver("p", {"initrd": "/srv/uml.cpio", "crew_root": "/srv/root", **more}),
    "qemu": lambda **more: QemuDriver("p", {"kernel": "/boot/k", "initrd": "/srv/q.cpio", "accel": "tcg", **more}),
}
EVERY = pytest.mark.parametrize("platform", MADE)


def wanted(count: int, **more: Any) -> CrewWanted:
    members = (
        CrewMember(name=f"g{n}", address=f"198.18.64.{n}/18", mac=f"02:6C:77:00:00:{n:02x}", **more)
        for n in range(1, count + 1)
    )
    return CrewWanted(members=tuple(members), port="eth5")


def programs(driver: Any, crew: CrewWanted) -> list[list[str]]:
    """The command lines of the guests, which come last."""
    return [shlex.split(line) for line in driver.crew_commands(crew)[-len(crew.members) :]]


def setting(argv: list[str], key: str) -> str | None:
    return next((word.partition("=")[2] for word in argv if word.startswith(f"{key}=")), None)


@EVERY
def test_a_guest_runs_where_it_is_pinned_to_and_without_a_limit_in_no_group(platform: str) -> None:
    (argv,) = programs(MADE[platform](), wanted(1, cpus="0,2-3"))
    if platform == "lxc":
        after = argv[argv.index("--") + 1 :]
        assert after[:3] == ["/bin/taskset", "d", "/bin/sh"]
    else:
        assert argv[:3] == ["taskset", "-c", "0,2-3"]
    assert "taskset" not in " ".join(programs(MADE[platform](), wanted(1))[0])
    assert "cgroup.procs" not in " ".join(argv)


@EVERY
def test_guests_in_number_have_no_interface_address_or_name_in_common_and_one_bridge(platform: str) -> None:
    driver, crew = MADE[platform](), RunningCrew(crew_guests(wanted(MOST)))
    hosts = [guest.host_interface for guest in crew.guests]
    assert len({*hosts, "lcbg", "eth5"}) == MOST + 2
    assert max(map(len, hosts)) <= 15
    (bridge,) = [change for change in driver.crew_nics(crew.guests) if isinstance(change, Bridge)]
    # LXC makes its containers' NICs ports of the bridge itself.
    assert bridge.ports == (["eth5"] if platform == "lxc" else ["eth5", *hosts])
    made = [change for change in driver.crew_nics(crew.guests) if isinstance(change, (NamespaceNic, Tap))]
    assert [change.name for change in made] == ([] if platform == "lxc" else hosts)


def test_a_container_of_lxc_is_told_everything_on_its_command_line() -> None:
    (argv,) = programs(MADE["lxc"](), wanted(1, cpu_shares=512, cpu_quota_ratio=0.5, memory_mib=64))
    assert argv[:4] == ["lxc-start", "-F", "-n", "labconsole-guests-g1"]
    assert setting(argv, "lxc.rootfs.path") == f"dir:{ROOT}"
    assert setting(argv, "lxc.rootfs.options") == "ro"
    assert setting(argv, "lxc.mount.entry") == "tmpfs tmp tmpfs rw,nosuid,nodev 0 0"
    assert setting(argv, "lxc.net.0.veth.pair") == "lcg1"
    assert setting(argv, "lxc.net.0.hwaddr") == "02:6c:77:00:00:01"
    assert setting(argv, "lxc.net.0.ipv4.address") == "198.18.64.1/18"
    assert setting(argv, "lxc.cgroup.dir") == "labconsole-guests"
    assert setting(argv, "lxc.cgroup.cpu.shares") == "512"
    assert setting(argv, "lxc.cgroup.cpu.cfs_quota_us") == "50000"
    assert setting(argv, "lxc.cgroup.memory.limit_in_bytes") == str(64 * 1024 * 1024)


@pytest.mark.parametrize("platform", ["qemu", "uml"])
def test_a_guest_that_boots_is_told_its_nic_and_has_the_memory_that_is_wanted(platform: str) -> None:
    driver = MADE[platform](memory_mib=192, second_memory_mib=2048)
    (argv,) = programs(driver, wanted(1, memory_mib=512))
    line = " ".join(argv)
    assert "lc.nic=02:6c:77:00:00:01,198.18.64.1/18" in line
    assert "ifname=lcg1," in line
    assert {"qemu": "-m 512 ", "uml": "mem=512M "}[platform] in line
    assert {"qemu": "-m 192 ", "uml": "mem=192M "}[platform] in " ".join(programs(driver, wanted(1))[0])
    assert ("lc.programs=/srv/root" in line) == (platform == "uml")


@pytest.mark.parametrize("platform", ["container", "qemu", "uml"])
def test_a_guest_with_a_limit_begins_in_a_group_of_its_own(platform: str) -> None:
    driver, crew = MADE[platform](), wanted(2, cpu_quota_ratio=0.25)
    first, second = programs(driver, crew)
    assert (first[:2], first[3]) == (["sh", "-c"], "labconsole-guests/g1")
    assert second[3] == "labconsole-guests/g2"
    said = driver.crew_commands(crew)
    assert "echo 25000 > /sys/fs/cgroup/cpu/labconsole-guests/g2/cpu.cfs_quota_us" in said


def test_memory_is_a_limit_for_processes_and_a_size_for_machines() -> None:
    limited = {name: RunningCrew(crew_guests(wanted(1, memory_mib=64))) for name in MADE}
    groups = {
        name: [change.groups for change in MADE[name]().crew_groups(crew) if isinstance(change, ControlGroups)]
        for name, crew in limited.items()
    }
    assert [each.memory_mib for (made,) in [groups["container"]] for each in made] == [64]
    assert groups["uml"] == groups["qemu"] == []
    assert groups["lxc"] == [[]], "LXC makes them itself; what is left of them is removed"


@pytest.mark.parametrize(
    ("controller", "second", "files"),
    [
        ("cpu", False, {"cpu.shares": "1024", "cpu.cfs_quota_us": "150000"}),
        ("cpu", True, {"cpu.weight": "39", "cpu.max": "150000 100000"}),
        ("memory", False, {"memory.limit_in_bytes": "1048576"}),
        ("memory", True, {"memory.max": "1048576"}),
    ],
)
def test_limits_are_what_each_version_of_control_groups_calls_them(
    controller: str, second: bool, files: dict[str, str]
) -> None:
    assert settings(controller, second=second, cpu_shares=1024, cpu_quota_ratio=1.5, memory_mib=1) == files
    assert settings(controller, second=second, cpu_shares=None, cpu_quota_ratio=None, memory_mib=None) == {}


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"cpus": "1", "cpu.cfs_quota_us": "-1"}, "does not have its limits: cpu.cfs_quota_us 50000"),
        ({"cpus": "1"}, "does not have its limits"),
        ({"cpus": "0-1", "cpu.cfs_quota_us": "50000"}, "may run on CPUs 0-1, but should run on 1"),
        ({}, "may run on CPUs None"),
    ],
)
def test_a_guest_that_is_not_held_as_wanted_is_an_error(seen: dict[str, str], said: str) -> None:
    uut: Any = SimpleNamespace(name="uut")
    (guest,) = crew_guests(wanted(1, cpus="1", cpu_quota_ratio=0.5))
    driver = MADE["container"]()
    with pytest.raises(NodeError, match=said):
        driver.crew_machine(uut, guest, seen)
    for held in ({"cpu.cfs_quota_us": "50000"}, {"cpu.max": "50000 100000"}):
        found = driver.crew_machine(uut, guest, {"cpus": "1", "cpu.shares": "1024", **held})
        assert found == {"host_cpus": "1", "limits": held}


@EVERY
def test_what_cannot_be_is_refused_in_a_sentence(platform: str) -> None:
    driver = MADE[platform]()
    assert driver.crew_refusal(wanted(MOST)) is None
    assert driver.crew_refusal(wanted(0)) == "platform p can have 1 to 250 guests for jobs, not 0"
    assert "not 251" in driver.crew_refusal(wanted(MOST + 1))
    assert driver.crew_refusal(wanted(2, disk_mib=64)) is None


@EVERY
def test_each_guest_has_a_disk_of_its_own_below_one_directory_that_is_told_beforehand(platform: str) -> None:
    driver = MADE[platform](guest_disk="/srv/disks/")
    lines = driver.crew_commands(wanted(2, disk_mib=64))
    below = "/srv/disks/labconsole-disks-00000000"
    assert lines[0] == f"mkdir -m 700 {below}"
    made = {"container": "mkdir -m 700", "lxc": "mkdir -m 700"}.get(platform, "fallocate -l 64M")
    assert lines[1:3] == [f"{made} {below}/g1", f"{made} {below}/g2"]
    assert (f"mkfs.ext4 {below}/g2" in lines) == (platform in ("uml", "qemu"))
    second = " ".join(shlex.split(lines[-1]))
    assert {
        "container": "sh -c",
        "lxc": f"lxc.mount.entry={below}/g2 tmp/disk none rw,bind,nosuid,nodev,create=dir 0 0",
        "uml": f"lc.disk=/tmp/disk lc.programs=/srv/root ubd0s={below}/g2",
        "qemu": f"-drive if=none,id=d0,format=raw,cache=none,file={below}/g2 -device virtio-blk-pci,drive=d0",
    }[platform] in second
    assert "disk" not in " ".join(driver.crew_commands(wanted(2)))


@pytest.mark.parametrize(("platform", "word"), [("uml", "ubd0="), ("qemu", "cache=writeback")])
def test_the_cache_of_the_unit_under_test_may_stand_between_guest_and_disk(platform: str, word: str) -> None:
    (argv,) = programs(MADE[platform](disk_cache="writeback"), wanted(1, disk_mib=64))
    assert word in " ".join(argv)


@EVERY
@pytest.mark.parametrize("place", ["disks", "/srv/my disks", "/a,b", "/a:b", "/a\nb", "", "-x"])
def test_a_place_for_disks_that_a_command_line_would_take_apart_is_refused(platform: str, place: str) -> None:
    with pytest.raises(ConfigError, match="guest_disk: is not an absolute path of letters, digits"):
        MADE[platform](guest_disk=place)


@pytest.mark.parametrize(
    ("mount", "found"),
    [
        ("254:1 ext4 /dev/vda1\n", "254:1"),
        ("0:44 btrfs /dev/vdb[/@home]\n", "254:16"),
        ("0:23 tmpfs tmpfs\n", "is on tmpfs, below which there is no disk; set `guest_disk:`"),
        ("0:31 overlay overlay\n", "is on overlay, below which"),
        ("", "there is no directory /srv/d on the UUT"),
        ("junk\n", "there is no directory /srv/d"),
    ],
)
def test_disks_are_where_a_device_is_below_or_refused(mount: str, found: str) -> None:
    class Uut:
        name = "uut"

        async def ask(self, request: Any) -> Any:
            listed = " 254       1 vda1 1 0 8 0 2 0 16 0 0 0 0\n 254      16 vdb 1 0 8 0 2 0 16 0 0 0 0\n"
            return SimpleNamespace(stdout=mount if request.argv[0] == "findmnt" else listed)

    disks = CrewDisks("/srv/d", wanted(1, disk_mib=64).members, files=True, name="labconsole-disks-0")
    uut: Any = Uut()
    if found.startswith("254"):
        below = asyncio.run(disks.below(uut, "p"))
        assert below is not None
        assert (below.number, below.files) == (found, ("/srv/d/labconsole-disks-0/g1",))
    else:
        with pytest.raises(NodeError, match=found):
            asyncio.run(disks.below(uut, "p"))
    assert asyncio.run(CrewDisks("/srv/d", wanted(1).members, files=True).below(uut, "p")) is None


def test_what_a_platform_lacks_for_guests_in_number_is_said() -> None:
    assert "no `crew_root` in hosts.yaml" in str(LxcDriver("p", {"guest": "fw"}).crew_refusal(wanted(1)))
    assert "another machine" in str(MADE["lxc"](ssh="root@other").crew_refusal(wanted(1)))
    assert "no taps" in str(MADE["uml"](transport="raw").crew_refusal(wanted(1)))


def test_a_platform_of_one_system_of_the_uut_makes_guests_if_its_driver_does() -> None:
    assert hasattr(BootedDriver("p", "linux", MADE["lxc"]()), "prepare_crew")
    assert not hasattr(BootedDriver("p", "linux", BypassDriver("p", {})), "prepare_crew")


@EVERY
def test_routers_have_a_second_interface_each_on_a_second_bridge(platform: str) -> None:
    inbound = InboundNic(mac="02:6c:77:01:00:00", address="198.19.0.1/18")
    crew = replace(wanted(2, inbound=inbound), inbound_port="eth1")
    driver, guests = MADE[platform](), crew_guests(crew)
    bridges = [change for change in driver.crew_nics(guests) if isinstance(change, Bridge)]
    own = platform != "lxc"
    assert [(each.name, each.ports) for each in bridges] == [
        ("lcbg", ["eth5", *(["lcg1", "lcg2"] if own else [])]),
        ("lcbgi", ["eth1", *(["lcgi1", "lcgi2"] if own else [])]),
    ]
    first = " ".join(programs(driver, crew)[0])
    if platform == "container":
        nics = [change for change in driver.crew_nics(guests) if isinstance(change, NamespaceNic)]
        assert [(each.peer, each.address) for each in nics[:2]] == [
            ("eth0", "198.18.64.1/18"),
            ("eth1", "198.19.0.1/18"),
        ]
    elif platform == "lxc":
        assert "lxc.net.1.link=lcbgi" in first and "lxc.net.1.hwaddr=02:6c:77:01:00:00" in first
        assert "for link in lo eth0 eth1; do" in first
    else:
        assert "lc.nic=02:6c:77:00:00:01,198.18.64.1/18 lc.nic=02:6c:77:01:00:00,198.19.0.1/18" in first
        assert "lcgi1" in first
