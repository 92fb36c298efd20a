"""The commands that would set a platform up, as stated by its driver without a request to any node.

A driver derives these lines from the code that it would run, so the two cannot differ. Values known only to the nodes
are replaced by placeholders such as ``mac-of-snk1/eth1``.
"""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.contracts.driver import DriverFor, StreamWiring
from labconsole.engine.trial.second_guest import refusal
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory, Stream


def build_placeholder_wiring(stream: Stream, uut: str) -> StreamWiring:
    """A stream with placeholders for the MAC addresses that its nodes would report."""
    return StreamWiring(
        name=stream.name,
        uut_in=stream.uut_in,
        uut_in_mac=f"mac-of-{uut}/{stream.uut_in}",
        uut_out=stream.uut_out,
        uut_out_mac=f"mac-of-{uut}/{stream.uut_out}",
        sink_mac=f"mac-of-{stream.sink}",
        source_ip=stream.source_ip,
        sink_ip=stream.sink_ip,
    )


def set_up_commands(request: DesignPoint, inventory: Inventory, driver_for: DriverFor) -> list[str]:
    """The commands that set up the platform of ``request`` for the streams that it uses. Raises ConfigError."""
    driver = driver_for(request.platform, inventory)
    sentence = refusal(driver, request.platform, request.background)
    if sentence is not None:
        return [f"# refused: {sentence}"]
    own = inventory.second_stream(request.sources) if request.background != "none" else None
    first = [build_placeholder_wiring(s, inventory.uut) for s in inventory.streams[: request.sources] if s != own]
    if request.background == "none":
        return driver.commands(first)
    return driver.commands(first, [build_placeholder_wiring(own, inventory.uut)] if own is not None else [])


def set_ups(requests: Iterable[DesignPoint]) -> list[DesignPoint]:
    """One request per way of setting a platform up, with all streams that any of the requests uses."""
    found: dict[tuple[str, bool], DesignPoint] = {}
    for request in requests:
        key = (request.platform, request.background != "none")
        if key not in found or request.sources > found[key].sources:
            found[key] = request
    return list(found.values())
