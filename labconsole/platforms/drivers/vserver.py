"""``vserver``: guests of Linux-VServer, through util-vserver.

Such a guest has no network stack of its own: the host's stack forwards, with the guests' processes next to it. So the
host is set up to route as driver ``raw`` does, frames are addressed to the host, and the ledger has no hop in between.
Guests that are started here are children of the agent's keeper and end with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from labconsole.contracts.driver import Attestation, Capabilities, DriverInfo, PathPoint, StreamPath
from labconsole.errors import ConfigError
from labconsole.network.change import NetworkChange
from labconsole.platforms.base.forwarding import read_state, route_changes
from labconsole.platforms.base.guest import GuestNic, HypervisorGuest, State, Wires
from labconsole.platforms.base.guest_streams import Streams, flatten_wirings
from labconsole.platforms.base.hypervisor import StopCommands
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.options import ManagedOptions
from labconsole.platforms.base.shell import Answer, Shell

DIRECTORY = "/etc/vservers"
RUNS, STOPPED, UNKNOWN = 0, 3, 5

SHOWN_BYTES = 20
"""vserver-stat cuts names at this length (formatName of vserver-stat.c, util-vserver 0.30 to 0.30.216)."""
HEADER = ["CTX", "PROC", "VSZ", "RSS", "userTIME", "sysTIME", "UPTIME", "NAME"]
NOT_GUESTS = ("0", "1")
"""The host itself, and the context that sees all processes."""

_STAT = re.compile(r"(\d{1,10}) +\d+ +\S+ +\S+ +\S+ +\S+ +\S+(?: (.*))?")
_CONTEXT = re.compile(r"^Vserver '.*' is running at context '(\d+)'$", re.MULTILINE)
_STOPPED = re.compile(r"^Vserver '.*' is stopped$", re.MULTILINE)


def contexts(text: str) -> dict[str, str]:
    """``vserver-stat``: context to (cut) name of the running guests; a name may contain blanks or be missing.

    Raises ValueError with an unknown line.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].split() != HEADER:
        raise ValueError(lines[0] if lines else "")
    found = {}
    for line in lines[1:]:
        row = _STAT.fullmatch(line)
        if row is None:
            raise ValueError(line)
        if row[1] not in NOT_GUESTS:
            found[row[1]] = (row[2] or "").strip()
    return found


def truncate_name(name: str) -> str:
    """A guest's name as ``vserver-stat`` shows it."""
    return name.encode()[:SHOWN_BYTES].decode("utf-8", "replace").strip()


def _word(name: str) -> str:
    """The argument of vserver for a guest: it takes a number for the context of the guest that has it."""
    return f"{DIRECTORY}/{name}" if name.isascii() and name.isdigit() else name


class VserverDriver(InstalledGuestDriver):
    """No options of its own; ``nics`` and ``guests`` do not apply: no guest has an address of its own."""

    about = DriverInfo(
        name="vserver",
        summary="guests of Linux-VServer, which share the host's network stack: no `nics`, `ssh`, `guests`",
        tried="no: shapes from public material only",
        Options=ManagedOptions,
        tools=("vserver", "vserver-stat", "vkill"),
        capabilities=Capabilities(exec=True),
    )

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        for key in ("nics", "ssh", "guests"):
            if getattr(self.options, key):
                raise ConfigError(
                    "is not possible: guests of Linux-VServer share the network stack of the UUT",
                    key=f"platforms.{name}.{key}",
                )

    async def probe(self, shell: Shell) -> dict[str, str]:
        answer = await shell.run(["vserver", "--version"])
        if answer.exit_status != 0:
            raise shell.failed(answer)
        first = answer.stdout.strip().splitlines()
        return {
            "vserver": first[0][:100] if first else "",
            "host_kernel": (await shell.must(["uname", "-r"])).strip()[:100],
        }

    async def guests(self, shell: Shell) -> dict[str, HypervisorGuest]:
        """Every configured guest, and those that run. If a name is cut, its context shows which guest runs."""
        listed = (line.strip() for line in (await shell.must(["ls", "-1", DIRECTORY])).splitlines())
        names = [name for name in listed if name and not name.startswith(".")]
        try:
            active = contexts(await shell.must(["vserver-stat"]))
        except ValueError as exc:
            raise shell.error(f"`vserver-stat` printed a line that is not understood: {str(exc)[:80]!r}") from None
        found = {name: HypervisorGuest(name, State.STOPPED, "stopped") for name in names}
        known = {name: await self.state(shell, name) for name in self.planned if name in found}
        for context, shown in active.items():
            if any(guest.ident == context for guest in known.values()):
                continue
            alike = [name for name in names if truncate_name(name) == shown and name not in known]
            if len(alike) > 1:
                states = {name: await self.state(shell, name) for name in alike}
                alike = [name for name, guest in states.items() if guest.ident == context]
            name = alike[0] if len(alike) == 1 else shown or f"context {context}"
            found[name] = HypervisorGuest(name, State.RUNNING, "running", context)
        return {**found, **known}

    async def state(self, shell: Shell, name: str) -> HypervisorGuest:
        """Exit status and text must agree; each alone has been wrong before."""
        answer = await shell.run(["vserver", _word(name), "status"])
        if answer.exit_status == UNKNOWN or "Can not find a vserver-setup" in answer.text:
            raise self.unknown(shell, name, (await shell.must(["ls", "-1", DIRECTORY])).split("\n"))
        context = _CONTEXT.search(answer.text)
        if answer.exit_status == RUNS and context is not None:
            return HypervisorGuest(name, State.RUNNING, "running", context[1])
        if answer.exit_status == STOPPED and _STOPPED.search(answer.text) is not None:
            return HypervisorGuest(name, State.STOPPED, "stopped")
        raise shell.error(
            f"`{answer.command}` ends with {answer.exit_status} and says: {answer.said}; expected: 0 and running, "
            f"or {STOPPED} and stopped"
        )

    async def start(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["vserver", _word(name), "start"], limit_s=self.options.start_s)

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        return await shell.run(["vserver", _word(name), "stop"], limit_s=max(1.0, self.options.graceful_s))

    async def kill(self, shell: Shell, name: str) -> Answer:
        guest = await self.state(shell, name)
        return await shell.run(["vkill", "--xid", guest.ident, "-s", "9"])

    async def build_stop_commands(self, shell: Shell, name: str) -> StopCommands:
        """The number for the kill command is unknown before the guest runs; the command to stop ends with it, too."""
        stop = ["vserver", _word(name), "stop"]
        return StopCommands(stop, stop)

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        return ()

    def inside(self, name: str) -> Sequence[str]:
        return ["vserver", _word(name), "exec"]

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        return await shell.run([*self.inside(name), *argv])

    async def wires(self, shell: Shell, streams: Streams) -> Wires:
        return {}

    def changes(self, streams: Streams, wires: Wires) -> Sequence[NetworkChange]:
        """The host's own stack forwards the streams of every guest."""
        return [
            change
            for w in flatten_wirings(streams)
            for change in route_changes(
                inbound=w.uut_in, outbound=w.uut_out, source_ip=w.source_ip, sink_ip=w.sink_ip, sink_mac=w.sink_mac
            )
        ]

    async def paths(self, shell: Shell, streams: Streams) -> dict[str, StreamPath]:
        return {
            w.name: StreamPath(
                destination_mac=w.uut_in_mac,
                points=(
                    PathPoint("uut_in", "", w.uut_in, "rx_packets"),
                    PathPoint("uut_out", "", w.uut_out, "tx_packets"),
                ),
            )
            for w in flatten_wirings(streams)
        }

    async def attestation(self, shell: Shell, streams: Streams) -> Attestation:
        attested = await super().attestation(shell, streams)
        nics = [nic for wiring in flatten_wirings(streams) for nic in (wiring.uut_in, wiring.uut_out)]
        return {**attested, "interfaces": await read_state(shell.uut, routing={"": nics}, ports=())}


DRIVER = VserverDriver
