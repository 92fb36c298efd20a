"""How busy processors are, where an operator looks for it: driven by keys."""

from __future__ import annotations

import pytest

from labconsole.engine.live.telemetry import Telemetry
from labconsole.tui.parts.node_text import processors_line
from labconsole.wire.processors import ProcessorsSampled, ProcessorUse
from support.driven_console import SIZES, console, text, until
from support.fake_session import FakeSession

pytestmark = pytest.mark.asyncio


def busy(telemetry: Telemetry, node: str, *, elapsed_s: float = 1.0) -> None:
    telemetry.set_processors(
        node,
        ProcessorsSampled(
            monotonic_ns=1,
            wall_ns=1,
            elapsed_ns=round(elapsed_s * 1e9),
            processors=4,
            busiest_number=2,
            mean=ProcessorUse(busy=0.34, softirq=0.25, steal=0.0),
            busiest=ProcessorUse(busy=0.98, softirq=0.97, steal=0.0),
        ),
    )


async def test_a_line_says_what_is_known_of_each_node() -> None:
    telemetry = FakeSession().telemetry

    def line(width: int = 80) -> str:
        return "".join(words for words, _ in processors_line(telemetry, ["uut", "src1", "uut"], width))

    busy(telemetry, "uut")
    assert line() == " cpu now  uut 34 % · busiest 98 % softirq  src1 –"
    assert line(20) == " cpu now  + 2 more"
    busy(telemetry, "uut", elapsed_s=12)
    assert "softirq, over 12" in line()
    telemetry.mark_quiet("uut", True)
    assert line() == " cpu now  uut quiet  src1 –"


@pytest.mark.parametrize("size", SIZES[1:])
async def test_nodes_have_them_in_a_column(size: tuple[int, int]) -> None:
    async with console(FakeSession, size) as (app, session, pilot):
        busy(session.telemetry, "uut")
        await pilot.press("6")
        await until(pilot, lambda: "34 · 98 softirq" in text(app))
        row = next(line for line in text(app).splitlines() if "src1" in line and "connected" in line)
        assert " – " in row
