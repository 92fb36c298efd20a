"""``esxi``: machines of VMware ESXi, through ``vim-cmd`` and ``esxcli``.

ESXi prints its faults and may still end with status 0, so every answer is looked through for one. It knows a machine
by three numbers: the Vmid of vim-cmd, the World ID of esxcli (only while it runs), a Port ID for each of its NICs. An
agent cannot run on ESXi, so its commands go there with ``ssh``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, State
from labconsole.platforms.base.hypervisor import StopWords
from labconsole.platforms.base.managed import ManagedDriver
from labconsole.platforms.base.options import ManagedOptions, mac_address
from labconsole.platforms.base.shell import Answer, Shell

STATES = {"Powered on": State.RUNNING, "Powered off": State.STOPPED, "Suspended": State.PAUSED}
PATH = "PATH=/bin:/sbin:/usr/bin:/usr/lib/vmware/bin"
"""A login that is not interactive has a shorter one."""
MAX_LINE = 1000
LISTED_TRIES = 3
"""``esxcli network vm list`` is seen to leave machines out now and then."""

_MACHINE = re.compile(r"^(\d+)\s+(\S.*?)\s+\[([^\]\n]+)\] (.+?\.vmx)\s+\S+\s+vmx-\d+")
_FAULT = re.compile(r"\((?:vim|vmodl)(?:\.\w+)*\.fault\.(\w+)\)")
_MESSAGE = re.compile(r'^\s*msg = "(.*?)",?\s*$', re.MULTILINE)
_PORT_LINE = re.compile(r"^\s*([A-Za-z ]+): ?(.*?)\s*$")
_SETTING = re.compile(r'^\s*([A-Za-z0-9_.:]+)\s*=\s*"(.*)"\s*$', re.MULTILINE)


def fault(answer: Answer) -> str | None:
    """The fault that was printed, in its own words. None: none was."""
    kind = _FAULT.search(answer.text)
    if kind is None:
        return None
    message = _MESSAGE.search(answer.text)
    return f"{kind[1]}: {message[1]}" if message else kind[1]


def machines(text: str) -> dict[str, tuple[str, str]]:
    """``vmsvc/getallvms``: name to Vmid and configuration file. Lines about invalid machines are none of them."""
    rows = [row for line in text.splitlines() if len(line) <= MAX_LINE and (row := _MACHINE.match(line))]
    return {row[2]: (row[1], f"/vmfs/volumes/{row[3]}/{row[4]}") for row in rows}


def ports(text: str) -> list[dict[str, str]]:
    """``esxcli network vm port list``: one block of lines for each port, each block beginning with its Port ID."""
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        pair = _PORT_LINE.match(line)
        if pair is None:
            continue
        if pair[1] == "Port ID":
            found.append({})
        if found:
            found[-1][pair[1]] = pair[2]
    return found


class EsxiDriver(ManagedDriver):
    """No options of its own; ``ssh`` is how the ESXi host is reached."""

    about = DriverInfo(
        name="esxi",
        summary="machines of VMware ESXi, through `vim-cmd` and `esxcli`, by `ssh`",
        tried="no: shapes from public material only",
        Options=ManagedOptions,
        tools=("vim-cmd", "esxcli"),
        boot_s=60.0,
        processes=("vmware-vmx.*",),
        capabilities=Capabilities(nic_models=True),
    )

    async def _ask(self, shell: Shell, *argv: str, limit_s: float = 30.0) -> Answer:
        return await shell.run(["env", PATH, *argv], limit_s=limit_s)

    async def _must(self, shell: Shell, *argv: str) -> str:
        answer = await self._ask(shell, *argv)
        printed = fault(answer)
        if printed is not None:
            raise shell.error(f"`{answer.command}` reports the fault {printed}")
        if answer.exit_status != 0:
            raise shell.failed(answer)
        return answer.stdout

    async def probe(self, shell: Shell) -> dict[str, str]:
        answer = await self._ask(shell, "vmware", "-v")
        if answer.exit_status == 127:
            raise shell.missing(
                "vmware is not installed here, so this is not an ESXi host (set `ssh:` to the ESXi host)"
            )
        if answer.exit_status != 0 or "ESXi" not in answer.stdout:
            raise shell.failed(answer)
        return {"esxi": answer.stdout.strip()[:100]}

    async def _machines(self, shell: Shell) -> dict[str, tuple[str, str]]:
        text = await self._must(shell, "vim-cmd", "vmsvc/getallvms")
        if "Vmid" not in text:
            raise shell.error(f"`vim-cmd vmsvc/getallvms` did not print a table: {text.strip()[:80]!r}")
        return machines(text)

    async def _one(self, shell: Shell, name: str) -> tuple[str, str]:
        found = await self._machines(shell)
        if name not in found:
            raise self.unknown(shell, name, found)
        return found[name]

    async def _power(self, shell: Shell, name: str, vmid: str) -> HypervisorGuest:
        text = await self._must(shell, "vim-cmd", "vmsvc/power.getstate", vmid)
        said = next((line.strip() for line in reversed(text.splitlines()) if line.strip() in STATES), None)
        if said is None:
            raise shell.error(f"ESXi says that machine {name} is {text.strip()[-80:]!r}; expected: {', '.join(STATES)}")
        return HypervisorGuest(name, STATES[said], said, vmid)

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        found = await self._machines(shell)
        return {name: await self._power(shell, name, vmid) for name, (vmid, _) in found.items()}

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        vmid, _ = await self._one(shell, name)
        return await self._power(shell, name, vmid)

    async def _tell(self, shell: Shell, name: str, what: str, limit_s: float = 30.0) -> Answer:
        vmid, _ = await self._one(shell, name)
        return await self._ask(shell, "vim-cmd", f"vmsvc/{what}", vmid, limit_s=limit_s)

    async def start(self, shell: Shell, name: str) -> Answer:
        return await self._tell(shell, name, "power.on", self.options.start_s)

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        """Needs VMware's tools in the guest; without them it is a fault, and the power is taken away."""
        return await self._tell(shell, name, "power.shutdown")

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await self._tell(shell, name, "power.off")

    async def stop_words(self, shell: Shell, name: str) -> StopWords:
        vmid, _ = await self._one(shell, name)
        asked = f"! vim-cmd vmsvc/power.shutdown {vmid} 2>&1 | grep -q -e fault -e failed"
        runs = f"vim-cmd vmsvc/get.runtime {vmid} | grep -e powerState -e bootTime"
        lead = ["env", PATH]
        return StopWords(
            [*lead, "sh", "-c", asked], [*lead, "vim-cmd", "vmsvc/power.off", vmid], [*lead, "sh", "-c", runs]
        )

    def refused(self, answer: Answer) -> bool:
        return super().refused(answer) or fault(answer) is not None or "failed" in answer.text

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """MACs and port groups from the ports of the running machine, models from its configuration by their MAC."""
        row = re.compile(rf"^\s*(\d+)\s+{re.escape(name)}\s+\d+\s", re.MULTILINE)
        world = None
        for _ in range(LISTED_TRIES):
            world = row.search(await self._must(shell, "esxcli", "network", "vm", "list"))
            if world is not None:
                break
        if world is None:
            raise shell.error(f"`esxcli network vm list` does not show machine {name}, which is powered on")
        models = await self._models(shell, name)
        nics = []
        for port in ports(await self._must(shell, "esxcli", "network", "vm", "port", "list", "-w", world[1])):
            mac = mac_address(port.get("MAC Address", ""))
            attached = f"{port.get('vSwitch', '?')}, {port.get('Portgroup', '?')}"
            nics.append(GuestNic(mac=mac, model=models.get(mac or ""), attached_to=attached))
        return nics

    async def _settings(self, shell: Shell, name: str) -> dict[str, str]:
        _, file = await self._one(shell, name)
        pairs = _SETTING.findall(await self._must(shell, "cat", file))
        return {key.lower(): value for key, value in pairs}

    async def _models(self, shell: Shell, name: str) -> dict[str, str]:
        told = await self._settings(shell, name)
        found = {}
        for key, value in told.items():
            device, _, last = key.partition(".")
            mac = (
                mac_address(value)
                if device.startswith("ethernet") and last in ("address", "generatedaddress")
                else None
            )
            if mac is not None and f"{device}.virtualdev" in told:
                found[mac] = told[f"{device}.virtualdev"]
        return found

    async def facts(self, shell: Shell, name: str) -> Attestation:
        """vCPUs and CPU affinity as configured; a machine without ``numvcpus`` has one."""
        told = await self._settings(shell, name)
        cpus = told.get("numvcpus", "1")
        return {
            "vcpus": int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 6 else None,
            "cpu_affinity": told.get("sched.cpu.affinity"),
        }


DRIVER = EsxiDriver
