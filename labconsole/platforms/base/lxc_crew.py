"""A crew of temporary LXC containers: each is an ``lxc-start`` in the foreground, with its whole configuration in its
command line.

It is a child of the agent, and its console is its standard input and output. LXC has the kernel kill a container's
first process, and so all of them, when ``lxc-start`` is killed. Only control groups remain: these are below one that
the agent removes. All share one root, read-only; /tmp is their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.crew import CrewWanted
from labconsole.contracts.driver import Attestation
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.model.cpus import cpu_set
from labconsole.network.change import NetworkChange
from labconsole.network.control_groups import CONTROLLERS, SECOND_VERSION, ControlGroups
from labconsole.platforms.base.crew import (
    BRIDGE,
    INBOUND_BRIDGE,
    CrewGuest,
    CrewMaking,
    RunningCrew,
    crew_bridges,
)
from labconsole.platforms.base.crew_disks import INSIDE
from labconsole.platforms.base.marks import marked_loop
from labconsole.wire.execution import Execute

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
