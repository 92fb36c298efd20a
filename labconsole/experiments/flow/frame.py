"""What every trial of flows opens and closes with, whichever way its packets go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from labconsole.contracts.crew import CrewMember, StandingCrew, StandingMember
from labconsole.contracts.experiment import Bench
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_attempt import CrewAttempt
from labconsole.errors import MeasurementError
from labconsole.experiments.flow.limiters import held, limit_of, queue_name, read_limiters
from labconsole.experiments.flow.script import PROGRAM
from labconsole.experiments.flow.window import silent_guests
from labconsole.model.plan.flows import FlowFactors, FlowPoint
from labconsole.model.record.flow import LimiterSeen
from labconsole.verdict.changes import Port
from labconsole.wire.changes import AnyChange
from labconsole.wire.guests import AskedGuests


class FlowGuest(Protocol):
    """A guest of a trial, whatever it is to do."""

    @property
    def name(self) -> str: ...
    @property
    def host_interface(self) -> str | None: ...


class Answered(Protocol):
    """What a window of any kind has."""

    @property
    def answered(self) -> AskedGuests: ...


W = TypeVar("W", bound=Answered)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSeen:
    """What one attempt saw; ``ports``: the interfaces that the numbers rest on."""

    attempt: CrewAttempt
    ports: tuple[Port, ...]


class Taking:
    """One attempt, on a crew that stands."""

    def __init__(self, point: FlowPoint, factors: FlowFactors, bench: Bench, crew: StandingCrew) -> None:
        self._point, self._factors, self._bench, self._crew = point, factors, bench, crew
        self._standing: dict[str, StandingMember] = {member.name: member for member in crew.crew.members}
        self._attempt = CrewAttempt(bench.stage, crew)
        self._seen = self._attempt.observations

    async def _framed(
        self,
        guests: Sequence[FlowGuest],
        nodes: Mapping[AgentLink, Sequence[str]],
        changes: Sequence[AnyChange],
        send: Callable[[], Awaitable[W]],
    ) -> W:
        """What ``send`` gives, between the looks at the guests and at ``nodes``, each with these interfaces; limits and
        changes hold meanwhile. Raises MeasurementError where a guest cannot be limited.
        """
        limits = self._limits(guests)
        await self._attempt.find_program(PROGRAM, [guest.name for guest in guests])
        async with held(self._crew.uut, [*limits, *changes]), self._attempt.watched(nodes):
            window = await send()
        await self._attempt.attest(silent_guests(window.answered))
        return window

    def _limits(self, guests: Sequence[FlowGuest]) -> list[AnyChange]:
        found: list[AnyChange] = []
        for number, guest in enumerate(guests):
            if (rate_bps := self._point.limit_of(number)) is None:
                continue
            if guest.host_interface is None:
                raise MeasurementError(
                    f"guest {guest.name} of platform {self._point.platform} has no interface of its own on the UUT "
                    "that could be limited"
                )
            found.append(limit_of(guest.host_interface, number + 1, rate_bps))
        return found

    async def _limiters(self, guests: Sequence[FlowGuest]) -> dict[str, LimiterSeen]:
        """What the limiters say, read back."""
        limited = [number for number in range(len(guests)) if self._point.limit_of(number) is not None]
        return await read_limiters(self._crew.uut, {guests[number].name: queue_name(number + 1) for number in limited})

    def _known(self, member: CrewMember) -> dict[str, Any]:
        """A guest's name, address and MAC, as it turned out to have them."""
        standing = self._standing[member.name]
        address, mac = standing.address or member.address, standing.mac or member.mac
        return {"name": member.name, "address": address.partition("/")[0], "mac": mac.lower()}
