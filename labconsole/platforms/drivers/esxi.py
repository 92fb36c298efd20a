"""``esxi``: machines of VMware ESXi, through ``vim-cmd`` and ``esxcli``.

ESXi prints its faults and may still end with status 0, so every answer is searched for one. It identifies a machine by
three numbers: the Vmid of vim-cmd, the World ID of esxcli (only while it runs), a Port ID for each of its NICs. An
agent cannot run on ESXi, so its commands go there with ``ssh``.

Known formats, from public transcripts of ESXi 4.x to 9.0 (its source is closed):

- ``vmsvc/getallvms``: columns Vmid, Name, File, Guest OS, Version, Annotation, as wide as their longest value and three
blanks, never cut. A name may contain ``[...]``, an annotation continues in further lines, the datastore may be empty.

- ``vmsvc/get.summary``: the machine's own name, which is read before a machine is started or stopped.

- ``esxcli --formatter=csv`` (5.0 and later), else the table, whose second line shows the columns' widths.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo
from labconsole.errors import NodeError
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, State, ambiguity, disambiguate, format_output
from labconsole.platforms.base.hypervisor import StopCommands
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.options import ManagedOptions, mac_address
from labconsole.platforms.base.shell import Answer, Shell

STATES = {"Powered on": State.RUNNING, "Powered off": State.STOPPED, "Suspended": State.PAUSED}
PATH = "PATH=/bin:/sbin:/usr/bin:/usr/lib/vmware/bin"
"""A login that is not interactive has a shorter one."""
MAX_LINE = 2000
MAX_READINGS = 48
"""Of a row, the first of which are looked at: its File column comes after a name of at most 80 characters, and each
place costs a search through the rest of the row."""
LISTED_TRIES = 3
"""``esxcli network vm list`` sometimes leaves machines out."""

COLUMN_GAP = " " * 3

_HEADER = re.compile(r"Vmid\s+Name\s+File\s+Guest OS\s+Version\s+Annotation\s*")
_VMID = re.compile(r"([0-9]{1,9})\s+(?=\S)")
_BRACKET = re.compile(r"(?<=\s)\[")
_FILE = re.compile(r"\[([^\[\]]*)\] (\S.*?\.vmx)(?:\s+\S+)?\s+vmx-[0-9]{1,3}(?=\s|$)")
_SUMMARY_VM = re.compile(r"^\s*vm = 'vim\.VirtualMachine:([0-9]{1,9})',?\s*$", re.MULTILINE)
_SUMMARY_NAME = re.compile(
    r"^\s*config = \(vim\.vm\.Summary\.ConfigSummary\) \{\s*$(?:\s*dynamic\w+ = .*$)*\s*name = \"(.*)\",?\s*$",
    re.MULTILINE,
)
_FAULT = re.compile(r"\((?:vim|vmodl)(?:\.\w+)*\.fault\.(\w+)\)")
_MESSAGE = re.compile(r'^\s*msg = "(.*?)",?\s*$', re.MULTILINE)
_PORT_LINE = re.compile(r"^\s*([A-Za-z ]+): ?(.*?)\s*$")
_SETTING = re.compile(r'^\s*([A-Za-z0-9_.:]+)\s*=\s*"(.*)"\s*$', re.MULTILINE)


def fault(answer: Answer) -> str | None:
    """The printed fault in its own words, or None without one."""
    kind = _FAULT.search(answer.text)
    if kind is None:
        return None
    message = _MESSAGE.search(answer.text)
    return f"{kind[1]}: {message[1]}" if message else kind[1]


class NoSuchVmid(NodeError):
    """Raised when vim-cmd has no machine with a number from its table."""


class RegisteredMachine(NamedTuple):
    """One row of ``vmsvc/getallvms``. ``ident``: its Vmid."""

    name: str
    ident: str
    file: str


class World(NamedTuple):
    """One row of ``esxcli network vm list``. ``ident``: its World ID."""

    name: str
    ident: str


def registered(text: str) -> tuple[list[RegisteredMachine], list[str]] | None:
    """Rows of ``vmsvc/getallvms``, and the lines that may be rows and cannot be read, or None for another table.

    Text that looks like a file within a name or an annotation gives a row several readings. The File column begins at
    the same place in every row, which leaves one reading; otherwise the row is not read.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    header = next((number for number, line in enumerate(lines) if _HEADER.fullmatch(line)), None)
    if header is None:
        return None
    found: list[tuple[str, re.Match[str], list[re.Match[str]]]] = []
    unread = []
    for line in (line[:MAX_LINE] for line in lines[header + 1 :]):
        vmid = _VMID.match(line)
        starts = islice(_BRACKET.finditer(line, vmid.end() + 1), MAX_READINGS) if vmid else ()
        files = [file for start in starts if (file := _FILE.match(line, start.start())) is not None]
        if vmid and files:
            found.append((line, vmid, files))
        elif vmid:
            unread.append(line)
    column = _column([(line, files) for line, _, files in found])
    rows = []
    for line, vmid, files in found:
        chosen = files if len(files) == 1 else [file for file in files if column and column(line, file)]
        if len(chosen) != 1:
            unread.append(line)
            continue
        store, path = chosen[0].groups()
        name = line[vmid.end() : chosen[0].start()].rstrip()
        rows.append(RegisteredMachine(name, vmid[1], f"/vmfs/volumes/{store}/{path}" if store else path))
    return rows, unread


def _column(rows: Sequence[tuple[str, Sequence[re.Match[str]]]]) -> Callable[[str, re.Match[str]], bool] | None:
    """Whether a reading begins at the File column, or None if the rows have no such place in common."""

    def characters(line: str, file: re.Match[str]) -> int:
        return file.start()

    def octets(line: str, file: re.Match[str]) -> int:
        return len(line[: file.start()].encode())

    for measure in (characters, octets):  # the unit of a version's padding only shows in names beyond ASCII
        common = [
            {measure(line, file) for file in files if line[: file.start()].endswith(COLUMN_GAP)} for line, files in rows
        ]
        places = set.intersection(*common) if common else set()
        if len(places) == 1:
            (place,) = places
            return lambda line, file: measure(line, file) == place
    return None


def summary(text: str) -> tuple[str, str] | None:
    """``vmsvc/get.summary``: a machine's own Vmid and name, or None if the text does not have both."""
    vm = _SUMMARY_VM.search(text)
    # One pattern for both would search the rest of the text again at each line like the first.
    own = _SUMMARY_NAME.search(text, vm.end()) if vm is not None else None
    return (vm[1], own[1]) if vm is not None and own is not None else None


def machines(text: str) -> dict[str, tuple[str, str]]:
    """``vmsvc/getallvms``: name to Vmid and configuration file, of machines with a unique name."""
    rows, _ = registered(text) or ([], [])
    return {row.name: (row.ident, row.file) for row in rows if ambiguity(rows, row.name, "Vmid") is None}


def worlds(text: str) -> tuple[list[World], list[str]] | None:
    """Rows of ``esxcli network vm list``, as CSV or table, and the lines that cannot be read, or None if it is neither.

    A table's second line has dashes below each title. All but the last column are as wide as these.
    """
    lines = [line for line in text.replace("\r", "").split("\n") if line.strip()]
    if not lines:
        return None
    rows: list[list[str]] = []
    if "," in lines[0]:
        try:
            titles, *rows = csv.reader(lines, strict=True)
        except csv.Error:
            return None
        name, number = "Name", "WorldID"
    elif len(lines) > 1 and re.fullmatch(r"-+(?: +-+)+ *", lines[1]):
        spans = [match.span() for match in re.finditer("-+", lines[1])]
        titles, *rows = (_cells(line, spans) for line in (lines[0], *lines[2:]))
        name, number = "Name", "World ID"
    else:
        return None
    if titles.count(name) != 1 or titles.count(number) != 1:
        return None
    read = [
        World(row[titles.index(name)], row[titles.index(number)])
        if len(row) == len(titles) and re.fullmatch("[0-9]{1,19}", row[titles.index(number)])
        else None
        for row in rows
    ]
    return [row for row in read if row], [" ".join(row) for row, world in zip(rows, read, strict=True) if world is None]


def _cells(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The cells of a line, or the line itself if text crosses two columns."""
    ends = [*(end for _, end in spans[:-1]), max(len(line), spans[-1][1])]
    if any(line[end:start].strip() for end, (start, _) in zip(ends, spans[1:], strict=False)):
        return [line]
    return [line[start:end].strip() for (start, _), end in zip(spans, ends, strict=True)]


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


class EsxiDriver(InstalledGuestDriver):
    """No options of its own; ``ssh`` reaches the ESXi host."""

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

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self._confirmed: set[RegisteredMachine] = set()

    async def _ask(self, shell: Shell, *argv: str, limit_s: float = 30.0) -> Answer:
        return await shell.run(["env", PATH, *argv], limit_s=limit_s)

    async def _must(self, shell: Shell, *argv: str) -> str:
        answer = await self._ask(shell, *argv)
        printed = fault(answer)
        if printed is not None:
            error = shell.error(f"`{answer.command}` reports the fault {printed}")
            raise NoSuchVmid(error.node, error.message) if printed.startswith("NotFound") else error
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

    async def _machines(self, shell: Shell) -> tuple[list[RegisteredMachine], list[str]]:
        text = await self._must(shell, "vim-cmd", "vmsvc/getallvms")
        table = registered(text)
        if table is None:
            raise shell.error(f"`vim-cmd vmsvc/getallvms` did not print a known table: {format_output(text)}")
        return table

    def _only(
        self, shell: Shell, name: str, rows: Sequence[RegisteredMachine], unread: Sequence[str]
    ) -> RegisteredMachine:
        """The one row of a machine. Raises NodeError if it is ambiguous."""
        its = re.compile(rf"[0-9]+\s+{re.escape(name)}(?:\s|$)")
        why = ambiguity(rows, name, "Vmid")
        if why is None and (line := next((line for line in unread if its.match(line)), None)) is not None:
            why = f"the row {format_output(line)} cannot be read with certainty"
        if why is not None:
            raise shell.error(f"`vim-cmd vmsvc/getallvms` does not show which machine {name} is: {why}")
        found = next((row for row in rows if row.name == name), None)
        if found is None:
            raise self.unknown(shell, name, (row.name for row in rows))
        return found

    async def _one(self, shell: Shell, name: str) -> RegisteredMachine:
        return self._only(shell, name, *await self._machines(shell))

    async def _vmid(self, shell: Shell, name: str) -> str:
        """The number for commands that change a machine. Raises NodeError unless the machine confirms its name."""
        machine = await self._one(shell, name)
        vmid = machine.ident
        if machine in self._confirmed:
            return vmid
        own = summary(await self._must(shell, "vim-cmd", "vmsvc/get.summary", vmid))
        if own != (vmid, name):
            said = "no machine" if own is None else f"Vmid {own[0]}, name {format_output(own[1])}"
            raise shell.error(
                f"`vim-cmd vmsvc/get.summary {vmid}` reports {said}; expected: Vmid {vmid}, name {name!r}"
            )
        self._confirmed.add(machine)
        return vmid

    async def _power(self, shell: Shell, name: str, vmid: str) -> HypervisorGuest:
        text = await self._must(shell, "vim-cmd", "vmsvc/power.getstate", vmid)
        said = text.strip().split("\n")[-1].strip()
        if said not in STATES:
            raise shell.error(
                f"ESXi reports that machine {name} is {format_output(said)}; expected: {', '.join(STATES)}"
            )
        return HypervisorGuest(name, STATES[said], said, vmid)

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        rows, unread = await self._machines(shell)
        for line in unread:
            if "vmx" in line:  # others are lines of annotations
                raise shell.error(
                    f"`vim-cmd vmsvc/getallvms`: the row {format_output(line)} cannot be read with certainty"
                )
        planned = {self._only(shell, name, rows, unread) for name in self.planned}
        found = {}
        for name, row in disambiguate(rows).items():
            try:
                found[name] = await self._power(shell, name, row.ident)
            except NoSuchVmid:  # a line of an annotation, or a machine that is being removed
                if row in planned:
                    raise
        return found

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        return await self._power(shell, name, (await self._one(shell, name)).ident)

    async def _tell(self, shell: Shell, name: str, what: str, limit_s: float = 30.0) -> Answer:
        return await self._ask(shell, "vim-cmd", f"vmsvc/{what}", await self._vmid(shell, name), limit_s=limit_s)

    async def start(self, shell: Shell, name: str) -> Answer:
        return await self._tell(shell, name, "power.on", self.options.start_s)

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        """Request a shutdown, which needs VMware's tools in the guest; without them it is a fault, and the power is
        cut.
        """
        return await self._tell(shell, name, "power.shutdown")

    async def kill(self, shell: Shell, name: str) -> Answer:
        return await self._tell(shell, name, "power.off")

    async def build_stop_commands(self, shell: Shell, name: str) -> StopCommands:
        vmid = await self._vmid(shell, name)
        shutdown = f"! vim-cmd vmsvc/power.shutdown {vmid} 2>&1 | grep -q -e fault -e failed"
        runs = f"vim-cmd vmsvc/get.runtime {vmid} | grep -e powerState -e bootTime"
        lead = ["env", PATH]
        return StopCommands(
            [*lead, "sh", "-c", shutdown], [*lead, "vim-cmd", "vmsvc/power.off", vmid], [*lead, "sh", "-c", runs]
        )

    def refused(self, answer: Answer) -> bool:
        return super().refused(answer) or fault(answer) is not None or "failed" in answer.text

    async def _worlds(self, shell: Shell) -> tuple[list[World], list[str]]:
        """Running machines, in the format for programs if this version has it."""
        answer = await self._ask(shell, "esxcli", "--formatter=csv", "network", "vm", "list")
        table = worlds(answer.stdout) if answer.exit_status == 0 and fault(answer) is None else None
        if table is None:
            text = await self._must(shell, "esxcli", "network", "vm", "list")
            table = worlds(text)
            if table is None:
                raise shell.error(f"`esxcli network vm list` did not print a known table: {format_output(text)}")
        return table

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """MACs and port groups from the ports of the running machine, models from its configuration by their MAC."""
        for _ in range(LISTED_TRIES):
            rows, unread = await self._worlds(shell)
            if any(row.name == name for row in rows) or unread:
                break
        why = ambiguity(rows, name, "World ID") or next(
            (f"{format_output(line)} cannot be read" for line in unread), None
        )
        if why is not None:
            raise shell.error(f"`esxcli network vm list` does not show which machine {name} is: {why}")
        world = next((row.ident for row in rows if row.name == name), None)
        if world is None:
            raise shell.error(f"`esxcli network vm list` does not show machine {name}, which is powered on")
        models = await self._models(shell, name)
        nics = []
        for port in ports(await self._must(shell, "esxcli", "network", "vm", "port", "list", "-w", world)):
            mac = mac_address(port.get("MAC Address", ""))
            attached = f"{port.get('vSwitch', '?')}, {port.get('Portgroup', '?')}"
            nics.append(GuestNic(mac=mac, model=models.get(mac or ""), attached_to=attached))
        return nics

    async def _settings(self, shell: Shell, name: str) -> dict[str, str]:
        pairs = _SETTING.findall(await self._must(shell, "cat", (await self._one(shell, name)).file))
        return {key.lower(): value for key, value in pairs}

    async def _models(self, shell: Shell, name: str) -> dict[str, str]:
        settings = await self._settings(shell, name)
        found = {}
        for key, value in settings.items():
            device, _, last = key.partition(".")
            mac = (
                mac_address(value)
                if device.startswith("ethernet") and last in ("address", "generatedaddress")
                else None
            )
            if mac is not None and f"{device}.virtualdev" in settings:
                found[mac] = settings[f"{device}.virtualdev"]
        return found

    async def facts(self, shell: Shell, name: str) -> Attestation:
        """vCPUs and CPU affinity as configured; a machine without ``numvcpus`` has one."""
        settings = await self._settings(shell, name)
        cpus = settings.get("numvcpus", "1")
        return {
            "vcpus": int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 6 else None,
            "cpu_affinity": settings.get("sched.cpu.affinity"),
        }


DRIVER = EsxiDriver
