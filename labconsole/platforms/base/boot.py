"""A platform of only one of the UUT's systems: ``boot: xen`` in hosts.yaml, on a lab whose UUT boots several.

The machine itself reports what it booted. Without this check, ``raw`` would be measured on Xen's first domain and
appear next to the real one under the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labconsole.contracts.driver import Attestation, Driver
from labconsole.contracts.ports import AgentLink
from labconsole.errors import ConfigError, NodeError
from labconsole.platforms.base.driver_wrapper import DriverWrapper
from labconsole.wire.clean import read_json
from labconsole.wire.execution import Execute

OPTION = "boot"
BOOTS = ("linux", "xen")
DESCRIPTION = "/run/labconsole/machine.json"
_READ_S = 10.0


def take_boot(platform: str, options: dict[str, Any]) -> str | None:
    """Remove the option from the driver's options. Raises ConfigError."""
    boot = options.pop(OPTION, None)
    if boot is None or boot in BOOTS:
        return None if boot is None else str(boot)
    raise ConfigError(
        "not a system the UUT can boot", key=f"platforms.{platform}.{OPTION}", value=boot, allowed=", ".join(BOOTS)
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
        read = await uut.ask(Execute(argv=["cat", DESCRIPTION], timeout_s=_READ_S))
        try:
            said = read_json(read.stdout)
        except ValueError:
            said = None
        if not isinstance(said, dict) or said.get("boot") not in BOOTS:
            raise NodeError(
                uut.name,
                f"platform {self._platform} needs a UUT that boots {self._boot}; it does not report what it boots "
                f"(in {DESCRIPTION}: docs/platforms.md)",
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
