"""Ceilings that may only fall: what the house has too much of is counted, and a change that adds to it fails here.

When a change takes some away, the test says so, and the number below is lowered with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "labconsole"
LINES_OF_A_MODULE = 700

LONGER: dict[str, int] = {}
"""Modules above the limit and their lines today."""

MODULES_AT_THE_ROOT = 5
NAMING_THE_FCS = 8
"""Modules that spell ``frame_size_includes_fcs``: a frame size is one thing."""

UNTYPED = {"contracts": 1, "engine": 4, "nodes": 5, "platforms": 2, "verdict": 0}
"""``dict[str, Any]`` in these rooms: what crosses them should be checked at the door, and an object from there on."""

CIRCLES = 0
"""Dependencies between siblings that would have to go for no circle to be left, imports inside functions included."""


def modules() -> Iterator[tuple[str, str]]:
    """Path below the package, and text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path.read_text()


def held(what: str, now: int, ceiling: int) -> None:
    """A ceiling that is touched exactly."""
    assert now <= ceiling, f"{what}: {now}, and no more than {ceiling} are allowed"
    assert now == ceiling, f"{what}: only {now} are left; lower the ceiling from {ceiling}"


def test_no_module_grows_beyond_the_limit_or_beyond_what_it_was():
    lines = {name: text.count("\n") for name, text in modules()}
    longer = {name: count for name, count in lines.items() if count > LINES_OF_A_MODULE}
    assert set(longer) <= set(LONGER), f"above {LINES_OF_A_MODULE} lines: {sorted(set(longer) - set(LONGER))}"
    assert set(LONGER) <= set(longer), f"no longer above: {sorted(set(LONGER) - set(longer))}; take them off the list"
    grown = {name: (LONGER[name], count) for name, count in longer.items() if count > LONGER[name]}
    assert not grown, f"were long and have grown: {grown}"


def test_the_root_takes_no_further_modules():
    held("modules at the root", len(list(PACKAGE.glob("*.py"))), MODULES_AT_THE_ROOT)


def test_a_frame_size_is_spelled_out_in_ever_fewer_modules():
    held("modules", sum("frame_size_includes_fcs" in text for _, text in modules()), NAMING_THE_FCS)


@pytest.mark.parametrize("room", UNTYPED)
def test_fewer_dictionaries_of_anything_cross_a_room(room: str):
    found = sum(len(re.findall(r"dict\[str, Any\]", text)) for name, text in modules() if name.startswith(f"{room}/"))
    held(f"dict[str, Any] in {room}", found, UNTYPED[room])


def test_no_further_circles():
    graph = grimp.build_graph("labconsole", cache_dir=None)
    packages = {"labconsole"} | {name.rpartition(".")[0] for name in graph.modules if name != "labconsole"}
    breakers = {package: graph.nominate_cycle_breakers(package) for package in sorted(packages)}
    held("dependencies that close a circle", sum(map(len, breakers.values())), CIRCLES)
