"""Settings that platforms of all drivers can have: flow control, and the UUT's system that they need."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from labconsole.contracts.crew import Crew, CrewDriver, CrewWanted
from labconsole.contracts.driver import Attest, Attestation, Driver, Prepared, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.errors import ConfigError, NodeError
from labconsole.network.change import NetworkChange
from labconsole.network.nic_features import FlowControl
from labconsole.platforms.base.forwarding import apply, restored_on_failure, shell_lines, undo
from labconsole.wire.clean import read_json
from labconsole.wire.execution import Execute
from labconsole.wire.links import NodeLinkState, ReadLinks

# -- enforced settings -------------------------------------------------------------------------------------------------
# Adds an enforced setting to a platform, by an option that platforms of all drivers have.

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


# -- flow control ------------------------------------------------------------------------------------------------------
# Flow control as a factor: ``flow_control: on`` or ``off`` in hosts.yaml, for a platform of any driver.
#
# Two platforms that differ in nothing else are compared like any others. A UUT that sends pause frames slows its sender
# down, so that packets it cannot forward are never offered: Schlosser et al. left it on, and their curves end there.

FLOW_CONTROL = "flow_control"
FLOW_CONTROL_VALUES = ON, OFF = ("on", "off")
TOKEN = "flow_control"
CARRIER_S = 30.0
"""Maximum time for a link to return after a change of its flow control."""

STEADY_LOOKS = 5
"""Number of consecutive checks that must find a link up: a driver may drop it after it answered."""

_LOOK_S = 0.2


def take_flow_control(platform: str, options: dict[str, object]) -> bool | None:
    """Remove the option from the driver's options; None leaves flow control as found. Raises ConfigError."""
    value = options.pop(FLOW_CONTROL, None)
    if value is None:
        return None
    if type(value) is bool or value in FLOW_CONTROL_VALUES:
        return value in (ON, True)
    raise ConfigError(
        "is not valid", key=f"platforms.{platform}.{FLOW_CONTROL}", value=value, allowed=", ".join(FLOW_CONTROL_VALUES)
    )


class FlowControlledDriver(DriverWrapper):
    """A wrapped driver with flow control of the UUT's NICs on or off."""

    said_as = "flow_control"

    def __init__(self, platform: str, on: bool, driver: Driver) -> None:
        super().__init__(platform, driver)
        self._on = on
        self._lit: list[str] = []

    def _changes(self, nics: Sequence[str]) -> list[NetworkChange]:
        return [FlowControl(interface=nic, on=self._on) for nic in nics]

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """See Driver."""
        return [*shell_lines(self._changes(find_uut_nics(wirings, second))), *super().commands(wirings, second)]

    async def ensure_setting(self, uut: AgentLink, nics: Sequence[str]) -> None:
        """Set flow control and wait for all links to be up again: some NICs renegotiate."""
        self._lit = [nic for nic, state in (await _states(uut, nics)).items() if state.carrier]
        await apply(uut, TOKEN, self._changes(nics))
        await self._steady(uut, "set")

    async def revert(self, uut: AgentLink) -> None:
        """Restore flow control and wait for all links to be up again, which later steps need."""
        await undo(uut, TOKEN)
        await self._steady(uut, "put back")
        self._lit = []

    async def _steady(self, uut: AgentLink, what: str) -> None:
        """Raises NodeError if a link does not return."""
        steady, looks, most = 0, 0, round(CARRIER_S / _LOOK_S)
        while self._lit and steady < STEADY_LOOKS:
            dark = [nic for nic, state in (await _states(uut, self._lit)).items() if not state.carrier]
            steady, looks = (0 if dark else steady + 1), looks + 1
            if dark and looks > most:
                raise NodeError(uut.name, f"{dark[0]} has no link {CARRIER_S:.0f} s after its flow control was {what}")
            await asyncio.sleep(_LOOK_S)

    async def seen(self, uut: AgentLink, nics: Sequence[str]) -> Attestation:
        """Flow control of each NIC, read back. Raises NodeError if it differs from the setting."""
        found: Attestation = {}
        for nic, state in (await _states(uut, nics)).items():
            pause = state.pause
            if pause is None or (pause.rx, pause.tx) != (self._on, self._on):
                now = "not known" if pause is None else f"rx {_word(pause.rx)}, tx {_word(pause.tx)}"
                wanted = f"{_word(self._on)} on platform {self._platform}"
                raise NodeError(uut.name, f"flow control of {nic} should be {wanted}, but is {now}")
            found[nic] = {"rx": pause.rx, "tx": pause.tx}
        return found


async def _states(uut: AgentLink, nics: Sequence[str]) -> dict[str, NodeLinkState]:
    """State of these NICs of the UUT. Raises NodeError if one is missing."""
    there = {link.name: link for link in (await uut.ask(ReadLinks())).links if not link.namespace}
    for nic in nics:
        if nic not in there:
            raise NodeError(uut.name, f"there is no interface {nic}")
    return {nic: there[nic] for nic in nics}


def _word(on: bool) -> str:
    return ON if on else OFF


# -- the UUT's system --------------------------------------------------------------------------------------------------
# A platform of only one of the UUT's systems: ``boot: xen`` in hosts.yaml, on a lab whose UUT boots several.
#
# The machine itself reports what it booted. Without this check, ``raw`` would be measured on Xen's first domain and
# appear next to the real one under the same name.

BOOT = "boot"
BOOTS = ("linux", "xen")
BOOT_DESCRIPTION = "/run/labconsole/machine.json"
_READ_S = 10.0


def take_boot(platform: str, options: dict[str, Any]) -> str | None:
    """Remove the option from the driver's options. Raises ConfigError."""
    boot = options.pop(BOOT, None)
    if boot is None or boot in BOOTS:
        return None if boot is None else str(boot)
    raise ConfigError(
        "not a system the UUT can boot", key=f"platforms.{platform}.{BOOT}", value=boot, allowed=", ".join(BOOTS)
    )


class BootedDriver(DriverWrapper):
    """A wrapped driver for a platform of one of the UUT's systems."""

    said_as = "machine"

    def __init__(self, platform: str, boot: str, driver: Driver) -> None:
        super().__init__(platform, driver)
        self._boot = boot

    async def ensure_setting(self, uut: AgentLink, nics: Sequence[str]) -> None:
        """Raises NodeError if the UUT has booted another system."""
        await self.seen(uut, nics)

    async def seen(self, uut: AgentLink, nics: Sequence[str]) -> Attestation:
        """The machine's own report. Raises NodeError if the platform needs another system."""
        read = await uut.ask(Execute(argv=["cat", BOOT_DESCRIPTION], timeout_s=_READ_S))
        try:
            said = read_json(read.stdout)
        except ValueError:
            said = None
        if not isinstance(said, dict) or said.get("boot") not in BOOTS:
            raise NodeError(
                uut.name,
                f"platform {self._platform} needs a UUT that boots {self._boot}; it does not report what it boots "
                f"(in {BOOT_DESCRIPTION}: docs/platforms.md)",
            )
        if said["boot"] != self._boot:
            raise NodeError(
                uut.name,
                f"platform {self._platform} needs {self._boot}, but the UUT runs {said['boot']}: boot {self._boot} "
                f"there (a local lab: `labconsole lab up --uut machine --boot {self._boot}`, with the same options)",
            )
        accel = said.get("accel")
        return {
            "boot": said["boot"],
            "emulated": said.get("emulated") is True,
            "accel": accel if accel in ("tcg", "kvm") else None,
        }
