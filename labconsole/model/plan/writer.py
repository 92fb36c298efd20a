"""Writes measured trials as a plan that repeats them: exactly the measured points, each as often as before.

The points form a matrix if possible, else a list, so that no other point is added.
"""

from __future__ import annotations

import os
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ruamel.yaml import YAML

from labconsole.errors import ConfigError
from labconsole.model.design_point import INCLUDES_FCS, DesignPoint
from labconsole.model.inventory import NAME, Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.points import FACTORS, ListedPoint, distinct, factors, find_matrix_factors
from labconsole.model.tolerances import Tolerances
from labconsole.text.sanitize import sanitize
from labconsole.units import format_target

LINE = 120

Done = tuple[DesignPoint, int]
"""A requested trial, and the number of times."""


def plan_from_requests(name: str, done: Sequence[Done], inventory: Inventory) -> Plan:
    """A plan of exactly these points. Raises ConfigError without points or for an invalid name.

    It has the testbed's current waits, so that a repetition waits as long.
    """
    if not NAME.match(name):
        raise ConfigError(
            "is not a usable name", key="plan", value=name, allowed="letters, digits, '_', '.', '-', at most 64"
        )
    if not done:
        raise ConfigError("nothing has been measured yet, so there is no plan to save")
    repetitions: Counter[DesignPoint] = Counter()
    for request, count in done:
        repetitions[request] += count
    requests = sorted(repetitions, key=_nesting(list(repetitions)))
    listed = tuple(_build_listed_point(request, repetitions[request]) for request in requests)
    first = requests[0]
    # A matrix repeats all its points equally often.
    matrix = len(set(repetitions.values())) == 1 and find_matrix_factors(requests) is not None
    alike = len({(r.generator, r.observe) for r in requests}) == 1
    return Plan(
        name=name,
        order="blocked-random",
        seed=1,
        settle_s=inventory.defaults.settle_s,
        drain_s=inventory.defaults.drain_s,
        generator=first.generator if alike else None,
        observe=first.observe if alike else None,
        max_redo=2,
        tolerances=Tolerances(),
        listed=() if matrix else listed,
        **factors(listed),
    )


def _build_listed_point(point: DesignPoint, repetitions: int) -> ListedPoint:
    exact = replace(point, duration_s=float(point.duration_s))
    return ListedPoint(point=exact, repetitions=repetitions, generator=point.generator, observe=point.observe)


def _nesting(requests: Sequence[DesignPoint]) -> Callable[[DesignPoint], tuple[int, ...]]:
    """The order of a matrix over the values as they first occurred: platform slowest, target fastest."""

    places = [{v: i for i, v in enumerate(distinct(map(of, requests)))} for of in FACTORS.values()]
    return lambda request: tuple(at[of(request)] for at, of in zip(places, FACTORS.values(), strict=True))


def plan_text(plan: Plan, remarks: Sequence[str] = ()) -> str:
    """A plan as commented YAML. ``remarks`` go to the top of the file."""
    lines = [f"# {line}" for remark in remarks for line in textwrap.wrap(sanitize(remark), LINE - 2)]
    lines += [f"# {plan.trials} trials of {len(plan.points)} points. Every key is explained in docs/plans.md."]
    lines += [f"plan: {_word(plan.name)}", ""]
    if plan.listed:
        rows, shared = _point_rows(plan)
        lines += ["# Exactly these points; what a line leaves out is given below.", "points:", *rows, ""]
    else:
        shared = {"duration_s", "repetitions", INCLUDES_FCS, "generator", "observe"}
        lines += ["# The factors. Every combination is one point."]
        for key, values in (
            ("platforms", tuple(_word(name) for name in plan.platforms)),
            ("backgrounds", plan.backgrounds),
            ("sources", plan.sources),
            ("frame_sizes", distinct(frame.bytes for frame in plan.frames)),
            ("targets", tuple(format_target(target) for target in plan.targets_bps)),
        ):
            lines += textwrap.wrap(
                f"{key}: [{', '.join(str(value) for value in values)}]",
                LINE,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        lines.append("")
    sample = plan.points[0].request
    said: list[tuple[str, object, str]] = [
        ("duration_s", f"{sample.duration_s:.12g}", "of traffic, per trial"),
        ("repetitions", plan.repetitions_of(0), _describe_repetitions(plan)),
        (
            INCLUDES_FCS,
            str(sample.frame.includes_fcs).lower(),
            "frame sizes with the check sequence?",
        ),
        ("generator", sample.generator, "pktgen, afpacket, or auto for what a node has"),
        ("observe", sample.observe, "quiet: the unit under test sends nothing while it is measured; live: it does"),
    ]
    margin = None if plan.margin_ratio is None else f"{plan.margin_ratio * 100:.12g}%"
    rest: list[tuple[str, object, str]] = [
        ("set_ups", plan.set_ups, "blocks, each setting up every platform and background once; raise it for more"),
        ("margin", margin, "a difference that does not matter"),
        (
            "claims",
            None if plan.claims is None else f"[{', '.join(plan.claims)}]",
            "the tables that may draw conclusions",
        ),
        ("order", plan.order, "as-listed measures the points of each platform in the order given here"),
        ("seed", plan.seed, "seed of the random order"),
        ("settle_s", None if plan.settle_s is None else f"{plan.settle_s:.12g}", "pause after a trial"),
        ("drain_s", None if plan.drain_s is None else f"{plan.drain_s:.12g}", "shortest wait for late packets"),
        ("drop_reasons", plan.drop_reasons, "whether the unit under test's kernel says why it drops packets"),
        ("packet_times", plan.packet_times, "whether the sinks' kernels time every packet"),
        ("max_redo", plan.max_redo, "how often an invalid trial is repeated"),
    ]
    for key, value, remark in [each for each in said if each[0] in shared] + rest:
        if value is not None:
            lines.append(f"{f'{key}: {value}':<32}# {remark}")
    return "\n".join(lines) + "\n"


def _describe_repetitions(plan: Plan) -> str:
    if plan.set_ups is not None:
        return "trials per point in every set-up"
    return "trials per point; if you raise it later, only the new ones are measured"


def _point_rows(plan: Plan) -> tuple[list[str], set[str]]:
    """One line per point, and the shared keys, which are written once."""
    entries = []
    for point in plan.points:
        r = point.request
        entries.append(
            {
                "platform": _word(r.platform),
                "frame_size": str(r.frame.bytes),
                "target": format_target(r.wish),
                "sources": str(r.sources),
                "background": r.background,
                "duration_s": f"{r.duration_s:.12g}",
                "repetitions": str(plan.repetitions_of(point.index)),
                INCLUDES_FCS: str(r.frame.includes_fcs).lower(),
                "generator": r.generator,
                "observe": r.observe,
            }
        )
    always = ("platform", "frame_size", "target", "sources")
    own = ("duration_s", "repetitions", INCLUDES_FCS, "generator", "observe")
    shared = {key for key in own if len({entry[key] for entry in entries}) == 1}
    shown = [
        key
        for key in entries[0]
        if key in always or (key not in shared and (key in own or any(e[key] != "none" for e in entries)))
    ]
    return ["  - {" + ", ".join(f"{key}: {entry[key]}" for key in shown) + "}" for entry in entries], shared


def _word(name: str) -> str:
    """A name quoted for YAML where needed: 12 and 2026-01-02 would be read as a number and a date."""
    return name if YAML(typ="safe", pure=True).load(name) == name else f'"{name}"'


def write_plan(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a complete plan file or none. Raises ConfigError; an existing file is only replaced with ``overwrite``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        staged = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            staged.chmod(0o644)  # mkstemp's 0600 would keep colleagues from replaying it
            if overwrite:
                staged.replace(path)
            else:
                _link(staged, path)
        finally:
            staged.unlink(missing_ok=True)
    except OSError as exc:
        raise ConfigError(f"cannot write this file: {exc.strerror or exc}", file=str(path)) from exc


def _link(staged: Path, path: Path) -> None:
    """Give the file its name. Unlike a rename, this fails if the name exists."""
    try:
        os.link(staged, path)
    except FileExistsError:
        raise ConfigError("this plan already exists; choose another name", file=str(path)) from None
