"""``openvz``: containers of OpenVZ (``vzctl``, ``vzlist``) and of Virtuozzo / OpenVZ 7 (``prlctl``).

Which NICs a container has is read from its configuration: neither tool prints the MAC on every version. A container
with only a venet interface has none, and cannot be addressed by frames.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, State, as_interface
from labconsole.platforms.base.managed import ManagedDriver
from labconsole.platforms.base.options import ManagedOptions, mac_address
from labconsole.platforms.base.shell import Answer, Shell

STATES = {
    "running": State.RUNNING,
    "stopped": State.STOPPED,
    "mounted": State.STOPPED,
    "suspended": State.PAUSED,
    "paused": State.PAUSED,
    "starting": State.CHANGING,
    "stopping": State.CHANGING,
}

_VZLIST = re.compile(rf"^\s*(\S+)\s+({'|'.join(STATES)})\s*$", re.MULTILINE)
_STATUS = re.compile(r"^(?:CTID|VEID) (\S+) (exist|deleted) (mounted|unmounted) (running|down)( suspended)?\s*$", re.M)
_PRLCTL = re.compile(r"^\{([0-9a-f-]{36})\}\s+(\w+)\s+\S.*?\s+(CT|VM)\s+(\S.*?)\s*$", re.MULTILINE)
_SETTING = re.compile(r'^\s*([A-Z]+)="?(.*?)"?\s*$', re.MULTILINE)


class OpenVzOptions(ManagedOptions):
    tool: Literal["vzctl", "prlctl"] = "vzctl"


def interfaces(value: str) -> list[GuestNic]:
    """``NETIF`` of a container's configuration: ``ifname=eth0,mac=…,host_ifname=veth101.0,bridge=…;ifname=eth1,…``."""
    nics = []
    for part in value.split(";"):
        told = dict(pair.split("=", 1) for pair in part.split(",") if "=" in pair)
        if "ifname" in told:
            nics.append(
                GuestNic(
                    mac=mac_address(told.get("mac", "")),
                    host_interface=as_interface(told.get("host_ifname", "-")),
                    model="veth",
                    attached_to=told.get("bridge") or told.get("network"),
                )
            )
    return nics


class OpenVzDriver(ManagedDriver):
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
        if self.options.tool == "prlctl":
            text = await shell.must(["prlctl", "list", "-a"])
            if "STATUS" not in text:
                raise shell.error(f"`prlctl list -a` did not print a table: {text.strip()[:80]!r}")
            rows = [(name, said, ident) for ident, said, _, name in _PRLCTL.findall(text)]
        else:
            text = await shell.must(["vzlist", "-a", "-ovpsid,status", "-H"])
            rows = [(ident, said, ident) for ident, said in _VZLIST.findall(text)]
            if text.strip() and not rows:
                raise shell.error(f"`vzlist` did not print a table: {text.strip()[:80]!r}")
        # A state that is not known is no reason to overlook a container: it is not stopped.
        return {
            name: HypervisorGuest(name, STATES.get(said, State.CHANGING), said, ident) for name, said, ident in rows
        }

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        if self.options.tool == "prlctl":
            found = await self.guests(shell)
            if name not in found:
                raise self.unknown(shell, name, found)
            return found[name]
        answer = await shell.run(["vzctl", "status", name])
        row = _STATUS.search(answer.stdout)
        if row is None or row[1] != name:
            raise (
                shell.failed(answer)
                if answer.exit_status
                else shell.error(f"`{answer.command}` says {answer.stdout.strip()[:80]!r}, which is not a known state")
            )
        if row[2] == "deleted":
            raise self.unknown(shell, name, await self.guests(shell))
        state = State.PAUSED if row[5] else State.RUNNING if row[4] == "running" else State.STOPPED
        return HypervisorGuest(name, state, " ".join(row[0].split()[3:]), name)

    async def start(self, shell: Shell, name: str) -> Answer:
        wait = ["--wait"] if self.options.tool == "vzctl" else []
        return await shell.run([self.options.tool, "start", name, *wait], limit_s=self.options.start_s)

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        """vzctl itself waits for two minutes and kills then; it is given no more time than the operator wants."""
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
        told = await self._settings(shell, name)
        cpus = told.get("CPUS", "")
        return {
            "vcpus": int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 6 else None,
            "cpu_mask": told.get("CPUMASK"),
            "cpu_units": told.get("CPUUNITS"),
        }

    def inside(self, name: str) -> Sequence[str]:
        return [self.options.tool, "exec2" if self.options.tool == "vzctl" else "exec", name]

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        return await shell.run([*self.inside(name), *argv])


DRIVER = OpenVzDriver
