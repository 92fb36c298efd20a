"""``virtualbox``: machines of Oracle VirtualBox, through VBoxManage.

VirtualBox bridges a machine to a NIC of the host without an interface of its own in between, so the ledger has no hop
there. Machines belong to the user who made them: the agent must run as that user.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, State
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.options import ManagedOptions, mac_address
from labconsole.platforms.base.shell import Answer, Shell

STATES = {
    "poweroff": State.STOPPED,
    "aborted": State.STOPPED,
    "teleported": State.STOPPED,
    "running": State.RUNNING,
    "paused": State.PAUSED,
    "saved": State.PAUSED,
    "aborted-saved": State.PAUSED,
    "deletingsnapshotlivepaused": State.PAUSED,
    "gurumeditation": State.FAILED,
    **dict.fromkeys(
        (
            *("starting", "stopping", "saving", "restoring", "settingup", "snapshotting", "livesnapshotting"),
            *("onlinesnapshotting", "restoringsnapshot", "deletingsnapshot", "deletingsnapshotlive"),
            *("teleporting", "teleportingin", "teleportingpausedvm", "faulttolerantsyncing"),
        ),
        State.CHANGING,
    ),
}
"""All short names of ``machineStateToName`` in VBoxManageInfo.cpp, from 3.0 to 7.2. ``faulttolerantsyncing`` ended with
6.1, ``aborted-saved`` and ``onlinesnapshotting`` came later. "unknown" is the program's own word for a new one.
"""

ATTACHED = {
    "null": None,
    "nat": "natnet",
    "natnetwork": "nat-network",
    "bridged": "bridgeadapter",
    "intnet": "intnet",
    "hostonly": "hostonlyadapter",
    "hostonlynetwork": "hostonly-network",
    "generic": "generic",
    "cloudnetwork": "cloud-network",
    "cloud": "cloud-network",
}
"""The key that names the network, by ``nicN`` in small letters: VBoxManageInfo.cpp of 3.0 to 7.2. It prints "Generic"
with a capital letter. Keys of other kinds of attachment may stay behind, so only this one is read.
"""
NAT_WITHOUT_NAME = "nat"
_WARNING_CHARACTERS = 300

MAX_NICS = 36
INACCESSIBLE = "<inaccessible>"
"""The name that VBoxManage prints for every machine whose settings it cannot read."""

_LISTED = re.compile(r'^"(.*)" \{([0-9a-f-]{36})\}\s*$', re.IGNORECASE)
_VERSION = re.compile(r"^\d+\.\d+\.\d+\S*r\d+\S*$")
_VERSION_ALONE = re.compile(r"^\d+(?:\.\d+)+\S*$")
_ENTRY = re.compile(r'^(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<key>[^\s"=]+))=(?P<value>.*)$')
_ESCAPED = re.compile(r'\\(["\\])')
_DRIVER = re.compile(
    r"vbox_?drv|vboxsup|virtualbox (?:\w+ )?(?:kernel|support)|virtualbox\.kext|kernel (?:driver|extension)"
    r"|support driver|VERR_(?:VM_DRIVER|SUPDRV)|(?:rc=|error )-19\d\d\b",
    re.IGNORECASE,
)
"""Names of the driver in wrappers of VirtualBox 1.5 to 7.2 (its own, Debian's, Ubuntu's, RPM Fusion's), VBoxSVC and the
error messages of SUPLib.
"""
_NO_START = re.compile(r"start(?:ing)? (?:a )?(?:VMs?|virtual machines?)\b", re.IGNORECASE)
_NO_ACCESS = re.compile(r"vboxusers|not (?:writable|accessible)|VERR_VM_DRIVER_NOT_ACCESSIBLE|-1910\b", re.IGNORECASE)


def values(text: str) -> dict[str, str]:
    """``showvminfo --machinereadable``: the first value of each key.

    VBoxManage 5.0 and later escapes quotes and backslashes in most values; NICs and snapshots are printed unescaped in
    every version. Descriptions have several lines and follow the machine's own keys, so a line of one that looks like a
    key does not replace it.
    """
    found: dict[str, str] = {}
    inside = False
    for line in text.splitlines():
        if inside:
            inside = not _closes(line)
            continue
        entry = _ENTRY.match(line.rstrip())
        if entry is None:
            continue
        key, value = entry["key"] or _ESCAPED.sub(r"\1", entry["quoted"] or ""), entry["value"]
        if value.startswith('"'):
            inside = len(value) < 2 or not _closes(value)
            if inside:
                continue
            value = value[1:-1]
        found.setdefault(key, value)
    return found


def _closes(line: str) -> bool:
    """Whether a quoted value ends with this line: by a quote with an even number of backslashes before it."""
    body = line.rstrip()
    return body.endswith('"') and (len(body) - 1 - len(body[:-1].rstrip("\\"))) % 2 == 0


def rows(text: str) -> list[tuple[str, str]]:
    """``list vms`` and ``list runningvms``: names and UUIDs. Raises ValueError with another kind of row."""
    found = []
    for line in text.splitlines():
        row = _LISTED.match(line)
        if row is not None:
            found.append((row[1], row[2].lower()))
        elif line.startswith('"'):
            raise ValueError(line)
    return found


def machines(text: str) -> list[str]:
    """The names of ``list vms``, which may contain blanks, quotes and braces."""
    return [name for name, _ in rows(text)]


def attachment(info: Mapping[str, str], index: int) -> str | None:
    """The network that a NIC is attached to, such as ``intnet DMZ``, or None if there is no such NIC."""
    mode = info.get(f"nic{index}", "none")
    kind = mode.lower()
    if kind == "none":
        return None
    if kind not in ATTACHED:
        return f"unknown attachment {mode[:40]!r}"
    key = ATTACHED[kind]
    name = "" if key is None else info.get(f"{key}{index}", "")
    return f"{kind} {name}" if name and not (kind == "nat" and name == NAT_WITHOUT_NAME) else kind


class VirtualBoxDriver(InstalledGuestDriver):
    """No options of its own."""

    about = DriverInfo(
        name="virtualbox",
        summary="machines of VirtualBox, through `VBoxManage`",
        tried="transcripts of the real program (7.2)",
        Options=ManagedOptions,
        tools=("VBoxManage",),
        boot_s=60.0,
        processes=("VBoxHeadless.*", "VirtualBoxVM.*", "VBoxSDL.*"),
        capabilities=Capabilities(nic_models=True, idle_nics=True),
    )

    async def probe(self, shell: Shell) -> dict[str, str]:
        """The version, and other output of VBoxManage: its wrapper warns there of a driver that is not loaded."""
        answer = await shell.run(["VBoxManage", "--version"])
        lines = [" ".join(line.split()) for line in answer.stdout.splitlines() if line.strip()]
        found = [line for line in lines if _VERSION.match(line)] or [
            line for line in lines[-1:] if _VERSION_ALONE.match(line)
        ]
        said = [line for line in lines if line not in found[-1:]] + [
            " ".join(line.split()) for line in answer.stderr.splitlines() if line.strip()
        ]
        self._refuse_without_driver(shell, " ".join(said))
        if answer.exit_status != 0:
            raise shell.failed(answer)
        if not found:
            raise shell.error(f"`{answer.command}` does not report a version: {answer.said}")
        warning = {"virtualbox_warning": " ".join(said)[:_WARNING_CHARACTERS]} if said else {}
        return {"virtualbox": found[-1][:40], **warning}

    @staticmethod
    def _refuse_without_driver(shell: Shell, said: str) -> None:
        """Raise CapabilityMissing if VBoxManage reports that no machine can be started."""
        driver, no_start = _DRIVER.search(said), _NO_START.search(said)
        if driver is None and no_start is None:
            return
        why = f"VBoxManage says: {said[:_WARNING_CHARACTERS]}"
        if _NO_ACCESS.search(said):
            raise shell.missing(f"no permission to use the kernel driver of VirtualBox. {why}")
        if driver is None:
            raise shell.missing(f"VirtualBox cannot start machines here. {why}")
        raise shell.missing(f"the kernel driver is not loaded or not usable here. {why}")

    async def _listed(self, shell: Shell, what: str) -> list[tuple[str, str]]:
        try:
            return rows(await shell.must(["VBoxManage", "list", what]))
        except ValueError as exc:
            raise shell.error(
                f"`VBoxManage list {what}` printed a row that is not understood: {str(exc)[:80]!r}"
            ) from None

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        listed = await self._listed(shell, "vms")
        running = {uuid for _, uuid in await self._listed(shell, "runningvms")}
        uuids: dict[str, list[str]] = {}
        for name, uuid in listed:
            uuids.setdefault(f"{name} {uuid}" if name == INACCESSIBLE else name, []).append(uuid)
        found = {}
        for name, its in uuids.items():
            if name in self.planned and len(its) > 1:
                raise shell.error(
                    f"VirtualBox has {len(its)} machines named {name} ({', '.join(its[:4])}): rename all but one"
                )
            idle = "inaccessible" if name.startswith(INACCESSIBLE) else "poweroff"
            runs = not running.isdisjoint(its)
            found[name] = HypervisorGuest(
                name, State.RUNNING if runs else State.STOPPED, "running" if runs else idle, its[0]
            )
        for name in self.planned:
            if name in found:
                found[name] = await self.state(shell, name)
        return found

    async def _values(self, shell: Shell, name: str) -> dict[str, str]:
        answer = await shell.run(["VBoxManage", "showvminfo", name, "--machinereadable"])
        if "Could not find a registered machine" in answer.text:
            raise self.unknown(shell, name, [name for name, _ in await self._listed(shell, "vms")])
        if answer.exit_status != 0:
            raise shell.failed(answer)
        return values(answer.stdout)

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        said = (await self._values(shell, name)).get("VMState")
        if said is None:
            raise shell.error(f"VBoxManage reports no VMState of machine {name}: its settings may be inaccessible")
        if said not in STATES:
            raise shell.error(f"VBoxManage says that machine {name} is {said[:80]!r}; expected: {', '.join(STATES)}")
        return HypervisorGuest(name, STATES[said], said)

    async def start(self, shell: Shell, name: str) -> Answer:
        """Start it in a session of its own if possible: VBoxManage may have to start VirtualBox's server, which must
        stay.
        """
        alone = ["setsid", "--wait"] if shell.ssh is None else []
        return await shell.run(
            [*alone, "VBoxManage", "startvm", name, "--type", "headless"], limit_s=self.options.start_s
        )

    def build_identity_command(self, name: str) -> Sequence[str]:
        return ["sh", "-c", f"VBoxManage showvminfo {shlex.quote(name)} --machinereadable | grep ^VMState"]

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["VBoxManage", "controlvm", name, "acpipowerbutton"])

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["VBoxManage", "controlvm", name, "poweroff"])

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        info = await self._values(shell, name)
        nics = []
        for index in range(1, MAX_NICS + 1):
            attached = attachment(info, index)
            if attached is None:
                continue
            cable = "" if info.get(f"cableconnected{index}", "on") == "on" else ", cable off"
            nics.append(
                GuestNic(
                    mac=mac_address(info.get(f"macaddress{index}", "")),
                    model=info.get(f"nictype{index}"),
                    attached_to=attached + cable,
                )
            )
        return nics

    async def facts(self, shell: Shell, name: str) -> Attestation:
        info = await self._values(shell, name)
        cpus = info.get("cpus", "")
        return {
            "vcpus": int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 6 else None,
            **{key: info.get(key) for key in ("cpuexecutioncap", "hwvirtex", "nestedpaging", "paravirtprovider")},
        }


DRIVER = VirtualBoxDriver
