"""Adds an enforced setting to a platform, by an option that platforms of all drivers have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from labconsole.contracts.crew import Crew, CrewDriver, CrewWanted
from labconsole.contracts.driver import Attest, Attestation, Driver, Prepared, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.platforms.base.forwarding import restored_on_failure

Made = TypeVar("Made", Prepared, Crew)


class DriverWrapper(ABC):
    """A wrapped driver with a setting that is enforced before it prepares. ``said_as``: its key in the attestation."""

    said_as: str

    def __init__(self, platform: str, driver: Driver) -> None:
        self._platform, self._driver = platform, driver
        self.about = driver.about

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driver, name)
        return self._prepare_crew if name == "prepare_crew" else found

    @abstractmethod
    async def ensure_setting(self, uut: AgentLink, nics: Sequence[str]) -> None:
        """Apply the setting before the platform is set up on these NICs of the UUT. Raises NodeError."""

    async def revert(self, uut: AgentLink) -> None:  # noqa: B027  # most have nothing to undo
        """Undo ensure_setting(). Safe to call twice."""

    @abstractmethod
    async def seen(self, uut: AgentLink, nics: Sequence[str]) -> Attestation:
        """The attestation's value before and after each trial. Raises NodeError."""

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        return self._driver.commands(wirings, second)

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """See Driver."""
        async with restored_on_failure(self.revert, uut):
            await self.ensure_setting(uut, nics := find_uut_nics(wirings, second))
            if second is None:  # a driver of another package may not know second guests
                prepared = await self._driver.prepare(uut, wirings)
            else:
                prepared = await self._driver.prepare(uut, wirings, second=second)
        async with restored_on_failure(self.restore, uut):
            return await self._add_attestation(uut, nics, prepared)

    async def _prepare_crew(self, uut: AgentLink, wanted: CrewWanted) -> Crew:
        """See CrewDriver; only for drivers that are one."""
        nics = [port for port in (wanted.port, wanted.inbound_port) if port is not None]
        async with restored_on_failure(self.revert, uut):
            await self.ensure_setting(uut, nics)
            crew = await cast("CrewDriver", self._driver).prepare_crew(uut, wanted)
        async with restored_on_failure(self.restore, uut):
            return await self._add_attestation(uut, nics, crew)

    async def _add_attestation(self, uut: AgentLink, nics: Sequence[str], made: Made) -> Made:
        attest = made.attest
        return replace(
            made,
            attestation={**made.attestation, self.said_as: await self.seen(uut, nics)},
            attest=self._attested(attest, made.attestation, nics),
        )

    def _attested(self, attest: Attest | None, once: Attestation, nics: Sequence[str]) -> Attest:
        """The added setting is read again even for a driver without a repeatable attestation."""

        async def both(uut: AgentLink) -> Attestation:
            driver = once if attest is None else await attest(uut)
            return {**driver, self.said_as: await self.seen(uut, nics)}

        return both

    async def restore(self, uut: AgentLink) -> None:
        """See Driver."""
        async with restored_on_failure(self.revert, uut):
            await self._driver.restore(uut)
        await self.revert(uut)


def find_uut_nics(wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None) -> list[str]:
    """The UUT's NICs of these streams, each once."""
    return list(dict.fromkeys(nic for each in [*wirings, *(second or ())] for nic in (each.uut_in, each.uut_out)))
