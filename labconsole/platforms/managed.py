"""Guests of a hypervisor that the operator has installed: found, started if need be, attested, and left as they were.

A driver declares what its hypervisor can and gives a handful of questions and commands; the engine's contract is here,
once. Nothing is believed that was not read back: after every change the state is asked until it is reached or a limit
passes. How the guests' NICs are bridged and that they forward is the operator's set-up; only the frames that come
through prove it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from labconsole.engine.driver import PathPoint, Prepared, StreamPath, StreamWiring
from labconsole.engine.ports import AgentLink
from labconsole.errors import ConfigError, NodeError
from labconsole.platforms.forwarding import read_state
from labconsole.platforms.guest import (
    Capabilities,
    Guest,
    GuestNic,
    Pinning,
    State,
    UnknownGuest,
    Wires,
    listed,
    same_cpus,
)
from labconsole.platforms.options import ManagedOptions, mac_address, read_options
from labconsole.platforms.shell import Answer, Shell

POLL_S = 0.5
KILL_S = 60.0
MAX_GUESTS = 1000
_ALREADY = re.compile(r"already (?:running|active|started|exists|powered on|locked by a session)", re.IGNORECASE)


class ManagedDriver:
    """See labconsole.engine.driver.Driver. A driver overrides the primitives, from ``probe`` to ``execute``."""

    DRIVER: ClassVar[str] = ""
    OPTIONS: ClassVar[type[ManagedOptions]] = ManagedOptions
    CAPABILITIES: ClassVar[Capabilities] = Capabilities()
    options: ManagedOptions

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.options = read_options(self.OPTIONS, self.DRIVER, name, options)
        self.capabilities = self.declare()
        self._started: list[str] = []
        self._pinned: dict[str, Pinning] = {}
        self._check_options()

    def _check_options(self) -> None:
        told = self.options
        for key, value in (("cpu", told.cpu), ("second_cpu", told.second_cpu)):
            if value is not None and not self.capabilities.pin:
                raise ConfigError(
                    f"cannot be given: driver {self.DRIVER} cannot pin a guest{self.where()}",
                    key=f"platforms.{self.name}.{key}",
                )
        if told.second_cpu is not None and told.second_guest is None:
            raise ConfigError("needs a second_guest", key=f"platforms.{self.name}.second_cpu")
        if told.second_guest == told.guest:
            raise ConfigError("is the first guest", key=f"platforms.{self.name}.second_guest", value=told.guest)
        for index, nics in enumerate(told.nics):
            if nics.guest is not None and nics.guest not in self.planned:
                raise ConfigError(
                    "is not a guest of this platform",
                    key=f"platforms.{self.name}.nics[{index}].guest",
                    value=nics.guest,
                    allowed=", ".join(self.planned),
                )

    # What a driver says -------------------------------------------------------------------------------------------

    def declare(self) -> Capabilities:
        """What this hypervisor can, as far as the options tell."""
        return self.CAPABILITIES

    def where(self) -> str:
        """What the sentence about a missing capability adds, such as the connection."""
        return ""

    async def probe(self, shell: Shell) -> dict[str, str]:
        """Versions of what runs the guests. Raises CapabilityMissing when it is not there or refuses us."""
        raise NotImplementedError

    async def guests(self, shell: Shell) -> dict[str, Guest]:
        """Every guest that is known. Of those that are not planned, ``state`` only tells whether they run."""
        raise NotImplementedError

    async def state(self, shell: Shell, name: str) -> Guest:
        """One guest now. Raises UnknownGuest."""
        raise NotImplementedError

    async def start(self, shell: Shell, name: str) -> Answer:
        """Say that it shall start."""
        raise NotImplementedError

    async def ask_to_stop(self, shell: Shell, name: str) -> Answer:
        """Ask the guest to shut down."""
        raise NotImplementedError

    async def kill(self, shell: Shell, name: str) -> Answer:
        """Take its power away."""
        raise NotImplementedError

    async def nics(self, shell: Shell, name: str) -> Sequence[GuestNic]:
        """Its NICs, in the hypervisor's order."""
        raise NotImplementedError

    async def facts(self, shell: Shell, name: str) -> dict[str, Any]:
        """What else the record says of a guest that runs: nothing that changes by itself."""
        return {}

    async def pinning(self, shell: Shell, name: str) -> Pinning | None:
        """Where its vCPUs may run; None where the hypervisor does not say."""
        return None

    async def pin(self, shell: Shell, name: str, pinning: Pinning) -> Answer:
        """Say where its vCPUs may run."""
        raise NotImplementedError

    async def execute(self, shell: Shell, name: str, argv: Sequence[str]) -> Answer:
        """Run a program inside a guest."""
        raise NotImplementedError

    # The engine's contract ----------------------------------------------------------------------------------------

    @property
    def planned(self) -> tuple[str, ...]:
        second = self.options.second_guest
        return (self.options.guest,) if second is None else (self.options.guest, second)

    def shell(self, uut: AgentLink) -> Shell:
        return Shell(uut, self.name, self.options.ssh)

    async def prepare(self, uut: AgentLink, wirings: Sequence[StreamWiring]) -> Prepared:
        """Refuse what cannot be, start what does not run, pin it, find the NICs of every stream, attest."""
        shell = self.shell(uut)
        await self.probe(shell)
        found = await self._survey(shell)
        idle = [name for name in self.planned if found[name].state is State.STOPPED]
        if not idle or self.capabilities.idle_nics:
            await self.wires(shell, wirings)
        try:
            for name in idle:
                await self._bring_up(shell, name)
            await self._pin_planned(shell)
            paths = await self.paths(shell, wirings)
            attestation = await self.attestation(shell, wirings)
        except BaseException as exc:
            await self._restore_after(uut, exc)
            raise

        async def attest(link: AgentLink) -> dict[str, Any]:
            return await self.attestation(self.shell(link), wirings)

        return Prepared(paths=paths, attestation=attestation, attest=attest)

    async def _restore_after(self, uut: AgentLink, exc: BaseException) -> None:
        """Restore after a failure; when that fails too, both are said."""
        try:
            await self.restore(uut)
        except NodeError as also:
            if isinstance(exc, NodeError):
                raise NodeError(uut.name, f"{exc.message}; and then restoring failed: {also.message}") from exc

    async def restore(self, uut: AgentLink) -> None:
        """Put pinning back and stop what we started. Every guest is tried; the first failure is raised at the end."""
        shell = self.shell(uut)
        failures: list[NodeError] = []
        while self._pinned:
            name, before = self._pinned.popitem()
            if name not in self._started:
                try:
                    await self._repin(shell, name, before)
                except UnknownGuest:
                    continue
                except NodeError as exc:
                    failures.append(exc)
        while self._started:
            try:
                await self._bring_down(shell, self._started.pop())
            except NodeError as exc:
                failures.append(exc)
        if failures:
            raise failures[0]

    async def _survey(self, shell: Shell) -> dict[str, Guest]:
        """All guests, when exactly the planned ones run or can. Changes nothing."""
        found = await self.guests(shell)
        if len(found) > MAX_GUESTS:
            raise shell.error(f"the hypervisor lists {len(found)} guests; at most {MAX_GUESTS} are believed")
        for name in self.planned:
            if name not in found:
                raise self.unknown(shell, name, found)
        beside = [g.name for g in found.values() if g.name not in self.planned and g.state is not State.STOPPED]
        if beside and self.options.others == "refuse":
            raise shell.error(
                f"{listed(beside)} run{'s' if len(beside) == 1 else ''} beside {listed(self.planned)}: "
                "stop it, or say `others: allow` in hosts.yaml"
            )
        for name in self.planned:
            if found[name].state not in (State.RUNNING, State.STOPPED):
                raise shell.error(f"guest {name} is {found[name].said}; expected: running or stopped")
        return found

    def unknown(self, shell: Shell, name: str, known: Iterable[str]) -> UnknownGuest:
        return UnknownGuest(
            shell.uut.name, f"platform {self.name}: there is no guest {name}; {self.DRIVER} knows: {listed(known)}"
        )

    async def _bring_up(self, shell: Shell, name: str) -> None:
        # Ours from here on, however it ends: what started only half is stopped again.
        self._started.append(name)
        answer = await self.start(shell, name)
        if _ALREADY.search(answer.text):
            self._started.remove(name)
            raise shell.error(
                f"guest {name} was listed as stopped, but `{answer.command}` says: {answer.said}. Somebody else "
                "started it, or it runs in another network namespace or for another user"
            )
        await self._until(shell, name, State.RUNNING, self.options.start_s, answer)

    async def _bring_down(self, shell: Shell, name: str) -> None:
        try:
            guest = await self.state(shell, name)
            if guest.state is State.STOPPED:
                return
            if guest.state in (State.RUNNING, State.CHANGING) and self.options.graceful_s > 0:
                answer = await self.ask_to_stop(shell, name)
                try:
                    return await self._until(shell, name, State.STOPPED, self.options.graceful_s, answer)
                except UnknownGuest:
                    raise
                except NodeError:
                    pass  # a guest that does not listen is no failure yet
            answer = await self.kill(shell, name)
            await self._until(shell, name, State.STOPPED, KILL_S, answer)
        except UnknownGuest:
            return  # transient: with its end it is forgotten

    async def _until(self, shell: Shell, name: str, wanted: State, limit_s: float, answer: Answer) -> None:
        """Read the state back until it is ``wanted``. Raises NodeError with what was seen and what the command said."""
        deadline = self.now() + limit_s
        while True:
            guest = await self.state(shell, name)
            if guest.state is wanted:
                return
            refused = self.refused(answer) and guest.state is not State.CHANGING
            if refused or guest.state is State.FAILED or self.now() >= deadline:
                after = "" if refused else f" {limit_s:g} s" if guest.state is not State.FAILED else ""
                raise shell.error(
                    f"guest {name} is {guest.said}{after} after `{answer.command}`; expected: {wanted}. "
                    f"It said: {answer.said}"
                )
            await self.pause(POLL_S)

    def refused(self, answer: Answer) -> bool:
        """Whether the command said that it did not do it. One that had not ended may have."""
        return answer.exit_status not in (0, None)

    async def _pin_planned(self, shell: Shell) -> None:
        for name, cpus in zip(self.planned, (self.options.cpu, self.options.second_cpu), strict=False):
            if cpus is None:
                continue
            before = await self.pinning(shell, name)
            if before is None:
                raise shell.error(f"{self.DRIVER} does not say where guest {name} may run, so it is not pinned")
            if any(not same_cpus(now, cpus) for now in before.values()):
                self._pinned[name] = before
                await self._repin(shell, name, dict.fromkeys(before, cpus))

    async def _repin(self, shell: Shell, name: str, wanted: Pinning) -> None:
        answer = await self.pin(shell, name, wanted)
        seen = await self.pinning(shell, name) or {}
        if seen.keys() != wanted.keys() or any(not same_cpus(seen[vcpu], wanted[vcpu]) for vcpu in wanted):
            raise shell.error(f"guest {name} is pinned to {seen}; expected: {wanted}. It said: {answer.said}")

    # Streams ------------------------------------------------------------------------------------------------------

    async def wires(self, shell: Shell, wirings: Sequence[StreamWiring]) -> Wires:
        """The inbound and outbound NIC of every stream. Raises NodeError or ConfigError when they cannot be matched."""
        by_guest = {name: list(await self.nics(shell, name)) for name in self.planned}
        wires: Wires = {}
        if self.options.nics:
            told = {nics.stream: nics for nics in self.options.nics}
            for wiring in wirings:
                if wiring.name not in told:
                    raise ConfigError(
                        "names no NICs for this stream", key=f"platforms.{self.name}.nics", value=wiring.name
                    )
                chosen = told[wiring.name]
                guest = chosen.guest or self.options.guest
                pair = (chosen.in_mac, chosen.out_mac)
                wires[wiring.name] = tuple(self._by_mac(shell, guest, by_guest[guest], mac) for mac in pair)  # type: ignore[assignment]
        else:
            guest, nics = self.options.guest, by_guest[self.options.guest]
            if len(nics) < 2 * len(wirings):
                raise shell.error(
                    f"guest {guest} has {len(nics)} NICs ({listed(n.mac or '?' for n in nics)}); expected: two for "
                    f"each of {len(wirings)} streams, in their order, or named by `nics:` in hosts.yaml"
                )
            for index, wiring in enumerate(wirings):
                wires[wiring.name] = (nics[2 * index], nics[2 * index + 1])
        for wiring in wirings:
            self._check_mac(shell, wiring, wires[wiring.name][0])
        return wires

    def _by_mac(self, shell: Shell, guest: str, nics: Sequence[GuestNic], mac: str) -> GuestNic:
        for nic in nics:
            if nic.mac == mac:
                return nic
        raise shell.error(f"guest {guest} has no NIC {mac}; it has: {listed(n.mac or '?' for n in nics)}")

    def _check_mac(self, shell: Shell, wiring: StreamWiring, nic: GuestNic) -> None:
        if nic.mac is None:
            raise shell.error(f"{self.DRIVER} does not say the MAC of the NIC that takes stream {wiring.name} in")
        if shell.ssh is None and nic.mac == mac_address(wiring.uut_in_mac):
            raise shell.error(
                f"the guest's NIC has the MAC of {wiring.uut_in} ({nic.mac}): such frames end on the host; "
                "give the guest another"
            )

    async def paths(self, shell: Shell, wirings: Sequence[StreamWiring]) -> dict[str, StreamPath]:
        """Where the streams go, with a counter for every interface that this node really has."""
        wires = await self.wires(shell, wirings)
        there: set[str] = set()
        if self.capabilities.statistics and shell.ssh is None:
            links = (await shell.uut.request("links"))["links"]
            there = {link["name"] for link in links if not link["namespace"]}
        paths = {}
        for wiring in wirings:
            inbound, outbound = wires[wiring.name]
            points = [PathPoint("uut_in", "", wiring.uut_in, "rx_packets")]
            # Both or none: with one of them, what the guest loses would be counted at the wrong place.
            if inbound.host_interface in there and outbound.host_interface in there:
                points.append(PathPoint("to_guest", "", str(inbound.host_interface), "tx_packets"))
                points.append(PathPoint("from_guest", "", str(outbound.host_interface), "rx_packets"))
            points.append(PathPoint("uut_out", "", wiring.uut_out, "tx_packets"))
            assert inbound.mac is not None
            paths[wiring.name] = StreamPath(destination_mac=inbound.mac, points=tuple(points))
        return paths

    # Attestation --------------------------------------------------------------------------------------------------

    async def attestation(self, shell: Shell, wirings: Sequence[StreamWiring]) -> dict[str, Any]:
        """What runs now. Equal as long as nothing was changed, so no times, no counters, no identities per start."""
        versions = await self.probe(shell)
        found = await self.guests(shell)
        machines: dict[str, Any] = {}
        for name in self.planned:
            if name not in found:
                raise self.unknown(shell, name, found)
            if found[name].state is not State.RUNNING:
                raise shell.error(f"guest {name} is {found[name].said}; expected: running")
            machines[name] = await self._machine(shell, name)
        others = sorted(g.name for g in found.values() if g.name not in self.planned and g.state is not State.STOPPED)
        attested: dict[str, Any] = {
            "driver": self.DRIVER,
            "guests": list(self.planned),
            "other_guests": others,
            "versions": versions,
            "machines": machines,
            "guest_kernel": machines[self.options.guest]["kernel"],
        }
        if shell.ssh is not None:
            return {**attested, "ssh": shell.ssh}
        hosts = [nic["host_interface"] for machine in machines.values() for nic in machine["nics"]]
        ports = [nic for wiring in wirings for nic in (wiring.uut_in, wiring.uut_out)]
        ports += [name for name in hosts if name is not None]
        return {**attested, "interfaces": await read_state(shell.uut, routing={}, ports=ports)}

    async def _machine(self, shell: Shell, name: str) -> dict[str, Any]:
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
        """What ``uname -r`` says inside, where something can be run there and has it."""
        if not self.capabilities.exec:
            return None
        answer = await self.execute(shell, name, ["/bin/uname", "-r"])
        said = answer.stdout.strip()
        return said if answer.exit_status == 0 and said.isprintable() and 0 < len(said) <= 100 else None

    # Time: replaced in tests --------------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic()

    async def pause(self, seconds: float) -> None:
        """Between two questions about a state."""
        await asyncio.sleep(seconds)
