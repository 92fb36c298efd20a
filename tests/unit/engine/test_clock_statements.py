"""What is stated of nodes' clocks: who is asked for it, and what a check makes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.check import clocks
from labconsole.engine.check.result import CheckFinding
from labconsole.engine.trial.recorder import node_facts, read_clock_statements
from labconsole.errors import AgentError
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.model.record.extensions import ClockStatement
from labconsole.wire.clocks import KeptClock, ReadClockKeeper
from labconsole.wire.facts import NodeFacts
from support.asking import partly
from support.testbeds import GOOD

KEPT = KeptClock(error_ns=90, reference="a", is_reference=False)


class Link:
    """A node that has its clock 3 µs ahead of ours, to a microsecond."""

    round_trip_s, clock_offset_ns, clock_error_ns = 0.000002, 3000, 1000

    def __init__(self, name: str, said: KeptClock | None) -> None:
        self.name, self.said, self.asked = name, said, list[str]()

    async def ask(self, request: Any, *, timeout_s: float) -> KeptClock:
        assert isinstance(request, ReadClockKeeper)
        self.asked.append(request.keeper)
        if self.said is None:
            raise AgentError(self.name, "chronyd is not synchronised", code="not_told", operation=request.op)
        return self.said


def hosts(tmp_path: Path, source: str, sink: str) -> Inventory:
    path = tmp_path / "hosts.yaml"
    path.write_text(GOOD.replace("[source]", f"[source]{source}").replace("[sink]", f"[sink]{sink}"))
    return load_inventory(path)


def test_only_nodes_that_hosts_yaml_names_are_asked(tmp_path: Path) -> None:
    links = {name: Link(name, KEPT) for name in ("src1", "uut", "snk1")}
    found = asyncio.run(read_clock_statements(hosts(tmp_path, "", ""), links))  # type: ignore[arg-type]
    assert found == {} and not any(link.asked for link in links.values())
    inventory = hosts(tmp_path, ", clock_error_ns: 500", ", clock_keeper: ptp4l")
    found = asyncio.run(read_clock_statements(inventory, links))  # type: ignore[arg-type]
    assert [links[name].asked for name in ("src1", "uut", "snk1")] == [[], [], ["ptp4l"]]
    assert found == {
        "src1": ClockStatement(by="declared", error_ns=500),
        "snk1": ClockStatement(by="ptp4l", error_ns=90, reference="a", is_reference=False),
    }
    kept = node_facts(links, {}, found)  # type: ignore[arg-type]
    assert kept["snk1"]["clock_stated"] == {"by": "ptp4l", **KEPT.to_wire(), "refused": None}
    assert "clock_stated" not in kept["uut"] and kept["uut"]["clock_offset_ns"] == 3000


def test_a_program_that_tells_nothing_ends_nothing(tmp_path: Path) -> None:
    links = {"snk1": Link("snk1", None)}
    found = asyncio.run(read_clock_statements(hosts(tmp_path, "", ", clock_keeper: chrony"), links))  # type: ignore[arg-type]
    assert found == {"snk1": ClockStatement(by="chrony", refused="chronyd is not synchronised")}


@pytest.mark.parametrize(("keeper", "package"), [("chrony", "chrony"), ("ptp4l", "linuxptp")])
def test_what_a_check_says_to_do_begins_with_what_may_not_be_installed(
    tmp_path: Path, keeper: str, package: str
) -> None:
    inventory = hosts(tmp_path, "", f", clock_keeper: {keeper}")
    links = {name: Link(name, None) for name in ("src1", "snk1")}
    bench: Any = SimpleNamespace(
        inventory=inventory, links=links, link=links.__getitem__, streams=lambda: inventory.streams
    )

    async def run() -> CheckFinding:
        return await clocks.stated(bench, "snk1")

    hint = asyncio.run(run()).hint
    assert hint is not None and hint.startswith(f"on snk1: apt install {package}, ")


@pytest.mark.parametrize(
    ("source", "sink", "said", "apart_ns", "status", "words"),
    [
        ("", "", None, 0, "skipped", "labconsole compares the clocks itself"),
        (
            ", clock_error_ns: 500",
            ", clock_keeper: chrony",
            KEPT,
            0,
            "pass",
            "off by at most 90 ns (chrony); to src1's 590 ns (stated)",
        ),
        ("", ", clock_keeper: chrony", None, 0, "warn", "chrony tells nothing: chronyd is not synchronised"),
        (", clock_error_ns: 500", ", clock_error_ns: 500", None, 9000, "warn", "at least 7000 ns apart"),
    ],
)
def test_a_check_lays_what_is_stated_beside_what_is_measured(
    tmp_path: Path, source: str, sink: str, said: KeptClock | None, apart_ns: int, status: str, words: str
) -> None:
    inventory = hosts(tmp_path, source, sink)
    links = {name: Link(name, said) for name in ("src1", "snk1")}
    links["snk1"].clock_offset_ns += apart_ns

    async def facts(node: str) -> NodeFacts:
        return partly(NodeFacts, {"boot_id": node})

    bench: Any = SimpleNamespace(
        inventory=inventory, links=links, link=links.__getitem__, facts=facts, streams=lambda: inventory.streams
    )

    async def run() -> CheckFinding:
        return await clocks.stated(bench, "snk1")

    found = asyncio.run(run())
    assert (found.status, words in found.evidence) == (status, True), found
