"""``libvirt``: guests of any hypervisor that libvirt connects to, through ``virsh`` on the UUT.

Capabilities depend on the connection: LXC under libvirt cannot pin, Xen has no domain statistics. So a platform's
capabilities are derived from its ``uri``, and other requests are refused before anything runs.

Known formats, from libvirt's source (tools/virsh-domain.c, virsh-domain-monitor.c, vsh-table.c) up to 12 and from virsh
9.0, always in the language of ``LC_ALL=C``:

- Tables: columns of fixed width before 4.10, as wide as their longest value since. Nothing is cut. The newer table of
guests prints any byte beyond ASCII as ``\\xff`` under ``LC_ALL=C``; ``--name`` prints the names themselves.

- ``domstate``: eight states, and ``dying`` in old versions. ``no state`` is also any state that this virsh does not
know; only under Xen it is a guest that waits for its turn.

- ``schedinfo``: an unlimited quota is ``-1`` under control groups of version 1, and the largest quota under version 2
(18446744073709551 before libvirt 7.0, 17592186044415 since); virsh accepts each of them. A period of 0: no quotas.

Every command takes a number for a domain's ID, and a UUID for a domain's UUID, before it looks for a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import ClassVar, NamedTuple

from pydantic import Field

from labconsole.contracts.crew import HypervisorWord
from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import (
    GuestNic,
    HypervisorGuest,
    Pinning,
    Settings,
    State,
    ambiguity,
    disambiguate,
    format_names,
    format_output,
    parse_interface,
    parse_pid,
    table,
)
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.options import ManagedOptions, Word, mac_address
from labconsole.platforms.base.shell import Answer, Shell

STATES = {
    "running": State.RUNNING,
    "idle": State.RUNNING,
    "no state": State.CHANGING,
    "paused": State.PAUSED,
    "pmsuspended": State.PAUSED,
    "in shutdown": State.CHANGING,
    "dying": State.CHANGING,
    "shut off": State.STOPPED,
    "crashed": State.FAILED,
}
WAITS = {"no state": State.RUNNING}
"""The report of a Xen without such a state on a guest that is about to be scheduled."""

HOST_ID = "0"
ESCAPE = "\\x"
MAX_ID = 2**31 - 1
PINNING = ("qemu", "xen", "test")
COUNTING = ("qemu", "xen", "lxc")
SCHEDULING = {
    "qemu": ("cpu_shares", "global_quota", "global_period"),
    "lxc": ("cpu_shares", "vcpu_quota", "vcpu_period"),
    "xen": ("weight", "cap", None),
}
"""Names in `virsh schedinfo` of weight, quota and its period, by connection; Xen has percents."""

KIB = 1024
PID_FILES = {"qemu": "/run/libvirt/qemu", "lxc": "/run/libvirt/lxc"}

_HEADER = re.compile(r"\s*Id\s+Name\s+State\s*")
_ROW = re.compile(rf"\s*([0-9]+|-)\s+(.+?)\s+({'|'.join(STATES)})\s*")
_NIC_HEADER = re.compile(r"\s*Interface\s+Type\s+Source\s+Model\s+MAC\s*")
_NIC = re.compile(r"\s*(\S+)\s+([a-z]\S*)\s+(\S|\S.*?\S)\s+(\S+)\s+([0-9a-fA-F:]{17}|-)\s*")
_PIN_HEADER = re.compile(r"\s*VCPU:?\s+CPU Affinity\s*")
_PIN = re.compile(r"\s*([0-9]{1,5}):?\s+([0-9][0-9,^-]*)\s*")
_NUMBER = re.compile(r"\+?([0-9]{1,10})")
_UUID = re.compile(r"[0-9A-Fa-f -]{36}")
_VERSION = re.compile(r"^(Using library|Running hypervisor): +(\S.*?)\s*$", re.MULTILINE)
_SCHEDULED = re.compile(r"^(\w{1,40}) *: (-?\d{1,20})\s*$", re.MULTILINE)
_KIND = re.compile(r"<domain type='([a-z0-9_-]{1,32})'")
_RSS = re.compile(r"^rss (\d{1,15})\s*$", re.MULTILINE)
"""In KiB."""

_CPUS = re.compile(r"^CPU\(s\): +(\d{1,5})\s*$", re.MULTILINE)


class LibvirtOptions(ManagedOptions):
    uri: Word = Field(default="qemu:///system", description="a connection of libvirt's")


class Row(NamedTuple):
    """One row of ``virsh list --all``. ``ident`` is "" for a guest that is off."""

    name: str
    ident: str
    said: str


def rows(text: str) -> list[Row]:
    """``virsh list --all``: columns move with the longest name, so a row ends with its state. Raises UnknownLine."""
    _, found = table(text, _HEADER, _ROW)
    return [Row(row[2], "" if row[1] == "-" else row[1], row[3]) for row in found]


def interfaces(text: str) -> list[GuestNic]:
    """``virsh domiflist``: a dash is an unknown value, such as the interface of a stopped guest. Raises UnknownLine."""
    _, found = table(text, _NIC_HEADER, _NIC)
    return [
        GuestNic(
            mac=mac_address(row[5]),
            host_interface=parse_interface(row[1]),
            model=None if row[4] == "-" else row[4],
            attached_to=f"{row[2]} {row[3]}",
        )
        for row in found
    ]


def affinities(text: str) -> Pinning:
    """``virsh vcpupin`` of one guest. Raises UnknownLine."""
    _, found = table(text, _PIN_HEADER, _PIN)
    return {row[1]: row[2] for row in found}


class LibvirtDriver(InstalledGuestDriver):
    """Option ``uri``: a connection of libvirt's, such as qemu:///system, lxc:///, xen:///system."""

    about = DriverInfo(
        name="libvirt",
        summary="guests of any hypervisor that libvirt connects to, through `virsh`",
        tried=(
            "yes, by hand: QEMU (TCG) and LXC under a real libvirtd forwarded without loss, were pinned, "
            "stopped, and killed in mid-run; two of QEMU were guests for jobs; in the test suite: the real `virsh` "
            "with libvirt's test hypervisor. KVM and Xen: transcripts of the real programs. Other connections: only "
            "how they refuse"
        ),
        Options=LibvirtOptions,
        tools=("virsh",),
        boot_s=8.0,
        processes=(r"\.?qemu-system-.*", "qemu-kvm", "kvm"),
    )
    EVERY_VCPU: ClassVar[str] = "EACH-VCPU"
    options: LibvirtOptions

    @property
    def scheme(self) -> str:
        return self.options.uri.partition(":")[0].partition("+")[0].lower()

    def declare(self) -> Capabilities:
        return Capabilities(
            pin=self.scheme in PINNING,
            statistics=self.scheme in COUNTING,
            nic_models=True,
            exec=self.scheme == "lxc",
            idle_nics=True,
        )

    def where(self) -> str:
        return f" of {self.options.uri}"

    def name_refusal(self, name: str) -> str | None:
        number = _NUMBER.fullmatch(name)
        if (number and int(number[1]) <= MAX_ID) or _UUID.fullmatch(name):
            kind = "ID" if number else "UUID"
            return f"is a domain's {kind} to virsh, which may be another guest's: rename it (`virsh domrename`)"
        return None

    def _state(self, said: str) -> State:
        return (STATES | WAITS if self.scheme == "xen" else STATES)[said]

    def virsh(self, *args: str) -> list[str]:
        return ["virsh", "-c", self.options.uri, *args]

    async def probe(self, shell: Shell) -> dict[str, str]:
        answer = await shell.run(self.virsh("version"))
        if answer.exit_status != 0:
            if answer.denied:
                raise shell.failed(answer)
            raise shell.missing(f"virsh cannot connect to {self.options.uri}: {answer.said}")
        found = dict(_VERSION.findall(answer.stdout))
        if len(found) != 2:
            raise shell.error(f"`{answer.command}` does not report versions: {answer.said}")
        return {"libvirt": found["Using library"], "hypervisor": found["Running hypervisor"]}

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        found = await self._unescaped(shell, await self.read(shell, self.virsh("list", "--all"), rows))
        if self.scheme == "xen":
            found = [row for row in found if row.ident != HOST_ID]
        for name in self.planned:
            if (why := ambiguity(found, name, "ID")) is not None:
                raise shell.error(f"`virsh list --all` does not show which guest {name} is: {why}")
        return {
            name: HypervisorGuest(row.name, self._state(row.said), row.said)
            for name, row in disambiguate(found).items()
        }

    async def _unescaped(self, shell: Shell, found: list[Row]) -> list[Row]:
        """Rows with the original names, if the table may have escaped some."""
        if not any(ESCAPE in row.name for row in found):
            return found
        names = [line for line in (await shell.must(self.virsh("list", "--all", "--name"))).split("\n") if line.strip()]
        clear = [row for row in found if ESCAPE not in row.name or row.name in names]
        others = set(names) - {row.name for row in clear}
        if len(clear) + len(others) != len(found):
            raise shell.error(f"virsh lists {len(found)} guests with their states, and as names: {format_names(names)}")
        return clear + [Row(name, "", (await self.state(shell, name)).said) for name in sorted(others)]

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        answer = await shell.run(self.virsh("domstate", name))
        if "failed to get domain" in answer.text:
            raise self.unknown(shell, name, await self.guests(shell))
        if answer.exit_status != 0:
            raise shell.failed(answer)
        said = answer.stdout.strip()
        if said not in STATES:
            raise shell.error(f"`{answer.command}` reports {format_output(said)}; expected: {', '.join(STATES)}")
        return HypervisorGuest(name, self._state(said), said)

    async def start(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.virsh("start", name), limit_s=self.options.start_s)

    def build_identity_command(self, name: str) -> Sequence[str]:
        return self.virsh("domid", name)

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.virsh("shutdown", name))

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.virsh("destroy", name))

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        return await self.read(shell, self.virsh("domiflist", name), interfaces)

    async def facts(self, shell: Shell, name: str) -> Attestation:
        """Adds ``kind``, which distinguishes a guest under KVM ("kvm") from a translated one ("qemu")."""
        kind = _KIND.search(await shell.must(self.virsh("dumpxml", name)))
        cpus = _CPUS.search(await shell.must(self.virsh("dominfo", name)))
        return {
            "uri": self.options.uri,
            "kind": kind[1] if kind else None,
            "vcpus": int(cpus[1]) if cpus else None,
        }

    async def pinning(self, shell: Shell, name: str) -> Pinning | None:
        if not self.about.capabilities.pin:
            return None
        return await self.read(shell, self.virsh("vcpupin", name), affinities) or None

    async def pin(self, shell: Shell, name: str, pinning: Pinning) -> Answer:
        """Pin only the running guest: its configuration stays."""
        if not self.about.capabilities.pin:
            return await super().pin(shell, name, pinning)
        answer = Answer(("virsh",), 0, "", "")
        for vcpu, cpus in pinning.items():
            answer = await shell.run(self.virsh("vcpupin", name, vcpu, cpus, "--live"))
        return answer

    def limits_it_has(self) -> Collection[str]:
        return ("cpu_shares", "cpu_quota_ratio") if self.scheme in SCHEDULING else ()

    async def limit_settings(self, shell: Shell, name: str, wanted: Limits) -> Settings:
        """Limits in the terms of `virsh schedinfo`: weights unchanged, a quota in the units of the guest's period."""
        share, quota, period = SCHEDULING[self.scheme]
        found: Settings = {} if wanted.cpu_shares is None else {share: str(wanted.cpu_shares)}
        if wanted.cpu_quota_ratio is not None:
            whole = int((await self.settings(shell, name, [period]))[period]) if period else 100
            if whole <= 0:
                raise shell.missing(f"virsh reports {period} {whole} of guest {name}: this node sets no CPU quotas")
            found[quota] = str(round(wanted.cpu_quota_ratio * whole))
        return found

    async def settings(self, shell: Shell, name: str, names: Sequence[str]) -> Settings:
        found = dict(_SCHEDULED.findall(await shell.must(self.virsh("schedinfo", name))))
        if missing := [key for key in names if key not in found]:
            raise shell.error(
                f"virsh does not report {format_names(missing)} of guest {name}; it reports: {format_names(found)}"
            )
        return {key: found[key] for key in names}

    async def set_limits(self, shell: Shell, name: str, wanted: Settings) -> Answer:
        """Limit only the running guest: its configuration stays."""
        args = [f"{key}={value}" for key, value in wanted.items()]
        return await shell.run(self.virsh("schedinfo", name, "--live", *args))

    def inside(self, name: str) -> Sequence[str] | None:
        return self.virsh("lxc-enter-namespace", name, "--") if self.scheme == "lxc" else None

    async def pid(self, shell: Shell, name: str) -> int | None:
        """The process id that libvirt's system daemon wrote down: QEMU's, or that of a container's controller."""
        if self.scheme not in PID_FILES:
            return None
        return parse_pid((await shell.run(["cat", f"{PID_FILES[self.scheme]}/{name}.pid"])).stdout)

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        if self.scheme != "lxc":
            return await super().execute(shell, name, argv)
        return await shell.run(self.virsh("lxc-enter-namespace", name, *argv))

    async def memory_word(self, shell: Shell, names: Sequence[str]) -> HypervisorWord | None:
        """Memory of the node that each guest has, if libvirt knows; for containers it is their control group's count,
        not one of libvirt's own.
        """
        if self.scheme == "lxc":
            return None
        said = {name: (await shell.run(self.virsh("dommemstat", name))).stdout for name in names}
        found = {name: int(rss[1]) * KIB for name, text in said.items() if (rss := _RSS.search(text)) is not None}
        return HypervisorWord(command="virsh dommemstat", guest_bytes=found) if found else None


DRIVER = LibvirtDriver
