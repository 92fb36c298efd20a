"""The kernel as witness: its word for every dropped packet, and the times of all that came, against who else knows."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tables import NO, YES, Deadline, Table, take

from labconsole.measure.time_histogram import TimeHistogram
from support.agent_process import AgentProcess, eventually
from support.bpf_programs import programs
from support.drop_chain import CASES, SINK_IP, SOURCE_IP, DropCase, DropChain
from support.sink_capture import SinkCapture

PACKETS = 20_000
WITHIN_NS = 2000
"""A capture stamps a packet so much earlier at most, where it is on the same processor."""

QUANTILES = (0.1, 0.5, 0.9)
LIMITED = ((50_000_000, 500), (20_000_000, 1000))
LIMITED_PACKETS = 2000
BURST = 200
"""Frames that the limit's bucket holds: 16 ms and more of a stall are made good."""
BUCKET_RATIO = 1 / 128
RATE_RATIO = 0.001
OWN = {"source_ip": SOURCE_IP, "sink_ip": SINK_IP, "udp_sink_port": 9, "interval_ns": 0}
DROPS = ("dropped how", "whose counter", "dropped", "named by the kernel", "as what", "as it must be")
TIMES = ("of what", "known beforehand", "found", "allowed", "as it must be")


def drops(deadline: Deadline) -> Table:
    """Every way of dropping that this machine can provoke."""
    table = Table("20. Reasons for drops", DROPS)
    before = programs()
    for case in CASES:
        take(table, deadline, case.name, partial(_drop, case=case))
    _nothing_left(table, before)
    exact = sum(row[-1] == YES for row in table.rows)
    table.summary = f"{exact} of {len(table.rows)} rows exact, on one kernel; each way was tried with {PACKETS} packets sent, and some drop only a part."
    return table


def _drop(table: Table, case: DropCase) -> None:
    with _chain("host") as (chain, host):
        host.ok("kernel_drops.start", sinks=[SINK_IP])
        truth = case.provoke(chain, PACKETS)
        told = host.ok("kernel_drops.stop")
    found: Counter[str] = Counter()
    right = True
    for row in told["rows"]:
        place = (row["interface"], row["function"])
        right = right and row["reason"] in case.told.get(place, ())
        found[f"{row['interface']} {row['reason']}@{row['function']}"] += row["packets"]
    named = sum(found.values())
    right = right and named == truth > 0
    said = ", ".join(found)
    failure = None if right else f"{truth} dropped, {named} named: {said}"
    words = case.name.replace("-", " ")
    table.add(words, case.witness, truth, named, said, YES if right else NO, failure=failure)


def times(deadline: Deadline) -> Table:
    """Delays against a capture beside, spacing against a token bucket, numbers against a rule's counter."""
    table = Table("21. The times of every packet", TIMES)
    before = programs()
    for what, add in (("beside a capture", _beside), ("behind a limit", _limited), ("behind a rule", _missing)):
        take(table, deadline, what, add)
    _nothing_left(table, before)
    table.summary = "All in the sink's kernel, on a way of network namespaces on this machine."
    return table


def _beside(table: Table) -> None:
    with tempfile.TemporaryDirectory() as directory, _chain("sink") as (chain, sink):
        capture = SinkCapture(chain, Path(directory) / "beside.pcap")
        sink.ok("packet_times.start", ports=[{"interface": "k0", "streams": [OWN]}])
        sent = chain.send(PACKETS)
        delays_ns = capture.delays_ns()
        stream = _stream(sink, "stop")
    _row(table, "packets", sent, stream["packets"], "equal", right=stream["packets"] == sent == len(delays_ns))
    found = TimeHistogram.of(stream["delay"])
    for ratio in QUANTILES:
        known, seen = delays_ns[int(ratio * len(delays_ns))], found.quantile_ns(ratio)
        right = abs(seen - known) <= WITHIN_NS + known * BUCKET_RATIO
        _row(
            table,
            f"p{100 * ratio:g} of the delay",
            f"{known} ns by a capture",
            f"{seen} ns",
            "± 2 µs and a bucket",
            right=right,
        )


def _limited(table: Table) -> None:
    for rate_bps, size_bytes in LIMITED:
        with _chain("sink") as (chain, sink):
            chain.tc(f"qdisc replace dev u2 root tbf rate {rate_bps}bit burst {BURST * size_bytes} limit 4mb")
            sink.ok("packet_times.start", ports=[{"interface": "k0", "streams": [OWN]}])
            chain.send(LIMITED_PACKETS, size_bytes=size_bytes)
            eventually(lambda: _came(sink) == LIMITED_PACKETS, "all have come")
            stream = _stream(sink, "stop")
        apart_ns = size_bytes * 8 * 1e9 / rate_bps
        median_ns = TimeHistogram.of(stream["spacing"]).quantile_ns(0.5)
        what = f"{size_bytes} B at {rate_bps / 1e6:g} Mbit/s"
        _row(
            table,
            f"{what}: median spacing",
            f"{apart_ns:.0f} ns",
            f"{median_ns} ns",
            "a bucket",
            right=abs(median_ns - apart_ns) <= apart_ns * 2 * BUCKET_RATIO,
        )
        # What the bucket holds leaves at once, and after a stall catches up with it.
        known_ns, seen_ns = (LIMITED_PACKETS - BURST) * apart_ns, stream["last_ns"] - stream["first_ns"]
        _row(
            table,
            f"{what}: first to last",
            f"{known_ns / 1e6:.2f} ms",
            f"{seen_ns / 1e6:.2f} ms",
            f"{RATE_RATIO:.1%}",
            right=abs(seen_ns / known_ns - 1) <= RATE_RATIO,
        )


def _missing(table: Table) -> None:
    with _chain("sink") as (chain, sink):
        chain.nft("ip", "forward", "numgen inc mod 7 0 counter drop")
        sink.ok("packet_times.start", ports=[{"interface": "k0", "streams": [OWN]}])
        sent = chain.send(PACKETS)
        dropped = chain.rule_counts()
        stream = _stream(sink, "stop")
    _row(
        table,
        "packets behind a rule",
        sent - dropped,
        stream["packets"],
        "equal",
        right=stream["packets"] == sent - dropped,
    )
    skipped = stream["skipped_packets"]
    _row(
        table,
        "numbers passed over",
        dropped,
        skipped,
        "equal, or one less: the last",
        right=dropped - 1 <= skipped <= dropped,
    )


def _stream(sink: AgentProcess, op: str) -> dict[str, Any]:
    (port,) = sink.ok(f"packet_times.{op}")["ports"]
    (stream,) = port["streams"]
    found: dict[str, Any] = stream
    return found


def _came(sink: AgentProcess) -> int:
    return sum(packets for _, packets in _stream(sink, "read")["delay"])


def _nothing_left(table: Table, before: int) -> None:
    """The kernel lets go of a closed socket's program a moment later."""
    try:
        eventually(lambda: programs() <= before, "no program is left in the kernel")
    except AssertionError:
        table.add_failure("the end", f"{programs() - before} programs were left in the kernel")


def _row(table: Table, what: str, known: object, found: object, allowed: str, *, right: bool) -> None:
    table.add(what, known, found, allowed, YES if right else NO, failure=None if right else f"found {found}")


@contextmanager
def _chain(end: str) -> Iterator[tuple[DropChain, AgentProcess]]:
    """A way of namespaces, with an agent on its ``host``, which forwards, or its ``sink``."""
    chain = DropChain()
    agent: AgentProcess | None = None
    try:
        agent = AgentProcess(getattr(chain, end))
        yield chain, agent
    finally:
        if agent is not None:
            agent.close()
        chain.close()
