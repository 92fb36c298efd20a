"""Flow control as a factor: ``flow_control: on`` or ``off`` in hosts.yaml, for a platform of any driver.

Two platforms that differ in nothing else are compared like any others. A UUT that sends pause frames slows its sender
down, so that packets it cannot forward are never offered: Schlosser et al. left it on, and their curves end there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from labconsole.contracts.driver import Attestation, Driver, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.errors import ConfigError, NodeError
from labconsole.network.change import NetworkChange
from labconsole.network.flow_control import FlowControl
from labconsole.platforms.base.driver_wrapper import DriverWrapper, find_uut_nics
from labconsole.platforms.base.forwarding import apply, shell_lines, undo
from labconsole.wire.links import NodeLinkState, ReadLinks

OPTION = "flow_control"
VALUES = ON, OFF = ("on", "off")
TOKEN = "flow_control"
CARRIER_S = 30.0
"""Maximum time for a link to return after a change of its flow control."""

STEADY_LOOKS = 5
"""Number of consecutive checks that must find a link up: a driver may drop it after it answered."""

_LOOK_S = 0.2


def take_flow_control(platform: str, options: dict[str, object]) -> bool | None:
    """Remove the option from the driver's options; None leaves flow control as found. Raises ConfigError."""
    value = options.pop(OPTION, None)
    if value is None:
        return None
    if type(value) is bool or value in VALUES:
        return value in (ON, True)
    raise ConfigError("is not valid", key=f"platforms.{platform}.{OPTION}", value=value, allowed=", ".join(VALUES))


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
