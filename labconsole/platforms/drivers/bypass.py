"""``bypass``: no unit under test. Every source is connected directly to its sink, to calibrate the instrument.

Nothing is changed on the UUT; its data NICs stay on the list of hops, where they must count nothing. Calibration uses
it automatically; ordinary runs only if hosts.yaml names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from labconsole.contracts.driver import DriverInfo, Prepared, StreamPath, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.platforms.base.options import read_options


class BypassOptions(BaseModel):
    """No options."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BypassDriver:
    """See labconsole.contracts.driver.Driver."""

    about = DriverInfo(
        name="bypass",
        summary="no UUT: sources wired to sinks, for `labconsole calibrate`",
        tried="yes",
        Options=BypassOptions,
    )

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        read_options(BypassOptions, "bypass", name, options)

    def refusal(self, background: str) -> str | None:
        """A second guest is impossible without a first."""
        return None if background == "none" else "there is no unit under test on which a second guest could run"

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """Empty: nothing is changed."""
        return []

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Set up nothing: frames are addressed to the sink itself, and no counter of the UUT is on their path."""
        return Prepared(
            paths={wiring.name: StreamPath(destination_mac=wiring.sink_mac, points=()) for wiring in wirings},
            attestation={"driver": "bypass", "guests": []},
        )

    async def restore(self, uut: AgentLink) -> None:
        """Does nothing: nothing was changed."""


DRIVER = BypassDriver
