"""``xl``: Xen guests through Xen's own toolstack.

Xen keeps no list of guests that do not run: a guest that is to be started needs its file (``config``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, Pinning, State, as_interface
from labconsole.platforms.base.managed import ManagedDriver
from labconsole.platforms.base.options import ManagedOptions, Word, mac_address
from labconsole.platforms.base.shell import Answer, Shell

HOST_ID = "0"

_ROW = re.compile(r"(.+?)\s+(\d{1,6})\s+\d+\s+(\d{1,6})\s+([a-z-]{5,8})\s+[\d.]+\s*")
_NIC = re.compile(r"^(\d+)\s+\d+\s+((?:[0-9a-f]{2}:){5}[0-9a-f]{2})\s", re.MULTILINE | re.IGNORECASE)
_VCPU = re.compile(r"\s\d+\s+(\d+)\s+(?:\d+|-)\s+[rbp-]{3}\s+[\d.]+\s+(\S+) / \S+\s*$", re.MULTILINE)
_VERSION = re.compile(r"^(xen_version|xen_scheduler|release)\s*: (\S+)\s*$", re.MULTILINE)


class XlOptions(ManagedOptions):
    config: Word | None = Field(default=None, description="the guest's file: Xen keeps no list of guests that are off")
    second_config: Word | None = Field(default=None, description="the second guest's file")


@dataclass(frozen=True, slots=True)
class Domain:
    """One row of ``xl list``."""

    name: str
    ident: str
    vcpus: int
    said: str

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
            found[row[1]] = Domain(row[1], row[2], int(row[3]), row[4])
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
    """Options ``config`` and ``second_config``: the guests' files, for ``xl create``."""

    about = DriverInfo(
        name="xl",
        summary="Xen guests through Xen's own toolstack",
        tried=(
            "yes: Xen 4.17 with paravirtual guests on a machine that QEMU emulates (`lab up --uut machine "
            "--boot xen`): forwarding, a second guest under load; and transcripts"
        ),
        Options=XlOptions,
        tools=("xl",),
        boot_s=10.0,
        processes=("xl", "qemu-.*"),
        capabilities=Capabilities(pin=True, statistics=True, nic_models=True),
    )
    options: XlOptions

    def _file(self, name: str) -> str | None:
        return self.options.config if name == self.options.guest else self.options.second_config

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
        text = await shell.must(["xl", "list"])
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

    async def facts(self, shell: Shell, name: str) -> Attestation:
        domain = (await self._domains(shell)).get(name)
        config = described(await shell.must(["xl", "list", "-l", name]), name) or {}
        kind = config.get("c_info", {}).get("type")
        return {"kind": kind if type(kind) is str else None, "vcpus": domain.vcpus if domain else None}

    async def pinning(self, shell: Shell, name: str) -> Pinning | None:
        return dict(_VCPU.findall(await shell.must(["xl", "vcpu-list", name]))) or None

    async def pin(self, shell: Shell, name: str, pinning: Pinning) -> Answer:
        answer = Answer(("xl",), 0, "", "")
        for vcpu, cpus in pinning.items():
            answer = await shell.run(["xl", "vcpu-pin", name, vcpu, cpus])
        return answer


DRIVER = XlDriver
