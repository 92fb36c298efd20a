"""A platform that only one of the UUT's systems has: ``boot: xen`` in hosts.yaml, on a lab whose UUT boots several.

The machine says itself what it booted. Without the question, ``raw`` would be measured on Xen's first domain and stand
beside the real one under the same name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from labconsole.contracts.crew import Crew, CrewDriver, CrewWanted
from labconsole.contracts.driver import Attest, Attestation, Driver, Prepared, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.errors import ConfigError, NodeError
from labconsole.wire.execution import Execute

OPTION = "boot"
BOOTS = ("linux", "xen")
DESCRIPTION = "/run/labconsole/machine.json"
_READ_S = 10.0

Made = TypeVar("Made", Prepared, Crew)


def take_boot(platform: str, options: dict[str, Any]) -> str | None:
    """Take the option away from the driver's. Raises ConfigError."""
    boot = options.pop(OPTION, None)
    if boot is None or boot in BOOTS:
        return None if boot is None else str(boot)
    raise ConfigError(
        "not a system the UUT can boot", key=f"platforms.{platform}.{OPTION}", value=boot, allowed=", ".join(BOOTS)
    )


class BootedDriver:
    """Another driver, for what runs under one of the UUT's systems."""

    def __init__(self, platform: str, boot: str, driver: Driver) -> None:
        self._platform, self._boot, self._driver = platform, boot, driver
        self.about = driver.about

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driver, name)
        return self._prepare_crew if name == "prepare_crew" else found

    def refusal(self, background: str) -> str | None:
        return self._driver.refusal(background)

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """See Driver; refused when the UUT has booted something else."""
        machine = await self._machine(uut)
        return self._with(machine, await self._driver.prepare(uut, wirings, second=second))

    async def _prepare_crew(self, uut: AgentLink, wanted: CrewWanted) -> Crew:
        """See CrewDriver: of a driver that is one."""
        machine = await self._machine(uut)
        return self._with(machine, await cast("CrewDriver", self._driver).prepare_crew(uut, wanted))

    def _with(self, machine: Attestation, made: Made) -> Made:
        attest = made.attest
        return replace(
            made,
            attestation={**made.attestation, "machine": machine},
            attest=None if attest is None else self._attested(attest),
        )

    def _attested(self, attest: Attest) -> Attest:
        async def both(uut: AgentLink) -> Attestation:
            return {**await attest(uut), "machine": await self._machine(uut)}

        return both

    async def _machine(self, uut: AgentLink) -> Attestation:
        """What the machine says of itself. Raises NodeError when it is not what the platform needs."""
        read = await uut.ask(Execute(argv=["cat", DESCRIPTION], timeout_s=_READ_S))
        try:
            said = json.loads(read.stdout)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict) or said.get("boot") not in BOOTS:
            raise NodeError(
                uut.name,
                f"platform {self._platform} needs a UUT that boots {self._boot}; it does not report what it boots",
            )
        if said["boot"] != self._boot:
            raise NodeError(
                uut.name,
                f"platform {self._platform} needs {self._boot}, but the UUT runs {said['boot']}; run `labconsole lab "
                f"up --uut machine --boot {self._boot}, with the same options as the lab`",
            )
        accel = said.get("accel")
        return {
            "boot": said["boot"],
            "emulated": said.get("emulated") is True,
            "accel": accel if accel in ("tcg", "kvm") else None,
        }

    async def restore(self, uut: AgentLink) -> None:
        await self._driver.restore(uut)
