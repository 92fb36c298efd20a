"""``libvirt``: guests of any hypervisor that libvirt connects to, through ``virsh`` on the UUT.

What can be asked depends on the connection: LXC under libvirt cannot pin, Xen has no domain statistics. So what a
platform declares is read from its ``uri``, and the rest is refused before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import ClassVar

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
    as_interface,
    as_pid,
    listed,
)
from labconsole.platforms.base.managed import ManagedDriver
from labconsole.platforms.base.options import ManagedOptions, Word, mac_address
from labconsole.platforms.base.shell import Answer, Shell

STATES = {
    "running": State.RUNNING,
    "idle": State.RUNNING,
    "no state": State.RUNNING,  # what Xen says of a guest that is about to be scheduled
    "paused": State.PAUSED,
    "pmsuspended": State.PAUSED,
    "in shutdown": State.CHANGING,
    "dying": State.CHANGING,
    "shut off": State.STOPPED,
    "crashed": State.FAILED,
}
HOST = "Domain-0"
PINNING = ("qemu", "xen", "test")
COUNTING = ("qemu", "xen", "lxc")
SCHEDULING = {
    "qemu": ("cpu_shares", "global_quota", "global_period"),
    "lxc": ("cpu_shares", "vcpu_quota", "vcpu_period"),
    "xen": ("weight", "cap", None),
}
"""What `virsh schedinfo` calls weight, quota and the period of that, by connection; Xen has percents."""

KIB = 1024
PID_FILES = {"qemu": "/run/libvirt/qemu", "lxc": "/run/libvirt/lxc"}

_ROW = re.compile(rf"\s*(?:\d+|-)\s+(.+?)\s+({'|'.join(STATES)})\s*")
_VERSION = re.compile(r"^(Using library|Running hypervisor): +(\S.*?)\s*$", re.MULTILINE)
_PIN = re.compile(r"^\s*(\d+):?\s+([\d,^-]+)\s*$", re.MULTILINE)
_SCHEDULED = re.compile(r"^(\w{1,40}) *: (-?\d{1,20})\s*$", re.MULTILINE)
_KIND = re.compile(r"<domain type='([a-z0-9_-]{1,32})'")
_RSS = re.compile(r"^rss (\d{1,15})\s*$", re.MULTILINE)
"""In KiB."""

_CPUS = re.compile(r"^CPU\(s\): +(\d{1,5})\s*$", re.MULTILINE)


class LibvirtOptions(ManagedOptions):
    uri: Word = Field(default="qemu:///system", description="a connection of libvirt's")


def rows(text: str) -> dict[str, str]:
    """``virsh list --all``: name to state. Columns move with the longest name, so a row is known by its state."""
    found = {}
    for line in text.splitlines():
        row = _ROW.fullmatch(line)
        if row:
            found[row[1]] = row[2]
    return found


def interfaces(text: str) -> list[GuestNic]:
    """``virsh domiflist``: a dash stands for what is not known, as the interface of a guest that does not run."""
    nics = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 5 or mac_address(words[-1]) is None:
            continue
        nics.append(
            GuestNic(
                mac=mac_address(words[-1]),
                host_interface=as_interface(words[0]),
                model=None if words[-2] == "-" else words[-2],
                attached_to=" ".join(words[1:-2]),
            )
        )
    return nics


class LibvirtDriver(ManagedDriver):
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
        processes=("qemu-.*",),
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

    def virsh(self, *words: str) -> list[str]:
        return ["virsh", "-c", self.options.uri, *words]

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
        text = await shell.must(self.virsh("list", "--all"))
        if "Name" not in text or "State" not in text:
            raise shell.error(f"`virsh list --all` did not print a table: {text.strip()[:80]!r}")
        return {name: HypervisorGuest(name, STATES[said], said) for name, said in rows(text).items() if name != HOST}

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        answer = await shell.run(self.virsh("domstate", name))
        if "failed to get domain" in answer.text:
            raise self.unknown(shell, name, await self.guests(shell))
        if answer.exit_status != 0:
            raise shell.failed(answer)
        said = answer.stdout.strip()
        if said not in STATES:
            raise shell.error(f"`{answer.command}` says {said[:80]!r}; expected: {', '.join(STATES)}")
        return HypervisorGuest(name, STATES[said], said)

    async def start(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.virsh("start", name), limit_s=self.options.start_s)

    def runs_words(self, name: str) -> Sequence[str]:
        return self.virsh("domid", name)

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.virsh("shutdown", name))

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(self.virsh("destroy", name))

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        return interfaces(await shell.must(self.virsh("domiflist", name)))

    async def facts(self, shell: Shell, name: str) -> Attestation:
        """``kind`` tells a guest under KVM ("kvm") from one that is translated ("qemu")."""
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
        return dict(_PIN.findall(await shell.must(self.virsh("vcpupin", name)))) or None

    async def pin(self, shell: Shell, name: str, pinning: Pinning) -> Answer:
        """Of the running guest only: what is configured stays."""
        if not self.about.capabilities.pin:
            return await super().pin(shell, name, pinning)
        answer = Answer(("virsh",), 0, "", "")
        for vcpu, cpus in pinning.items():
            answer = await shell.run(self.virsh("vcpupin", name, vcpu, cpus, "--live"))
        return answer

    def limits_it_has(self) -> Collection[str]:
        return ("cpu_shares", "cpu_quota_ratio") if self.scheme in SCHEDULING else ()

    async def limit_settings(self, shell: Shell, name: str, wanted: Limits) -> Settings:
        """As `virsh schedinfo` calls them: weights as they are, a quota in the units of the guest's period."""
        share, quota, period = SCHEDULING[self.scheme]
        found: Settings = {} if wanted.cpu_shares is None else {share: str(wanted.cpu_shares)}
        if wanted.cpu_quota_ratio is not None:
            whole = int((await self.settings(shell, name, [period]))[period]) if period else 100
            found[quota] = str(round(wanted.cpu_quota_ratio * whole))
        return found

    async def settings(self, shell: Shell, name: str, names: Sequence[str]) -> Settings:
        found = dict(_SCHEDULED.findall(await shell.must(self.virsh("schedinfo", name))))
        if missing := [key for key in names if key not in found]:
            raise shell.error(f"virsh does not report {listed(missing)} of guest {name}; it reports: {listed(found)}")
        return {key: found[key] for key in names}

    async def hold_to(self, shell: Shell, name: str, wanted: Settings) -> Answer:
        """Of the running guest only: what is configured stays."""
        words = [f"{key}={value}" for key, value in wanted.items()]
        return await shell.run(self.virsh("schedinfo", name, "--live", *words))

    def inside(self, name: str) -> Sequence[str] | None:
        return self.virsh("lxc-enter-namespace", name, "--") if self.scheme == "lxc" else None

    async def pid(self, shell: Shell, name: str) -> int | None:
        """As libvirt's daemon for the whole machine has written it down: QEMU's, or that of a container's keeper."""
        if self.scheme not in PID_FILES:
            return None
        return as_pid((await shell.run(["cat", f"{PID_FILES[self.scheme]}/{name}.pid"])).stdout)

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        if self.scheme != "lxc":
            return await super().execute(shell, name, argv)
        return await shell.run(self.virsh("lxc-enter-namespace", name, *argv))

    async def memory_word(self, shell: Shell, names: Sequence[str]) -> HypervisorWord | None:
        """What each guest has of the node's memory, where libvirt knows; of containers that is their control group's
        word, not one of its own."""
        if self.scheme == "lxc":
            return None
        said = {name: (await shell.run(self.virsh("dommemstat", name))).stdout for name in names}
        found = {name: int(rss[1]) * KIB for name, text in said.items() if (rss := _RSS.search(text)) is not None}
        return HypervisorWord(command="virsh dommemstat", guest_bytes=found) if found else None


DRIVER = LibvirtDriver
