"""The kernel as witness on a second kernel: Debian's, in an emulated machine, with every way of dropping it can provoke.

Run as a program it is what runs inside that machine, as root in no namespace: it prints a line of JSON for each row.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from tables import NO, YES, Deadline, Table

from labconsole.agent.bpf.kernel import read_symbols
from labconsole.agent.processes import linux
from labconsole.agent.reading.clocks import ClockOffset
from labconsole.agent.reading.kernel_drops import DropCounter, read_layout, reason_name
from labconsole.agent.reading.packet_times import PacketTimer
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.wire.packet_times import StreamToTime
from support.bpf_programs import programs
from support.drop_chain import CASES, SINK_IP, SOURCE_IP, DropCase, DropChain

PACKETS = 1000
ROWS, ERRORS, ENDED = "/run/rows", "/run/errors", "/run/ended"
ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("what", "whose counter", "truth", "by the kernel", "as what", "as it must be")


def drops_and_times(deadline: Deadline) -> Table:
    """Every way of dropping, and a sink's packets, in a machine with a kernel of its own."""
    table = Table("22. Drops and times on another kernel", COLUMNS)
    if deadline.passed:
        raise TimeoutError("no time was left")
    name = f"kernel{os.getpid()}"
    lab.up(LabSpec(name=name, sources=1, uut="machine", platforms=("raw",)))
    try:
        released = lab.execute(name, "uut", ["uname", "-r"], timeout_s=60).stdout.strip()
        paths = os.pathsep.join(str(ROOT / part) for part in ("", "tests", "tools/validation"))
        program = f"PYTHONPATH={paths} PATH=/usr/sbin:/usr/bin:/sbin:/bin {sys.executable} {__file__}"
        begun = f"({program}; echo $? > {ENDED}) > {ROWS} 2> {ERRORS} < /dev/null &"
        lab.execute(name, "uut", ["sh", "-c", begun], timeout_s=60)
        while not (status := _said(name, ENDED)) and not deadline.passed:
            time.sleep(5)
        rows, errors = _said(name, ROWS), _said(name, ERRORS)
    finally:
        lab.down(name)
    fill(table, rows, released)
    if status.strip() != "0":
        table.not_done("the rest", RuntimeError(errors.strip()[-300:] or "no time was left"))
    return table


def fill(table: Table, rows: str, released: str) -> None:
    """From what was printed inside the machine."""
    for line in rows.splitlines():
        *row, right = json.loads(line)
        failure = None if right else f"{row[0]}: {row[2]} by {row[1]}, {row[3]} by the kernel ({row[4]})"
        table.add(*row, YES if right else NO, failure=failure)
    exact = sum(row[-1] == YES for row in table.rows)
    table.summary = f"{exact} of {len(table.rows)} rows exact, on Linux {released} in an emulated machine; {PACKETS} packets sent for each."


def _said(name: str, path: str) -> str:
    """What stands in a file of the machine; empty where there is none."""
    return lab.execute(name, "uut", ["sh", "-c", f"cat {path} 2>/dev/null; true"], timeout_s=60).stdout


def main() -> int:
    """Inside."""
    for case in CASES:
        _tell(*_dropped(case))
    _tell(*_timed())
    left = programs()
    _tell("programs that are left", "the kernel", 0, left, "", left == 0)
    return 0


def _tell(*row: object) -> None:
    print(json.dumps(row), flush=True)


def _dropped(case: DropCase) -> tuple[object, ...]:
    layout = read_layout()
    with closing(DropChain()) as chain, closing(DropCounter(layout, [chain.host.inode], [SINK_IP])) as counter:
        truth = case.provoke(chain, PACKETS)
        counter.detach()
        symbols = read_symbols()
        found: Counter[str] = Counter()
        for row in counter.rows():
            if row.stream == 0:
                word = f"{reason_name(layout, row.reason)}@{symbols.function(row.address)}"
                found[word] += row.packets
        unread = counter.totals()["unreadable_packets"]
    named = sum(found.values())
    return (
        case.name.replace("-", " "),
        case.witness,
        truth,
        named,
        ", ".join(found),
        named == truth > 0 and not unread,
    )


def _timed() -> tuple[object, ...]:
    own = StreamToTime(source_ip=SOURCE_IP, sink_ip=SINK_IP, udp_sink_port=9, interval_ns=0)
    with closing(DropChain()) as chain:
        descriptor = os.open(f"/proc/{chain.sink.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        with closing(linux.run_in_namespace(descriptor, lambda: PacketTimer("k0", [own], ClockOffset().ns))) as timer:
            sent = chain.send(PACKETS)
            timer.detach()
            (told,) = timer.counted()
        os.close(descriptor)
    words = (
        f"{told.skipped_packets} passed over, {told.late_packets} late, {sum(n for _, n in told.delay)} with a delay"
    )
    right = told.packets == sent == sum(n for _, n in told.delay) + told.negative_packets
    return ("packets timed at a sink", "the sender", sent, told.packets, words, right)


if __name__ == "__main__":
    raise SystemExit(main())
