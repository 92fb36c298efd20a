"""``openvz``: containers of OpenVZ (``vzctl``, ``vzlist``) and of Virtuozzo / OpenVZ 7 (``prlctl``).

A container's NICs are read from its configuration: neither tool prints the MAC on every version. A container with only
a venet interface has none, and frames cannot be addressed to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, State, parse_interface
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.options import ManagedOptions, mac_address
from labconsole.platforms.base.shell import Answer, Shell

STATES = {
    "running": State.RUNNING,
    **dict.fromkeys(("stopped", "down", "mounted"), State.STOPPED),
    **dict.fromkeys(("suspended", "paused"), State.PAUSED),
    **dict.fromkeys(
        (
            *("starting", "stopping", "restoring", "resetting", "pausing", "suspending", "resuming", "continuing"),
            *("compacting", "snapshoting", "del_snapshot", "migrating", "syncing", "reconnecting"),
        ),
        State.CHANGING,
    ),
    "invalid": State.FAILED,
}
"""States of ``vzlist`` and ``vzctl status`` of vzctl 3.0 to 4.11 and 7 to 9, and all of prlctl 7 (vmstate2str, in its
spelling). "unknown" is the programs' own word for a state that they do not know.
"""

_VZLIST = re.compile(r"\s*(\S+)\s+(\S+)\s*")
_PRLCTL = re.compile(r"\s*\{?([0-9a-f-]{36})\}?\s+(\S+)\s+(?:CT|VM)\s+(\S.*?)\s*", re.IGNORECASE)
_STATUS = re.compile(
    r"(?:CTID|VEID) (\S+) (exist|deleted) (mounted|unmounted) (running|paused|suspended|down)( suspended)?\s*"
)
"""vzctl 3 and 4 add "suspended" to "down"; vzctl 7 prints it in its place, and "paused" for "running"."""
_SETTING = re.compile(r'^[^\S\n]*([A-Z]+)="?(.*?)"?[^\S\n]*$', re.MULTILINE)


class OpenVzOptions(ManagedOptions):
    tool: Literal["vzctl", "prlctl"] = "vzctl"


def interfaces(value: str) -> list[GuestNic]:
    """``NETIF`` of a container's configuration: ``ifname=eth0,mac=…,host_ifname=veth101.0,bridge=…;ifname=eth1,…``."""
    nics = []
    for part in value.split(";"):
        pairs = dict(pair.split("=", 1) for pair in part.split(",") if "=" in pair)
        if "ifname" in pairs:
            nics.append(
                GuestNic(
                    mac=mac_address(pairs.get("mac", "")),
                    host_interface=parse_interface(pairs.get("host_ifname", "-")),
                    model="veth",
                    attached_to=pairs.get("bridge") or pairs.get("network"),
                )
            )
    return nics


class OpenVzDriver(InstalledGuestDriver):
    """Option ``tool``: vzctl (default) or prlctl."""

    about = DriverInfo(
        name="openvz",
        summary="containers of OpenVZ, Virtuozzo",
        tried="no: shapes from public material only",
        Options=OpenVzOptions,
        tools=("vzctl", "vzlist"),
        capabilities=Capabilities(statistics=True, nic_models=True, exec=True, idle_nics=True),
    )
    JOINS: ClassVar[bool] = True
    options: OpenVzOptions

    def tools(self) -> tuple[str, ...]:
        return super().tools() if self.options.tool == "vzctl" else ("prlctl",)

    async def probe(self, shell: Shell) -> dict[str, str]:
        said = (await shell.must([self.options.tool, "--version"])).strip()
        return {self.options.tool: said[:100], "host_kernel": (await shell.must(["uname", "-r"])).strip()[:100]}

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        """Columns without blanks come first, and a name last: `vzlist -j` does not escape quotes in names."""
        if self.options.tool == "prlctl":
            argv, row = ["prlctl", "list", "-a", "-H", "-o", "uuid,status,type,name"], _PRLCTL
        else:
            argv, row = ["vzlist", "-a", "-H", "-o", "veid,status"], _VZLIST
        found: dict[str, HypervisorGuest] = {}
        for line in (await shell.must(argv)).splitlines():
            if not line.strip():
                continue
            read = row.fullmatch(line)
            if read is None:
                raise shell.error(f"`{' '.join(argv)}` printed a row that is not understood: {line.strip()[:80]!r}")
            ident, said, name = read[1], read[2], read[3] if row is _PRLCTL else read[1]
            if name in found and name in self.planned:
                raise shell.error(f"two containers are named {name}: {found[name].ident} and {ident}; rename one")
            guest = self._known(shell, name, said, ident)
            if name not in found or found[name].state is State.STOPPED:
                found[name] = guest
        return found

    def _known(self, shell: Shell, name: str, said: str, ident: str) -> HypervisorGuest:
        """A guest in this state. An unknown state is refused for a planned guest; for another it means not stopped."""
        if name in self.planned and said not in STATES:
            raise shell.error(
                f"{self.options.tool} says that guest {name} is {said[:80]!r}; expected: {', '.join(STATES)}"
            )
        return HypervisorGuest(name, STATES.get(said, State.CHANGING), said, ident)

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        if self.options.tool == "prlctl":
            found = await self.guests(shell)
            if name not in found:
                raise self.unknown(shell, name, found)
            return found[name]
        answer = await shell.run(["vzctl", "status", name])
        row = next(filter(None, map(_STATUS.fullmatch, answer.stdout.splitlines())), None)
        if row is None or row[1] != name:
            raise (
                shell.failed(answer)
                if answer.exit_status
                else shell.error(
                    f"`{answer.command}` says {answer.stdout.strip()[:80]!r}; expected: CTID {name}, exist or deleted, "
                    "mounted or unmounted, running, paused, suspended or down"
                )
            )
        if row[2] == "deleted":
            raise self.unknown(shell, name, await self.guests(shell))
        said = f"{row[4]}{row[5] or ''}"
        return HypervisorGuest(name, State.PAUSED if row[5] else STATES[row[4]], said, name)

    async def start(self, shell: Shell, name: str) -> Answer:
        wait = ["--wait"] if self.options.tool == "vzctl" else []
        return await shell.run([self.options.tool, "start", name, *wait], limit_s=self.options.start_s)

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        """Request a stop. vzctl itself waits for two minutes and then kills, so it gets no more time than the operator
        allows.
        """
        return await shell.run([self.options.tool, "stop", name], limit_s=max(1.0, self.options.graceful_s))

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(
            [self.options.tool, "stop", name, "--fast" if self.options.tool == "vzctl" else "--kill"]
        )

    async def _settings(self, shell: Shell, name: str) -> dict[str, str]:
        ident = name if self.options.tool == "vzctl" else (await self.state(shell, name)).ident
        return dict(_SETTING.findall(await shell.must(["cat", f"/etc/vz/conf/{ident}.conf"])))

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        return interfaces((await self._settings(shell, name)).get("NETIF", ""))

    async def facts(self, shell: Shell, name: str) -> Attestation:
        """vCPUs, CPU mask and CPU share as configured; None where the configuration does not limit them."""
        settings = await self._settings(shell, name)
        cpus = settings.get("CPUS", "")
        return {
            "vcpus": int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 6 else None,
            "cpu_mask": settings.get("CPUMASK"),
            "cpu_units": settings.get("CPUUNITS"),
        }

    def inside(self, name: str) -> Sequence[str]:
        return [self.options.tool, "exec2" if self.options.tool == "vzctl" else "exec", name]

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        return await shell.run([*self.inside(name), *argv])


DRIVER = OpenVzDriver
