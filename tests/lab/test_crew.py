"""Guests in number, of every driver that makes them, on a lab: reached from outside, asked, ended, nothing left."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from labconsole.contracts.crew import BootMark
from labconsole.errors import LabSetupError, NodeError
from labconsole.lab import commands as lab
from labconsole.lab.guests import guest_image
from labconsole.lab.spec import LabSpec
from labconsole.measure.external_timing import Nonce
from labconsole.network.control_groups import ControlGroups, Limits
from labconsole.platforms.base.guest_shell import DONE
from labconsole.wire.changes import ApplyChanges, UndoChanges
from labconsole.wire.execution import Execute
from labconsole.wire.guests import AskGuests, GuestLine
from support.crew_lab import OUTSIDE, Nodes, nodes, on_lab, on_uut
from support.live_lab import lab_state, processes
from support.requirements import missing, require

EVERY = ["container", "lxc", "uml", pytest.param("qemu-virtio", marks=pytest.mark.platforms)]
PING = f"busybox ping -c 1 -W 5 {OUTSIDE} | grep -o '[0-9]* packets received'"
QUOTA = """
for pid in {pid} $(cat /proc/{pid}/task/{pid}/children); do
  while IFS=: read -r number controllers path; do
    case $controllers in cpu|cpu,cpuacct) cat /sys/fs/cgroup/cpu$path/cpu.cfs_quota_us;; esac
    case $number in 0) cat /sys/fs/cgroup$path/cpu.max 2>/dev/null | cut -d' ' -f1;; esac
  done </proc/$pid/cgroup
done
"""


@pytest.fixture(scope="module")
def guests(lab_home: Any) -> Iterator[lab.LabStatus]:
    require("lxc-start", "busybox", "stress", guest_image.UML_PROGRAM)
    if os.geteuid() != 0:
        pytest.skip("LXC needs root here")
    name = f"crew{os.getpid()}"
    try:
        yield lab.up(
            LabSpec(name=name, sources=1, link_speed_bps=None, platforms=("container", "lxc", "uml", "qemu-virtio"))
        )
    except LabSetupError as exc:
        missing(str(exc))
    finally:
        lab.down(name)


@pytest.mark.parametrize("platform", EVERY)
def test_each_guest_reaches_the_node_outside_answers_is_attested_and_leaves_nothing(guests, platform: str) -> None:
    last_cpu = str(sorted(os.sched_getaffinity(0))[-1])

    async def work(there: Nodes) -> None:
        driver, wanted = there.driver(platform), there.wanted(3, cpus=last_cpu)
        assert driver.crew_refusal(wanted) is None
        up = lab_state(guests.spec.name)["uut"]
        crew = await driver.prepare_crew(there.uut, wanted)
        assert [member.name for member in crew.members] == ["g1", "g2", "g3"]
        said = await asyncio.gather(*(member.ask(there.uut, PING) for member in crew.members))
        assert said == ["1 packets received"] * 3
        addresses = await asyncio.gather(
            *(member.ask(there.uut, "busybox ip -4 -o address | grep -o '198[.0-9/]*'") for member in crew.members)
        )
        assert [each.split()[0] for each in addresses] == ["198.18.64.1/18", "198.18.64.2/18", "198.18.64.3/18"]
        for member in crew.members:
            assert member.ready_ns > crew.started_ns
            assert f"/sys/class/net/{member.host_interface}/" in on_uut(
                guests, f"echo /sys/class/net/{member.host_interface}/master/ && test -d /proc/{member.pid}"
            )
            assert crew.attestation["machines"][member.name]["host_cpus"] == last_cpu
        assert await crew.attest(there.uut) == crew.attestation
        await driver.restore(there.uut)
        assert lab_state(guests.spec.name)["uut"] == up
        await driver.restore(there.uut)

    on_lab(guests, work)


@pytest.mark.parametrize("platform", EVERY)
def test_a_guest_that_died_is_named_when_the_crew_is_attested_again(guests, platform: str) -> None:
    async def work(there: Nodes) -> None:
        driver = there.driver(platform)
        crew = await driver.prepare_crew(there.uut, there.wanted(2))
        on_uut(guests, f"kill -9 {crew.members[1].pid}")
        with pytest.raises(NodeError, match="guest g2 of platform"):
            while True:  # until its agent has heard of it
                await crew.attest(there.uut)
        await driver.restore(there.uut)

    on_lab(guests, work)


@pytest.mark.parametrize("platform", EVERY)
def test_nothing_of_a_crew_is_left_by_an_agent_that_is_killed(guests, platform: str) -> None:
    async def work(there: Nodes) -> None:
        await there.driver(platform).prepare_crew(there.uut, there.wanted(5))
        on_uut(guests, f"kill -9 {there.uut.hello.pid}")
        await there.uut.wait_lost()

    on_lab(guests, work)


def groups(name: str) -> list[str]:
    """Where on the machine there is a control group of this name."""
    return [above for above, names, _ in os.walk("/sys/fs/cgroup") if name in names]


@pytest.mark.alone
def test_groups_of_an_agent_killed_with_its_keeper_are_removed_by_the_next_one_and_with_the_lab(guests) -> None:
    name = f"gone{os.getpid()}"

    async def killed() -> str:
        """The UUT goes away as a whole while guests stand. Returns the control group that they were in."""
        async with asyncio.timeout(120), nodes(status) as there:
            crew = await there.driver("lxc").prepare_crew(there.uut, there.wanted(5))
            (group,) = set(
                re.findall("labconsole-[0-9a-f]{8}", on_uut(status, f"cat /proc/{crew.members[0].pid}/cgroup"))
            )
            lab.kill_node(name, "uut")
            await there.uut.wait_lost()
        return group

    async def next_one(there: Nodes) -> None:
        """On another lab of the same machine. Nobody is in its own group yet when a third one comes."""
        limits = [Limits(group="g1", cpu_shares=512)]
        await there.uut.ask(ApplyChanges(token="t", changes=[ControlGroups(name="labconsole-00c0ffee", groups=limits)]))
        assert not groups(left)
        async with nodes(status) as third:
            driver = third.driver("lxc")
            await driver.prepare_crew(third.uut, third.wanted(2))
            await driver.restore(third.uut)
        assert on_uut(guests, "cat /sys/fs/cgroup/cpu/labconsole-00c0ffee/g1/cpu.shares") == "512\n"
        await there.uut.ask(UndoChanges(token="t"))
        assert not groups("labconsole-00c0ffee")

    if not os.path.isdir("/sys/fs/cgroup/cpu"):
        pytest.skip("no control groups here")
    status = lab.up(LabSpec(name=name, sources=1, link_speed_bps=None, platforms=("lxc",)))
    try:
        left = asyncio.run(killed())
        assert groups(left), "nobody was there to remove them"
        lab.revive_node(name, "uut")
        on_lab(guests, next_one)
        left = asyncio.run(killed())
        assert groups(left)
    finally:
        lab.down(name)
    assert not groups(left)


@pytest.mark.parametrize(("platform", "shown"), [("lxc", "lxc-start"), ("uml", "umid=g")])
def test_guests_that_are_being_started_when_this_is_aborted_are_gone(guests, platform: str, shown: str) -> None:
    async def work(there: Nodes) -> None:
        up = lab_state(guests.spec.name)["uut"]
        making = asyncio.ensure_future(there.driver(platform).prepare_crew(there.uut, there.wanted(30)))
        while shown not in await asyncio.to_thread(processes, guests.spec.name, "uut"):
            assert not making.done()
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert lab_state(guests.spec.name)["uut"] == up

    on_lab(guests, work)


@pytest.mark.parametrize("platform", ["container", "lxc", "uml"])
def test_how_much_of_a_processor_a_guest_gets_is_held_by_the_kernel(guests, platform: str) -> None:
    if on_uut(guests, "ls /sys/fs/cgroup").strip() == "":
        pytest.skip("no control groups here")

    async def work(there: Nodes) -> None:
        driver = there.driver(platform)
        crew = await driver.prepare_crew(there.uut, there.wanted(2, cpu_quota_ratio=0.5, cpu_shares=512))
        for member in crew.members:
            assert "50000" in on_uut(guests, QUOTA.format(pid=member.pid)).split()
            held = crew.attestation["machines"][member.name]["limits"]
            assert {"cpu.cfs_quota_us": "50000", "cpu.max": "50000 100000"}.items() & held.items()
        await driver.restore(there.uut)

    on_lab(guests, work)


@pytest.mark.parametrize(
    ("platform", "options", "said"),
    [
        ("lxc", {"crew_root": "/no/such/root"}, "/no/such/root on the UUT has no bin/sh"),
        ("uml", {"initrd": "/no/such/image"}, "cannot read /no/such/image"),
        ("uml", {"kernel": "/bin/false"}, "guest g1 ended with status 1"),
    ],
)
def test_guests_that_do_not_come_are_told_and_leave_nothing(guests, platform: str, options: dict, said: str) -> None:
    async def work(there: Nodes) -> None:
        with pytest.raises(NodeError, match=said):
            await there.driver(platform, **options).prepare_crew(there.uut, there.wanted(3))

    on_lab(guests, work)


@pytest.mark.platforms
@pytest.mark.parametrize(("platform", "count"), [("container", 100), ("lxc", 100), ("uml", 20)])
def test_many_guests_stand_and_go(guests, platform: str, count: int) -> None:
    async def work(there: Nodes) -> None:
        driver = there.driver(platform)
        crew = await driver.prepare_crew(there.uut, there.wanted(count))
        said = await asyncio.gather(*(member.ask(there.uut, PING) for member in crew.members))
        assert said == ["1 packets received"] * count
        await driver.restore(there.uut)

    on_lab(guests, work)


def by_names(there: Nodes, **more: Any) -> Any:
    """The lab's two containers as guests for jobs."""
    name = there.inventory.testbed
    told = {"crew_root": None, "guests": [f"{name}-first", f"{name}-second"], "guest_nic": 2}
    return there.driver("lxc", **told, **more)


def container(there: Nodes, status: lab.LabStatus, what: str, guest: str) -> str:
    path = there.inventory.platforms["lxc"].options["path"]
    return on_uut(
        status, f"lxc-{what.partition(' ')[0]} -P {path} -n {there.inventory.testbed}-{guest} {what.partition(' ')[2]}"
    )


def test_containers_that_are_named_are_started_reached_attested_and_stopped_again(guests) -> None:
    last_cpu = str(sorted(os.sched_getaffinity(0))[-1])

    async def work(there: Nodes) -> None:
        driver, wanted = by_names(there), there.wanted(2, cpus=last_cpu)
        assert driver.crew_refusal(wanted) is None
        assert "has 2 guests for jobs" in driver.crew_refusal(there.wanted(3))
        up = lab_state(guests.spec.name)["uut"]
        crew = await driver.prepare_crew(there.uut, wanted)
        said = await asyncio.gather(*(member.ask(there.uut, PING) for member in crew.members))
        assert said == ["1 packets received"] * 2
        for member, guest in zip(crew.members, ("first", "second"), strict=True):
            assert member.ready_ns > crew.started_ns
            assert await member.ask(there.uut, "busybox hostname") == f"{there.inventory.testbed}-{guest}"
            assert member.mac in on_uut(guests, f"nsenter -n -t {member.pid} ip link show eth1")
            assert "lcbg" in on_uut(guests, f"readlink /sys/class/net/{member.host_interface}/master")
            name = crew.attestation["members"][member.name]
            assert crew.attestation["machines"][name]["pinning"] == {"all": last_cpu}
        assert await crew.attest(there.uut) == crew.attestation
        await driver.restore(there.uut)
        assert lab_state(guests.spec.name)["uut"] == up
        await driver.restore(there.uut)

    on_lab(guests, work)


def test_a_container_that_ran_before_goes_on_as_it_was_and_others_are_not_touched(guests) -> None:
    last_cpu = str(sorted(os.sched_getaffinity(0))[-1])

    async def work(there: Nodes) -> None:
        driver = by_names(there)
        path = there.inventory.platforms["lxc"].options["path"]
        name = f"{there.inventory.testbed}-first"
        link = there.uut
        await link.ask(Execute(argv=["lxc-start", "-P", path, "-n", name, "-d"], timeout_s=20))
        try:
            allowed = container(there, guests, "cgroup cpuset.cpus", "first")
            before = container(there, guests, "attach -- busybox ip address", "first")
            crew = await driver.prepare_crew(link, there.wanted(1, cpus=last_cpu))
            assert await crew.members[0].ask(link, PING) == "1 packets received"
            assert crew.members[0].ready_ns is None
            assert "STOPPED" in container(there, guests, "info -s", "second")
            await driver.restore(link)
            assert container(there, guests, "attach -- busybox ip address", "first") == before
            assert container(there, guests, "cgroup cpuset.cpus", "first") == allowed
            assert "RUNNING" in container(there, guests, "info -s", "first")
        finally:
            await link.ask(Execute(argv=["lxc-stop", "-P", path, "-n", name, "-k"], timeout_s=20))

    on_lab(guests, work)


def test_a_named_container_that_ended_is_told(guests) -> None:
    async def work(there: Nodes) -> None:
        driver = by_names(there)
        crew = await driver.prepare_crew(there.uut, there.wanted(2))
        on_uut(guests, f"kill -9 {crew.members[1].pid}")
        name = f"{there.inventory.testbed}-second"
        shell_ended, container_ended = f"g2 .{name}. of platform lxc is no longer", f"guest {name} is STOPPED"
        with pytest.raises(NodeError, match=f"{shell_ended}|{container_ended}"):  # whichever is seen first
            while True:
                await crew.attest(there.uut)
        await driver.restore(there.uut)

    on_lab(guests, work)


TIMED: dict[str, Any] = {"boot_mark": BootMark(OUTSIDE, Nonce(500, 7))}


@pytest.mark.parametrize("more", [{}, TIMED], ids=["for jobs", "timed"])
def test_nothing_of_named_containers_is_left_by_an_agent_that_is_killed(guests, more: dict) -> None:
    async def work(there: Nodes) -> None:
        await by_names(there).prepare_crew(there.uut, there.wanted(2, **more))
        on_uut(guests, f"kill -9 {there.uut.hello.pid}")
        await there.uut.wait_lost()

    on_lab(guests, work)


@pytest.mark.parametrize("more", [{}, TIMED], ids=["for jobs", "timed"])
@pytest.mark.parametrize("shown", ["lxc-start", "lxc-attach"])
def test_named_containers_that_are_being_started_when_this_is_aborted_are_stopped(
    guests, shown: str, more: dict
) -> None:
    async def work(there: Nodes) -> None:
        up = lab_state(guests.spec.name)["uut"]
        driver = by_names(there)
        making = asyncio.ensure_future(driver.prepare_crew(there.uut, there.wanted(2, **more)))
        while shown not in await asyncio.to_thread(processes, guests.spec.name, "uut"):
            assert not making.done()
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert lab_state(guests.spec.name)["uut"] == up

    on_lab(guests, work)


def test_a_named_container_is_held_to_limits_and_what_it_had_before_is_put_back(guests) -> None:
    if on_uut(guests, "ls /sys/fs/cgroup").strip() == "":
        pytest.skip("no control groups here")

    async def work(there: Nodes) -> None:
        driver = by_names(there)
        crew = await driver.prepare_crew(there.uut, there.wanted(2, cpu_quota_ratio=0.5, cpu_shares=512, memory_mib=64))
        for member in crew.members:
            assert "50000" in on_uut(guests, QUOTA.format(pid=member.pid)).split()
            held = crew.attestation["limits"][crew.attestation["members"][member.name]]
            assert {"cpu.cfs_quota_us": "50000", "cpu.max": "50000 100000"}.items() & held.items()
        await driver.restore(there.uut)

    on_lab(guests, work)


def test_a_container_that_ran_before_is_rid_of_a_job_that_did_not_end(guests) -> None:
    async def work(there: Nodes) -> None:
        path, name = there.inventory.platforms["lxc"].options["path"], f"{there.inventory.testbed}-first"
        await there.uut.ask(Execute(argv=["lxc-start", "-P", path, "-n", name, "-d"], timeout_s=20))
        try:
            before = container(there, guests, "attach -- busybox ip address", "first")
            driver = by_names(there)
            await driver.prepare_crew(there.uut, there.wanted(1))
            asked = [GuestLine(guest="g1", line="busybox sleep 4321")]
            done = await there.uut.ask(AskGuests(asked=asked, until=DONE, timeout_s=0.5))
            assert [each.code for each in done.guests] == ["guest_silent"]
            await driver.restore(there.uut)
            assert container(there, guests, "attach -- busybox ip address", "first") == before
            assert "4321" not in processes(guests.spec.name, "uut")
        finally:
            await there.uut.ask(Execute(argv=["lxc-stop", "-P", path, "-n", name, "-k"], timeout_s=20))

    on_lab(guests, work)
