"""``lxc``: containers of LXC's own tools (``lxc-start`` and its family), the operator's and temporary ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from pydantic import Field

from labconsole.contracts.crew import Crew, CrewOffer, CrewWanted
from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.model.cpus import cpu_set
from labconsole.network.change import NetworkChange
from labconsole.network.control_groups import CONTROLLERS, SECOND_VERSION, ControlGroups, Limits
from labconsole.platforms.base.crew import (
    BRIDGE,
    INBOUND_BRIDGE,
    TOKEN,
    CrewGuest,
    CrewMaking,
    RunningCrew,
    crew_bridges,
)
from labconsole.platforms.base.crew_disks import INSIDE
from labconsole.platforms.base.forwarding import undo
from labconsole.platforms.base.guest import (
    GuestNic,
    HypervisorGuest,
    Pinning,
    Settings,
    State,
    parse_interface,
    parse_pid,
)
from labconsole.platforms.base.guest_shell import marked_loop
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.lifecycle import KINDS
from labconsole.platforms.base.options import DISK_PLACE, USUAL_DISK_PLACE, DiskPlace, ManagedOptions, Word, mac_address
from labconsole.platforms.base.shell import Answer, Shell
from labconsole.wire.execution import Execute

# -- a crew of temporary containers ------------------------------------------------------------------------------------
# A crew of temporary LXC containers: each is an ``lxc-start`` in the foreground, with its whole configuration in its
# command line.
#
# It is a child of the agent, and its console is its standard input and output. LXC has the kernel kill a container's
# first process, and so all of them, when ``lxc-start`` is killed. Only control groups remain: these are below one that
# the agent removes. All share one root, read-only; /tmp is their own.

_SETTINGS = {
    "lxc.rootfs.options": "ro",
    "lxc.mount.auto": "proc:rw sys:ro",
    "lxc.mount.entry": "tmpfs tmp tmpfs rw,nosuid,nodev 0 0",
    "lxc.apparmor.profile": "unconfined",
    # "none": standard input and output are its console directly, without a terminal in between that would echo lines.
    "lxc.console.path": "none",
    "lxc.tty.max": "0",
    "lxc.sysctl.net.ipv6.conf.all.disable_ipv6": "1",
}

_UP = "for link in lo {nics}; do ip link set $link up; done"
"""Set here, because LXC would do it before IPv6 is off."""


class LxcCrew(CrewMaking):
    """Crews of LxcDriver."""

    CREW_IN_NAMESPACES = CREW_MEMORY_IS_LIMIT = True
    CREW_DISK = "seen inside"
    CREW_FILES = ("crew_root",)
    crew_root: str | None
    elsewhere: bool
    """Whether the containers run on another node."""

    second_version = False
    """Whether the UUT has control groups of version 2 only, where settings have other names."""

    def crew_cannot(self, wanted: CrewWanted) -> str | None:
        if self.crew_root is None:
            return f"platform {self.name} has no `crew_root` in hosts.yaml, a directory that its guests have as root"
        if self.elsewhere:
            return f"the containers of platform {self.name} are on another machine (`ssh:`)"
        return None

    async def refuse_node(self, uut: AgentLink) -> None:
        shell = f'test -x "$0/bin/sh" || exit 3; test -e {SECOND_VERSION}'
        root = str(self.crew_root)
        answer = await uut.ask(Execute(argv=["sh", "-c", shell, root], timeout_s=10))
        if answer.exit_status == 3:
            raise NodeError(uut.name, f"platform {self.name}: the directory {root} on the UUT has no bin/sh")
        self.second_version = answer.exit_status == 0

    def crew_groups(self, crew: RunningCrew) -> list[NetworkChange]:
        """Empty: LXC makes them itself."""
        return [ControlGroups(name=crew.group, groups=[])]

    def crew_nics(self, guests: Sequence[CrewGuest]) -> list[NetworkChange]:
        return [*crew_bridges(guests, bridged=False)]

    def entering(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        return []

    def crew_argv(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        root = str(self.crew_root)
        settings = {
            "lxc.rootfs.path": f"dir:{root}",
            "lxc.uts.name": guest.name,
            **_SETTINGS,
            **_nic_settings(guest),
            "lxc.cgroup.dir": crew.group,
            **self._limit_settings(guest),
        }
        arguments = [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]
        if guest.disk is not None:
            # Mounted into /tmp, its own file system, which is mounted before: the root is read-only.
            entry = f"{guest.disk} {INSIDE.lstrip('/')} none rw,bind,nosuid,nodev,create=dir 0 0"
            arguments += ["-s", f"lxc.mount.entry={entry}"]
        name = f"{crew.group}-{guest.name}"
        up = _UP.format(nics=" ".join(f"eth{number}" for number in range(len(guest.nics))))
        # As a mask: older busyboxes accept no list.
        cpus = cpu_set(guest.cpus or "")
        pinned = [] if cpus is None else ["/bin/taskset", f"{sum(1 << cpu for cpu in cpus):x}"]
        return [
            *("lxc-start", "-F", "-n", name, "-P", root, "-f", "/dev/null"),
            *arguments,
            *("--", *pinned, "/bin/sh", "-c", f"{up}; {marked_loop(guest.member.boot_mark)}"),
        ]

    def _limit_settings(self, guest: CrewGuest) -> dict[str, str]:
        limits = self._crew_limits(guest)
        if limits is None:
            return {}
        prefix = "lxc.cgroup2" if self.second_version else "lxc.cgroup"
        return {
            f"{prefix}.{file}": value
            for controller in CONTROLLERS
            for file, value in limits.files(controller, second=self.second_version).items()
        }

    async def crew_facts(self, uut: AgentLink, guests: Sequence[CrewGuest]) -> Attestation:
        answer = await uut.ask(Execute(argv=["lxc-start", "--version"], timeout_s=10))
        return {"versions": {"lxc": answer.stdout.strip()[:40]}}


def _nic_settings(guest: CrewGuest) -> dict[str, str]:
    """Each NIC with its other end as a port of its bridge."""
    return {
        f"lxc.net.{number}.{key}": value
        for number, (bridge, (host, mac, address)) in enumerate(zip((BRIDGE, INBOUND_BRIDGE), guest.nics, strict=False))
        for key, value in (
            ("type", "veth"),
            ("link", bridge),
            ("name", f"eth{number}"),
            ("veth.pair", host),
            ("hwaddr", mac),
            ("ipv4.address", address),
        )
    }


# -- the driver --------------------------------------------------------------------------------------------------------
# ``lxc``: containers of LXC's own tools (``lxc-start`` and its family).
#
# A container that is started here is a child of the agent's keeper and ends with it, so nothing remains if the console
# fails. LXC's tools talk through a socket that belongs to a network namespace, so a container that was started in
# another one looks stopped: ``lxc-start`` then prints "already running", with exit status 0.

STATES = {
    "RUNNING": State.RUNNING,
    "STOPPED": State.STOPPED,
    "STARTING": State.CHANGING,
    "STOPPING": State.CHANGING,
    "ABORTING": State.CHANGING,
    "FREEZING": State.PAUSED,
    "FROZEN": State.PAUSED,
    "THAWED": State.CHANGING,
}
MAX_NICS = 16
CPUS = "cpuset.cpus"
EFFECTIVE_CPUS = "cpuset.cpus.effective"

NETWORKS = ("lxc.network", "lxc.net")
"""Prefixes of a setting's name: LXC 1.0 to 2.1, and LXC 2.1 to 6. The unknown one gives "invalid"."""

WITHOUT_INTERFACE = ("empty", "none")

_SETTING = re.compile(r"^lxc\.net(?:work)?\.(\d{1,3})\.([a-z.]+) = ?(.*?)[ \t]*$", re.MULTILINE)
_LINK = re.compile(r"^Link:[ \t]*(\S*)[ \t]*$", re.MULTILINE)


class LxcOptions(ManagedOptions):
    path: Word | None = Field(default=None, description="where the containers are, as for `lxc-ls -P`")
    crew_root: Word | None = Field(
        default=None, description="a directory on the UUT: the root, read-only, of guests for jobs"
    )
    guest_disk: DiskPlace = Field(default=USUAL_DISK_PLACE, description=DISK_PLACE)


def configured(text: str) -> dict[int, dict[str, str]]:
    """``lxc-info -c lxc.net…``: the configuration of each network of a container. "invalid": it does not exist."""
    found: dict[int, dict[str, str]] = {}
    for index, key, value in _SETTING.findall(text):
        if value:
            found.setdefault(int(index), {})[key] = value
    return found


class LxcDriver(LxcCrew, InstalledGuestDriver):
    """Option ``path``: the containers' location, if it is not LXC's default (``lxc-ls -P``)."""

    about = DriverInfo(
        name="lxc",
        summary="containers of LXC's own tools",
        tried=(
            "yes: 5.0 on one machine and on a UUT that is a machine: forwarding, a second guest under each "
            "load, guests for jobs, every fault below, in the test suite"
        ),
        Options=LxcOptions,
        tools=("lxc-start",),
        boot_s=1.0,
        processes=("lxc-start", "lxc-execute", "lxc-autostart"),
        capabilities=Capabilities(pin=True, statistics=True, nic_models=False, exec=True, idle_nics=True),
    )
    options: LxcOptions

    def _check_options(self) -> None:
        super()._check_options()
        if self.options.guests and self.options.crew_root is not None:
            raise self._wrong("guests", "and crew_root are two ways to have guests for jobs; give one of them")

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self.crew_root, self.elsewhere = self.options.crew_root, self.options.ssh is not None
        self.guest_disk = self.options.guest_disk

    def tool(self, tool: str, *args: str) -> list[str]:
        path = [] if self.options.path is None else ["-P", self.options.path]
        return [tool, *path, *args]

    async def probe(self, shell: Shell) -> dict[str, str]:
        return {"lxc": (await shell.must(["lxc-start", "--version"])).strip()[:40]}

    async def _names(self, shell: Shell, *args: str) -> list[str]:
        """One name a line: a name may contain blanks."""
        lines = (await shell.must(self.tool("lxc-ls", "-1", *args))).splitlines()
        return [line.strip() for line in lines if line.strip()]

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        """Guests with a configuration, and running ones without. A guest that is not listed as stopped may run.

        `--active` leaves out running containers whose names contain blanks (5.0).
        """
        stopped = await self._names(shell, "--stopped")
        found = {
            name: HypervisorGuest(name, State.STOPPED, "STOPPED")
            if name in stopped
            else HypervisorGuest(name, State.RUNNING, "not STOPPED")
            for name in await self._names(shell)
        }
        for name in self.planned:
            if name in found:
                found[name] = await self.state(shell, name)
        return found

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        answer = await shell.run(self.tool("lxc-info", "-n", name, "-sH"))
        if f"{name} doesn't exist" in answer.text:
            raise self.unknown(shell, name, await self._names(shell))
        if answer.exit_status != 0:
            raise shell.failed(answer)
        said = answer.stdout.strip()
        if said not in STATES:
            raise shell.error(f"`{answer.command}` says {said[:80]!r}; expected: {', '.join(STATES)}")
        return HypervisorGuest(name, STATES[said], said)

    async def start(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.tool("lxc-start", "-n", name, "-d"), limit_s=self.options.start_s)

    def build_identity_command(self, name: str) -> Sequence[str]:
        return self.tool("lxc-info", "-n", name, "-pH")

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.tool("lxc-stop", "-n", name, "--nokill", "-W"))

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.tool("lxc-stop", "-n", name, "-k"))

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """NICs from the configuration; a host end without a name there is read from the running container."""
        args = [
            word
            for network in NETWORKS
            for index in range(MAX_NICS)
            for key in ("type", "hwaddr", "link", "veth.pair")
            for word in ("-c", f"{network}.{index}.{key}")
        ]
        networks = configured(await shell.must(self.tool("lxc-info", "-n", name, *args)))
        shown = _LINK.findall(await shell.must(self.tool("lxc-info", "-n", name)))
        # One line for each network from number 0 on, up to the first without an interface (lxc_info.c, 1.0 to 6.0).
        ends: dict[int, str] = {}
        for index, end in enumerate(shown):
            if networks.get(index, {}).get("type") in (None, *WITHOUT_INTERFACE):
                break
            ends[index] = end if networks[index]["type"] == "veth" else "-"
        return [
            GuestNic(
                mac=mac_address(networks[index].get("hwaddr", "")),
                host_interface=parse_interface(ends.get(index, networks[index].get("veth.pair", "-"))),
                model=networks[index].get("type"),
                attached_to=networks[index].get("link"),
            )
            for index in sorted(networks)
            if networks[index].get("type") not in (None, *WITHOUT_INTERFACE)
        ]

    async def pinning(self, shell: Shell, name: str) -> Pinning | None:
        cpus = (await shell.must(self.tool("lxc-cgroup", "-n", name, CPUS))).strip()
        if not cpus:  # control groups of version 2 without a setting of their own use the parent group's
            cpus = (await shell.must(self.tool("lxc-cgroup", "-n", name, EFFECTIVE_CPUS))).strip()
        return {"all": cpus} if cpus else None

    async def pin(self, shell: Shell, name: str, pinning: Pinning) -> Answer:
        return await shell.run(self.tool("lxc-cgroup", "-n", name, CPUS, pinning["all"]))

    def limits_it_has(self) -> Collection[str]:
        return KINDS

    async def limit_settings(self, shell: Shell, name: str, wanted: Limits) -> Settings:
        """The limits as control group files, for the version in use."""
        second = (await shell.run(["test", "-e", SECOND_VERSION])).exit_status == 0
        return {file: value for each in CONTROLLERS for file, value in wanted.files(each, second=second).items()}

    async def settings(self, shell: Shell, name: str, names: Sequence[str]) -> Settings:
        return {file: (await shell.must(self.tool("lxc-cgroup", "-n", name, file))).strip() for file in names}

    async def set_limits(self, shell: Shell, name: str, wanted: Settings) -> Answer:
        answer = Answer(("lxc-cgroup",), 0, "", "")
        for file, value in wanted.items():
            answer = await shell.run(self.tool("lxc-cgroup", "-n", name, file, value))
        return answer

    def inside(self, name: str) -> Sequence[str]:
        return self.tool("lxc-attach", "-n", name, "--")

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        return await shell.run([*self.inside(name), *argv])

    async def pid(self, shell: Shell, name: str) -> int | None:
        return parse_pid((await shell.run(self.tool("lxc-info", "-n", name, "-pH"))).stdout)

    async def find_member_pids(self, shell: Shell) -> dict[str, int]:
        found = {name: await self.pid(shell, name) for name in self.planned}
        return {name: pid for name, pid in found.items() if pid is not None}

    @property
    def _crews(self) -> type[LxcCrew | InstalledGuestDriver]:
        """The class that makes its crews: of installed containers, or temporary ones."""
        return InstalledGuestDriver if self.options.guests else LxcCrew

    def crew_refusal(self, wanted: CrewWanted) -> str | None:
        return self._crews.crew_refusal(self, wanted)

    def crew_offer(self, wanted: CrewWanted) -> CrewOffer:
        return self._crews.crew_offer(self, wanted)

    def crew_commands(self, wanted: CrewWanted) -> list[str]:
        return self._crews.crew_commands(self, wanted)

    async def check_node(self, uut: AgentLink) -> None:
        await self._crews.check_node(self, uut)

    async def prepare_crew(self, uut: AgentLink, wanted: CrewWanted) -> Crew:
        return await self._crews.prepare_crew(self, uut, wanted)

    async def restore(self, uut: AgentLink) -> None:
        """Undo a crew, or the set-up of guests that forward."""
        if self._standing is None:
            await InstalledGuestDriver.restore(self, uut)
            return
        try:
            await self.end_crew(uut)
        finally:
            await undo(uut, TOKEN)
            await self.forget_crew(uut)


DRIVER = LxcDriver
