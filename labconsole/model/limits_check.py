"""Checks a design point against a testbed before anything is changed, and lists the nodes it uses."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.errors import ConfigError, MissingOnTestbed
from labconsole.model.design_point import (
    BACKGROUNDS,
    FORWARDING_SHARES,
    MAX_DURATION_S,
    MIN_PKT_SIZE_BYTES,
    OBSERVE,
    DesignPoint,
)
from labconsole.model.generator import generator_options, refused_generator
from labconsole.model.generator_names import generator_names
from labconsole.model.inventory import Inventory
from labconsole.units import format_rate_bps, format_target


def nodes_of(request: DesignPoint, inventory: Inventory) -> list[str]:
    """The UUT, its host, and the sources and sinks of a request's streams, including a second guest's own stream."""
    streams = list(inventory.streams[: request.sources])
    own = inventory.second_stream(request.sources) if request.background != "none" else None
    names = [inventory.uut]
    for stream in [*streams, own] if own is not None else streams:
        names += [stream.source.node, stream.sink.node]
    if inventory.host is not None:
        names.append(inventory.host)
    return list(dict.fromkeys(names))


def check_request(request: DesignPoint, inventory: Inventory, *, where: str = "") -> None:
    """Refuse a request that this testbed cannot run. Raises ConfigError with the value and the allowed ones."""
    for refusal in refusals(request, inventory, where=where):
        raise refusal


def refusals(request: DesignPoint, inventory: Inventory, *, where: str = "") -> Iterator[ConfigError]:
    """Every problem of a request on this testbed, each with its value and the allowed ones."""

    def refuse(key: str, message: str, value: object, allowed: str) -> ConfigError:
        return ConfigError(message, key=name_key(key), value=value, allowed=allowed)

    def lacks(need: str, key: str, message: str, value: object, allowed: str) -> ConfigError:
        return MissingOnTestbed(message, need=need, key=name_key(key), value=value, allowed=allowed)

    def name_key(key: str) -> str:
        return where + (key.replace("_", "-") if where else key)

    if request.platform not in inventory.platforms:
        platforms = ", ".join(inventory.platforms)
        yield lacks(f"platform {request.platform}", "platform", "is not in the inventory", request.platform, platforms)
    if request.background not in BACKGROUNDS:
        yield refuse("background", "is not a background load", request.background, ", ".join(BACKGROUNDS))
    if (problem := refused_generator(request.generator)) is not None:
        yield refuse("generator", problem, request.generator, ", ".join(generator_names()))
    else:
        try:
            generator_options(request.generator, inventory.generators)
        except ConfigError as exc:
            yield exc
    if request.observe not in OBSERVE:
        yield refuse("observe", "is not a way to observe", request.observe, ", ".join(OBSERVE))
    enough = 1 <= request.sources <= len(inventory.streams)
    if not enough:
        many = f"{request.sources} streams"
        allowed = f"1 to {len(inventory.streams)}"
        yield lacks(many, "sources", "the testbed does not have this many streams", request.sources, allowed)
    elif request.background in FORWARDING_SHARES and inventory.second_stream(request.sources) is None:
        yield lacks(
            f"{request.sources + 1} streams (one for the load {request.background})",
            "background",
            "needs a stream for the second guest, but the trial uses all streams of the testbed",
            request.background,
            ", ".join(kind for kind in BACKGROUNDS if kind not in FORWARDING_SHARES)
            + (", or fewer sources" if request.sources > 1 else ""),
        )
    lasts = 0 < request.duration_s <= MAX_DURATION_S
    if not lasts:
        yield refuse("duration", "is out of range", request.duration_s, f"more than 0, at most {MAX_DURATION_S:g} s")
    if request.frame.pkt_size_bytes < MIN_PKT_SIZE_BYTES:
        minimum = MIN_PKT_SIZE_BYTES + (request.frame.bytes - request.frame.pkt_size_bytes)
        yield refuse(
            "frame_size", "is shorter than the shortest Ethernet frame", request.frame.bytes, f"{minimum} or more"
        )
        return  # the remaining checks concern packets
    for stream in inventory.streams[: request.sources]:
        if request.paced_bps is not None and request.paced_bps > stream.link_speed_bps:
            yield lacks(
                f"links of {format_target(request.paced_bps)}",
                "target",
                f"is above the line rate of stream {stream.name}",
                format_target(request.paced_bps),
                f"at most {format_rate_bps(stream.link_speed_bps)} "
                f"({request.frame.rate_pps(stream.link_speed_bps):.0f} packets/s at this size), max or 1ns",
            )
    if request.paced_bps is not None and lasts and (request.paced_bps < 1 or request.intended_packets == 0):
        # pktgen takes a count of 0 as "without end".
        yield refuse(
            "target",
            f"is too low to send even one packet of {request.frame.bytes} B in {request.duration_s:g} s",
            format_target(request.paced_bps),
            "a rate that sends at least one packet, or a longer duration",
        )
