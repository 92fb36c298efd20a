"""``xl``: Xen guests through Xen's own toolstack.

Xen keeps no list of guests that do not run: a guest that is to be started needs its file (``config``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from labconsole.contracts.crew import HypervisorWord
from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, Pinning, Settings, State, as_interface
from labconsole.platforms.base.managed import ManagedDriver
from labconsole.platforms.base.options import GUEST_PLACE, ManagedOptions, Word, mac_address
from labconsole.platforms.base.shell import Answer, Shell

HOST_ID = "0"
SCHEDULERS = ("credit2", "credit")
MAX_WEIGHT = 65535
MIB = 1024 * 1024
MEMORY_OFF_RATIO = 0.02
"""By so much of it, a domain's memory may differ from what its file says: Xen takes a little for itself."""

LISTED_TRIES = 3
"""``xl list`` is seen to die of a signal now and then, while domains are being made."""

_ROW = re.compile(r"(.+?)\s+(\d{1,6})\s+(\d{1,9})\s+(\d{1,6})\s+([a-z-]{5,8})\s+[\d.]+\s*")
_NIC = re.compile(r"^(\d+)\s+\d+\s+((?:[0-9a-f]{2}:){5}[0-9a-f]{2})\s", re.MULTILINE | re.IGNORECASE)
_VCPU = re.compile(r"\s\d+\s+(\d+)\s+(?:\d+|-)\s+[rbp-]{3}\s+[\d.]+\s+(\S+) / \S+\s*$", re.MULTILINE)
_VERSION = re.compile(r"^(xen_version|xen_scheduler|release)\s*: (\S+)\s*$", re.MULTILINE)

_FREE = re.compile(r"^free_memory\s*: (\d{1,12})\s*$", re.MULTILINE)
"""In MiB."""

_SCHEDULED = re.compile(r"^(?P<name>\S.*?)\s+\d{1,6}\s+(?P<weight>\d{1,6})\s+(?P<cap>\d{1,6})\s*$", re.MULTILINE)


class XlOptions(ManagedOptions):
    config: Word | None = Field(default=None, description="the guest's file: Xen keeps no list of guests that are off")
    second_config: Word | None = Field(default=None, description="the second guest's file")
    guest_config: Word | None = Field(default=None, description="the file of each guest for jobs, with {guest} in it")


@dataclass(frozen=True, slots=True)
class Domain:
    """One row of ``xl list``. ``memory_mib``: that it has now."""

    name: str
    ident: str
    vcpus: int
    said: str
    memory_mib: int

    @property
    def state(self) -> State:
        """The letters stand for what is true now, several at once: ``-bp---`` is blocked *and* paused."""
        for letter, state in (("c", State.FAILED), ("d", State.CHANGING), ("s", State.CHANGING), ("p", State.PAUSED)):
            if letter in self.said:
                return state
        return State.RUNNING  # r, b, or neither: it waits for its turn


def domains(text: str) -> dict[str, Domain]:
    """``xl list``, without the host's own domain."""
    found = {}
    for line in text.splitlines():
        row = _ROW.fullmatch(line)
        if row and row[2] != HOST_ID:
            found[row[1]] = Domain(row[1], row[2], int(row[4]), row[5], int(row[3]))
    return found


def described(text: str, name: str) -> dict[str, Any] | None:
    """The entry of ``xl list -l`` for one guest; None where there is none or it is no JSON."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for entry in entries if type(entries) is list else [entries]:
        config = entry.get("config") if type(entry) is dict else None
        info = config.get("c_info") if type(config) is dict else None
        if type(info) is dict and info.get("name") == name and type(config) is dict:
            return config
    return None


class XlDriver(ManagedDriver):
    """Options ``config``, ``second_config`` and ``guest_config``: the guests' files, for ``xl create``."""

    about = DriverInfo(
        name="xl",
        summary="Xen guests through Xen's own toolstack",
        tried=(
            "yes: Xen 4.17 with paravirtual guests on a machine that QEMU emulates (`lab up --uut machine "
            "--boot xen`): forwarding, a second guest under load, guests for jobs; and transcripts"
        ),
        Options=XlOptions,
        tools=("xl",),
        boot_s=10.0,
        processes=("xl", "qemu-.*"),
        capabilities=Capabilities(pin=True, statistics=True, nic_models=True, nic_credit=True),
    )
    options: XlOptions

    def _file(self, name: str) -> str | None:
        told = self.options
        if name in (told.guest, told.second_guest):
            return told.config if name == told.guest else told.second_config
        return None if told.guest_config is None else told.guest_config.replace(GUEST_PLACE, name)

    def _check_options(self) -> None:
        super()._check_options()
        told = self.options
        if told.guest_config is not None and GUEST_PLACE not in told.guest_config:
            raise self._wrong("guest_config", f"is the same file for each guest: it has no {GUEST_PLACE}")

    async def probe(self, shell: Shell) -> dict[str, str]:
        answer = await shell.run(["xl", "info"])
        found = dict(_VERSION.findall(answer.stdout))
        if answer.exit_status != 0 or "xen_version" not in found:
            if answer.denied:
                raise shell.failed(answer)
            raise shell.missing(f"this node does not run under Xen, or xl cannot ask it: {answer.said}")
        return {
            "xen": found["xen_version"],
            "scheduler": found.get("xen_scheduler", ""),
            "host_kernel": found.get("release", ""),
        }

    async def _domains(self, shell: Shell) -> dict[str, Domain]:
        for _ in range(LISTED_TRIES):
            answer = await shell.run(["xl", "list"])
            if answer.exit_status is None or answer.exit_status >= 0:
                break
        if answer.exit_status != 0:
            raise shell.failed(answer)
        text = answer.stdout
        if not text.lstrip().startswith("Name"):
            raise shell.error(f"`xl list` did not print a table: {text.strip()[:80]!r}")
        return domains(text)

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        found = {
            d.name: HypervisorGuest(d.name, d.state, d.said, d.ident) for d in (await self._domains(shell)).values()
        }
        for name in self.planned:
            if name not in found and self._file(name) is not None:
                found[name] = HypervisorGuest(name, State.STOPPED, "not there")
        return found

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        domain = (await self._domains(shell)).get(name)
        if domain is None:
            return HypervisorGuest(name, State.STOPPED, "not there")
        return HypervisorGuest(name, domain.state, domain.said, domain.ident)

    async def start(self, shell: Shell, name: str) -> Answer:
        file = self._file(name)
        assert file is not None
        # Whatever the file calls it, the guest that is created is the planned one: else another one would be left over.
        return await shell.run(["xl", "create", file, f'name="{name}"'], limit_s=self.options.start_s)

    def runs_words(self, name: str) -> Sequence[str]:
        return ["xl", "domid", name]

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["xl", "shutdown", name])

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["xl", "destroy", name])

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """MACs as the back end has them; names and models as the guest was described."""
        macs = dict(_NIC.findall(await shell.must(["xl", "network-list", name])))
        config = described(await shell.must(["xl", "list", "-l", name]), name) or {}
        told_nics = config.get("nics")
        described_nics = [n for n in told_nics if type(n) is dict] if type(told_nics) is list else []
        entries = {str(n.get("devid", i)): n for i, n in enumerate(described_nics)}
        domain = (await self._domains(shell)).get(name)
        nics = []
        for index, mac in macs.items():
            told = entries.get(index, {})
            by_default = f"vif{domain.ident}.{index}" if domain is not None else "-"
            nics.append(
                GuestNic(
                    mac=mac_address(mac),
                    host_interface=as_interface(str(told.get("ifname") or by_default)),
                    model=str(told.get("model") or told.get("nictype") or "") or None,
                    attached_to=str(told.get("bridge") or "") or None,
                )
            )
        return nics

    async def nics_to_be(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """As its file has them: a NIC without an address or a name there gets another at each start."""
        answer = await shell.run(["xl", "-N", "create", str(self._file(name)), f'name="{name}"'])
        try:
            told = json.loads(answer.stdout).get("nics")
        except (ValueError, RecursionError, AttributeError):
            return ()
        nics = [nic if type(nic) is dict else {} for nic in told] if type(told) is list else []
        return [
            GuestNic(mac=mac_address(str(nic.get("mac"))), host_interface=as_interface(str(nic.get("ifname") or "-")))
            for nic in nics
        ]

    async def facts(self, shell: Shell, name: str) -> Attestation:
        domain = (await self._domains(shell)).get(name)
        config = described(await shell.must(["xl", "list", "-l", name]), name) or {}
        kind, built = config.get("c_info", {}).get("type"), config.get("b_info")
        most_kib = built.get("max_memkb") if type(built) is dict else None
        return {
            "kind": kind if type(kind) is str else None,
            "vcpus": domain.vcpus if domain else None,
            "memory_mib": most_kib // 1024 if type(most_kib) is int else None,
        }

    async def pinning(self, shell: Shell, name: str) -> Pinning | None:
        return dict(_VCPU.findall(await shell.must(["xl", "vcpu-list", name]))) or None

    async def pin(self, shell: Shell, name: str, pinning: Pinning) -> Answer:
        answer = Answer(("xl",), 0, "", "")
        for vcpu, cpus in pinning.items():
            answer = await shell.run(["xl", "vcpu-pin", name, vcpu, cpus])
        return answer

    def limits_it_has(self) -> Collection[str]:
        return ("cpu_shares", "cpu_quota_ratio", "memory_mib")

    def limits_refusal(self, wanted: Limits) -> str | None:
        if wanted.cpu_shares is not None and wanted.cpu_shares > MAX_WEIGHT:
            return f"Xen's weights, which cpu_shares are here, are 1 to {MAX_WEIGHT}, not {wanted.cpu_shares}"
        return super().limits_refusal(wanted)

    async def limit_settings(self, shell: Shell, name: str, wanted: Limits) -> Settings:
        """Of Xen's scheduler: the weight, the first domain's being 256, and the cap in percent of one processor. Memory
        is what its file gives it, and has to be what is asked.
        """
        weight, ratio, wanted_mib = wanted.cpu_shares, wanted.cpu_quota_ratio, wanted.memory_mib
        if wanted_mib is not None:
            domain = (await self._domains(shell)).get(name)
            if domain is None:
                raise shell.error(f"guest {name} does not run")
            if abs(domain.memory_mib - wanted_mib) > MEMORY_OFF_RATIO * wanted_mib:
                raise shell.error(
                    f"guest {name} has {domain.memory_mib} MiB of memory, not memory_mib {wanted_mib}: write `memory = "
                    f"{wanted_mib}` into its file"
                )
        return {
            **({} if weight is None else {"weight": str(weight)}),
            **({} if ratio is None else {"cap": str(max(1, round(ratio * 100)))}),
        }

    async def _scheduler(self, shell: Shell) -> str:
        scheduler = (await self.probe(shell))["scheduler"]
        if scheduler not in SCHEDULERS:
            known = " and ".join(SCHEDULERS)
            raise shell.missing(f"Xen's scheduler is {scheduler!r}; guests are held to limits under {known}")
        return f"sched-{scheduler}"

    async def settings(self, shell: Shell, name: str, names: Sequence[str]) -> Settings:
        if not names:
            return {}
        text = await shell.must(["xl", await self._scheduler(shell), "-d", name])
        row = next((row for row in _SCHEDULED.finditer(text) if row["name"] == name), None)
        if row is None:
            raise shell.error(f"xl does not report how guest {name} is scheduled: {text.strip()[-80:]!r}")
        return {key: row[key] for key in names}

    async def hold_to(self, shell: Shell, name: str, wanted: Settings) -> Answer:
        words = [word for key, value in wanted.items() for word in (f"-{key[0]}", value)]
        return await shell.run(["xl", await self._scheduler(shell), "-d", name, *words])

    async def memory_word(self, shell: Shell, names: Sequence[str]) -> HypervisorWord | None:
        """What Xen has left, and what each domain has. Where the first domain makes room, Xen has as much left."""
        free = _FREE.search(await shell.must(["xl", "info"]))
        there = await self._domains(shell)
        return HypervisorWord(
            command="xl info, xl list",
            free_bytes=None if free is None else int(free[1]) * MIB,
            guest_bytes={name: there[name].memory_mib * MIB for name in names if name in there},
        )


DRIVER = XlDriver
