"""``virtualbox``: machines of Oracle VirtualBox, through VBoxManage.

VirtualBox bridges a machine to a NIC of the host without an interface of its own in between, so the ledger has no hop
there. Machines belong to the user who made them: the agent must run as that one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, State
from labconsole.platforms.base.managed import ManagedDriver
from labconsole.platforms.base.options import ManagedOptions, mac_address
from labconsole.platforms.base.shell import Answer, Shell

STATES = {
    "running": State.RUNNING,
    "poweroff": State.STOPPED,
    "aborted": State.STOPPED,
    "paused": State.PAUSED,
    "saved": State.PAUSED,
    "aborted-saved": State.PAUSED,
    "starting": State.CHANGING,
    "stopping": State.CHANGING,
    "saving": State.CHANGING,
    "restoring": State.CHANGING,
    "gurumeditation": State.FAILED,
}
MAX_NICS = 36
NO_DRIVER = "/dev/vboxdrv"

_LISTED = re.compile(r'^"(.*)" \{([0-9a-f-]{36})\}\s*$', re.MULTILINE)
_VERSION = re.compile(r"^(\d+\.\d+\S*)\s*$", re.MULTILINE)
_VALUE = re.compile(r'^"?([A-Za-z0-9_-]+)"?="?(.*?)"?\s*$', re.MULTILINE)


def values(text: str) -> dict[str, str]:
    """``showvminfo --machinereadable``. Whole keys: ``VMState`` is not ``VMStateChangeTime``."""
    return dict(_VALUE.findall(text))


def machines(text: str) -> list[str]:
    """``list vms`` and ``list runningvms``: names, which may hold blanks."""
    return [name for name, _ in _LISTED.findall(text)]


class VirtualBoxDriver(ManagedDriver):
    """No options of its own."""

    about = DriverInfo(
        name="virtualbox",
        summary="machines of VirtualBox, through `VBoxManage`",
        tried="transcripts of the real program (7.2)",
        Options=ManagedOptions,
        tools=("VBoxManage",),
        boot_s=60.0,
        processes=("VBoxHeadless.*", "VirtualBoxVM.*"),
        capabilities=Capabilities(nic_models=True, idle_nics=True),
    )

    async def probe(self, shell: Shell) -> dict[str, str]:
        answer = await shell.run(["VBoxManage", "--version"])
        if NO_DRIVER in answer.text:
            raise shell.missing(f"the kernel driver of VirtualBox is not loaded here: {NO_DRIVER} does not exist")
        if answer.exit_status != 0:
            raise shell.failed(answer)
        found = _VERSION.findall(answer.stdout)
        if not found:
            raise shell.error(f"`{answer.command}` does not report a version: {answer.said}")
        return {"virtualbox": found[-1][:40]}

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        names = machines(await shell.must(["VBoxManage", "list", "vms"]))
        running = set(machines(await shell.must(["VBoxManage", "list", "runningvms"])))
        found = {
            name: HypervisorGuest(name, State.RUNNING, "running")
            if name in running
            else HypervisorGuest(name, State.STOPPED, "poweroff")
            for name in names
        }
        for name in self.planned:
            if name in found:
                found[name] = await self.state(shell, name)
        return found

    async def _values(self, shell: Shell, name: str) -> dict[str, str]:
        answer = await shell.run(["VBoxManage", "showvminfo", name, "--machinereadable"])
        if "Could not find a registered machine" in answer.text:
            raise self.unknown(shell, name, machines(await shell.must(["VBoxManage", "list", "vms"])))
        if answer.exit_status != 0:
            raise shell.failed(answer)
        return values(answer.stdout)

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        said = (await self._values(shell, name)).get("VMState", "")
        if said not in STATES:
            raise shell.error(f"VBoxManage says that machine {name} is {said[:80]!r}; expected: {', '.join(STATES)}")
        return HypervisorGuest(name, STATES[said], said)

    async def start(self, shell: Shell, name: str) -> Answer:
        """In a session of its own where we can: VBoxManage may have to start VirtualBox's server, which must stay."""
        alone = ["setsid", "--wait"] if shell.ssh is None else []
        return await shell.run(
            [*alone, "VBoxManage", "startvm", name, "--type", "headless"], limit_s=self.options.start_s
        )

    def runs_words(self, name: str) -> Sequence[str]:
        return ["sh", "-c", f"VBoxManage showvminfo {shlex.quote(name)} --machinereadable | grep ^VMState"]

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["VBoxManage", "controlvm", name, "acpipowerbutton"])

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["VBoxManage", "controlvm", name, "poweroff"])

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        told = await self._values(shell, name)
        nics = []
        for index in range(1, MAX_NICS + 1):
            mode = told.get(f"nic{index}", "none")
            if mode == "none":
                continue
            adapter = told.get(f"bridgeadapter{index}") or told.get(f"hostonlyadapter{index}")
            cable = "" if told.get(f"cableconnected{index}", "on") == "on" else ", cable off"
            nics.append(
                GuestNic(
                    mac=mac_address(told.get(f"macaddress{index}", "")),
                    model=told.get(f"nictype{index}"),
                    attached_to=(f"{mode} {adapter}" if adapter else mode) + cable,
                )
            )
        return nics

    async def facts(self, shell: Shell, name: str) -> Attestation:
        told = await self._values(shell, name)
        cpus = told.get("cpus", "")
        return {
            "vcpus": int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 6 else None,
            **{key: told.get(key) for key in ("cpuexecutioncap", "hwvirtex", "nestedpaging", "paravirtprovider")},
        }


DRIVER = VirtualBoxDriver
