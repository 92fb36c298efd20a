"""A crew (contracts/crew.py) of the operator's installed guests, named in hosts.yaml (``guests``).

They are found, started if needed, pinned, attested and left as found, like guests that forward. A shell is opened in
each one; it puts the address for the job on the guest's NIC, and removes it afterwards.
"""

from __future__ import annotations

import re
import shlex
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from labconsole.contracts.crew import Crew, CrewWanted, HypervisorWord, StandingMember
from labconsole.contracts.driver import Attestation
from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, NodeError, NodeLost
from labconsole.model.cpus import cpu_set
from labconsole.platforms.base.forwarding import restored_on_failure, shell_lines
from labconsole.platforms.base.guest import GuestNic, State, UnknownGuest, format_names, parse_interface
from labconsole.platforms.base.guest_shell import (
    ASK_S,
    CREW_LOOP,
    OPEN_S,
    ask_on_console,
    build_single_command,
    close_shell,
    guest_state,
    start_all,
)
from labconsole.platforms.base.installed_boot import InstalledGuest, StartedGuest, gather_all
from labconsole.platforms.base.installed_devices import (
    InstalledDisks,
    InstalledNics,
    NicPair,
    disks_refusal,
    find_installed_disks,
)
from labconsole.platforms.base.lifecycle import POLL_S
from labconsole.platforms.base.options import GUEST_PLACE
from labconsole.platforms.base.shell import RecordingShell, Shell
from labconsole.wire.guests import MAX_WAIT_S, GuestStarted, PromiseStop, StopKept
from labconsole.wire.session import Ping

SETTLED_TRIES = 5
REMOVE_S = 300.0
"""Time limit for removing files that jobs have written to a guest's disk."""

GONE = "LABCONSOLE-GONE"
"""Printed by a guest after the removal; split by quotes, for a console may echo its input."""

LAST_S = 3.0
"""The same without a console: all other changes wait for it to be undone."""

_LINK = re.compile(r"^\d{1,6}: (\S{1,40}?)(?:@\S{1,40})?: <(\S{0,200})> .*\slink/ether ([0-9a-f:]{17})\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class GuestUndo:
    """A line that undoes a change in a guest. ``kept``: the directory on its disk that it removes, which survives a
    stop of the guest; ``lost``: the agent is lost, and its keeper may have removed that.
    """

    each: InstalledGuest
    line: str
    kept: str = ""
    lost: bool = False


class InstalledCrew(InstalledNics):
    """See labconsole.contracts.crew.CrewDriver. restore() begins with end_named_crew()."""

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self._inside_undo: list[GuestUndo] = []

    @abstractmethod
    async def attested(self, shell: Shell, ports: Sequence[str]) -> Attestation:
        """The running state of the planned guests. ``ports``: the node's NICs that lead to them."""

    @abstractmethod
    async def restore(self, uut: AgentLink) -> None:
        """Undo all changes."""

    # The contract ---------------------------------------------------------------------------------------------------

    @property
    def crew_cpus(self) -> Sequence[int] | None:
        """The CPUs that guests are spread over, or None for those of the UUT's system. A hypervisor may have more."""
        cpus = cpu_set(self.options.guest_cpus or "")
        return None if cpus is None else sorted(cpus)

    def crew_refusal(self, wanted: CrewWanted) -> str | None:
        guests, many = self.options.guests, len(wanted.members)
        if not guests:
            return f"platform {self.name} has no `guests` in hosts.yaml, the names of its guests for jobs"
        if not 1 <= many <= len(guests):
            names = (
                f"{len(guests)} guest{'' if len(guests) == 1 else 's'} for jobs in hosts.yaml ({format_names(guests)})"
            )
            return f"platform {self.name} has {names}, not {many}"
        if (refusal := self.nics_refusal(wanted)) is not None:
            return refusal
        if any(member.disk_mib for member in wanted.members) and (
            (refusal := disks_refusal(self.name, self.options)) is not None
        ):
            return refusal
        if any(member.cpus for member in wanted.members) and not self.about.capabilities.pin:
            return f"driver {self.about.name} cannot pin a guest{self.where()}: its guests run on any CPU"
        for member in wanted.members:
            if (refusal := self.limits_refusal(InstalledGuest(member, "").limits)) is not None:
                return refusal
        if self._find_shell_command(guests[0]) is None:
            return (
                f"driver {self.about.name} cannot run a program inside a guest{self.where()}; if a command opens a "
                f"shell in each, give it in hosts.yaml, such as guest_shell: [ssh, -o, BatchMode=yes, "
                f"root@{GUEST_PLACE}]"
            )
        return None

    def crew_commands(self, wanted: CrewWanted) -> list[str]:
        """The commands of prepare_crew() on the UUT, as lines of a shell, as far as they are known without a query."""
        shell, crew = RecordingShell(self.name, self.options.ssh), self._plan(wanted)
        for each in crew:
            shell.record(self.start(shell, each.guest))
        for guest, cpus in self.planned.items():
            if cpus is not None:
                shell.record(self.pin(shell, guest, {self.EVERY_VCPU: cpus}))
        ends = [
            NicPair(*(GuestNic(mac=None, host_interface=f"{each.guest}:{name}") for name in ("NIC", "INBOUND-NIC")))
            for each in crew
        ]
        shells = [shlex.join([*(self._find_shell_command(each.guest) or ()), "sh"]) for each in crew]
        disks = InstalledDisks(str(self.options.guest_directory), crew="00000000")
        made = [
            shlex.join([*(self._find_shell_command(each.guest) or ()), "mkdir", "-m", "700", disks.path(each.member)])
            for each in crew
            if each.member.disk_mib
        ]
        return [*shell.lines, *shell_lines(self.bridges_of_crew(wanted, ends)), *shells, *made]

    async def check_node(self, uut: AgentLink) -> None:
        """Does nothing: prepare_crew() finds and refuses running guests."""

    async def prepare_crew(self, uut: AgentLink, wanted: CrewWanted) -> Crew:
        """Refuse impossible requests, start and pin the guests, find each one's NIC, open a shell in it, attest."""
        shell, crew = self.shell(uut), self._plan(wanted)
        if wanted.limit_s is not None:
            self.options = self.options.model_copy(update={"start_s": wanted.limit_s})
        await self.probe(shell)
        found = await self.survey(shell)
        idle = [name for name in self.planned if found[name].state is State.STOPPED]
        runs = [name for name in self.planned if name not in idle]
        if runs and (wanted.anew or wanted.inbound_port is not None):
            why = (
                "a start-up time is measured only from guests that are off"
                if wanted.anew
                else "guests are set up to forward only where that configuration ends with them"
            )
            raise shell.error(
                f"{format_names(runs)} run{'s' if len(runs) == 1 else ''} already, but {why}: stop them; "
                "labconsole stops no guest that it did not start"
            )
        disks = InstalledDisks(str(self.options.guest_directory))
        below = await find_installed_disks(uut, self.name, self.options, crew)
        nics_known = not idle or self.about.capabilities.idle_nics
        before = await self.nics_of_crew(shell, crew, idle) if nics_known else []
        started_ns = (await uut.ask(Ping())).monotonic_ns
        async with restored_on_failure(self.restore, uut):
            if all(each.member.boot_mark is not None for each in crew):
                nics = [each.own for each in before] or [await self.nic_to_be(shell, each.guest) for each in crew]
                await self.apply_changes(shell, self.bridges_of_crew(wanted, []))
                started = await self.start_timed(shell, crew, nics)
                self.tell_apart(shell, crew, [NicPair(each.nic) for each in started])
                started_ns = min(each.started_ns for each in started if each.started_ns is not None)
            else:
                started = await self._start_crew(shell, crew, idle, wanted)
                await gather_all(self._make_disk(uut, each, disks) for each in crew if each.member.disk_mib)
            pids = [await self.pid(shell, each.guest) if shell.ssh is None else None for each in crew]
            shells = {each.member.name: there.shell.pid for each, there in zip(crew, started, strict=True)}
            ports = [port for port in (wanted.port, wanted.inbound_port) if port is not None]
            set_limits = {each.guest: there.held for each, there in zip(crew, started, strict=True)}

            async def attest(link: AgentLink) -> Attestation:
                await gather_all(self._same_shell(link, each, shells[each.member.name]) for each in crew)
                there = await self.attested(self.shell(link), ports)
                limits = {
                    name: await self.settings(self.shell(link), name, list(names))
                    for name, names in set_limits.items()
                    if names
                }
                members = {each.member.name: each.guest for each in crew}
                return {**there, "members": members, **({"limits": limits} if limits else {})}

            return Crew(
                members=tuple(
                    StandingMember(
                        name=each.member.name,
                        ask=ask_on_console(each.member.name),
                        pid=pid,
                        host_interface=there.nic.host_interface,
                        started_ns=there.started_ns,
                        # A guest that ran before had no timed start.
                        ready_ns=there.shell.ready_ns if each.guest in idle else None,
                        mac=there.nic.mac,
                        way_in=there.way_in,
                        shell_pid=there.shell.pid,
                        inbound_interface=None if there.inbound is None else there.inbound.host_interface,
                        inbound_mac=None if there.inbound is None else there.inbound.mac,
                        in_namespace=self.CREW_IN_NAMESPACES,
                        disk=disks.path(each.member) if each.member.disk_mib else None,
                    )
                    for each, pid, there in zip(crew, pids, started, strict=True)
                ),
                started_ns=started_ns,
                attestation=await attest(uut),
                attest=attest,
                disks=below,
                nic_credit=self.about.capabilities.nic_credit,
            )

    async def hypervisor_memory(self, uut: AgentLink, wanted: CrewWanted) -> HypervisorWord | None:
        """The hypervisor's own report, with the guests by their names in the crew, or None without one."""
        names = {each.guest: each.member.name for each in self._plan(wanted)}
        said = await self.memory_word(self.shell(uut), list(names))
        if said is None:
            return None
        return replace(said, guest_bytes={names[guest]: count for guest, count in said.guest_bytes.items()})

    async def end_named_crew(self, uut: AgentLink) -> list[NodeError]:
        """Remove addresses from guests that go on running, and end the shells. All are tried; failures are returned,
        and changes on a lost node remain to be undone.
        """
        failures: list[NodeError] = []
        shell = self.shell(uut)
        try:
            while self._inside_undo:
                try:
                    await self._undo_in_guest(shell, self._inside_undo[-1])
                except NodeLost:
                    raise
                except NodeError as exc:
                    failures.append(exc)
                self._inside_undo.pop()
            while self._shells:
                try:
                    await close_shell(uut, self._shells[-1])
                except NodeLost:
                    raise
                except NodeError as exc:
                    failures.append(exc)
                self._shells.pop()
        except NodeLost as exc:
            self._shells.clear()  # they ended with their agent, whose keeper undoes the registered changes
            self._inside_undo = [replace(undo, lost=True) for undo in self._inside_undo]
            failures.append(exc)
        return failures

    # Implementation -----------------------------------------------------------------------------------------------

    def _plan(self, wanted: CrewWanted) -> list[InstalledGuest]:
        """The installed guest of each member; they are the planned ones from now on."""
        crew = [
            InstalledGuest(member, guest) for member, guest in zip(wanted.members, self.options.guests, strict=False)
        ]
        self.planned = {each.guest: each.member.cpus for each in crew}
        return crew

    async def _start_crew(
        self, shell: Shell, crew: Sequence[InstalledGuest], idle: Sequence[str], wanted: CrewWanted
    ) -> list[StartedGuest]:
        """Start those that are off, and set each up through the shell opened in it."""
        await gather_all(self.bring_up(shell, name) for name in idle)
        await self.pin_planned(shell)
        limits = [await self.hold(shell, each.guest, each.limits) for each in crew]
        nics = await self.nics_of_crew(shell, crew)
        await self.apply_changes(shell, self.bridges_of_crew(wanted, nics))
        opened = await gather_all(self._open_shell(shell, each) for each in crew)
        await gather_all(self._put_addresses(shell.uut, each, nic) for each, nic in zip(crew, nics, strict=True))
        of_each = zip(nics, opened, limits, strict=True)
        return [
            StartedGuest(nic=nic.own, inbound=nic.inbound, shell=started, held=settings)
            for nic, started, settings in of_each
        ]

    async def _open_shell(self, shell: Shell, each: InstalledGuest, *, comes: bool = True) -> GuestStarted:
        """Open a shell inside. The entry may have to be tried until a guest that was just started accepts it.

        Without ``comes``, the guest is either up or gone.
        """
        lead = self._find_shell_command(each.guest)
        assert lead is not None
        name = each.member.name
        comes = comes and each.guest in self._started
        deadline = self.now() + (self.options.start_s if comes else OPEN_S)
        self._shells.append(name)
        while True:
            try:
                limit_s = min(MAX_WAIT_S, max(1.0, deadline - self.now()))
                started = await start_all(shell.uut, {name: [*lead, "sh", "-c", CREW_LOOP]}, timeout_s=limit_s)
                break
            except AgentError as exc:
                if exc.code != "guest_ended" or not comes or self.now() >= deadline:
                    message = f"platform {self.name}: no shell inside guest {each.guest}: {exc.message}"
                    raise AgentError(shell.uut.name, message, code=exc.code) from exc
            await self.pause(POLL_S)
        await self._settle(shell, name)
        return started[name]

    async def _settle(self, shell: Shell, name: str) -> None:
        """Wait for a console's pending output of earlier commands, by other users or an earlier crew."""
        for tried in range(1, SETTLED_TRIES + 1):
            try:
                await ask_on_console(name)(shell.uut, ":")
                return
            except AgentError:
                raise
            except NodeError:
                if tried == SETTLED_TRIES:
                    raise
            await self.pause(POLL_S)

    async def _put_addresses(self, uut: AgentLink, each: InstalledGuest, nics: NicPair) -> None:
        await self._put_address(uut, each, str(nics.own.mac), each.member.address)
        if nics.inbound is not None and each.member.inbound is not None:
            await self._put_address(uut, each, str(nics.inbound.mac), each.member.inbound.address)

    async def _put_address(self, uut: AgentLink, each: InstalledGuest, mac: str, address: str) -> None:
        """Set its NIC up with the given address."""
        ask = ask_on_console(each.member.name)
        links = {found[2]: (found[0], found[1]) for found in _LINK.findall(await ask(uut, "ip -o link"))}
        name, flags = links.get(mac, ("-", ""))
        interface = parse_interface(name)
        if interface is None:
            raise NodeError(
                uut.name,
                f"platform {self.name}: inside guest {each.guest} there is no NIC {mac}; it has: {format_names(links)}",
            )
        link = shlex.quote(interface)
        has = f" {address} " in await ask(uut, f"ip -o -4 address show dev {link}")
        down = "" if "UP" in flags.split(",") else f"; ip link set {link} down"
        line = ":" + ("" if has else f"; ip address del {address} dev {link}") + down
        self._inside_undo.append(GuestUndo(each, line))
        add = "" if has else f"ip address add {address} dev {link} && "
        await ask(uut, f"{add}ip link set {link} up")

    async def _make_disk(self, uut: AgentLink, each: InstalledGuest, disks: InstalledDisks) -> None:
        """Make its disk directory. It survives a stop of the guest, so the keeper also gets the line to remove it."""
        line, lead = disks.removing(each.member), self._find_shell_command(each.guest)
        assert lead is not None
        await uut.ask(
            PromiseStop(
                guest=_format_disk_name(each), inside=True, kill=build_single_command(lead, line), limit_s=LAST_S
            )
        )
        self._inside_undo.append(GuestUndo(each, line, kept=disks.path(each.member)))
        ask = ask_on_console(each.member.name)
        await disks.make(uut, ask, f"platform {self.name}: guest {each.guest}", each.member)

    async def _undo_in_guest(self, shell: Shell, undo: GuestUndo) -> None:
        """Changes that end with a stopped guest need no undoing. A registered change stays registered until it is
        undone or the guest is off: then only the keeper of a lost agent may have undone it.
        """
        each = undo.each
        if each.guest in self._started:
            if not undo.kept:
                return
            if not await self._runs(shell, each.guest):
                await shell.uut.ask(StopKept(guest=_format_disk_name(each)))
                if undo.lost:
                    return
                raise shell.error(
                    f"guest {each.guest} was turned off before {undo.kept} was removed from its disk with its jobs' "
                    "files; the next disk jobs in this guest remove it"
                )
        try:
            # Through another shell: the open one may be gone, or still run a job, which ends with it.
            await close_shell(shell.uut, each.member.name)
            await self._open_shell(shell, each, comes=False)
            await ask_on_console(each.member.name, REMOVE_S if undo.kept else ASK_S)(shell.uut, undo.line)
        except NodeLost:
            raise
        except NodeError:
            # A console that has lost the lease may open no shell any more, but may still execute.
            if not undo.kept or not await self._alone(shell, undo):
                raise
        if undo.kept:
            await shell.uut.ask(StopKept(guest=_format_disk_name(each)))

    async def _alone(self, shell: Shell, undo: GuestUndo) -> bool:
        lead = self._find_shell_command(undo.each.guest)
        assert lead is not None
        # The status may be a console's, which is independent of the line.
        command = f"{{ {undo.line}; }} && echo {GONE[:4]}''{GONE[4:]}"
        return GONE in (await shell.run(build_single_command(lead, command), limit_s=REMOVE_S)).stdout

    async def _runs(self, shell: Shell, guest: str) -> bool:
        try:
            return (await self.state(shell, guest)).state is not State.STOPPED
        except UnknownGuest:
            return False

    async def _same_shell(self, uut: AgentLink, each: InstalledGuest, pid: int) -> None:
        """Raises NodeError if it is no longer the opened shell: the guest was restarted, or has ended."""
        state = await guest_state(uut, each.member.name)
        if state is None or not state.running or state.pid != pid:
            raise NodeError(
                uut.name,
                f"guest {each.member.name} ({each.guest}) of platform {self.name} is no longer the one that was set up",
            )


def _format_disk_name(each: InstalledGuest) -> str:
    """The keeper's name for the disk files of this guest to remove."""
    return f"the disk of {each.guest}"
