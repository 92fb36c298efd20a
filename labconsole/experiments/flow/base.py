"""The common start and end of every trial of flows, whichever direction its packets take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from labconsole.contracts.crew import CrewMember, StandingCrew, StandingMember
from labconsole.contracts.experiment import Bench
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_measurement import CrewAttempt, apply_changes
from labconsole.engine.crew_sink import find_indices, show_rates
from labconsole.errors import GuestLacks
from labconsole.experiments.flow.limiters import (
    FULL_PAYLOAD_BYTES,
    SOCKET_FRAMES,
    TOKEN,
    build_credit,
    build_rate_limit,
    queue_name,
    read_credit,
    read_limiters,
)
from labconsole.experiments.flow.live_view import SendingWatch
from labconsole.experiments.flow.plan import FlowFactors, FlowPoint
from labconsole.experiments.flow.rates import HEADER_BYTES
from labconsole.experiments.flow.record import LimiterRecord
from labconsole.experiments.flow.script import PROGRAM
from labconsole.verdict.changes import Port
from labconsole.wire.changes import AnyChange


class FlowGuest(Protocol):
    """A guest of a trial, whatever its role."""

    @property
    def name(self) -> str: ...
    @property
    def host_interface(self) -> str | None: ...


class TrialWindow(Protocol):
    """A window of any kind: the guests that did not answer in it, and why."""

    @property
    def silent(self) -> Iterable[tuple[str, str]]: ...


W = TypeVar("W", bound=TrialWindow)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowObservation:
    """The observations of one attempt. ``ports``: the interfaces that the numbers rest on."""

    attempt: CrewAttempt
    ports: tuple[Port, ...]


class FlowMeasurement:
    """One attempt with a running crew."""

    def __init__(self, point: FlowPoint, factors: FlowFactors, bench: Bench, crew: StandingCrew) -> None:
        self._point, self._factors, self._bench, self._crew = point, factors, bench, crew
        self._standing: dict[str, StandingMember] = {member.name: member for member in crew.crew.members}
        self._attempt = CrewAttempt(bench.stage, crew)
        self._seen = self._attempt.observations

    async def _run_window(
        self,
        guests: Sequence[FlowGuest],
        nodes: Mapping[AgentLink, Sequence[str]],
        changes: Sequence[AnyChange],
        send: Callable[[], Awaitable[W]],
    ) -> W:
        """Return the window that ``send`` gives, taken between two readings of the guests and of ``nodes``. Limits and
        changes apply meanwhile. ``nodes``: each with the interfaces to read. Raises GuestLacks if a guest cannot be
        limited.
        """
        limits = self._limits(guests)
        await self._attempt.find_program(PROGRAM, [guest.name for guest in guests])
        async with apply_changes(self._crew.uut, [*limits, *changes], TOKEN), self._attempt.watched(nodes):
            window = await send()
        await self._attempt.attest(window.silent)
        return window

    def _limits(self, guests: Sequence[FlowGuest]) -> list[AnyChange]:
        found: list[AnyChange] = []
        for number, guest in enumerate(guests):
            if (rate_bps := self._point.limit_of(number)) is None:
                continue
            if guest.host_interface is None:
                raise GuestLacks(
                    f"guest {guest.name} of platform {self._point.platform} has no interface of its own on the UUT "
                    "that could be limited"
                )
            if self._crew.crew.nic_credit:
                found.append(build_credit(guest.host_interface, rate_bps))
            else:
                found.append(
                    build_rate_limit(guest.host_interface, number + 1, rate_bps, self._queue_bytes(guest.name))
                )
        return found

    def _queue_bytes(self, guest: str) -> int | None:
        """The bound on a queue's size from SOCKET_FRAMES, or None if it does not apply. TCP has other sockets and sends
        again what was dropped.
        """
        payload_bytes = self._point.payload_bytes
        if self._point.pattern != "out" or not self._standing[guest].in_namespace:
            return None
        return None if payload_bytes < FULL_PAYLOAD_BYTES else SOCKET_FRAMES * (payload_bytes + HEADER_BYTES)

    async def _limiters(self, guests: Sequence[FlowGuest]) -> dict[str, LimiterRecord]:
        """Read the limiters back. With Xen's credit, this includes guests that should have no limit if their NICs' back
        ends have one for them.
        """
        limited = [number for number in range(len(guests)) if self._point.limit_of(number) is not None]
        if self._crew.crew.nic_credit:
            ends = {each.name: each.host_interface for each in guests if each.host_interface is not None}
            found = await read_credit(self._crew.uut, ends)
            wanted = {guests[number].name for number in limited}
            return {name: each for name, each in found.items() if name in wanted or each.rate_bps is not None}
        return await read_limiters(self._crew.uut, {guests[number].name: queue_name(number + 1) for number in limited})

    async def _indices(self, guests: Sequence[FlowGuest], limiters: Mapping[str, LimiterRecord]) -> dict[int, str]:
        """Index to guest, for the guests' interfaces on the UUT. If a guest's limiter is an interface, its index is
        used.
        """
        names = {guest.host_interface: guest.name for guest in guests}
        limiter_of = {name: each.interface for name, each in limiters.items()}
        names = {limiter_of.get(guest, interface): guest for interface, guest in names.items()}
        return await find_indices(self._crew.uut, names)

    def _show_progress(
        self, text: str, guests: Sequence[FlowGuest], watch: SendingWatch
    ) -> AbstractContextManager[Callable[[], None]]:
        """Show the text, the guests and their live curves during the block. Yields a function that redraws them."""
        names = [guest.name for guest in guests]
        return show_rates(self._bench, text, names, watch.see, lambda: watch.shown() if watch.guests else None)

    def _known(self, member: CrewMember) -> dict[str, Any]:
        """A guest's name and its actual address and MAC address."""
        standing = self._standing[member.name]
        address, mac = standing.address or member.address, standing.mac or member.mac
        return {"name": member.name, "address": address.partition("/")[0], "mac": mac.lower()}
