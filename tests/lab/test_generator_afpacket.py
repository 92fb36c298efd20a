"""The agent's own sender on real veth pairs, each in a network namespace made for one test.

A test runs one of the functions below in a process of its own (``python test_generator_afpacket.py NAME``) under
``unshare``; what the function prints as JSON is what the test judges.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import errno
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from labconsole.agent.sending.generator import GeneratorSession  # noqa: E402
from labconsole.packets.frame import MAGIC, FrameTemplate  # noqa: E402
from labconsole.wire.stream_spec import StreamSpec  # noqa: E402

SOURCE_MAC, SINK_MAC = "02:00:00:00:06:01", "02:00:00:00:01:02"
SHAPED = {"noqueue": None, "pfifo": "pfifo limit 1000"}
"""Without a queueing discipline frames go through AF_XDP where the kernel has it, else through sendmmsg."""


def in_namespace(scenario: str, *args: str, timeout_s: float = 30) -> Any:
    from support.requirements import require, require_namespaces

    require("ip", "tc", "unshare")
    require_namespaces()
    flags = ["--net"] if os.geteuid() == 0 else ["--net", "--user", "--map-root-user"]
    done = subprocess.run(
        ["unshare", *flags, sys.executable, __file__, scenario, *args],
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# -- inside the namespace ---------------------------------------------------------------------------------------------


def sh(command: str) -> None:
    subprocess.run(command, shell=True, check=True)


def make_link(qdisc: str | None = None) -> None:
    sh(f"ip link add s address {SOURCE_MAC} type veth peer name r address {SINK_MAC}")
    for name in ("s", "r"):  # no neighbour discovery of IPv6 among the frames
        sh(f"ip link set {name} addrgenmode none && ip link set {name} up")
    if qdisc:
        sh(f"tc qdisc add dev s root {qdisc}")


def rx_packets() -> int:
    shown = subprocess.run(["ip", "-s", "-j", "link", "show", "r"], capture_output=True, check=True).stdout
    return int(json.loads(shown)[0]["stats64"]["rx"]["packets"])


def spec(**changes: Any) -> StreamSpec:
    args: dict[str, Any] = {
        "stream": "s1",
        "interface": "s",
        "generator": "afpacket",
        "destination_mac": SINK_MAC,
        "source_mac": None,
        "source_ip": "198.18.1.1",
        "sink_ip": "198.19.1.1",
        "udp_source_port": 9,
        "udp_sink_port": 9,
        "pkt_size_bytes": 60,
        "delay_ns": 0,
        "count": None,
        "duration_s": None,
        "max_count": 10**8,
        "cpus": None,
    }
    return StreamSpec.parse({**args, **changes})


@contextlib.contextmanager
def receiver() -> Any:
    """A raw socket with room for a whole test, read when the test is over."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as sock:
        # SO_RCVBUFFORCE: not for an unprivileged user, whose tests send fewer frames.
        with contextlib.suppress(PermissionError):
            sock.setsockopt(socket.SOL_SOCKET, 33, 100 << 20)
        sock.bind(("r", 0x0800))
        sock.setblocking(False)
        yield sock


def received(sock: socket.socket) -> list[bytes]:
    frames = []
    while True:
        try:
            frames.append(sock.recv(2048))
        except BlockingIOError:
            return frames
        except OSError as exc:  # the link went down in between: told once, what came before is still there
            if exc.errno != errno.ENETDOWN:
                raise


async def run_session(specs: list[StreamSpec], action: Any = None) -> dict[str, Any]:
    session = GeneratorSession()
    try:
        prepared = await session.prepare(specs)
        await session.start(None)
        if action:
            await action(session)
        results = await asyncio.wait_for(session.wait(), 20)
    finally:
        await session.close()
    return {"prepared": prepared, "results": results}


async def until(condition: Any) -> None:
    give_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.005)


def scenario_count(qdisc: str, size: str, delay_ns: str) -> Any:
    make_link(SHAPED[qdisc])
    with receiver() as sock:
        count = min(20_000, sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 4096)
        told = asyncio.run(run_session([spec(count=count, pkt_size_bytes=int(size), delay_ns=int(delay_ns))]))
        frames = received(sock)
    sequences, wrong = [], 0
    template = FrameTemplate(
        bytes.fromhex(SINK_MAC.replace(":", "")),
        bytes.fromhex(SOURCE_MAC.replace(":", "")),
        "198.18.1.1",
        "198.19.1.1",
        9,
        9,
        int(size),
    )
    for frame in frames:
        magic, sequence, seconds, microseconds = struct.unpack_from("!IIII", frame, 42)
        sequences.append(sequence)
        wrong += frame != template.frame(sequence, seconds * 10**9 + microseconds * 1000) or magic != MAGIC
        wrong += abs(seconds - time.time()) > 60
    return {
        **told,
        "count": count,
        "in_order": sequences == list(range(1, count + 1)),
        "received": len(frames),
        "wrong": wrong,
    }


def scenario_rate(qdisc: str, delay_ns: str) -> Any:
    make_link(SHAPED[qdisc])
    told = asyncio.run(run_session([spec(duration_s=2.0, delay_ns=int(delay_ns))]))
    return {**told, "received": rx_packets()}


def scenario_back_pressure() -> Any:
    make_link("tbf rate 50mbit burst 20000 limit 1000000")
    told = asyncio.run(run_session([spec(duration_s=1.0, pkt_size_bytes=1000)]))
    asyncio.run(until(lambda: rx_packets() >= told["results"][0]["sent_packets"]))
    return {**told, "received": rx_packets()}


def scenario_stop(delay_ns: str) -> Any:
    make_link()

    async def action(session: GeneratorSession) -> None:
        await until(lambda: session.progress()[0]["sent_packets"] > 0)
        await session.stop()
        await session.stop()

    told = asyncio.run(run_session([spec(duration_s=600.0, delay_ns=int(delay_ns))], action))
    return {**told, "received": rx_packets()}


def scenario_stop_before_the_instant() -> Any:
    make_link()

    async def run() -> Any:
        session = GeneratorSession()
        await session.prepare([spec(count=5)])
        await session.start(time.monotonic_ns() + 600 * 10**9)
        await session.stop()
        results = await asyncio.wait_for(session.wait(), 10)
        await session.close()
        return {"results": results}

    return {**asyncio.run(run()), "received": rx_packets()}


def scenario_start_instant() -> Any:
    make_link()

    async def run() -> Any:
        session = GeneratorSession()
        await session.prepare([spec(stream="a", count=5), spec(stream="b", count=5, udp_sink_port=10)])
        at_ns = time.monotonic_ns() + 200_000_000
        await session.start(at_ns)
        before = session.progress()
        results = await asyncio.wait_for(session.wait(), 10)
        await session.close()
        return {"results": results, "at_ns": at_ns, "before": before}

    return asyncio.run(run())


def scenario_two_on_one_interface() -> Any:
    make_link()
    specs = [spec(stream=f"s{port}", count=5000, delay_ns=20_000, udp_sink_port=port) for port in (9, 10)]
    with receiver() as sock:
        told = asyncio.run(run_session(specs))
        by_port = collections.defaultdict(list)
        for frame in received(sock):
            by_port[struct.unpack_from("!H", frame, 36)[0]].append(struct.unpack_from("!I", frame, 46)[0])
    return {**told, "in_order": {port: numbers == list(range(1, 5001)) for port, numbers in by_port.items()}}


def scenario_link_lost(qdisc: str, command: str) -> Any:
    make_link(SHAPED[qdisc])

    async def action(session: GeneratorSession) -> None:
        await until(lambda: session.progress()[0]["sent_packets"] > 100)
        sh(command)

    with receiver() as sock:
        told = asyncio.run(run_session([spec(duration_s=20.0, delay_ns=20_000)], action))
        numbers = [struct.unpack_from("!I", frame, 46)[0] for frame in received(sock)]
    return {**told, "received": len(numbers), "in_order": numbers == list(range(1, len(numbers) + 1))}


def scenario_parent_killed() -> Any:
    """A process prepares and starts a session, tells the sender's id and is killed."""
    make_link()
    with subprocess.Popen([sys.executable, __file__, "be_killed"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        sender = int(parent.stdout.readline())
        descriptor = os.pidfd_open(sender)
        before = rx_packets()
        parent.send_signal(signal.SIGKILL)
        gone = bool(select.select([descriptor], [], [], 5)[0])
    return {"gone": gone, "sent_before": before}


def scenario_be_killed() -> Any:
    async def run() -> None:
        session = GeneratorSession()
        await session.prepare([spec(duration_s=600.0)])
        await session.start(None)
        await until(lambda: session.progress()[0]["sent_packets"] > 0)
        print(session._backend._streams[0][2].pid, flush=True)
        await session.wait()

    asyncio.run(run())


def scenario_refused(size: str, command: str) -> Any:
    make_link()
    sh(command)
    from labconsole.wire.codec import WireError

    try:
        asyncio.run(run_session([spec(count=1, pkt_size_bytes=int(size))]))
    except WireError as exc:
        return {"code": exc.code, "message": exc.message}
    return None


# -- the tests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("qdisc", SHAPED)
@pytest.mark.parametrize(("size", "delay_ns"), [(60, 0), (1514, 0), (60, 10_000), (999, 25_000)])
def test_exactly_the_count_arrives_in_order_and_byte_for_byte(qdisc: str, size: int, delay_ns: int) -> None:
    told = in_namespace("count", qdisc, str(size), str(delay_ns))
    (result,) = told["results"]
    assert (result["sent_packets"], result["stopped_by"], result["error_text"]) == (told["count"], "count", None)
    assert (told["received"], told["in_order"], told["wrong"]) == (told["count"], True, 0)
    assert result["elapsed_ns"] >= told["count"] * delay_ns
    assert result["raw"] is None


@pytest.mark.alone
@pytest.mark.parametrize("qdisc", SHAPED)
@pytest.mark.parametrize("delay_ns", [100_000, 10_000])
def test_the_offered_rate_is_the_target(qdisc: str, delay_ns: int) -> None:
    told = in_namespace("rate", qdisc, str(delay_ns))
    (result,) = told["results"]
    assert result["stopped_by"] == "duration"
    assert result["sent_packets"] == told["received"] == 2 * 10**9 // delay_ns
    # The promise is 0.5 %; a busy machine is given twice that.
    assert result["sent_packets"] / result["elapsed_ns"] == pytest.approx(1 / delay_ns, rel=0.01)


def test_a_shaped_link_throttles_the_sender_and_loses_nothing() -> None:
    told = in_namespace("back_pressure")
    (result,) = told["results"]
    assert result["errors"] == 0
    assert told["received"] == result["sent_packets"]
    # 50 Mbit/s of 1000-byte frames are 6 250 per second, and what the send buffer holds comes on top.
    assert 1000 < result["sent_packets"] < 10_000


@pytest.mark.parametrize("delay_ns", [0, 10_000, 9_000_000_000])
def test_stopping_in_mid_run_ends_the_sender_and_keeps_its_counts(delay_ns: int) -> None:
    told = in_namespace("stop", str(delay_ns))
    (result,) = told["results"]
    assert (result["stopped_by"], result["error_text"]) == ("stopped", None)
    assert told["received"] == result["sent_packets"] > 0


def test_stopping_before_the_instant_sends_nothing() -> None:
    told = in_namespace("stop_before_the_instant")
    (result,) = told["results"]
    assert (result["stopped_by"], result["sent_packets"], result["elapsed_ns"]) == ("stopped", 0, None)
    assert told["received"] == 0


def test_all_streams_begin_at_the_instant_that_was_given() -> None:
    told = in_namespace("start_instant")
    assert [row["sent_packets"] for row in told["before"]] == [0, 0]
    assert [row["monotonic_ns"] for row in told["before"]] == [None, None]
    for result in told["results"]:
        assert result["started_monotonic_ns"] >= told["at_ns"]
        assert result["sent_packets"] == 5


def test_two_streams_share_an_interface() -> None:
    told = in_namespace("two_on_one_interface")
    assert told["in_order"] == {"9": True, "10": True}


@pytest.mark.parametrize("qdisc", SHAPED)
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ip link set r down", "no carrier"),
        ("ip link set s down", "s was set down"),
        ("ip link del s", "s (has disappeared|was set down|has no carrier)"),
    ],
)
def test_a_lost_link_ends_the_run_with_a_sentence_and_the_counts(qdisc: str, command: str, words: str) -> None:
    told = in_namespace("link_lost", qdisc, command)
    (result,) = told["results"]
    assert result["stopped_by"] == "error"
    assert re.search(words, result["error_text"])
    assert told["in_order"]
    assert 100 < told["received"] <= result["sent_packets"]


def test_killing_the_agent_kills_the_sender() -> None:
    assert in_namespace("parent_killed")["gone"]


@pytest.mark.parametrize(
    ("size", "command", "code", "words"),
    [
        (1515, "true", "bad_request", "MTU 1500 allows 1514"),
        (60, "ip link set r down", "link_down", "s has no carrier"),
        (60, "ip link set s down", "link_down", "s was set down"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_starts(size: int, command: str, code: str, words: str) -> None:
    told = in_namespace("refused", str(size), command)
    assert told["code"] == code
    assert words in told["message"]


if __name__ == "__main__":
    print(json.dumps(globals()["scenario_" + sys.argv[1]](*sys.argv[2:])))
