"""The operator's installed guests of a hypervisor: found, started if needed, attested, and left as found.

A driver declares the capabilities of its hypervisor and supplies a few queries and commands; the engine's contract is
implemented here, once. Every change is read back: the state is polled until it is reached or a limit passes. Forwarding
by the guests is the operator's set-up; only the frames that pass through prove it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.driver import Ask, Attestation, Prepared, SecondGuest, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.errors import ConfigError, NodeError, NodeLost
from labconsole.network.change import NetworkChange
from labconsole.platforms.base.forwarding import apply, read_state, shell_lines, undo
from labconsole.platforms.base.guest import State
from labconsole.platforms.base.guest_shell import close_shell, open_shell
from labconsole.platforms.base.guest_streams import GuestStreams, Streams, flatten_wirings
from labconsole.platforms.base.installed_crew import InstalledCrew
from labconsole.platforms.base.shell import RecordingShell, Shell

TOKEN = "platform"
SHELL = "second"
"""The agent's name for the shell inside the second guest."""


class InstalledGuestDriver(InstalledCrew, GuestStreams):
    """See labconsole.contracts.driver.Driver. A driver overrides methods of labconsole.platforms.base.hypervisor."""

    outlives_agent = True
    """The guests are their hypervisor's: changes begun when the UUT was lost have to be undone when it is back."""

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self._applied = False
        self._inside = False

    # The second guest ---------------------------------------------------------------------------------------------

    def refusal(self, background: str) -> str | None:
        if background == "none":
            return None
        if self.options.second_guest is None:
            return f"platform {self.name} has no second_guest in hosts.yaml, so nothing can run next to its guest"
        return self._cannot() if background in ("light", "heavy") and self._lead() is None else None

    def _cannot(self) -> str:
        return (
            f"driver {self.about.name} cannot run a program inside a guest{self.where()}; if a command opens a shell "
            f"in the second guest, give it in hosts.yaml, such as second_shell: [ssh, -o, BatchMode=yes, root@guest2]"
        )

    def _lead(self) -> list[str] | None:
        """The command that leads into the second guest, to a shell that ``open_shell`` appends."""
        second = self.options.second_guest
        return None if second is None else self.way_in(second, self.options.second_shell)

    async def _second(self, shell: Shell) -> SecondGuest:
        name = self.options.second_guest
        assert name is not None
        lead = self._lead()
        ask, cannot = (None, self._cannot()) if lead is None else await self._open(shell, lead)
        pid = await self.pid(shell, name) if shell.ssh is None else None
        return SecondGuest(name=name, cpus=self.options.second_cpu, ask=ask, cannot=cannot, pid=pid)

    async def _open(self, shell: Shell, lead: Sequence[str]) -> tuple[Ask | None, str]:
        """A shell inside, or the reason why there is none: a guest that only has to run needs none."""
        self._inside = True
        try:
            return await open_shell(shell.uut, SHELL, lead), ""
        except NodeError as exc:
            return None, f"no shell inside guest {self.options.second_guest}: {exc.message}"

    # The engine's contract ----------------------------------------------------------------------------------------

    def _streams(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None) -> Streams:
        """The streams of each guest; these guests are the planned ones from now on."""
        streams = {self.options.guest: tuple(wirings)}
        if second is not None:
            if self.options.second_guest is None:
                raise ConfigError("is needed for a background load", key=f"platforms.{self.name}.second_guest")
            streams[self.options.second_guest] = tuple(second)
        self.planned = dict(zip(streams, (self.options.cpu, self.options.second_cpu), strict=False))
        return streams

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Refuse impossible requests, start and pin the guests, find the NICs of every stream, attest."""
        shell, streams = self.shell(uut), self._streams(wirings, second)
        await self.probe(shell)
        found = await self.survey(shell)
        idle = [name for name in self.planned if found[name].state is State.STOPPED]
        if not idle or self.about.capabilities.idle_nics:
            await self.wires(shell, streams)
        try:
            for name in idle:
                await self.bring_up(shell, name)
            await self.pin_planned(shell)
            paths = await self.paths(shell, streams)
            await self.apply_changes(shell, self.changes(streams, await self.wires(shell, streams)))
            second_guest = None if second is None else await self._second(shell)
            attestation = await self.attestation(shell, streams)
        except BaseException as exc:
            await self._restore_after(uut, exc)
            raise

        async def attest(link: AgentLink) -> Attestation:
            return await self.attestation(self.shell(link), streams)

        async def inside(link: AgentLink) -> dict[str, int]:
            return {} if shell.ssh is not None else await self.find_member_pids(self.shell(link))

        return Prepared(paths=paths, inside=inside, second=second_guest, attestation=attestation, attest=attest)

    async def apply_changes(self, shell: Shell, changes: Sequence[NetworkChange]) -> None:
        """Have the agent make the changes; restore() undoes them."""
        if changes:
            self._applied = True
            await apply(shell.uut, TOKEN, changes)

    async def _restore_after(self, uut: AgentLink, exc: BaseException) -> None:
        """Restore after a failure; if that fails too, both errors are reported."""
        try:
            await self.restore(uut)
        except NodeLost:
            return  # the first error is more useful; the rest is undone when the node is back
        except NodeError as also:
            if isinstance(exc, NodeError) and not isinstance(exc, NodeLost):
                raise NodeError(uut.name, f"{exc.message}; then restoring failed: {also.message}") from exc

    async def restore(self, uut: AgentLink) -> None:
        """Remove bridges, restore pinning, stop guests we started. All are tried; the first failure is raised."""
        failures = await self.end_named_crew(uut)
        for there, end in ((self._inside, close_shell(uut, SHELL)), (self._applied, undo(uut, TOKEN))):
            if not there:
                end.close()
                continue
            try:
                await end
            except NodeError as exc:
                failures.append(exc)
        self._inside = self._applied = False
        failures += await self.put_back(self.shell(uut))
        if failures:
            raise next((each for each in failures if isinstance(each, NodeLost)), failures[0])

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """The commands of prepare() on the UUT, as lines of a shell, as far as they are known without a query."""
        shell, streams = RecordingShell(self.name, self.options.ssh), self._streams(wirings, second)
        for name in streams:
            shell.record(self.start(shell, name))
        for name in streams:
            cpus = self.planned[name]
            if cpus is not None:
                shell.record(self.pin(shell, name, {self.EVERY_VCPU: cpus}))
        return [*shell.lines, *shell_lines(self.changes(streams, self.foretold(streams)))]

    # Attestation --------------------------------------------------------------------------------------------------

    async def attestation(self, shell: Shell, streams: Streams) -> Attestation:
        """The running state, including the forwarding interfaces."""
        return await self.attested(
            shell, [n for wiring in flatten_wirings(streams) for n in (wiring.uut_in, wiring.uut_out)]
        )

    async def attested(self, shell: Shell, ports: Sequence[str]) -> Attestation:
        """The running state. Equal as long as nothing changed, so without times, counters and identities of a start."""
        versions = await self.probe(shell)
        found = await self.guests(shell)
        machines: Attestation = {}
        for name in self.planned:
            if name not in found:
                raise self.unknown(shell, name, found)
            if found[name].state is not State.RUNNING:
                raise shell.error(f"guest {name} is {found[name].said}; expected: running")
            machines[name] = await self._machine(shell, name)
        others = sorted(g.name for g in found.values() if g.name not in self.planned and g.state is not State.STOPPED)
        attested: Attestation = {
            "driver": self.about.name,
            "guests": list(self.planned),
            "other_guests": others,
            "versions": versions,
            "machines": machines,
            "guest_kernel": next(iter(machines.values()))["kernel"],
        }
        if shell.ssh is not None:
            return {**attested, "ssh": shell.ssh}
        hosts = [nic["host_interface"] for machine in machines.values() for nic in machine["nics"]]
        ends = [name for name in hosts if name is not None]
        return {**attested, "interfaces": await read_state(shell.uut, routing={}, ports=[*ports, *ends])}

    async def _machine(self, shell: Shell, name: str) -> Attestation:
        nics = [
            {"mac": n.mac, "model": n.model, "host_interface": n.host_interface, "attached_to": n.attached_to}
            for n in await self.nics(shell, name)
        ]
        return {
            "state": str(State.RUNNING),
            **await self.facts(shell, name),
            "pinning": await self.pinning(shell, name),
            "kernel": await self._kernel(shell, name),
            "nics": nics,
        }

    async def _kernel(self, shell: Shell, name: str) -> str | None:
        """Output of ``uname -r`` inside, if programs can run there and it exists."""
        if not self.about.capabilities.exec:
            return None
        answer = await self.execute(shell, name, ["/bin/uname", "-r"])
        said = answer.stdout.strip()
        return said if answer.exit_status == 0 and said.isprintable() and 0 < len(said) <= 100 else None
