"""The pktgen driver on the in-memory stand-in: configuration, read-back, start, stop, results, and what it leaves."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from typing import Any

import pytest

from labconsole.agent.sending import pktgen
from labconsole.wire.codec import WireError
from labconsole.wire.stream_spec import StreamSpec
from support.fake_pktgen import FakePktgen, ThreadWriter

OWNER = f"lc{os.getpid()}"


def spec(**changes: Any) -> StreamSpec:
    args: dict[str, Any] = {
        "stream": "s1",
        "interface": "eth0",
        "generator": "pktgen",
        "destination_mac": "02:00:00:00:01:02",
        "source_mac": None,
        "source_ip": "198.18.1.1",
        "sink_ip": "198.19.1.1",
        "udp_source_port": 9,
        "udp_sink_port": 4097,
        "pkt_size_bytes": 60,
        "delay_ns": 10_000,
        "count": 1000,
        "duration_s": None,
        "max_count": 10**9,
        "cpus": None,
    }
    return StreamSpec.parse({**args, **changes})


def backend(fake: FakePktgen) -> pktgen.PktgenBackend:
    return pktgen.PktgenBackend(fake, make_writer=ThreadWriter)


async def wait_running(fake: FakePktgen) -> None:
    await asyncio.get_running_loop().run_in_executor(None, fake.wait_running)


def refusal(fake: FakePktgen, specs: list[StreamSpec]) -> WireError:
    async def prepare() -> None:
        driver = backend(fake)
        try:
            await driver.prepare(specs)
        finally:
            await driver.close()

    with pytest.raises(WireError) as caught:
        asyncio.run(prepare())
    return caught.value


def test_a_run_to_its_count_reports_pktgens_own_numbers() -> None:
    fake = FakePktgen()

    async def run() -> list[dict[str, Any]]:
        driver = backend(fake)
        prepared = await driver.prepare([spec(count=1000)])
        device = f"eth0@{OWNER}-0"
        assert prepared == [
            {
                "stream": "s1",
                "generator": "pktgen",
                "version": "2.75",
                "interface": "eth0",
                "burst_packets": 1,
                "cpus": [1],
            }
        ]
        await driver.start(None)
        await wait_running(fake)
        fake.send(device, 400, idle_us=300)
        (progress,) = driver.progress()
        assert (progress["sent_packets"], progress["errors"]) == (400, 0)
        fake.send(device, 600, errors=2)
        results = await driver.wait()
        await driver.close()
        return results

    (result,) = asyncio.run(run())
    assert (result["sent_packets"], result["errors"], result["error_text"]) == (1000, 2, None)
    assert (result["stopped_by"], result["requested_count"], result["delay_ns"]) == ("count", 1000, 10_000)
    assert (result["started_monotonic_ns"], result["stopped_monotonic_ns"]) == (1_000_000_000, 1_010_000_000)
    assert (result["elapsed_ns"], result["idle_ns"]) == (10_000_000, 300_000)
    assert result["raw"].startswith("Result: OK: 10000(c9700+d300) usec, 1000 (60byte,0frags)\n  100000pps")
    assert fake.devices() == {}


def test_the_last_frame_has_a_slot_of_its_own() -> None:
    fake = FakePktgen()

    async def run() -> dict[str, Any]:
        driver = backend(fake)
        await driver.prepare([spec(count=10, delay_ns=100_000)])
        await driver.start(None)
        await wait_running(fake)
        fake.send(f"eth0@{OWNER}-0", 10, per_packet_us=90)  # nine delays of 100 µs
        results = await driver.wait()
        await driver.close()
        return results[0]

    assert asyncio.run(run())["elapsed_ns"] == 1_000_000


def test_every_setting_is_written_and_nothing_else() -> None:
    fake = FakePktgen()
    asyncio.run(_prepare_and_close(fake, [spec(source_mac="02:00:00:00:07:01")]))
    device = f"eth0@{OWNER}-0"
    assert [line for name, line in fake.written if name == device] == [
        "pkt_size 60",
        "count 1000",
        "delay 10000",
        "clone_skb 0",
        "burst 1",
        "dst_mac 02:00:00:00:01:02",
        "src_mac 02:00:00:00:07:01",
        "src_min 198.18.1.1",
        "src_max 198.18.1.1",
        "dst_min 198.19.1.1",
        "dst_max 198.19.1.1",
        "udp_src_min 9",
        "udp_src_max 9",
        "udp_dst_min 4097",
        "udp_dst_max 4097",
        "flag QUEUE_MAP_CPU",
    ]


async def _prepare_and_close(fake: FakePktgen, specs: list[StreamSpec]) -> list[dict[str, Any]]:
    driver = backend(fake)
    try:
        return await driver.prepare(specs)
    finally:
        await driver.close()


def test_streams_get_threads_of_their_own_and_cpu_0_last() -> None:
    specs = [spec(stream=f"s{number}", interface=f"eth{number % 2}") for number in range(3)]
    prepared = asyncio.run(_prepare_and_close(FakePktgen(cpus=3), specs))
    assert [row["cpus"] for row in prepared] == [[1], [2], [0]]


def test_a_stream_runs_on_the_cpu_that_was_asked_for_and_the_others_avoid_it() -> None:
    specs = [spec(stream="a"), spec(stream="b", interface="eth1", cpus=[1])]
    prepared = asyncio.run(_prepare_and_close(FakePktgen(cpus=2), specs))
    assert [row["cpus"] for row in prepared] == [[0], [1]]


def test_streams_are_spread_over_the_cpus_that_were_asked_for() -> None:
    specs = [spec(stream=f"s{number}", cpus=[1, 2], udp_sink_port=9 + number) for number in range(3)]
    prepared = asyncio.run(_prepare_and_close(FakePktgen(cpus=3), specs))
    assert [row["cpus"] for row in prepared] == [[1], [2], [1]]


def test_two_streams_on_one_interface_are_two_devices() -> None:
    specs = [spec(stream="a"), spec(stream="b", udp_sink_port=9)]
    prepared = asyncio.run(_prepare_and_close(FakePktgen(), specs))
    assert [row["interface"] for row in prepared] == ["eth0", "eth0"]


def test_a_cpu_without_a_thread_is_refused() -> None:
    error = refusal(FakePktgen(cpus=2), [spec(cpus=[7])])
    assert error.code == "bad_request"
    assert "CPU 7" in error.message


def test_a_foreign_device_is_refused_named_and_left_alone() -> None:
    fake = FakePktgen()
    fake.write("kpktgend_1", "add_device eth1@1")
    fake.written.clear()
    error = refusal(fake, [spec()])
    assert error.code == "pktgen_in_use"
    assert "eth1@1 on kpktgend_1" in error.message
    assert "starting would start their devices, too" in error.message
    assert fake.written == []


def test_a_foreign_device_that_comes_before_the_start_is_not_started() -> None:
    fake = FakePktgen()

    async def run() -> None:
        driver = backend(fake)
        await driver.prepare([spec()])
        fake.write("kpktgend_0", "add_device eth1@0")
        try:
            with pytest.raises(WireError, match="eth1@0 on kpktgend_0"):
                await driver.start(None)
        finally:
            await driver.close()

    asyncio.run(run())
    assert ("pgctrl", "start") not in fake.written
    assert list(fake.devices()) == ["eth1@0"]


@pytest.mark.parametrize(
    ("line", "taken_as", "parameter"),
    [
        ("pkt_size 60", "pkt_size 64", "min_pkt_size"),
        ("count 1000", "count 100", "count"),
        ("delay 10000", "delay 0", "delay"),
        ("dst_min 198.19.1.1", "dst_min 198.19.1.10", "dst_min"),
        ("udp_dst_max 4097", "udp_dst_max 4098", "udp_dst_max"),
        ("dst_mac 02:00:00:00:01:02", "dst_mac 02:00:00:00:01:03", "dst_mac"),
        ("flag QUEUE_MAP_CPU", "flag UDPSRC_RND", "flags"),
    ],
)
def test_a_value_that_the_kernel_took_differently_is_found_by_reading_back(
    line: str, taken_as: str, parameter: str
) -> None:
    fake = FakePktgen()
    fake.distort[line] = taken_as
    error = refusal(fake, [spec()])
    assert error.code == "pktgen_mismatch"
    assert error.detail["parameter"] == parameter
    assert fake.devices() == {}


def test_a_number_longer_than_ten_digits_is_refused_before_it_is_cut() -> None:
    fake = FakePktgen()
    error = refusal(fake, [spec(count=10_000_000_000, max_count=10**12)])
    assert error.code == "bad_request"
    assert "10000000000 has more than 10 digits" in error.message
    assert fake.devices() == {}


def test_an_interface_that_is_down_is_named_in_words() -> None:
    fake = FakePktgen()
    fake.down.add("eth0")
    error = refusal(fake, [spec()])
    assert error.code == "pktgen_refused"
    assert "eth0" in error.message
    assert "the interface is down" in error.message


def test_a_parameter_that_is_refused_is_named_and_the_device_removed() -> None:
    fake = FakePktgen()
    fake.distort["delay 10000"] = "nosuchcommand 1"
    error = refusal(fake, [spec()])
    assert error.code == "pktgen_refused"
    assert "'delay 10000'" in error.message
    assert fake.devices() == {}


def test_an_old_kernel_without_burst_and_queue_map_is_accepted() -> None:
    fake = FakePktgen()
    fake.distort["burst 1"] = "nosuchcommand 1"
    fake.distort["flag QUEUE_MAP_CPU"] = "flag NOSUCHFLAG"
    assert asyncio.run(_prepare_and_close(fake, [spec()]))[0]["generator"] == "pktgen"


def test_streams_that_end_at_different_times_are_refused() -> None:
    error = refusal(FakePktgen(), [spec(stream="a", duration_s=1.0), spec(stream="b", duration_s=2.0)])
    assert error.code == "bad_request"
    assert "at once" in error.message


def test_permission_denied_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakePktgen()

    def read(_name: str) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(fake, "read", read)
    error = refusal(fake, [spec()])
    assert error.code == "pktgen_failed"
    assert "needs root" in error.message


def run_to(fake: FakePktgen, stream: StreamSpec, action: Any) -> dict[str, Any]:
    """Prepare, start, let ``action(driver, device)`` act on the running device, and return the result."""

    async def run() -> dict[str, Any]:
        driver = backend(fake)
        try:
            await driver.prepare([stream])
            await driver.start(None)
            await wait_running(fake)
            await action(driver, f"eth0@{OWNER}-0")
            return (await asyncio.wait_for(driver.wait(), 10))[0]
        finally:
            await driver.close()

    result = asyncio.run(run())
    assert fake.devices() == {}
    return result


def test_stopping_early_is_no_error() -> None:
    fake = FakePktgen()

    async def action(driver: pktgen.PktgenBackend, device: str) -> None:
        fake.send(device, 10)
        await driver.stop()
        await driver.stop()

    result = run_to(fake, spec(), action)
    assert (result["stopped_by"], result["sent_packets"], result["error_text"]) == ("stopped", 10, None)
    assert ("pgctrl", "stop") not in fake.written  # it would block on an old kernel


def test_a_stop_before_the_kernels_thread_has_begun_stops_it_once_it_has() -> None:
    fake = FakePktgen()
    fake.lag = True

    async def run() -> dict[str, Any]:
        driver = backend(fake)
        try:
            await driver.prepare([spec()])
            await driver.start(None)
            while ("pgctrl", "start") not in fake.written:
                await asyncio.sleep(0.001)
            await driver.stop()
            await driver._writer.wait_end()
            waiting = asyncio.ensure_future(driver.wait())
            await asyncio.sleep(0)
            fake.begin()  # with no writer left whose death could stop it
            return (await asyncio.wait_for(waiting, 10))[0]
        finally:
            await driver.close()

    result = asyncio.run(run())
    assert (result["stopped_by"], result["error_text"]) == ("stopped", None)
    assert ("pgctrl", "stop") in fake.written
    assert fake.devices() == {}


def test_a_lost_carrier_is_an_error_although_pktgen_says_ok() -> None:
    fake = FakePktgen()

    async def action(_driver: pktgen.PktgenBackend, device: str) -> None:
        fake.send(device, 10)
        fake.lose_carrier(device)

    result = run_to(fake, spec(), action)
    assert (result["stopped_by"], result["sent_packets"]) == ("error", 10)
    assert "10 of 1000" in result["error_text"]
    assert result["raw"].startswith("Result: OK:")


def test_flat_out_runs_to_its_duration_and_is_then_stopped() -> None:
    fake = FakePktgen()
    fake.clock_us = lambda: time.monotonic_ns() // 1000

    async def action(_driver: pktgen.PktgenBackend, device: str) -> None:
        fake.send(device, 50, per_packet_us=1)

    result = run_to(fake, spec(delay_ns=0, count=None, duration_s=0.2), action)
    assert (result["stopped_by"], result["sent_packets"], result["error_text"]) == ("duration", 50, None)
    assert (f"eth0@{OWNER}-0", "count 1000000000") in fake.written  # the dead-man's bound


def test_a_paced_duration_becomes_a_count() -> None:
    fake = FakePktgen()
    fake.clock_us = lambda: time.monotonic_ns() // 1000

    async def action(_driver: pktgen.PktgenBackend, device: str) -> None:
        fake.send(device, 500_000)

    result = run_to(fake, spec(count=None, duration_s=5.0), action)
    assert (result["stopped_by"], result["sent_packets"], result["requested_count"]) == ("duration", 500_000, None)


def test_an_interface_that_vanished_leaves_its_counts_unknown() -> None:
    fake = FakePktgen()

    async def action(driver: pktgen.PktgenBackend, device: str) -> None:
        fake.lose_carrier(device)
        for devices in fake.lists.values():
            devices.clear()
        assert driver.progress()[0]["sent_packets"] is None

    result = run_to(fake, spec(), action)
    assert (result["stopped_by"], result["sent_packets"], result["elapsed_ns"]) == ("error", None, None)
    assert "has disappeared" in result["error_text"]


def test_another_text_than_ok_is_passed_on() -> None:
    fake = FakePktgen()

    async def action(_driver: pktgen.PktgenBackend, device: str) -> None:
        fake.lose_carrier(device)
        fake.devices()[device].result = "No memory"

    result = run_to(fake, spec(), action)
    assert result["stopped_by"] == "error"
    assert "No memory" in result["error_text"]


def test_closing_in_mid_run_stops_and_removes() -> None:
    fake = FakePktgen()

    async def run() -> None:
        driver = backend(fake)
        await driver.prepare([spec()])
        await driver.start(None)
        await wait_running(fake)
        await driver.close()
        await driver.close()

    asyncio.run(run())
    assert fake.devices() == {}


def test_the_start_instant_goes_to_the_writer() -> None:
    fake = FakePktgen()

    async def run() -> list[int | None]:
        driver = backend(fake)
        await driver.prepare([spec()])
        await driver.start(123)
        await wait_running(fake)
        await driver.close()
        return driver._writer.at_monotonic_ns

    assert asyncio.run(run()) == [123]
