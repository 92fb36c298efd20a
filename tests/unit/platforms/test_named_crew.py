"""Guests for jobs that hosts.yaml names, of every driver of an installed hypervisor, against its recorded shell."""

from __future__ import annotations

import asyncio
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labconsole.contracts.crew import CrewMember, CrewWanted, InboundNic
from labconsole.errors import AgentError, ConfigError, NodeError, NodeLost
from labconsole.platforms.base.guest_shell import CREW_LOOP
from labconsole.platforms.base.installed_devices import InstalledDisks
from labconsole.wire.guests import MAX_WAIT_S
from support.hypervisor_cases import BY_DRIVER, CASES, Case
from support.named_guests import CrewNode, Inside
from support.replayed_node import hurried

SSH = ["ssh", "-o", "BatchMode=yes", "root@{guest}"]
OWN_WAY = ("lxc", "openvz")
"""Drivers that lead into a guest by themselves."""

PIDS = {"lxc": "lxc-info -P /srv/lxc -n fw -pH", "libvirt": "cat /run/libvirt/qemu/hvtest-uut.pid"}
"""What says which process is the guest."""

ABLE = [case for case in CASES if case.driver != "vserver"]
every = pytest.mark.parametrize("case", ABLE, ids=lambda case: f"{case.driver}-{case.guest}")


INBOUND = InboundNic(mac="02:6c:77:01:00:01", address="198.18.0.1/18")


def wanted(count: int = 1, **more: Any) -> CrewWanted:
    members = (
        CrewMember(name=f"g{n}", address=f"198.18.64.{n}/18", mac=f"02:6c:77:00:00:{n:02x}", **more)
        for n in range(1, count + 1)
    )
    return CrewWanted(members=tuple(members), port="eth5")


def options(case: Case) -> dict[str, Any]:
    """One guest for jobs, the one that was recorded, with two NICs of which the first is meant."""
    shell = {} if case.driver in OWN_WAY else {"guest_shell": SSH}
    files = {"guest_config": "/etc/xen/{guest}.cfg"} if case.driver == "xl" else {}
    return {"guest": "nobody", "guests": [case.guest], "guest_nic": 1, **shell, **files}


def made(case: Case, phase: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[Any, CrewNode, Inside]:
    driver, plain = case.make(**{**options(case), **more}), case.node(phase)
    inside = Inside(case.in_mac)
    node = CrewNode(
        plain.recording,
        phase,
        moves=plain.moves,
        interfaces=plain.interfaces,
        bridged=plain.bridged,
        inside={"g1": inside},
    )
    for command in PIDS.values():
        node.answers(command, "4711\n")
    node.answers("xl -N create /etc/xen/hvtest-domu.cfg 'name=\"hvtest-domu\"'")
    hurried(driver, monkeypatch)
    return driver, node, inside


def stands(driver: Any, node: CrewNode, crew: CrewWanted | None = None) -> Any:
    return asyncio.run(driver.prepare_crew(node, crew or wanted()))


@every
def test_a_guest_that_is_off_is_started_given_its_address_attested_and_stopped_again(case, monkeypatch) -> None:
    driver, node, inside = made(case, "stopped", monkeypatch)
    assert driver.crew_refusal(wanted()) is None
    crew = stands(driver, node)
    assert node.phase == "running"
    (member,) = crew.members
    assert (member.name, member.mac, member.address) == ("g1", case.in_mac, None)
    assert member.host_interface == (case.ends[0] if case.ends else None)
    assert member.pid == (4711 if case.driver in PIDS else None)
    assert (crew.started_ns, member.ready_ns) == (1, 3)
    assert (inside.addresses, inside.up) == (["198.18.64.1/18"], True)
    assert node.open["g1"][-3:] == ["sh", "-c", CREW_LOOP]
    if case.driver not in OWN_WAY:
        assert f"ssh -o BatchMode=yes root@{case.guest}" in node.open["g1"][2]
    assert crew.attestation["members"] == {"g1": case.guest}
    assert list(crew.attestation["machines"]) == [case.guest]
    assert asyncio.run(crew.attest(node)) == crew.attestation
    asyncio.run(driver.restore(node))
    assert (node.phase, node.open) == ("stopped", {})
    asyncio.run(driver.restore(node))


@every
def test_a_guest_that_ran_before_goes_on_and_is_left_as_it_was(case, monkeypatch) -> None:
    driver, node, inside = made(case, "running", monkeypatch)
    crew = stands(driver, node)
    assert crew.members[0].ready_ns is None, "nobody saw it start"
    asyncio.run(driver.restore(node))
    assert (node.phase, inside.addresses, inside.up, node.open) == ("running", [], False, {})


def test_a_guest_that_may_start_for_an_hour_is_asked_for_as_long_as_an_agent_waits(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["lxc"], "stopped", monkeypatch, start_s=3600.0)
    limits, plain = [], node.request

    async def request(op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        limits.extend([(args or {})["timeout_s"]] if op == "guest.start" else [])
        return await plain(op, args, timeout_s=timeout_s)

    monkeypatch.setattr(node, "request", request)
    stands(driver, node)
    assert limits == [MAX_WAIT_S]


def test_what_a_guest_has_already_is_not_taken_away_from_it(monkeypatch) -> None:
    driver, node, inside = made(BY_DRIVER["lxc"], "running", monkeypatch)
    inside.addresses, inside.up = ["198.18.64.1/18", "10.0.0.1/8"], True
    stands(driver, node)
    asyncio.run(driver.restore(node))
    assert (inside.addresses, inside.up) == (["198.18.64.1/18", "10.0.0.1/8"], True)


def test_a_bridge_is_made_on_request_of_the_shared_nic_and_the_other_ends(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["lxc"], "stopped", monkeypatch, bridges="made")
    node.bridged = False
    stands(driver, node)
    assert node.changes[0][1]["changes"] == [{"do": "bridge", "name": "lcbg", "ports": ["eth5", "vc-in"]}]
    asyncio.run(driver.restore(node))
    assert [op for op, _ in node.changes] == ["net.apply", "net.undo"]


def test_a_guest_is_pinned_as_its_crew_wants_it_and_not_as_it_forwards(monkeypatch) -> None:
    case = BY_DRIVER["lxc"]
    driver, node, _ = made(case, "running", monkeypatch, cpu="0")
    node.moves |= {f"lxc-cgroup -P /srv/lxc -n {case.guest} cpuset.cpus 1": "pinned"}
    node.moves |= {f"lxc-cgroup -P /srv/lxc -n {case.guest} cpuset.cpus 0-1": "running"}
    crew = stands(driver, node, wanted(cpus="1"))
    assert crew.attestation["machines"][case.guest]["pinning"] == {"all": "1"}
    asyncio.run(driver.restore(node))
    assert node.phase == "running"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inside": {"mac": "02:00:00:00:99:99"}}, r"inside guest fw there is no NIC 02:00:00:00:0a:01; it has: 02"),
        ({"inside": {"interface": "eth0/../x"}}, r"there is no NIC 02:00:00:00:0a:01"),
        ({"inside": {"deaf": 99}}, "did not answer completely"),
        ({"not_yet": 10**6}, "no shell inside guest fw: guest g1 ended with status 255"),
        ({"options": {"guest_nic": None}}, "has 2 NICs .02:.*; expected: one, or its number as `guest_nic:`"),
        ({"options": {"guest_nic": 3}}, "has 2 NICs .* but `guest_nic` in hosts.yaml is 3"),
    ],
)
def test_what_cannot_be_used_is_told_and_left_as_it_was(change: dict[str, Any], said: str, monkeypatch) -> None:
    driver, node, inside = made(BY_DRIVER["lxc"], "stopped", monkeypatch, **change.get("options", {}))
    node.not_yet = change.get("not_yet", 0)
    for key, value in change.get("inside", {}).items():
        setattr(inside, key, value)
    with pytest.raises(NodeError, match=said):
        stands(driver, node)
    assert (node.phase, node.open) == ("stopped", {})


def test_what_leads_into_a_guest_is_tried_until_it_has_booted_and_a_console_until_it_answers(monkeypatch) -> None:
    driver, node, inside = made(BY_DRIVER["xl"], "stopped", monkeypatch)
    node.moves["xl create /etc/xen/hvtest-domu.cfg 'name=\"hvtest-domu\"'"] = "running"
    node.not_yet, inside.deaf = 3, 2
    assert stands(driver, node).members[0].ready_ns == 3
    assert inside.up


DISKS = {"guest_directory": "/var/tmp/", "guest_disk": "/dev/vg0/guests"}


def with_disk(case: Case, phase: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, CrewNode, Inside]:
    """Guests whose disks lie on a block device of the UUT's."""
    driver, node, inside = made(case, phase, monkeypatch, **DISKS)
    node.answers("stat -L -c '%F %t %T' /dev/vg0/guests", "block special file fd 2\n")
    node.answers("cat /proc/diskstats", " 253       2 dm-2 1 2 3 4 5 6 7 8 0 9 10\n")
    return driver, node, inside


@pytest.mark.parametrize("phase", ["stopped", "running"])
@every
def test_a_guest_has_a_directory_on_its_own_disk_which_is_removed_before_it_is_stopped(
    case, phase, monkeypatch
) -> None:
    if "ssh" in case.make(**options(case)).options.model_fields_set:
        pytest.skip("refused: its disks are on another node")
    driver, node, inside = with_disk(case, phase, monkeypatch)
    assert driver.crew_refusal(wanted(disk_mib=64)) is None
    crew = stands(driver, node, wanted(disk_mib=64))
    (member,) = crew.members
    assert re.fullmatch(r"/var/tmp/labconsole-disk-[0-9a-f]{8}-g1", member.disk)
    assert inside.directories == [member.disk]
    assert (crew.disks.place, crew.disks.device, crew.disks.number) == ("/dev/vg0/guests", "dm-2", "253:2")
    asyncio.run(driver.restore(node))
    assert (inside.directories, node.phase, node.open) == ([], phase, {})


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        ("tmpfs tmpfs 1038336 32 961536 1% /var/tmp", "/var/tmp/ is on tmpfs, which is memory"),
        ("rootfs none 1038336 32 961536 1% /", "set `guest_directory:` in hosts.yaml to a directory on its disk"),
        (
            "ext4 /dev/xvda1 1038336 32 326655 68% /",
            "no room on disk: .* has 318 MiB left; its job needs 64 MiB, and 256",
        ),
        (
            "/dev/xvda1 1038336 32 961536 1% /",
            r"guest fw: the file system of /var/tmp/ \(guest_directory\) could not be determined",
        ),
    ],
)
def test_a_disk_that_cannot_be_used_is_told_and_nothing_is_left_there(disk: str, said: str, monkeypatch) -> None:
    driver, node, inside = with_disk(BY_DRIVER["lxc"], "stopped", monkeypatch)
    inside.disk = disk
    with pytest.raises(NodeError, match=said):
        stands(driver, node, wanted(disk_mib=64))
    assert (inside.directories, node.phase, node.open) == ([], "stopped", {})


def test_only_directories_of_other_crews_are_removed_by_the_next(tmp_path: Path) -> None:
    """By a real shell: whoever may write there may call things as he likes."""
    for name in ("labconsole-disk-0 ..", "labconsole-disk-01234567-g1", "precious", "labconsole-disk-0 precious"):
        (tmp_path / name / "x").mkdir(parents=True)
    disks = InstalledDisks(str(tmp_path), crew="89abcdef")
    (member,) = wanted(disk_mib=64).members
    (tmp_path / "labconsole-disk-89abcdef-g2").mkdir()
    said = subprocess.run(["sh", "-c", disks.making(member)], capture_output=True, text=True, check=True).stdout
    assert re.match(r"LCDISK \S+ \S+ +\d+ +\d+ +\d+ +\d+% /", said)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "labconsole-disk-89abcdef-g1",
        "labconsole-disk-89abcdef-g2",
        "precious",
    ]
    assert subprocess.run(["sh", "-c", disks.removing(member)], check=False).returncode == 0
    assert not (tmp_path / "labconsole-disk-89abcdef-g1").exists()


@pytest.mark.parametrize("executed", [True, False])
def test_what_cannot_be_removed_by_a_shell_is_removed_by_a_command_or_stays_promised(
    executed: bool, monkeypatch
) -> None:
    """Who has lost the lease may open no shell any more, and still execute."""
    driver, node, inside = with_disk(BY_DRIVER["lxc"], "stopped", monkeypatch)
    plain, plain_run, asked = node.request, node._run, list[str]()

    async def request(op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        asked.append(op)
        if op == "guest.start" and "lost" in asked:
            raise AgentError(node.name, "another operator has the node", code="lease_lost")
        return await plain(op, args, timeout_s=timeout_s)

    def run(argv: list[str]) -> dict[str, Any]:
        if argv[:2] != ["sh", "-c"]:
            return plain_run(argv)
        assert argv[-1] == argv[3] and argv[4:-3] == ["lxc-attach", "-P", "/srv/lxc", "-n", "fw", "--"]
        gone = executed and not inside.run(argv[-1].removeprefix("{ "))[0]
        said = "LABCONSOLE-GONE\n" if gone else argv[-1]  # a console that echoes what it is given
        return {"exit_status": 0, "stdout": said, "stderr": "", "truncated": False}

    monkeypatch.setattr(node, "request", request)
    monkeypatch.setattr(node, "_run", run)
    stands(driver, node, wanted(disk_mib=64))
    assert asked.count("guest.promise_stop") == 2, "of the guest, and of what is on its disk"
    asked.append("lost")
    if executed:
        asyncio.run(driver.restore(node))
    else:
        with pytest.raises(NodeError, match="another operator has the node"):
            asyncio.run(driver.restore(node))
    assert (inside.directories == []) is executed
    assert asked[asked.index("lost") :].count("guest.stop_kept") == 1 + executed
    assert node.phase == "stopped"


def test_a_guest_that_went_off_by_itself_is_told_with_what_is_left_on_its_disk(monkeypatch) -> None:
    driver, node, inside = with_disk(BY_DRIVER["lxc"], "stopped", monkeypatch)
    stands(driver, node, wanted(disk_mib=64))
    node.phase = "stopped"
    with pytest.raises(
        NodeError, match=rf"guest fw was turned off before {inside.directories[0]} was removed from its disk"
    ):
        asyncio.run(driver.restore(node))
    asyncio.run(driver.restore(node))


def test_a_guest_that_is_off_when_a_lost_node_is_back_has_been_emptied_by_the_keeper(monkeypatch) -> None:
    driver, node, _ = with_disk(BY_DRIVER["lxc"], "stopped", monkeypatch)
    stands(driver, node, wanted(disk_mib=64))
    node.lost = True
    with pytest.raises(NodeLost):
        asyncio.run(driver.restore(node))
    node.lost, node.phase = False, "stopped"
    asyncio.run(driver.restore(node))


def test_a_block_device_that_the_kernel_counts_nothing_for_is_refused_before_a_guest_is_touched(monkeypatch) -> None:
    driver, node, inside = with_disk(BY_DRIVER["lxc"], "running", monkeypatch)
    node.answers("cat /proc/diskstats", " 8 0 sda 1 2 3 4 5 6 7 8 0 9 10\n")
    with pytest.raises(NodeError, match="the kernel of the UUT counts nothing for /dev/vg0/guests"):
        stands(driver, node, wanted(disk_mib=64))
    assert (inside.directories, node.opened) == ([], 0)


def test_guests_that_run_are_not_made_to_forward(monkeypatch) -> None:
    driver, node, inside = made(
        BY_DRIVER["lxc"], "running", monkeypatch, guest_nic=2, guest_inbound_nic=1, bridges="made"
    )
    crew = replace(wanted(inbound=INBOUND), inbound_port="eth4")
    assert driver.crew_refusal(crew) is None
    with pytest.raises(NodeError, match="fw runs already, but guests are set up to forward only where"):
        stands(driver, node, crew)
    assert (inside.addresses, node.changes) == ([], [])


def test_a_guest_that_was_begun_anew_is_told(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["lxc"], "running", monkeypatch)
    crew = stands(driver, node)
    node.open.clear()
    with pytest.raises(NodeError, match=r"guest g1 \(fw\) of platform p is no longer the one that was set up"):
        asyncio.run(crew.attest(node))
    asyncio.run(driver.restore(node))


def test_what_a_lost_node_kept_from_being_done_is_done_when_it_is_back(monkeypatch) -> None:
    driver, node, inside = made(BY_DRIVER["lxc"], "running", monkeypatch)
    stands(driver, node)
    node.lost = True
    with pytest.raises(NodeLost):
        asyncio.run(driver.restore(node))
    assert inside.addresses
    node.lost = False
    asyncio.run(driver.restore(node))
    assert (inside.addresses, inside.up, node.open, node.phase) == ([], False, {}, "running")


@pytest.mark.parametrize(
    ("driver", "more", "crew", "said"),
    [
        ("lxc", {"guests": [], "guest_nic": None, "crew_root": None}, {}, "has no `crew_root`"),
        ("xl", {"guests": [], "guest_nic": None, "guest_shell": None}, {}, "has no `guests` in hosts.yaml"),
        ("lxc", {}, {"count": 2}, "platform p has 1 guest for jobs in hosts.yaml (fw), not 2"),
        ("lxc", {}, {"disk_mib": 64}, "has no `guest_directory` in hosts.yaml, the directory in each guest"),
        (
            "lxc",
            {"guest_directory": "/var/tmp"},
            {"disk_mib": 64},
            "has no `guest_disk` in hosts.yaml, the directory or",
        ),
        (
            "lxc",
            {"ssh": "root@other"},
            {"disk_mib": 64},
            "platform p is commanded by ssh: the disks of its guests are on another node",
        ),
        ("lxc", {}, {"inbound": INBOUND}, "has no `guest_nic` and `guest_inbound_nic` in hosts.yaml"),
        ("lxc", {"guest_inbound_nic": 2}, {"inbound": INBOUND}, "set `bridges: made` in hosts.yaml"),
        ("virtualbox", {}, {"cpus": "1"}, "driver virtualbox cannot pin a guest"),
        ("virtualbox", {}, {"memory_mib": 64}, "driver virtualbox cannot set memory_mib of a guest"),
        ("xl", {}, {"cpu_shares": 65536}, "Xen's weights, which cpu_shares are here, are 1 to 65535, not 65536"),
        ("esxi", {}, {"cpu_quota_ratio": 0.5}, "driver esxi cannot set cpu_quota_ratio of a guest"),
        (
            "libvirt",
            {"uri": "vbox:///session"},
            {"cpu_shares": 512},
            "cannot set cpu_shares of a guest of vbox:///session",
        ),
        ("libvirt", {"guest_shell": None}, {}, "guest_shell: [ssh, -o, BatchMode=yes, root@{guest}]"),
        ("xl", {"guest_shell": None}, {}, "driver xl cannot run a program inside a guest"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_before_anything_is_asked(driver, more, crew, said: str) -> None:
    case = BY_DRIVER[driver]
    told = {key: value for key, value in {**options(case), **more}.items() if value is not None}
    assert said in str(case.make(**told).crew_refusal(wanted(**crew)))


@pytest.mark.parametrize(
    ("driver", "more", "said"),
    [
        ("xl", {"guest_shell": ["ssh", "root@one"]}, r"guest_shell: always leads to the same guest: .* has \{guest\}"),
        ("xl", {"guest_config": "/etc/xen/one.cfg"}, "guest_config: is the same file for each guest"),
        ("xl", {"guests": []}, "guest_shell: needs guests"),
        ("xl", {"guest_directory": "tmp"}, "guest_directory: is not an absolute path"),
        ("lxc", {"guest_inbound_nic": 1}, "guest_inbound_nic: is the NIC that guests send through, guest_nic"),
        ("lxc", {"guests": ["a", "b", "a"]}, "guests: names a guest twice"),
        ("lxc", {"guests": ["a"], "crew_root": "/srv/root"}, "guests: and crew_root are two ways"),
        ("lxc", {"guests": ["-a"]}, r"guests\[0\]: is not the name of a guest"),
        ("vserver", {}, "guests: is not possible: guests of Linux-VServer share"),
    ],
)
def test_options_that_cannot_be_are_told_by_their_key(driver: str, more: dict[str, Any], said: str) -> None:
    case = BY_DRIVER[driver]
    with pytest.raises(ConfigError, match=said):
        case.make(**{**options(case), **more})


HELD: dict[str, tuple[dict[str, Any], dict[str, tuple[str, str]]]] = {
    "lxc": (
        {"cpu_shares": 512, "cpu_quota_ratio": 0.5, "memory_mib": 64},
        {
            "cpu.shares": ("1024", "512"),
            "cpu.cfs_quota_us": ("-1", "50000"),
            "memory.limit_in_bytes": ("0", "67108864"),
        },
    ),
    "xl": ({"cpu_shares": 512, "cpu_quota_ratio": 0.5}, {"weight": ("256", "512"), "cap": ("0", "50")}),
    "libvirt": (
        {"cpu_shares": 512, "cpu_quota_ratio": 0.5},
        {"cpu_shares": ("1024", "512"), "global_quota": ("-1", "50000")},
    ),
}
"""What is wanted, and each setting with what it was and what it is to be."""


class Scheduler:
    """What a hypervisor's own tool says of one guest's limits, and does about them unless it is ``stubborn``."""

    def __init__(self, node: CrewNode, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = {key: before for key, (before, _) in HELD[driver][1].items()}
        self.stubborn = False
        plain = node._run

        def run(argv: list[str]) -> dict[str, Any]:
            said = getattr(self, driver)(argv)
            return plain(argv) if said is None else {"exit_status": 0, "stdout": said, "stderr": "", "truncated": False}

        monkeypatch.setattr(node, "_run", run)

    def _set(self, key: str, value: str) -> None:
        assert key in self.now
        if not self.stubborn:
            self.now[key] = value

    def lxc(self, argv: list[str]) -> str | None:
        if argv[0] == "test":
            return None
        if argv[:5] != ["lxc-cgroup", "-P", "/srv/lxc", "-n", "fw"] or "cpuset.cpus" in argv:
            return None
        if argv[6:]:
            self._set(argv[5], argv[6])
            return ""
        return f"{self.now[argv[5]]}\n"

    def xl(self, argv: list[str]) -> str | None:
        if argv[:4] != ["xl", "sched-credit2", "-d", "hvtest-domu"]:
            return None
        for option, value in zip(argv[4::2], argv[5::2], strict=True):
            self._set({"-w": "weight", "-c": "cap"}[option], value)
        row = f"{'hvtest-domu':<33} {1:4} {self.now['weight']:>6} {self.now['cap']:>4}\n"
        return f"Name                                ID Weight  Cap\n{row}" if not argv[4:] else ""

    def libvirt(self, argv: list[str]) -> str | None:
        if argv[3:5] != ["schedinfo", "hvtest-uut"]:
            return None
        for word in argv[6:]:
            self._set(*word.split("="))
        rows = {"cpu_shares": "1024", "vcpu_quota": "-1", "global_period": "100000", **self.now}
        return "Scheduler      : posix\n" + "".join(f"{key:<15}: {value}\n" for key, value in rows.items())


@pytest.mark.parametrize("driver", HELD)
def test_a_guest_is_held_to_limits_that_are_read_back_and_put_back(driver: str, monkeypatch) -> None:
    crew, settings = HELD[driver]
    made_driver, node, _ = made(BY_DRIVER[driver], "running", monkeypatch)
    node.answers("test -e /sys/fs/cgroup/cgroup.controllers", exit_status=1)
    scheduler = Scheduler(node, driver, monkeypatch)
    before = dict(scheduler.now)
    found = stands(made_driver, node, wanted(**crew))
    assert scheduler.now == {key: then for key, (_, then) in settings.items()}
    assert found.attestation["limits"] == {BY_DRIVER[driver].guest: scheduler.now}
    asyncio.run(made_driver.restore(node))
    assert scheduler.now == before


@pytest.mark.parametrize("driver", HELD)
def test_a_limit_that_is_not_kept_is_an_error(driver: str, monkeypatch) -> None:
    made_driver, node, _ = made(BY_DRIVER[driver], "running", monkeypatch)
    node.answers("test -e /sys/fs/cgroup/cgroup.controllers", exit_status=1)
    Scheduler(node, driver, monkeypatch).stubborn = True
    with pytest.raises(NodeError, match=r"is limited to .*expected: .*512"):
        stands(made_driver, node, wanted(**HELD[driver][0]))


def test_xens_guests_have_the_memory_of_their_files_which_has_to_be_what_is_asked(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["xl"], "running", monkeypatch)
    found = stands(driver, node, wanted(memory_mib=193))
    assert found.attestation["machines"]["hvtest-domu"]["memory_mib"] == 192, "what it has"
    assert "limits" not in found.attestation
    asyncio.run(driver.restore(node))
    driver, node, _ = made(BY_DRIVER["xl"], "running", monkeypatch)
    with pytest.raises(NodeError, match=r"has 192 MiB .* not memory_mib 999: write `memory = 999` into its file"):
        stands(driver, node, wanted(memory_mib=999))


def test_a_dry_run_tells_what_would_be_done() -> None:
    xl = BY_DRIVER["xl"].make(
        guests=["one", "two", "three"], guest_config="/etc/xen/{guest}.cfg", guest_shell=SSH, bridges="made"
    )
    lines = xl.crew_commands(wanted(2, cpus="1"))
    assert lines[:4] == [
        "xl create /etc/xen/one.cfg 'name=\"one\"'",
        "xl create /etc/xen/two.cfg 'name=\"two\"'",
        "xl vcpu-pin one all 1",
        "xl vcpu-pin two all 1",
    ]
    assert "ip link set one:NIC master lcbg" in "\n".join(lines)
    assert "root@two" in lines[-1]
    assert "three" not in "\n".join(lines)


def test_guests_are_spread_over_the_processors_that_hosts_yaml_tells() -> None:
    assert BY_DRIVER["xl"].make(guests=["one"]).crew_cpus is None
    assert BY_DRIVER["xl"].make(guests=["one"], guest_cpus="1,3-4").crew_cpus == [1, 3, 4]
