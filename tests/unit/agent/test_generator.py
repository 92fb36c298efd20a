"""What a stream may ask for, and how many packets that is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from labconsole.agent.processes import children
from labconsole.agent.sending import afpacket, generator
from labconsole.wire.codec import WireError
from labconsole.wire.stream_spec import StreamSpec

GOOD: dict[str, Any] = {
    "stream": "s1",
    "interface": "eth0",
    "generator": "afpacket",
    "destination_mac": "02:00:00:00:01:02",
    "source_mac": None,
    "source_ip": "198.18.1.1",
    "sink_ip": "198.19.1.1",
    "udp_source_port": 9,
    "udp_sink_port": 9,
    "pkt_size_bytes": 60,
    "delay_ns": 10_000,
    "count": 1000,
    "duration_s": None,
    "max_count": 10**9,
    "cpus": None,
}


def spec(**changes: Any) -> StreamSpec:
    return StreamSpec.parse({**GOOD, **changes})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stream", ""),
        ("stream", 5),
        ("interface", ""),
        ("interface", "a" * 16),
        ("interface", "a/b"),
        ("interface", "eth0@1"),
        ("generator", "../iperf"),
        ("destination_mac", "02:00"),
        ("source_mac", "nonsense"),
        ("source_ip", "198.18.1"),
        ("sink_ip", "::1"),
        ("udp_source_port", 0),
        ("udp_sink_port", 65_536),
        ("pkt_size_bytes", 59),
        ("pkt_size_bytes", True),
        ("delay_ns", -1),
        ("delay_ns", 0x7FFFFFFF),
        ("delay_ns", 10**10),
        ("delay_ns", 1.5),
        ("count", 0),
        ("count", 10**9 + 1),
        ("max_count", 0),
        ("max_count", None),
        ("duration_s", 0),
        ("duration_s", float("nan")),
        ("duration_s", float("inf")),
        ("cpus", []),
        ("cpus", [-1]),
        ("cpus", ["0"]),
        ("surprise", 1),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WireError) as caught:
        spec(**{name: value})
    assert caught.value.code == "bad_message"
    assert name in caught.value.message or name == "stream"


def test_a_stream_needs_a_count_or_a_duration() -> None:
    with pytest.raises(WireError, match="a count or a duration_s"):
        spec(count=None)


def test_a_stream_that_is_no_object_is_refused() -> None:
    with pytest.raises(WireError, match="is not an object"):
        StreamSpec.parse([])


@pytest.mark.parametrize(
    ("changes", "planned"),
    [
        ({"count": 7}, (7, "count")),
        ({"count": None, "duration_s": 1.0}, (100_000, "duration")),
        ({"count": None, "duration_s": 1.0, "delay_ns": 300_000_000}, (4, "duration")),
        ({"count": 50, "duration_s": 1.0}, (50, "count")),
        ({"count": None, "duration_s": 1.0, "delay_ns": 0, "max_count": 9}, (9, "count")),
        ({"count": None, "duration_s": 1.0, "delay_ns": 1, "max_count": 9}, (9, "count")),
        ({"count": None, "duration_s": 1.0, "max_count": 9}, (9, "count")),
    ],
)
def test_the_nearest_bound_ends_a_stream(changes: dict[str, Any], planned: tuple[int, str]) -> None:
    assert spec(**changes).planned_packets() == planned


@pytest.mark.parametrize(
    ("delay_ns", "packets"), [(0, 256), (1, 256), (1_000, 100), (10_000, 10), (60_000, 1), (100_000, 1), (10**9, 1)]
)
def test_bursts_are_as_long_as_a_tenth_of_a_millisecond(delay_ns: int, packets: int) -> None:
    assert afpacket.burst_packets(delay_ns) == packets


def refused(specs: list[StreamSpec]) -> WireError:
    async def prepare() -> None:
        session = generator.GeneratorSession()
        try:
            await session.prepare(specs)
        finally:
            await session.close()

    with pytest.raises(WireError) as caught:
        asyncio.run(prepare())
    return caught.value


def test_streams_of_one_node_use_one_generator() -> None:
    assert "same generator" in refused([spec(stream="a"), spec(stream="b", generator="pktgen")]).message


def test_streams_have_names_of_their_own() -> None:
    assert "same name" in refused([spec(), spec()]).message


def test_no_stream_at_all_is_refused() -> None:
    assert refused([]).code == "bad_request"


def test_an_interface_that_does_not_exist_is_named() -> None:
    error = refused([spec(interface="nosuch0")])
    assert error.code == "bad_interface"
    assert "nosuch0: No such device" in error.message


def test_an_interface_that_is_not_ethernet_is_refused() -> None:
    error = refused([spec(interface="lo")])
    assert error.code == "bad_interface"
    assert "lo is not an Ethernet interface" in error.message


def test_a_session_that_was_not_prepared_cannot_start() -> None:
    async def start() -> None:
        await generator.GeneratorSession().start(None)

    with pytest.raises(WireError, match="no generator is prepared"):
        asyncio.run(start())


def test_asking_for_pktgen_where_there_is_none_is_an_error(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_modprobe(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError("modprobe")

    monkeypatch.setattr(children, "spawn", no_modprobe)
    monkeypatch.setattr(generator, "check_interface", lambda _spec: None)

    async def prepare() -> None:
        await generator.GeneratorSession(pktgen_root=str(tmp_path / "none")).prepare([spec(generator="pktgen")])

    with pytest.raises(WireError) as caught:
        asyncio.run(prepare())
    assert caught.value.code == "pktgen_missing"
