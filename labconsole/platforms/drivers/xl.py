"""``xl``: Xen guests through Xen's own toolstack.

Xen keeps no list of stopped guests: a guest that is to be started needs its file (``config``).

Known formats, from Xen's source (tools/libxl/xl_cmdimpl.c of 4.0 to 4.8, tools/xl of 4.9 to 4.22):

- ``xl list``: a name is padded to 40 characters and never cut; six letters, of which the fifth gives the reason of a
guest's shutdown (``S`` since 4.7, ``?``: a reason that xl does not know).

- ``xl vcpu-list``: one column ``CPU Affinity`` before 4.5, then ``Affinity (Hard / Soft)``. All CPUs are ``any cpu`` up
to 4.3 and ``all`` since. A vCPU that is offline has ``-`` as its CPU, and the state ``--p``.

- ``xl network-list``: columns ``BE`` and ``BE-path`` name the domain that has a NIC's other end. Before 4.7 they are
entries that the guest itself can change. A row in which they differ is not read.

- ``xl sched-credit2``: no column ``Cap`` before 4.10. ``xl info``: no ``xen_version`` before 4.4.

A word of digits only is a domain's ID to xl, never its name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from labconsole.contracts.crew import HypervisorWord
from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.model.cpus import cpu_set
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import (
    GuestNic,
    HypervisorGuest,
    Pinning,
    Settings,
    State,
    UnknownLine,
    ambiguity,
    disambiguate,
    format_names,
    format_output,
    parse_interface,
    table,
)
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.options import GUEST_PLACE, ManagedOptions, Word, mac_address
from labconsole.platforms.base.shell import Answer, Shell
from labconsole.wire.clean import read_json

HOST_ID = "0"
_ID = re.compile("[0-9]+")
SCHEDULERS = ("credit2", "credit")
MAX_WEIGHT = 65535
MIB = 1024 * 1024
MEMORY_OFF_RATIO = 0.02
"""Maximum deviation of a domain's memory from its file's value: Xen takes a little for itself."""

LISTED_TRIES = 3
"""``xl list`` sometimes dies of a signal while domains are being made."""

_HEADER = re.compile(r"Name\s+ID\s+Mem\s+VCPUs\s+State\s+Time\(s\)\s*")
_ROW = re.compile(
    r"(.*\S)\s+([0-9]{1,6})\s+([0-9]{1,9})\s+([0-9]{1,6})\s+([r-][b-][p-][s-][rscwS?-][d-])\s+[0-9]+\.[0-9]\s*"
)
_NIC_HEADER = re.compile(r"Idx\s+BE\s+Mac Addr\.\s.*")
_NIC = re.compile(
    r"([0-9]{1,5})\s+([0-9]{1,6})\s+((?:[0-9a-f]{2}:){5}[0-9a-f]{2})\s.*\s/local/domain/\2/backend/\S+\s*",
    re.IGNORECASE,
)
_VCPU_HEADER = re.compile(
    r"Name\s+ID\s+VCPU\s+CPU\s+State\s+Time\(s\)\s+(?:CPU Affinity|(?P<two>Affinity \(Hard / Soft\)))\s*"
)
_VCPU = re.compile(
    r"(?P<name>.*\S)\s+(?P<id>[0-9]+)\s+(?P<vcpu>[0-9]{1,5})\s+(?:[0-9]+|-)\s+[r-][b-][p-]\s+[0-9]+\.[0-9]"
    r"\s+(?P<hard>any cpu|all|[0-9][0-9,-]*)(?: / (?P<soft>\S.*?))?\s*"
)
_SCHEDULED_HEADER = re.compile(r"Name\s+ID\s+Weight(?P<cap>\s+Cap)?\s*")
_SCHEDULED, _NUMBER = r"(.*\S)\s+[0-9]{1,6}", r"\s+([0-9]{1,6})"
_INFO = re.compile(
    r"^(xen_version|xen_major|xen_minor|xen_extra|xen_scheduler|release)[ \t]*:[ \t]*(.*?)[ \t]*$", re.MULTILINE
)

_FREE = re.compile(r"^free_memory\s*: ([0-9]{1,12})\s*$", re.MULTILINE)
"""In MiB."""


class XlOptions(ManagedOptions):
    config: Word | None = Field(default=None, description="the guest's file: Xen keeps no list of guests that are off")
    second_config: Word | None = Field(default=None, description="the second guest's file")
    guest_config: Word | None = Field(default=None, description="the file of each guest for jobs, with {guest} in it")


@dataclass(frozen=True, slots=True)
class Domain:
    """One row of ``xl list``. ``memory_mib``: its current memory."""

    name: str
    ident: str
    vcpus: int
    said: str
    memory_mib: int

    @property
    def state(self) -> State:
        """Several letters may apply at once: ``-bp---`` is blocked *and* paused."""
        _, _, paused, shut_down, reason, dying = list(self.said)
        if reason in "cw":  # it crashed, or its watchdog fired
            return State.FAILED
        if shut_down == "s" or dying == "d":
            return State.CHANGING
        return State.PAUSED if paused == "p" else State.RUNNING  # r, b, or neither: it waits for its turn


def domains(text: str) -> list[Domain]:
    """``xl list``, without the host's own domain. Raises UnknownLine."""
    _, rows = table(text, _HEADER, _ROW)
    return [Domain(row[1], row[2], int(row[4]), row[5], int(row[3])) for row in rows if row[2] != HOST_ID]


def affinities(text: str, name: str) -> Pinning:
    """``xl vcpu-list``: each vCPU's hard affinity, ``all`` for any CPU, of the guest of this name. Raises
    UnknownLine."""
    titles, rows = table(text, _VCPU_HEADER, _VCPU)
    own = [row for row in rows if row["name"] == name]
    found: Pinning = {}
    for row in own:
        cpus = "all" if row["hard"] == "any cpu" else row["hard"]
        fits = (row["soft"] is None) == (titles["two"] is None) and (cpus == "all" or cpu_set(cpus) is not None)
        if not fits or row["vcpu"] in found or row["id"] != own[0]["id"]:
            raise UnknownLine(row[0])
        found[row["vcpu"]] = cpus
    return found


def back_ends(text: str) -> dict[str, tuple[str, str]]:
    """``xl network-list``: a NIC's index to the domain of its other end and its MAC address. Raises UnknownLine."""
    _, rows = table(text, _NIC_HEADER, _NIC)
    found = {row[1]: (row[2], row[3]) for row in rows}
    if len(found) < len(rows):
        raise UnknownLine(rows[-1][0])
    return found


def scheduled(text: str, name: str) -> Settings:
    """``xl sched-credit`` or ``xl sched-credit2`` of one guest: weight and, if shown, cap. Raises UnknownLine."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("Cpupool ")]
    titles = _SCHEDULED_HEADER.fullmatch(lines[0]) if lines else None
    keys = ("weight", "cap") if titles and titles["cap"] else ("weight",)
    _, rows = table("\n".join(lines), _SCHEDULED_HEADER, re.compile(_SCHEDULED + _NUMBER * len(keys) + r"\s*"))
    own = [row for row in rows if row[1] == name]
    if len(own) != 1:
        raise UnknownLine(own[-1][0] if own else text)
    return dict(zip(keys, own[0].groups()[1:], strict=True))


def described(text: str, name: str) -> dict[str, Any] | None:
    """The entry of ``xl list -l`` for one guest, or None if there is none or the text is not JSON."""
    try:
        entries = read_json(text)
    except ValueError:
        return None
    for entry in entries if type(entries) is list else [entries]:
        config = entry.get("config") if type(entry) is dict else None
        info = config.get("c_info") if type(config) is dict else None
        if type(info) is dict and info.get("name") == name and type(config) is dict:
            return config
    return None


class XlDriver(InstalledGuestDriver):
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
        processes=("xl", r"\.?qemu-system-.*"),
        capabilities=Capabilities(pin=True, statistics=True, nic_models=True, nic_credit=True),
    )
    options: XlOptions

    def _file(self, name: str) -> str | None:
        options = self.options
        if name in (options.guest, options.second_guest):
            return options.config if name == options.guest else options.second_config
        return None if options.guest_config is None else options.guest_config.replace(GUEST_PLACE, name)

    def _check_options(self) -> None:
        super()._check_options()
        options = self.options
        if options.guest_config is not None and GUEST_PLACE not in options.guest_config:
            raise self._wrong("guest_config", f"is the same file for each guest: it has no {GUEST_PLACE}")

    async def probe(self, shell: Shell) -> dict[str, str]:
        answer = await shell.run(["xl", "info"])
        found = dict(_INFO.findall(answer.stdout))
        version = found.get("xen_version") or "{xen_major}.{xen_minor}{xen_extra}".format_map(
            {"xen_major": "", "xen_minor": "", "xen_extra": "", **found}
        )
        if answer.exit_status != 0 or version == ".":
            if answer.denied:
                raise shell.failed(answer)
            raise shell.missing(f"this node does not run under Xen, or xl cannot ask it: {answer.said}")
        return {
            "xen": version[:100],
            "scheduler": found.get("xen_scheduler", "")[:100],
            "host_kernel": found.get("release", "")[:100],
        }

    def name_refusal(self, name: str) -> str | None:
        return "is a domain's ID to xl, which may be another guest's: rename it" if _ID.fullmatch(name) else None

    async def _domains(self, shell: Shell) -> list[Domain]:
        for _ in range(LISTED_TRIES):
            answer = await shell.run(["xl", "list"])
            if answer.exit_status is None or answer.exit_status >= 0:
                break
        if answer.exit_status != 0:
            raise shell.failed(answer)
        try:
            return domains(answer.stdout)
        except UnknownLine as exc:
            raise shell.error(f"`xl list` printed an unrecognized line: {format_output(str(exc))}") from exc

    def _only(self, shell: Shell, name: str, rows: Sequence[Domain]) -> Domain | None:
        """The one row of a guest, or None if it does not run. Raises NodeError if it is ambiguous."""
        if (why := ambiguity(rows, name, "ID")) is not None:
            raise shell.error(f"`xl list` does not show which guest {name} is: {why}")
        return next((row for row in rows if row.name == name), None)

    async def _domain(self, shell: Shell, name: str) -> Domain | None:
        return self._only(shell, name, await self._domains(shell))

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        rows = await self._domains(shell)
        found = {
            name: HypervisorGuest(name, each.state, each.said, each.ident) for name, each in disambiguate(rows).items()
        }
        for name in self.planned:
            self._only(shell, name, rows)
            if name not in found and self._file(name) is not None:
                found[name] = HypervisorGuest(name, State.STOPPED, "not there")
        return found

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        domain = await self._domain(shell, name)
        if domain is None:
            return HypervisorGuest(name, State.STOPPED, "not there")
        return HypervisorGuest(name, domain.state, domain.said, domain.ident)

    async def start(self, shell: Shell, name: str) -> Answer:
        file = self._file(name)
        assert file is not None
        # The created guest gets the planned name, independent of its file: else another guest would remain.
        return await shell.run(["xl", "create", file, f'name="{name}"'], limit_s=self.options.start_s)

    def build_identity_command(self, name: str) -> Sequence[str]:
        return ["xl", "domid", name]

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["xl", "shutdown", name])

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["xl", "destroy", name])

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """MACs from the back end; names and models from the guest's description."""
        ends = await self.read(shell, ["xl", "network-list", name], back_ends)
        config = described(await shell.must(["xl", "list", "-l", name]), name) or {}
        listed = config.get("nics")
        described_nics = [n for n in listed if type(n) is dict] if type(listed) is list else []
        entries = {str(n.get("devid", i)): n for i, n in enumerate(described_nics)}
        domain = await self._domain(shell, name)
        nics = []
        for index, (back_end, mac) in ends.items():
            entry = entries.get(index, {})
            by_default = f"vif{domain.ident}.{index}" if domain is not None else "-"
            nics.append(
                GuestNic(
                    mac=mac_address(mac),
                    # A domain other than the host has the other end: it is no interface of this node.
                    host_interface=parse_interface(str(entry.get("ifname") or by_default))
                    if back_end == HOST_ID
                    else None,
                    model=str(entry.get("model") or entry.get("nictype") or "") or None,
                    attached_to=str(entry.get("bridge") or "") or None,
                )
            )
        return nics

    async def nics_to_be(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """NICs from the guest's file: a NIC without an address or a name there gets another at each start."""
        answer = await shell.run(["xl", "-N", "create", str(self._file(name)), f'name="{name}"'])
        try:
            listed = read_json(answer.stdout).get("nics")
        except (ValueError, AttributeError):
            return ()
        nics = [nic if type(nic) is dict else {} for nic in listed] if type(listed) is list else []
        return [
            GuestNic(
                mac=mac_address(str(nic.get("mac"))), host_interface=parse_interface(str(nic.get("ifname") or "-"))
            )
            for nic in nics
        ]

    async def facts(self, shell: Shell, name: str) -> Attestation:
        domain = await self._domain(shell, name)
        config = described(await shell.must(["xl", "list", "-l", name]), name) or {}
        kind, built = config.get("c_info", {}).get("type"), config.get("b_info")
        most_kib = built.get("max_memkb") if type(built) is dict else None
        return {
            "kind": kind if type(kind) is str else None,
            "vcpus": domain.vcpus if domain else None,
            "memory_mib": most_kib // 1024 if type(most_kib) is int else None,
        }

    async def pinning(self, shell: Shell, name: str) -> Pinning | None:
        return await self.read(shell, ["xl", "vcpu-list", name], lambda text: affinities(text, name)) or None

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
        """Limits in terms of Xen's scheduler: the weight (the first domain has 256), and the cap in percent of one
        processor. Memory is set by the guest's file, and has to equal the requested one.
        """
        weight, ratio, wanted_mib = wanted.cpu_shares, wanted.cpu_quota_ratio, wanted.memory_mib
        if wanted_mib is not None:
            domain = await self._domain(shell, name)
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
            raise shell.missing(f"Xen's scheduler is {scheduler!r}; guests can be limited under {known}")
        return f"sched-{scheduler}"

    async def settings(self, shell: Shell, name: str, names: Sequence[str]) -> Settings:
        if not names:
            return {}
        argv = ["xl", await self._scheduler(shell), "-d", name]
        row = await self.read(shell, argv, lambda text: scheduled(text, name))
        if missing := [key for key in names if key not in row]:
            raise shell.missing(
                f"this version of Xen has no {format_names(missing)} for a guest, only {format_names(row)}"
            )
        return {key: row[key] for key in names}

    async def set_limits(self, shell: Shell, name: str, wanted: Settings) -> Answer:
        args = [word for key, value in wanted.items() for word in (f"-{key[0]}", value)]
        return await shell.run(["xl", await self._scheduler(shell), "-d", name, *args])

    async def memory_word(self, shell: Shell, names: Sequence[str]) -> HypervisorWord | None:
        """Xen's free memory, and each domain's memory. If the first domain shrinks for a guest, Xen's free memory does
        not change.
        """
        free = _FREE.search(await shell.must(["xl", "info"]))
        there = await self._domains(shell)
        return HypervisorWord(
            command="xl info, xl list",
            free_bytes=None if free is None else int(free[1]) * MIB,
            guest_bytes={
                name: row.memory_mib * MIB for name in names if (row := self._only(shell, name, there)) is not None
            },
        )


DRIVER = XlDriver
