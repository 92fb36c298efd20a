"""What of the agent needs no node: parsing, names, sentences, the promises to undo."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import struct
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pyroute2
import pytest

from labconsole.agent import capture, lease, undo
from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations import find_operations
from labconsole.agent.operations.network import NetworkChanges
from labconsole.agent.parts import OPERATIONS, Parts
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.agent.reading import counters, facts
from labconsole.agent.server import Agent
from labconsole.network import sysctl
from labconsole.wire.catalogue import messages
from labconsole.wire.codec import STAT_NAMES, WireError
from labconsole.wire.message import Request
from labconsole.wire.session import Close
from support.requirements import missing

ROOT = Path(__file__).resolve().parents[3]
SITE = str(Path(pyroute2.__file__).parents[1])


def stats_message(index: int, numbers: list[int]) -> bytes:
    body = struct.pack("=BBHII", 0, 0, 0, index, 1)
    body += struct.pack("=HH", 0, 0)[:0] + struct.pack("=HH", 4 + 8 * len(numbers), 1)
    body += struct.pack(f"={len(numbers)}Q", *numbers)
    return struct.pack("=IHHII", 16 + len(body), 92, 2, 1, 0) + body


DONE = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0)


def test_counters_of_all_interfaces_come_out_of_several_parts() -> None:
    full, other = list(range(100, 125)), list(range(200, 225))
    parts = [stats_message(1, full) + stats_message(7, other), stats_message(300, full), DONE]
    assert counters.parse_stats(parts) == [(1, tuple(full)), (7, tuple(other)), (300, tuple(full))]


def test_an_older_kernel_gives_fewer_counters_and_a_newer_one_no_unnamed_ones() -> None:
    assert counters.parse_stats([stats_message(1, [5] * 23), DONE]) == [(1, (5,) * 23)]
    assert counters.parse_stats([stats_message(1, [5] * 30), DONE]) == [(1, (5,) * len(STAT_NAMES))]


def test_of_a_sample_the_zeros_at_its_end_are_not_sent() -> None:
    parts = [stats_message(1, [256, 0, 7] + [0] * 22), stats_message(2, [0] * 23), stats_message(3, [5] * 30), DONE]
    assert counters.sampled_rows(parts) == [(1, 25, (256, 0, 7)), (2, 23, ()), (3, 25, (5,) * 25)]


def test_the_end_of_tcpdump_is_read_in_singular_and_plural() -> None:
    text = (
        "tcpdump: listening on eth1, link-type EN10MB (Ethernet), snapshot length 96 bytes\n"
        "1 packet captured\n12 packets received by filter\n"
        "3 packets dropped by kernel\n4 packets dropped by interface\n"
    )
    assert capture.parse_counts(text) == {
        "captured_packets": 1,
        "received_by_filter_packets": 12,
        "dropped_kernel_packets": 3,
        "dropped_interface_packets": 4,
    }
    running = "tcpdump: 5 packets captured, 5 packets received by filter, 0 packets dropped by kernel\n"
    assert capture.parse_counts(running)["captured_packets"] == 5


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        # What is counted is a whole line; tcpdump 4.99 and 5.0 print "Got N" and statistics that fail.
        ("Got 5\r5 packets captured\n", ["Got 5"]),
        ("5 packets captured\npcap_stats: not supported\n", ["pcap_stats: not supported"]),
        ("5 packets captured by eth0\n", ["5 packets captured by eth0"]),
        ("-5 packets dropped by kernel\n", ["-5 packets dropped by kernel"]),
        ("1,234 packets captured\n", ["1,234 packets captured"]),
        ("filter 12 packets received by filter\n", ["filter 12 packets received by filter"]),
        ("tcpdump: 5 packets captured, 7 packets lost\n", ["tcpdump: 5 packets captured, 7 packets lost"]),
    ],
)
def test_a_line_that_is_no_count_is_not_counted_but_named(text: str, unread: list[str]) -> None:
    named: list[str] = []
    counts = capture.parse_counts(text, named)
    assert (counts, named) == (
        {"captured_packets": 5} if text.endswith("packets captured\n") and "," not in text or "\npcap" in text else {},
        unread,
    )


@pytest.mark.parametrize(
    ("said", "code"),
    [
        # libpcap 1.10 and 1.11, pcap-linux.c and pcap_statustostr().
        (
            "tcpdump: listening on eth1\ntcpdump: pcap_loop: The interface disappeared\n0 packets captured\n",
            "no_such_interface",
        ),
        ("tcpdump: pcap_loop: The interface went down\n", "interface_down"),
        ("tcpdump: pcap_loop: recvfrom: Network is down\n", "interface_down"),
        ("tcpdump: eth1: Attempt to create packet socket failed - CAP_NET_RAW may be required\n", "no_permission"),
        ("tcpdump: unknown network 'x'\n", "bad_filter"),
        ("tcpdump: eth9: No such device exists\n(No such device exists)\n", "no_such_interface"),
        ("tcpdump: eth1: You don't have permission\n(socket: Operation not permitted)\n", "no_permission"),
        ("tcpdump: can't parse filter expression: syntax error\n", "bad_filter"),
        ("tcpdump: eth1: That device is not up\n", "interface_down"),
        ("tcpdump: listening on eth1\ntcpdump: Unable to write output: No space left on device\n", "no_space"),
        ("something else\n", "capture_failed"),
        ("", "capture_failed"),
    ],
)
def test_what_stopped_tcpdump_gets_a_stable_word(said: str, code: str) -> None:
    assert capture.parse_tcpdump_error(said).code == code


def test_a_signal_that_ended_tcpdump_is_named() -> None:
    assert "signal 9" in capture.parse_tcpdump_error("tcpdump: listening on eth1\n", -9).message


def test_it_is_known_which_signals_a_process_handles() -> None:
    # Its own handler, and for one signal that nobody sets: whoever starts the tests may have SIGINT ignored.
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        assert capture.is_signal_handled(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not capture.is_signal_handled(os.getpid(), signal.SIGUSR1)
    assert not capture.is_signal_handled(2**22 + 1, 2)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"),
        ("net.ipv4.conf.eth1.forwarding", "/proc/sys/net/ipv4/conf/eth1/forwarding"),
        ("net.ipv4.conf.eth1.100.forwarding", "/proc/sys/net/ipv4/conf/eth1.100/forwarding"),
        ("net/ipv4/conf/eth1.100/forwarding", "/proc/sys/net/ipv4/conf/eth1.100/forwarding"),
        ("net.ipv6.neigh.br-1.gc_stale_time", "/proc/sys/net/ipv6/neigh/br-1/gc_stale_time"),
    ],
)
def test_a_setting_is_found_though_its_interface_has_dots(name: str, path: str) -> None:
    assert sysctl.path_of(name) == path


@pytest.mark.parametrize("name", ["kernel.x", "net/../kernel/x", "net.a..b", "net//x", "net", "", "net.a b", "net.x\n"])
def test_a_setting_outside_the_network_is_refused(name: str) -> None:
    with pytest.raises(WireError):
        sysctl.path_of(name)


def test_only_real_logins_are_read_from_utmp() -> None:
    def record(kind: int, user: bytes, line: bytes, host: bytes) -> bytes:
        zeros = (0,) * 5
        return facts.UTMP_RECORD.pack(kind, 1, line, b"", user, host, 0, 0, 0, 1700000000, *zeros)

    assert facts.UTMP_RECORD.size == 384  # glibc's, on every architecture with 32-bit time in it
    data = record(7, b"anna", b"pts/0", b"desk.lab") + record(8, b"", b"pts/1", b"") + record(2, b"reboot", b"~", b"")
    expected = {"user": "anna", "line": "pts/0", "host": "desk.lab", "since_wall_s": 1700000000}
    assert facts.parse_utmp(data + b"cut") == [expected]


def test_who_holds_a_node_is_one_sentence() -> None:
    holder = {"owner": "anna@a", "purpose": "plan dedicated", "since_wall_ns": 1_700_000_000_000_000_000}
    assert (
        lease.build_lease_held_error(holder).message
        == "anna@a has this node since 2023-11-14 22:13:20 UTC for plan dedicated"
    )
    until = {**holder, "until_wall_ns": 1_700_000_600_000_000_000}
    sentence = (
        "anna@a has this node since 2023-11-14 22:13:20 UTC, until about 2023-11-14 22:23:20 UTC, for plan dedicated"
    )
    assert lease.build_lease_held_error(until).message == sentence
    assert lease.build_lease_held_error({}).message == "another session has this node"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[1]",
        b"[" * 60000,
        b"\xff\xfe",
        b'{"owner": 7, "purpose": null, "quiet": 1}',
        b'{"since_wall_ns": -1, "until_wall_ns": 1e9, "pid": true, "more": "x"}',
        b'{"since_wall_ns": 99999999999999999999999999}',
    ],
)
def test_of_a_lease_that_anybody_wrote_only_what_fits_is_believed(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "lease"
    path.write_bytes(text)
    with path.open("rb") as file:
        assert lease._read(file.fileno()) == {}


def test_promises_are_kept_in_reverse_and_by_owner() -> None:
    reading, writing = os.pipe()
    journal = UndoJournal(writing)
    for token, kind in (("a", "one"), ("b", "two"), ("a", "three")):
        journal.promise({"token": token, "kind": kind})
    assert [entry["kind"] for entry in journal.pending()] == ["three", "two", "one"]
    assert [entry["kind"] for entry in journal.pending("a", since=1)] == ["three"]
    journal.done(3)
    assert [entry["kind"] for entry in journal.pending("a")] == ["one"]
    told = [json.loads(line) for line in os.read(reading, 65536).splitlines()]
    assert [next(iter(message)) for message in told] == ["promise", "promise", "promise", "done"]
    os.close(reading)
    os.close(writing)


def test_what_could_not_be_undone_is_tried_again_when_it_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    journal = UndoJournal(writing)
    journal.promise({"token": "a", "kind": "path", "name": "stuck"})
    outcomes = [OSError(errno.EBUSY, "busy"), None]

    def fails_once(entry: object, resolve: object) -> None:
        if (exc := outcomes.pop(0)) is not None:
            raise exc

    monkeypatch.setattr(undo, "run", fails_once)

    async def given_up(*, by_lease: bool) -> list[str]:
        changes = NetworkChanges(journal, Namespaces(lambda name: None), lambda namespace: None, nullcontext)
        failed = await changes.take_back("a" if by_lease else None)
        changes.give_up()
        return failed

    async def twice() -> list[list[str]]:
        changes = NetworkChanges(journal, Namespaces(lambda name: None), lambda namespace: None, nullcontext)
        return [await changes.take_back("a") for _ in range(3)]

    first, second, third = asyncio.run(twice())
    assert first and "stuck" in first[0]
    assert second == third == []
    assert journal.pending() == []
    for give_up in (False, True):  # at the end, and when another session has the node, nothing is tried again
        journal.promise({"token": "a", "kind": "path", "name": "stuck"})
        outcomes.append(OSError(errno.EBUSY, "busy"))
        assert asyncio.run(given_up(by_lease=give_up))
        assert journal.pending() == []
    os.close(reading)
    os.close(writing)


def test_a_journal_without_a_keeper_still_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    journal = UndoJournal(writing)
    journal.promise({"kind": "one"})
    assert len(journal.pending()) == 1


def _imported(code: str) -> set[str]:
    """The modules that are there once a bare Python has run this."""
    shown = f"import sys\n{code}\nprint(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{shown}"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_the_agent_says_hello_without_its_loop_and_waits_for_requests_without_its_parts() -> None:
    before = _imported("import labconsole.agent.__main__")
    assert {name for name in before if name.startswith("labconsole.")} == {
        "labconsole.agent",
        "labconsole.agent.__main__",
        "labconsole.agent.debug",
        "labconsole.agent.keeper",
        "labconsole.agent.processes",
        "labconsole.agent.processes.linux",
        "labconsole.wire",
        "labconsole.wire.codec",
        "labconsole.wire.version",
    }
    assert not before & {"asyncio", "subprocess", "logging", "ssl", "runpy", "pyroute2"}
    served = {name for name in _imported("import labconsole.agent.server") if name.startswith("labconsole.")}
    assert served - before == {
        "labconsole.agent.operations",
        "labconsole.agent.parts",
        "labconsole.agent.pipes",
        "labconsole.agent.server",
        "labconsole.wire.clean",
        "labconsole.wire.message",
        "labconsole.wire.rules",
        "labconsole.wire.session",
    }


def test_what_a_console_asks_first_loads_no_more_than_that() -> None:
    """Facts, links, leases and counters: asked of every node. What a trial needs is not there yet."""
    ops = ("facts", "links", "lease.watch", "counters.start")
    code = "import importlib\n" + "\n".join(
        f"importlib.import_module('labconsole.agent.operations.{part}')" for part in ("reading", "leasing", "counting")
    )
    assert {part for part, names in OPERATIONS.items() if set(ops) & set(names.split())} == {
        "reading",
        "leasing",
        "counting",
    }
    found = _imported(code)
    assert not found & {"pyroute2", "labconsole.agent.capture", "labconsole.wire.generator", "labconsole.packets"}


class _Outlet:
    has_room = True

    def send(self, message: dict[str, object]) -> None:
        raise AssertionError(message)

    offer = send


def _parts() -> Parts:
    return Parts(UndoJournal(-1), _Outlet(), print, lambda what, exc: what, dict)  # type: ignore[arg-type]


def test_each_operation_is_in_the_line_of_the_part_that_answers_it() -> None:
    """A new operation: its name goes into OPERATIONS (agent/parts.py), in the line of its part."""

    async def answered() -> dict[str, set[str]]:
        parts = _parts()
        return {part: set(find_operations(getattr(parts, part))) for part in OPERATIONS}

    assert {part: set(ops.split()) for part, ops in OPERATIONS.items()} == asyncio.run(answered())
    own = {Close.op} | {each.request.op for each in vars(Agent).values() if hasattr(each, "request")}
    listed = [op for ops in OPERATIONS.values() for op in ops.split()]
    assert sorted([*listed, *own]) == sorted(request.op for request in messages(Request) if hasattr(request, "op"))


def test_an_operation_that_was_not_listed_is_found_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATIONS, "capturing", "capture.start capture.stop")

    async def found() -> tuple[bool, bool]:
        parts = _parts()
        return parts.operation("capture.drain") is not None, parts.operation("no.such") is None

    assert asyncio.run(found()) == (True, True)


def test_what_was_never_needed_is_not_imported_to_be_ended() -> None:
    async def ended() -> set[str]:
        parts = _parts()
        parts.stop()
        assert await parts.undo() == []
        await parts._undo_for_another()
        await parts._stop_traffic()
        parts._give_up()
        parts._namespaces_changed(None)
        return {part for part in OPERATIONS if parts.made(part)}

    assert asyncio.run(ended()) == set()


UNDONE = """
import ctypes, sys
assert ctypes.CDLL(None, use_errno=True).unshare(0x40000000) == 0 or sys.exit(77)  # CLONE_NEWNET
from labconsole.agent import undo
undo.import_undo_modules("route")

class Dead:
    def find_spec(self, name, path=None, target=None):
        raise ImportError("the disk is dead: " + name)

sys.meta_path.insert(0, Dead())
for entry in [
    {"kind": "route", "destination": "198.19.7.0/24", "interface": "lo", "former": None},
    {"kind": "address", "address": "198.18.0.1/24", "interface": "lo"},
    {"kind": "link_down", "interface": "lo"},
    {"kind": "bridge", "name": "lcb1", "ports": []},
    {"kind": "link", "name": "lcv1"},
    {"kind": "sysctl", "values": [["net/ipv4/ip_forward", "0"]]},
]:
    undo.run(entry, undo.no_namespace)
"""


def test_the_keeper_undoes_without_importing_once_it_was_told_what_there_may_be_to_undo() -> None:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{UNDONE}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        missing("may not make a network namespace")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", [*undo.AGENT_UNDO_ACTIONS, "bridge"])
def test_all_that_undoing_imports_by_itself_is_imported_before(kind: str) -> None:
    """Both the modules of undo.py's functions, and that each kind is known to import_undo_modules."""
    code = f"from labconsole.agent import undo; undo.import_undo_modules({kind!r})"
    wanted = {
        "path": "shutil",
        "pktgen": "labconsole.agent.sending.pktgen_files",
        "port_features": "labconsole.network.nic_features",
        undo.STARTED_GUEST: "labconsole.agent.processes.children",
        "bridge": "labconsole.network.links",
    }
    assert wanted[kind] in _imported(f"sys.path.append({SITE!r})\n{code}")
