"""The order of a plan's trials, and of its blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from labconsole.model.design_point import BACKGROUND_FRAME_BYTES, FORWARDING_SHARES, DesignPoint
from labconsole.model.inventory import Inventory

# -- trials ------------------------------------------------------------------------------------------------------------
# The order of a plan's trials.
#
# A configuration is a platform with a background. Changing it costs time, so ``blocked-random`` measures one after the
# other. A forwarding second guest's load is a share of the platform's maximum with an idle second guest, so its points
# come after everything else of the platform, in any order.

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


# -- blocks ------------------------------------------------------------------------------------------------------------
# A plan in blocks: the points of its pilot, and each block's order of platforms and backgrounds.
#
# A block sets up every platform x background once, in a random order; every second block reverses the order of the one
# before it. Drift over the plan then affects all of them alike (randomised complete blocks), and the accidents of one
# guest boot vary from block to block as they do in practice (T. Kalibera, R. Jones: Rigorous benchmarking in reasonable
# time, ISMM 2013). The pilot comes first, so that nothing in block 1 has to wait for another platform's maximum.

PILOT = 0
"""The pilot's number among the blocks, and the number of its trial among those of a point."""

REFERENCE_SOURCES = 1
"""A second guest has one stream, so its maximum is that of one stream."""

AS_LISTED_TEXT = (
    "order: as-listed does not randomise the order, so the report will not compare platforms, backgrounds or loads: "
    "use it to look at things, not for results"
)

Requests = Sequence[DesignPoint]


@dataclass(frozen=True, slots=True)
class PlannedSetUp:
    """One set-up of a platform with a background, and its trials in order. ``block`` 0 is the pilot."""

    block: int
    configuration: Configuration
    trials: tuple[Trial, ...]


def describe_fixed_order(set_ups: int | None, order: str) -> str | None:
    """A warning that a plan in blocks of fixed order supports no conclusions, or None for other plans."""
    return AS_LISTED_TEXT if set_ups is not None and order == "as-listed" else None


def settings(requests: Requests) -> dict[DesignPoint, list[int]]:
    """Indices of the points of every setting."""
    found: dict[DesignPoint, list[int]] = {}
    for index, request in enumerate(requests):
        found.setdefault(request.setting(), []).append(index)
    return found


def reference_key(request: DesignPoint) -> tuple[str, bool]:
    """The key of a forwarding load's reference: one maximum for each platform and convention of sizes."""
    return (request.platform, request.frame.includes_fcs)


def is_reference_point(request: DesignPoint) -> bool:
    """Whether a point is one of those that give the maximum with an idle second guest."""
    return (
        request.background == "idle"
        and request.frame.bytes == BACKGROUND_FRAME_BYTES
        and request.sources == REFERENCE_SOURCES
    )


def references(requests: Requests) -> tuple[dict[tuple[str, bool], tuple[int, ...]], tuple[DesignPoint, ...]]:
    """The points that give each reference, and the pilot-only points among them, numbered after the plan's points.

    If several settings have a point at max, the one with the longest trials is used.
    """
    found: dict[tuple[str, bool], tuple[int, ...]] = {}
    extra: list[DesignPoint] = []
    by_setting = settings(requests)
    for key in dict.fromkeys(reference_key(each) for each in requests if forwards(each.background)):
        given = [
            (setting.duration_s, points)
            for setting, points in by_setting.items()
            if is_reference_point(setting)
            and reference_key(setting) == key
            and any(requests[index].target == "max" for index in points)
        ]
        if given:
            found[key] = tuple(max(given, key=lambda each: each[0])[1])
            continue
        longest = max(
            (each for each in requests if forwards(each.background) and reference_key(each) == key),
            key=lambda each: each.duration_s,
        )
        found[key] = (len(requests) + len(extra),)
        frame = replace(longest.frame, bytes=BACKGROUND_FRAME_BYTES)
        extra.append(replace(longest, background="idle", frame=frame, sources=REFERENCE_SOURCES, target="max"))
    return found, tuple(extra)


def pilot_points(requests: Requests) -> frozenset[int]:
    """The pilot's points: every load of a setting with several, and the references of forwarding loads."""
    several = {index for points in settings(requests).values() if len(points) > 1 for index in points}
    return frozenset(several.union(*references(requests)[0].values()))


def find_needed_pilot_points(chosen: Iterable[int], requests: Requests) -> frozenset[int]:
    """The subset of the pilot's points that these points of the plan depend on."""
    given, _ = references(requests)
    by_setting = settings(requests)
    needed: set[int] = set()
    for index in chosen:
        request = requests[index]
        own = by_setting[request.setting()]
        needed.update(own if len(own) > 1 else ())
        if forwards(request.background):
            needed.update(given[reference_key(request)])
    for index in [index for index in needed if index < len(requests)]:
        needed.update(own if len(own := by_setting[requests[index].setting()]) > 1 else ())
    return frozenset(needed)


def planned_set_ups(
    requests: Requests, pilot: frozenset[int], order: str, seed: int, set_ups: int, repetitions_of: Callable[[int], int]
) -> list[PlannedSetUp]:
    """The pilot's set-ups, then each block's. ``requests``: the plan's points, then the pilot-only points.

    Stable under growth: every block and every pass has a random sequence of its own (see plan_order).
    """
    measured = [index for index in range(len(requests)) if repetitions_of(index)]
    found = []
    for number, points in _shuffled(_grouped(requests, sorted(pilot)), f"{seed}/pilot", order):
        ordered = _order_items(points, f"{seed}/pilot/{'/'.join(number)}", order)
        found.append(PlannedSetUp(PILOT, number, tuple((index, PILOT) for index in ordered)))
    found.sort(key=lambda each: forwards(each.configuration[1]))  # sorted() is stable
    groups = _grouped(requests, measured)
    for block in range(1, set_ups + 1):
        for key, points in _order_block(groups, block, seed, order):
            trials: list[Trial] = []
            for repetition in range(1, max(repetitions_of(index) for index in points) + 1):
                text = f"{seed}/block {block}/{repetition}/{'/'.join(key)}"
                trials += [
                    (index, (block - 1) * repetitions_of(index) + repetition)
                    for index in _order_items(points, text, order)
                    if repetition <= repetitions_of(index)
                ]
            found.append(PlannedSetUp(block, key, tuple(trials)))
    return found


def _order_block(
    groups: dict[Configuration, list[int]], block: int, seed: int, order: str
) -> list[tuple[Configuration, list[int]]]:
    """A block's set-ups in order: every second block reverses the block before it.

    A set-up early in one block is late in the next, so a drift of the machine cancels over two blocks. If each block
    has an order of its own, 5.4 % of comparisons without any effect are called different under a drift of 5 % over
    three blocks of three repetitions; with reversal it is 1.5 % (docs/validation.md, section 9).
    """
    if block % 2 or order == "as-listed":
        return _shuffled(groups, f"{seed}/block {block}", order)
    return _shuffled(groups, f"{seed}/block {block - 1}", order)[::-1]


def _grouped(requests: Requests, points: Iterable[int]) -> dict[Configuration, list[int]]:
    found: dict[Configuration, list[int]] = {}
    for index in points:
        found.setdefault(configuration(requests[index]), []).append(index)
    return found


def _shuffled(groups: dict[Configuration, list[int]], text: str, order: str) -> list[tuple[Configuration, list[int]]]:
    items = list(groups.items())
    return [items[place] for place in _order_items(range(len(items)), text, order)]


def _order_items(items: Sequence[int], text: str, order: str) -> list[int]:
    """Items sorted by one random() each, whose sequence Python guarantees for a seed; as-listed keeps their order."""
    if order == "as-listed":
        return list(items)
    source = random.Random(text)
    return [item for _, item in sorted([(source.random(), item) for item in items])]
