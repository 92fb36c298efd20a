"""What a node may cost its console: memory and processor time, whatever it sends, and however often."""

from __future__ import annotations

import asyncio
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from labconsole.engine.live import samples
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.errors import NodeError
from labconsole.experiments.flow.send_measurement import SharedQueueMonitor
from labconsole.experiments.job.http_requests import parse_responses
from labconsole.measure import counts
from labconsole.measure.counts import StreamAlignment
from labconsole.nodes.channel import TAIL_BYTES, AgentSession, OutputTail
from labconsole.platforms.base.guest_shell import ask_on_console
from labconsole.platforms.base.shell import collapsed
from labconsole.platforms.drivers import esxi, openvz
from labconsole.wire.counters import CountersSampled
from labconsole.wire.execution import MAX_OUTPUT
from labconsole.wire.guests import GuestAnswer
from labconsole.wire.queues import RatesTaken
from support.background_records import REQUEST
from support.fake_session import link, make_inventory
from support.live_traffic import BEGUN_NS, OFFSETS_NS
from support.untrusted_agents import HELLO

MIB = 1 << 20
PARSED_S = 5.0
"""For the longest output that a program on a node may have."""


@contextmanager
def within(limit_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit_bytes
    finally:
        tracemalloc.stop()


def test_a_line_costs_its_length_however_small_its_packets_are() -> None:
    async def talk() -> None:
        session = AgentSession("n")
        session.data_received(HELLO + b"\n", None)
        with within(2 * MIB):
            for number in range(200_000):
                session.data_received(bytes((97, 98 + number % 16)), None)
        assert not session.ended.done()

    asyncio.run(talk())


def test_of_a_program_without_end_only_the_last_words_are_kept() -> None:
    async def talk() -> str:
        output = OutputTail()
        with within(MIB):
            for _ in range(1000):
                output.data_received(b"x" * 65536, None)
                output.data_received(b"y" * 65536, 1)
            output.data_received(b"3.8", None)
        return output.text

    assert asyncio.run(talk()) == "x" * (TAIL_BYTES - 3) + "3.8"


def test_no_answer_of_a_guest_takes_long_to_read() -> None:
    class Uut:
        name = "uut"

        async def ask(self, request: Any, *, timeout_s: float) -> GuestAnswer:
            mark = re.search(r"'<'(\w+);", request.line)
            assert mark is not None
            return GuestAnswer.parse({"printed": (f"<{mark[1]}\n" * MAX_OUTPUT)[:MAX_OUTPUT]})

    begun_s = time.process_time()
    with pytest.raises(NodeError, match="did not answer completely"):
        asyncio.run(cast(Any, ask_on_console("g1")(cast(Any, Uut()), "true")))
    assert time.process_time() - begun_s < PARSED_S


GETALLVMS = "Vmid Name File Guest OS Version Annotation\n"


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_responses, f"LCGET {'1' * 19} {'2' * 19} " + "a GOT 200 1 " * MAX_OUTPUT),
        (parse_responses, f"LCGET {'1' * 19} {'2' * 19} " + " ST 1" * MAX_OUTPUT + "x"),
        (esxi.registered, GETALLVMS + (("1 a" + " [] x.vmx" * 300)[:1999] + "\n") * 600),
        (openvz._SETTING.findall, ("\n" * 99 + "-") * 11_000),
    ],
    ids=["requests", "requests without end", "getallvms", "settings of a container"],
)
def test_no_output_of_a_program_takes_long_to_parse(parse: Callable[[str], object], text: str) -> None:
    begun_s = time.process_time()
    parse(collapsed(text[:MAX_OUTPUT]))
    assert time.process_time() - begun_s < PARSED_S


def test_a_row_with_many_brackets_is_still_read_where_its_file_column_is() -> None:
    head = "Vmid   Name      File                      Guest OS      Version   Annotation\n"
    row = "7      [a] [b]   [ds] fw/fw.vmx            debian_64     vmx-13    " + "[note] " * 200 + "\n"
    found = esxi.registered(head + row)
    assert found is not None and found[1] == []
    assert [(each.name, each.file) for each in found[0]] == [("[a] [b]", "/vmfs/volumes/ds/fw/fw.vmx")]


# --- what a node says often


def test_reports_that_wait_for_the_other_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_PENDING", 100)
    silent_sink, silent_source = StreamAlignment(), StreamAlignment()
    for each in (silent_sink, silent_source):
        each.begin(0)
    for number in range(1, 1000):
        silent_sink.sent(number, number)
        silent_source.received(number, number)
    assert len(silent_sink._sent) == len(silent_source._waiting) == 100
    silent_sink.received(50, 40)
    assert [each.at_ns for each in silent_sink.ready()] == [50], "what was kept is still aligned"
    assert silent_sink.sent(1000, 1000), "and there is room again"


def test_rows_of_a_stream_are_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MAX_SERIES_ROWS", 50)
    inventory, telemetry = make_inventory(), Telemetry()
    for name in inventory.nodes:
        telemetry.nodes[name] = NodeLive(name, ())
        telemetry.set_links(name, [link("eth1", 3)])
    live = LiveStreams(telemetry, inventory, OFFSETS_NS)
    live.begin(inventory.streams[0], replace(REQUEST, duration_s=10), "afpacket")
    live.begin_sending(BEGUN_NS)
    for number in range(1, 200):
        at_ns = BEGUN_NS + OFFSETS_NS["snk1"] + number * 3_000_000_000
        values = {"": [[3, 23, [number] * 23]]}
        told = {"monotonic_ns": at_ns, "wall_ns": 1, "missed": 0, "late": False, "namespaces": values}
        event = CountersSampled.parse(told)
        telemetry.add_counters("snk1", event)
        live.add_counters("snk1", event)
    kept = live.series().tables
    assert {len(column) for column in kept["streams"].values()} == {50}
    assert live.rows_not_kept > 200, "of the stream, and of the interface"


def test_weights_take_effect_once_each_whatever_the_uut_says() -> None:
    class Changing:
        rates_bps = ((1,), (2,))
        every_s = 1.0

    class Watch:
        def __init__(self) -> None:
            self.marks: list[str] = []

        def mark(self, at_ns: int, words: str) -> None:
            self.marks.append(words)

    class Weights:
        steps = ("3:1", "1:3")

    watch = Watch()
    uut, changing, weights, watching = (cast(Any, each) for each in (None, Changing(), Weights(), watch))
    looks = SharedQueueMonitor(uut, changing, weights, watching, lambda: None)
    for place in (0, 0, 0, 5, 1, 0, 1, 7):
        looks.hear(RatesTaken(queue="lcqw", place=place, taken_ns=place, rates_bps=[]))
    assert len(watch.marks) == 2
