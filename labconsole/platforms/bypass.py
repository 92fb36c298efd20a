"""``bypass``: no unit under test. Every source is connected straight to its sink, for calibrating the instrument.

Nothing is changed on the UUT; its data NICs stay on the list of hops, where they must count nothing. Calibration uses
it by itself; ordinary runs only where hosts.yaml names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labconsole.engine.driver import Prepared, StreamPath, StreamWiring
from labconsole.engine.ports import AgentLink
from labconsole.errors import ConfigError


class BypassDriver:
    """No options."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        for option in sorted(options):
            raise ConfigError("is not an option of driver bypass", key=f"platforms.{name}.{option}", allowed="(none)")

    def refusal(self, background: str) -> str | None:
        """Nothing is beside what is not there."""
        return None if background == "none" else "there is no unit under test for a second guest to run on"

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """Nothing is done."""
        return []

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Nothing to set up: frames are addressed to the sink itself, and no counter of the UUT is on their way."""
        return Prepared(
            paths={wiring.name: StreamPath(destination_mac=wiring.sink_mac, points=()) for wiring in wirings},
            attestation={"driver": "bypass", "guests": []},
        )

    async def restore(self, uut: AgentLink) -> None:
        """Nothing was changed."""
