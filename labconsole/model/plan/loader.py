"""Reads a plan from its file and checks it, first by itself and then against its testbed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel

from labconsole.errors import ConfigError, MissingOnTestbed, OtherTestbed
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.limits_check import check_request
from labconsole.model.plan.file import (
    GUEST_KINDS,
    MATRIX_KEYS,
    MATRIX_NEEDS,
    PLAN_FILE,
    RULE_KEYS,
    PlanFile,
    find_guest_kind,
    has_no_grid,
    normalize_file,
    searches_only,
)
from labconsole.model.plan.order import Configuration, configuration, set_up_key
from labconsole.model.plan.plan import Plan, PlannedPoint
from labconsole.model.plan.plugins import load_plugin_factors
from labconsole.model.plan.points import (
    FACTORS,
    RULE_FACTORS,
    ListedPoint,
    describe_exclusion,
    distinct,
    factors,
    has_rules,
    location,
    unfold,
)
from labconsole.model.yaml_file import KNOWN_KEYS, find_line, key_text, load_yaml, validate
from labconsole.units import counted, format_rate_bps, format_target

AlsoCheck = Callable[[DesignPoint], None]
"""Check of a point's platform, once for each platform and background. Raises ConfigError."""

MAX_TRIALS = 1_000_000
"""A larger plan is a typing error: at one second per trial it would take eleven days."""


def load_plan(
    path: Path,
    inventory: Inventory | None = None,
    *,
    also: AlsoCheck | None = None,
    only: Collection[str] | None = None,
) -> Plan:
    """Read a plan; with an inventory also check it against that testbed and adopt its defaults (check_plan).

    Raises ConfigError naming file, line, key, value and the allowed ones.
    """
    data = load_yaml(path)
    written = validate(PLAN_FILE, data, path)
    _refuse_empty(data, path)
    try:
        file = normalize_file(written)
    except ConfigError as exc:
        raise _build_error(data, path, (exc.key or "",), exc.message) from None
    _refuse_half_and_half(file, data, path)
    _refuse_duplicates(file, data, path)
    _refuse_what_blocks_cannot(file, data, path)
    _refuse_too_large(file, path)
    if file.points is not None:
        plan = _build_listed_plan(file, data, path)
    elif has_rules(file):
        plan = _ruled_plan(file, data, path)
    else:
        plan = _matrix_plan(file)
    if (kind := find_guest_kind(file)) is not None:
        guests = GUEST_KINDS[kind].planned(
            factors=getattr(file, kind),
            platforms=file.platforms or (),
            set_ups=written.set_ups or 1,
            repetitions=file.repetitions,
            seed=file.seed,
            listed=file.order == "as-listed",
        )
        plan = replace(plan, guests=guests)
        if (trials := len(guests.points) * guests.set_ups * guests.repetitions) > MAX_TRIALS:
            raise _too_large(path, trials)
    plan = replace(plan, experiments=_load_plugin_factors(file, data, path))
    return plan if inventory is None else check_plan(plan, inventory, path, data, file, also=also, only=only)


def _load_plugin_factors(file: PlanFile, data: Any, path: Path) -> tuple[tuple[str, BaseModel], ...]:
    if file.experiments and file.search is not None:
        raise _build_error(data, path, ("experiments",), "cannot be combined with search: a plan has one of them")

    def refuse(where: tuple[str | int, ...], problem: str, value: object, allowed: str | None) -> ConfigError:
        line = find_line(data, where)
        return ConfigError(problem, file=str(path), line=line, key=key_text(where), value=value, allowed=allowed)

    return load_plugin_factors(file.experiments, refuse)


def _matrix_plan(file: PlanFile) -> Plan:
    assert file.platforms is not None and file.frame_sizes is not None and file.targets is not None
    assert file.duration_s is not None
    return Plan(
        platforms=file.platforms,
        frames=tuple(map(file.frame, file.frame_sizes)),
        targets_bps=file.targets,
        sources=file.sources,
        backgrounds=file.backgrounds,
        duration_s=float(file.duration_s),
        repetitions=file.repetitions,
        **_collect_common_options(file),
    )


def _collect_common_options(file: PlanFile) -> dict[str, Any]:
    """Options that all kinds of plan share."""
    names = (
        "order",
        "seed",
        "settle_s",
        "drain_s",
        "generator",
        "observe",
        "drop_reasons",
        "packet_times",
        "max_redo",
        "tolerances",
        "retry",
        "warm_up",
        "stop",
        "pre",
        "post",
        "search",
        "set_ups",
        "claims",
    )
    own = {"name": file.plan, "grid": not has_no_grid(file), "margin_ratio": file.margin}
    return own | {name: getattr(file, name) for name in names}


def _ruled_plan(file: PlanFile, data: Any, path: Path) -> Plan:
    def refuse(
        where: tuple[str | int, ...], message: str, value: object = None, allowed: str | None = None
    ) -> NoReturn:
        raise ConfigError(
            message, file=str(path), line=find_line(data, where), key=key_text(where), value=value, allowed=allowed
        )

    listed, excluded = unfold(file, refuse)
    if (trials := sum(each.repetitions for each in listed) * (file.set_ups or 1)) > MAX_TRIALS:
        raise _too_large(path, trials)
    rules = [f"{name} has its own {', '.join(sorted(own.model_fields_set))}" for name, own in file.overrides.items()]
    rules += [f"not measured: {describe_exclusion(rule)}" for rule in file.exclude]
    if excluded:
        rules.append(f"{counted(excluded, 'point')} of the matrix {'is' if excluded == 1 else 'are'} excluded")
    if added := sum(bool(each.where) for each in listed):
        rules.append(f"{counted(added, 'point')} {'is' if added == 1 else 'are'} added to the matrix")
    own_tolerances = tuple(
        (name, file.tolerances.model_copy(update=own.tolerances.model_dump(exclude_unset=True)))
        for name, own in file.overrides.items()
        if own.tolerances is not None
    )
    return Plan(
        listed=listed,
        rules=tuple(rules),
        platform_tolerances=own_tolerances,
        **factors(listed),
        **_collect_common_options(file),
    )


def _build_listed_plan(file: PlanFile, data: Any, path: Path) -> Plan:
    listed: list[ListedPoint] = []
    for index, entry in enumerate(file.points or ()):
        duration_s = file.duration_s if entry.duration_s is None else entry.duration_s
        if duration_s is None:
            raise _build_error(
                data, path, ("points", index, "duration_s"), "is required, here or at the top level of the file"
            )
        listed.append(
            ListedPoint(
                point=DesignPoint(
                    platform=entry.platform,
                    frame=file.frame(entry.frame_size, entry),
                    target=file.frame(entry.frame_size, entry).target(entry.target),
                    sources=entry.sources,
                    background=entry.background,
                    duration_s=float(duration_s),
                ),
                repetitions=entry.repetitions or file.repetitions,
                generator=entry.generator,
                observe=entry.observe,
                where=("points", index),
            )
        )
    plan = Plan(listed=tuple(listed), **factors(listed), **_collect_common_options(file))
    first: dict[DesignPoint, int] = {}
    for point in plan.points:
        if point.request in first:
            message = f"repeats points[{first[point.request]}]; repetitions is the key for measuring a point more often"
            raise _build_error(data, path, ("points", point.index), message)
        first[point.request] = point.index
    return plan


def _build_error(data: Any, path: Path, where: tuple[str | int, ...], message: str) -> ConfigError:
    return ConfigError(message, file=str(path), line=find_line(data, where), key=key_text(where))


def check_plan(
    plan: Plan,
    inventory: Inventory,
    path: Path | None = None,
    data: Any = None,
    file: PlanFile | None = None,
    *,
    also: AlsoCheck | None = None,
    only: Collection[str] | None = None,
) -> Plan:
    """The plan resolved for this testbed. Raises ConfigError at the first point that it cannot run.

    ``only``: the platforms whose points are checked, since others may be elsewhere, or None for all. Raises
    OtherTestbed if this testbed only lacks something: the plan was written for another one.
    """
    plan = plan.resolved(inventory)
    elsewhere = set() if only is None else set(plan.platforms) - set(only)
    absent = [name for name in find_missing_platforms(plan, inventory) if name not in elsewhere]
    lacking: ConfigError | None = None
    needs: dict[str, None] = {platforms_needed(absent): None} if absent else {}
    had: set[tuple[str, str]] = set()
    for point in plan.every_point:
        if point.request.platform in absent or point.request.platform in elsewhere:
            continue
        try:
            check_request(point.request, inventory)
            configured = (point.request.platform, point.request.background)
            if also is not None and configured not in had:
                also(point.request)
                had.add(configured)
        except MissingOnTestbed as exc:
            needs[exc.need] = None
            lacking = lacking or _placed(exc, plan, point, path, data, file)
        except ConfigError as exc:
            raise _placed(exc, plan, point, path, data, file) from None
    _refuse_mixed_set_ups(plan, inventory, elsewhere, lambda exc, point: _placed(exc, plan, point, path, data, file))
    if needs:
        line, key, value = (lacking.line, lacking.key, lacking.value) if lacking is not None else (None, None, None)
        if absent:
            first = next(point for point in plan.points if point.request.platform in absent)
            where = _location(plan, first, "platform", file)
            line, key, value = find_line(data, where) if data is not None else None, None, None
        name = str(path) if path else None
        raise OtherTestbed(list(needs), has=describe_testbed(inventory), file=name, line=line, key=key, value=value)
    return plan


def platforms_needed(names: Sequence[str]) -> str:
    """``platform xen``, ``platforms xen, kvm``."""
    return f"platform{'s' if len(names) > 1 else ''} {', '.join(names)}"


def describe_testbed(inventory: Inventory) -> list[str]:
    """The parts of a testbed that plans most often lack."""
    streams = inventory.streams
    fastest = format_rate_bps(max(stream.link_speed_bps for stream in streams))
    many = f"{len(streams)} stream{'s' if len(streams) > 1 else ''} of at most {fastest}"
    return [platforms_needed(list(inventory.platforms)), many]


def _placed(
    exc: ConfigError, plan: Plan, point: PlannedPoint, path: Path | None, data: Any, file: PlanFile | None
) -> ConfigError:
    """Add the place in the file to an error about a point."""
    where = _location(plan, point, exc.key or "", file)
    return ConfigError(
        exc.message,
        file=str(path) if path else None,
        line=find_line(data, where) if data is not None else None,
        key=key_text(where),
        value=exc.value,
        allowed=exc.allowed,
    )


def _refuse_mixed_set_ups(
    plan: Plan,
    inventory: Inventory,
    elsewhere: Collection[str],
    placed: Callable[[ConfigError, PlannedPoint], ConfigError],
) -> None:
    """Refuse points of one platform x background that need different set-ups: a block sets it up once for all.

    A second guest has a stream of its own if the sources leave one free. Without one it is a different second guest, so
    its points belong neither into this set-up nor into a mean with the others.
    """
    if plan.set_ups is None or not plan.grid:
        return
    first: dict[Configuration, PlannedPoint] = {}
    for point in plan.points:
        if point.request.platform in elsewhere:
            continue
        before = first.setdefault(configuration(point.request), point)
        request = point.request
        stream, stream_before = (set_up_key(each, inventory).second_stream for each in (request, before.request))
        if stream == stream_before:
            continue
        guests = {
            sources: "without a stream of its own" if own is None else f"with stream {own}"
            for sources, own in ((before.request.sources, stream_before), (request.sources, stream))
        }
        named = ", ".join(
            _describe_points(plan, request, sources) + f": {connection}" for sources, connection in guests.items()
        )
        message = (
            f"needs platform {request.platform} with background {request.background} to be set up again within one "
            f"set-up, because the second guest would be connected differently ({named})"
        )
        allowed = "numbers of sources that leave the second guest the same stream; put the others in a separate plan"
        raise placed(ConfigError(message, key="sources", value=request.sources, allowed=allowed), point)


def _describe_points(plan: Plan, request: DesignPoint, sources: int) -> str:
    """``points 3, 4 with 1 source``, for one platform and background."""
    wanted = configuration(request)
    indexes = [
        str(point.index)
        for point in plan.points
        if configuration(point.request) == wanted and point.request.sources == sources
    ]
    many = f"s {', '.join(indexes[:5])}{', …' if len(indexes) > 5 else ''}" if len(indexes) > 1 else f" {indexes[0]}"
    return f"point{many} with {sources} source{'s' if sources > 1 else ''}"


def find_missing_platforms(plan: Plan, inventory: Inventory) -> list[str]:
    """The platforms of a plan that a testbed lacks, in the plan's order."""
    return [name for name in plan.platforms if name not in inventory.platforms]


def _location(plan: Plan, point: PlannedPoint, key: str, file: PlanFile | None) -> tuple[str | int, ...]:
    """Where the file has the wrong value of this point."""
    factor = "duration_s" if key == "duration" else key
    if point.index >= len(plan.points):
        return ("set_ups",)  # a pilot-only point
    if plan.listed:
        listed = plan.listed[point.index]
        if file is not None and file.points is None:
            return location(file, listed, factor)
        return (*(listed.where or ("points", point.index)), factor)
    if factor not in FACTORS:
        return (factor,)
    of = FACTORS[factor]
    return (RULE_FACTORS[factor], distinct(of(each.request) for each in plan.points).index(of(point.request)))


def _refuse_empty(data: Any, path: Path) -> None:
    """Refuse an empty key that defines measurements: it would count as absent."""
    for key in GUEST_KINDS:
        if key in data and data[key] is None:
            known = KNOWN_KEYS[(PlanFile.__name__, (key,))]
            raise ConfigError(
                "is empty", file=str(path), line=find_line(data, (key,)), key=key, allowed=", ".join(known)
            )


def _refuse_half_and_half(file: PlanFile, data: Any, path: Path) -> None:
    """Require either a complete matrix or points."""
    if file.points is None:
        for key in MATRIX_NEEDS:
            if getattr(file, key) is None:
                instead = "" if key == "duration_s" or file.platforms else " (or points, instead of a matrix)"
                problem = ("is empty" if key in data else "is required") + instead
                raise ConfigError(problem, file=str(path), line=find_line(data, (key,)), key=key)
        return
    for key in (*MATRIX_KEYS, *RULE_KEYS):
        if key in file.model_fields_set:
            raise _build_error(data, path, (key,), "cannot be combined with points, which each give their own")


def _refuse_duplicates(file: PlanFile, data: Any, path: Path) -> None:
    lists: list[tuple[tuple[str | int, ...], str, Any]] = []
    for key in RULE_FACTORS.values():
        lists.append(((key,), key, getattr(file, key)))
        lists += [(("overrides", name, key), key, getattr(own, key, None)) for name, own in file.overrides.items()]
    for where, key, values in lists:
        first: dict[object, int] = {}
        for index, value in enumerate(values or ()):
            if value in first:
                place = (*where, index)
                shown = format_target(value) if key == "targets" else value
                raise ConfigError(
                    f"repeats {key}[{first[value]}]; repetitions is the key for measuring a point more often",
                    file=str(path),
                    line=find_line(data, place),
                    key=key_text(place),
                    value=shown,
                )
            first[value] = index


def _refuse_what_blocks_cannot(file: PlanFile, data: Any, path: Path) -> None:
    """Refuse options that contradict a plan in blocks."""
    if file.claims is not None and len(set(file.claims)) < len(file.claims):
        raise _build_error(data, path, ("claims",), "lists a table twice")
    if file.set_ups is None:
        return
    if searches_only(file):
        raise _build_error(data, path, ("set_ups",), "is only for plans with points, and this plan only searches")
    if file.order == "full-random":
        message = (
            "cannot be combined with set_ups, where all trials of a set-up are measured together; use blocked-random"
        )
        raise _build_error(data, path, ("order",), message)
    if file.retry.codes is not None:
        message = (
            "cannot be combined with set_ups, where a set-up is complete when every trial has had all its attempts; "
            "remove it"
        )
        raise _build_error(data, path, ("retry", "codes"), message)


def _refuse_too_large(file: PlanFile, path: Path) -> None:
    """Check the number of points before they are expanded: the matrix, each platform's own, and added points."""
    if file.points is not None:
        trials = sum(entry.repetitions or file.repetitions for entry in file.points)
    else:
        trials = 0
        for name in file.platforms or ():
            own = file.overrides.get(name)
            each = (own.repetitions if own else None) or file.repetitions
            for key in ("backgrounds", "sources", "frame_sizes", "targets"):
                each *= len((getattr(own, key) if own else None) or getattr(file, key))
            trials += each
        for entry in file.include:
            each = entry.repetitions or file.repetitions
            for values in (entry.platform or file.platforms, entry.background, entry.sources, entry.frame_size):
                each *= len(values or ())
            trials += each * len(entry.target)
    if (trials := trials * (file.set_ups or 1)) > MAX_TRIALS:
        raise _too_large(path, trials)


def _too_large(path: Path, trials: int) -> ConfigError:
    return ConfigError("the plan has too many trials", file=str(path), value=trials, allowed=f"at most {MAX_TRIALS}")
