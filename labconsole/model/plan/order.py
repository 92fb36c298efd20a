"""The order of a plan's trials.

A configuration is a platform with a background. Changing it costs time, so ``blocked-random`` measures one after the
other. A forwarding second guest's load is a share of the platform's maximum with an idle second guest, so its points
come after everything else of the platform, in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from labconsole.model.design_point import FORWARDING_SHARES, DesignPoint
from labconsole.model.inventory import Inventory

Trial = tuple[int, int]
"""(point index from 0, repetition from 1)."""

Configuration = tuple[str, str]
"""(platform, background): trials measured in one sequence."""


class SetUpKey(NamedTuple):
    """A change in any of these needs a new set-up. ``second_stream``: the second guest's own, if one is free."""

    platform: str
    second_guest: bool
    second_stream: str | None


class Orderable(Protocol):
    """The attributes of a request that ordering needs."""

    @property
    def platform(self) -> str: ...
    @property
    def background(self) -> str: ...


class PointLike(Protocol):
    """The attributes of a point that ordering needs."""

    @property
    def index(self) -> int: ...
    @property
    def request(self) -> Orderable: ...


def forwards(background: str) -> bool:
    """Whether this background needs a known maximum first."""
    return background in FORWARDING_SHARES


def configuration(request: Orderable) -> Configuration:
    """The configuration that a request is measured in."""
    return (request.platform, request.background)


def set_up_key(request: DesignPoint, inventory: Inventory) -> SetUpKey:
    """The set-up that a request needs on the UUT; a program that only runs in a guest does not change it."""
    if request.background == "none":
        return SetUpKey(request.platform, False, None)
    own = inventory.second_stream(request.sources)
    return SetUpKey(request.platform, True, None if own is None else own.name)


def schedule(
    points: Sequence[PointLike], order: str, seed: int, repetitions_of: Callable[[int], int], most: int
) -> list[Trial]:
    """Every trial in the order of execution.

    The order is the same for the same plan and seed on every machine. Python guarantees the sequence of ``random()``
    for a seed across versions, but not that of ``shuffle()``, so a pass is sorted by one ``random()`` per point. Each
    pass has a generator of its own: more repetitions add passes and leave the earlier ones unchanged.
    """
    repetitions = range(1, most + 1)

    def keyed(block: Sequence[PointLike], text: str, repetition: int) -> list[tuple[float, Trial]]:
        # Every point gets a number, even one with fewer repetitions, so that the others keep theirs.
        source = random.Random(text)
        drawn = [(source.random(), (point.index, repetition)) for point in block]
        return [item for item in drawn if repetition <= repetitions_of(item[1][0])]

    if order == "full-random":
        mixed = [trial for _, trial in sorted(item for r in repetitions for item in keyed(points, f"{seed}/{r}", r))]
        return sorted(mixed, key=lambda trial: forwards(points[trial[0]].request.background))  # sorted() is stable
    trials: list[Trial] = []
    for (platform, background), block in blocks(points).items():
        # The first background uses the platform's own sequence, as plans without backgrounds do.
        text = platform if background == "none" else f"{platform}/{background}"
        for r in repetitions:
            if order == "as-listed":
                trials += [(point.index, r) for point in block if r <= repetitions_of(point.index)]
            else:
                trials += [trial for _, trial in sorted(keyed(block, f"{seed}/{r}/{text}", r))]
    return trials


def blocks(points: Sequence[PointLike]) -> dict[Configuration, list[PointLike]]:
    """The points of each configuration: platforms as they first occur, in each its backgrounds, forwarding last."""
    found: dict[str, dict[str, list[PointLike]]] = {}
    for point in points:
        request = point.request
        found.setdefault(request.platform, {}).setdefault(request.background, []).append(point)
    return {
        (platform, background): backgrounds[background]
        for platform, backgrounds in found.items()
        for background in sorted(backgrounds, key=forwards)
    }
