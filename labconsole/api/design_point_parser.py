"""Parses a design point from plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from inspect import signature

from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.limits_check import check_request
from labconsole.units import parse_target


def parse_design_point(
    inventory: Inventory,
    *,
    platform: str | None = None,
    frame_size_bytes: int = 64,
    includes_fcs: bool = False,
    sources: int = 1,
    target: str = "10Mbit",
    duration_s: float = 10.0,
    background: str = "none",
    generator: str | None = None,
    observe: str | None = None,
    where: str = "",
) -> DesignPoint:
    """Build a design point, checked against the testbed. Factors that are None default to those of its file, and the
    platform to its first one. ``target``: such as 100Mbit, max, 1ns.

    ``where``: prefix of names in errors. Raises ConfigError.
    """
    try:
        wish = parse_target(target)
    except ValueError as exc:
        raise ConfigError("is not a valid target", key=f"{where}target", value=target, allowed=str(exc)) from None
    frame = inventory.defaults.frame(frame_size_bytes, includes_fcs)
    request = DesignPoint(
        platform=platform or next(iter(inventory.platforms)),
        frame=frame,
        sources=sources,
        target=frame.target(wish),
        duration_s=duration_s,
        background=background,
        generator=generator or inventory.defaults.generator,
        observe=observe or inventory.defaults.observe,
    )
    check_request(request, inventory, where=where)
    return request


def refuse_unknown(given: Iterable[str], what: str, *of: Callable[..., object]) -> None:
    """Refuse a name that is no keyword of these functions, suggesting the most similar one. Raises ConfigError."""
    parameters = [each for function in of for each in signature(function).parameters.values()]
    known = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.name != "where"]
    for name in given:
        if name not in known:
            like = get_close_matches(name, known, 1)
            hint = f" (did you mean {like[0]}?)" if like else ""
            raise ConfigError(f"has no argument {name}{hint}", key=what, allowed=", ".join(known))
