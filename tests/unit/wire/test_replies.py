"""No answer of an agent's reaches whoever asked unless it is as docs/agent-protocol.md says."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pkgutil import iter_modules
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.agent import operations, server
from labconsole.agent.operations import program_execution
from labconsole.engine.live.telemetry import Telemetry
from labconsole.model.record.run import Sequence
from labconsole.packets import analysis
from labconsole.verdict.observations import parse_snapshot
from labconsole.wire import capture, execution
from labconsole.wire.codec import WireError, encode
from labconsole.wire.counters import CountersSampled, InterfaceCounters
from labconsole.wire.links import LinksChanged, NodeLinks
from support.agent_events import GOOD, JSON, LINK, MARK, NUMBERS, RESULT
from support.kept_messages import kept_event, kept_reply
from support.requests import REQUESTS

FACTS = {
    "vendor": None,
    "cpu_model": None,
    "python": "3.11.2",
    "euid": 0,
    "clocksource": "tsc",
    "boot_id": "a",
    "network_namespace": 7,
    "hostname": "uut",
    "kernel": "6.18.44",
    "kernel_version": "#1 SMP PREEMPT_DYNAMIC @0",
    "machine": "x86_64",
    "os": "Debian GNU/Linux 12 (bookworm)",
    "product": None,
    "cpus": 2,
    "hypervisor_flag": True,
    "memory_bytes": 25276510208,
    "tcpdump": "4.99.3",
    "pktgen": None,
    "pktgen_loadable": False,
    "load": [2.98, 2.94, 2.04],
    "governors": {"powersave": 4},
    "capabilities": ["kill", "net_admin"],
    "logins": [{"user": "ann", "line": "pts/0", "host": None, "since_wall_s": 5}],
    "uptime_s": 3599.05,
}
COUNTERS = {
    "monotonic_ns": 3602007529755,
    "wall_ns": 1795231742724018463,
    "namespaces": {"": [[1, "lo", [0] * 25], [2, "eth1", NUMBERS[:24]]], "guest1": [[1, "lo", [2**64 - 1] * 25]]},
}
PREPARED = {
    "stream": "s2",
    "generator": "afpacket",
    "version": "1 (sendmmsg)",
    "interface": "eth1",
    "burst_packets": 1,
    "cpus": [0, 1],
}
SEQUENCE = {
    "first": 1,
    "last": 4294967295,
    "expected_packets": 14205,
    "lost_packets": 5,
    "lost_runs": {"1": 3, "2": 1},
    "reordered_packets": 0,
    "duplicate_packets": 0,
}
CAPTURED_STREAM = {
    "source_ip": "198.18.3.1",
    "sink_ip": "198.19.3.1",
    "udp_source_port": 9,
    "udp_sink_port": 11,
    "packets": 14200,
    "bytes": 908800,
    "first_at_ns": 1795231740831296327,
    "last_at_ns": 1795231741831107286,
    "sequence": SEQUENCE,
    "sequence_error": None,
    "gap_ns": {"min": 6439, "mean": 70389.394, "p50": 69764, "p99": 439126, "max": 5576863},
    "gaps_exact": True,
    "backward_steps": 0,
    "pps": 14206.69,
    "frame_bps": 7273823.05,
    "late_packets": 12,
    "queued_packets": 0,
    "delay": None,
    "delay_error": None,
}
ANALYSIS = {
    "format": "pcap",
    "link_type": "ethernet",
    "packets": 14200,
    "bytes": 908800,
    "first_at_ns": 1795231740831296327,
    "last_at_ns": 1795231741831107286,
    "duration_ns": 999810959,
    "truncated": False,
    "corrupt_at_byte": None,
    "corrupt_reason": None,
    "read_bytes": 1136424,
    "other_packets": 0,
    "unlisted_stream_packets": 0,
    "untimed_packets": 0,
    "pps": 14206.69,
    "frame_bps": 7273823.05,
    "streams": [CAPTURED_STREAM],
}
EMPTY_ANALYSIS = {
    **ANALYSIS,
    "link_type": None,
    "packets": 0,
    "bytes": 0,
    "first_at_ns": None,
    "last_at_ns": None,
    "duration_ns": None,
    "pps": None,
    "frame_bps": None,
    "streams": [],
}
CAPTURE = {
    "captured_packets": 14200,
    "received_by_filter_packets": 14200,
    "dropped_kernel_packets": 0,
    "dropped_interface_packets": None,
    "file_bytes": 1136424,
    "analysis": ANALYSIS,
    "sha256": 64 * "a",
}
OPTIONAL = ("routes", "neighbours", "late_packets", "queued_packets")
STARTED = {"path": "/proc/444/fd/11", "argv": ["/usr/bin/tcpdump", "-nn", "udp and src port 9"], "tcpdump": "4.99.3"}
NET = {
    "sysctls": {"net.ipv4.ip_forward": "1"},
    "routes": [{"destination": "0.0.0.0/0", "interface": "eth0", "gateway": "10.0.0.1"}],
    "neighbours": [{"address": "10.0.0.1", "mac": None, "interface": "eth0", "permanent": False}],
}
HOLDER = {
    "owner": "anna@a",
    "purpose": "raw",
    "observe": "quiet",
    "quiet": False,
    "since_wall_ns": 1,
    "until_wall_ns": None,
}
MARKS = {
    "marks": [MARK, {**MARK, "payload_bytes": 0, "pattern": None, "pattern_from_byte": None}],
    "untold_marks": 1,
    "strange_packets": 3,
    "dropped_kernel_packets": 0,
    "unread_packets": 0,
    "started": {"monotonic_ns": 3598108540456, "wall_ns": 1795231738825028642},
    "stopped": {"monotonic_ns": 3602007529755, "wall_ns": 1795231742724018463},
    "interrupted": None,
}
ASKED = {
    "guest": "g001",
    "asked_ns": 52001029751841,
    "answered_ns": 52001442525682,
    "printed": "real\t0.41\n",
    "code": None,
    "message": None,
}
UNASKED = {**ASKED, "asked_ns": None, "answered_ns": None, "printed": None, "code": "busy", "message": "it is asked"}
ALL_ASKED = {
    "guests": [ASKED, UNASKED, {**UNASKED, "asked_ns": 5, "code": "guest_silent"}],
    "waited_s": 5.15,
    "waited_cpu_s": 0.047,
    "cpu_s": 0.066,
}
REAL: list[tuple[str, dict[str, Any]]] = [
    ("ping", {"monotonic_ns": 3598108540456, "wall_ns": 1795231738825028642}),
    ("facts", FACTS),
    ("links", {"links": [LINK, {**LINK, "pause": {"autoneg": True, "rx": False, "tx": False}, "master": "br0"}]}),
    ("lease.take", {"since_wall_ns": 1795231739797953520, "taken_from": None}),
    ("lease.take", {"since_wall_ns": 1795231739797953520, "taken_from": HOLDER}),
    ("lease.read", {"holder": {**HOLDER, "own": True}}),
    ("lease.watch", {}),
    ("lease.release", {}),
    ("counters.read", COUNTERS),
    ("counters.start", {}),
    ("counters.quiet", {"samples": 20, "missed": 0}),
    ("generator.prepare", {"streams": [PREPARED, {**PREPARED, "cpus": None}]}),
    ("generator.start", {}),
    ("generator.wait", {"streams": [RESULT]}),
    ("generator.close", {"streams": []}),
    ("generator.close", {"streams": [{**RESULT, "error_text": "eth1 has no carrier", "sent_packets": None}]}),
    ("capture.start", STARTED),
    ("capture.drain", {"packets": 13930}),
    ("capture.stop", CAPTURE),
    ("capture.stop", {**CAPTURE, "captured_packets": None, "analysis": EMPTY_ANALYSIS}),
    ("marks.stop", MARKS),
    ("guest.ask_all", ALL_ASKED),
    ("net.apply", {}),
    ("net.undo", {"failed": ["cannot remove lcb1: busy"]}),
    ("net.read", NET),
    ("net.read", {"sysctls": {}}),
    ("exec", {"exit_status": -9, "stdout": "a\tb\n  c\n", "stderr": "", "truncated": False}),
    ("close", {"failed": []}),
]
BY_OP = dict(REAL)
OF_LINES = ("exec", "guest.ask_all", "generator.wait", "generator.close")
"""What these say of a program's own words keeps its lines."""


def checked(op: str, ok: Any) -> Any:
    return kept_reply(op, {"id": 1, "ok": copy.deepcopy(ok)})["ok"]


@pytest.mark.parametrize(("op", "ok"), REAL, ids=[op for op, _ in REAL])
def test_a_real_answer_passes_unchanged(op: str, ok: dict[str, Any]) -> None:
    assert checked(op, ok) == ok


@pytest.mark.parametrize(("op", "ok"), REAL, ids=[op for op, _ in REAL])
def test_an_answer_that_says_more_is_refused(op: str, ok: dict[str, Any]) -> None:
    for key in ("more", "mo\x07re", "x" * 5000):
        with pytest.raises(WireError, match=f"^{op}: ok has an unknown key (more|x{{99}}…)$"):
            checked(op, {**ok, key: 1})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside ``value``."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def put(ok: Any, path: tuple[Any, ...], value: Any) -> Any:
    """``ok`` with ``value`` at ``path``."""
    changed = place = copy.deepcopy(ok)
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize(("op", "ok"), REAL, ids=[op for op, _ in REAL])
def test_a_promised_key_that_is_missing_is_refused(op: str, ok: dict[str, Any]) -> None:
    free = {"net.read": 1}.get(op, 99)  # entries of a routing table promise little
    for path in places(ok):
        *outer, key = path
        if not isinstance(key, str) or len(path) > free or key in OPTIONAL:
            continue
        if "lost_runs" in outer or "namespaces" in outer or "governors" in outer:
            continue
        changed = copy.deepcopy(ok)
        place: Any = changed
        for step in outer:
            place = place[step]
        del place[key]
        with pytest.raises(WireError, match=f"^{op}: .* has no {key}$"):
            checked(op, changed)


A = ("analysis",)
S = ("analysis", "streams", 0)
Q = (*S, "sequence")


@pytest.mark.parametrize(
    ("op", "path", "value"),
    [
        ("ping", ("wall_ns",), 1.0),
        ("ping", ("wall_ns",), 2**63),
        ("facts", ("load",), [float("inf")]),
        ("facts", ("hostname",), [[[[[[[[]]]]]]]]),
        ("links", ("links",), {}),
        ("links", ("links", 0, "namespace"), None),
        ("links", ("links", 0, "up"), 1),
        ("links", ("links", 0, "name"), "x" * 256),
        ("counters.read", ("monotonic_ns",), None),
        ("counters.read", ("namespaces",), []),
        ("counters.read", ("namespaces", "", 0), [1, [0] * 25]),
        ("counters.read", ("namespaces", "", 0, 1), None),
        ("counters.read", ("namespaces", "", 0, 2, 3), -1),
        ("counters.read", ("namespaces", "", 0, 2, 3), True),
        ("counters.quiet", ("missed",), -1),
        ("generator.prepare", ("streams", 0, "burst_packets"), "1"),
        ("generator.prepare", ("streams", 0, "cpus"), [None]),
        ("generator.wait", ("streams", 0, "sent_packets"), 1.5),
        ("generator.wait", ("streams",), [RESULT] * 300),
        ("capture.start", ("argv",), ["x"] * 1000),
        ("capture.drain", ("packets",), True),
        ("capture.stop", ("dropped_kernel_packets",), -1),
        ("capture.stop", A, None),
        ("capture.stop", (*A, "packets"), None),
        ("capture.stop", (*A, "truncated"), 0),
        ("capture.stop", (*A, "pps"), -1.0),
        ("capture.stop", (*A, "streams"), None),
        ("capture.stop", (*A, "streams"), [CAPTURED_STREAM] * 1025),
        ("capture.stop", (*S, "udp_sink_port"), 65536),
        ("capture.stop", (*S, "gap_ns"), []),
        ("capture.stop", (*S, "late_packets"), 14201),
        ("capture.stop", (*S, "queued_packets"), 13),
        ("capture.stop", ("sha256",), 64 * "A"),
        ("capture.stop", (*S, "gap_ns", "p50"), 0.5),
        ("capture.stop", Q, []),
        ("capture.stop", (*Q, "last"), 2**32),
        ("capture.stop", (*Q, "lost_runs"), [1]),
        ("capture.stop", (*Q, "lost_runs"), {"-1": 1}),
        ("capture.stop", (*Q, "lost_runs"), {"1.5": 1}),
        ("capture.stop", (*Q, "lost_runs"), {"²": 1}),
        ("capture.stop", (*Q, "lost_runs"), {"": 1}),
        ("capture.stop", (*Q, "lost_runs"), {"9" * 20: 1}),
        ("capture.stop", (*Q, "lost_runs"), {"1": -1}),
        ("capture.stop", (*Q, "lost_runs"), {str(n): 1 for n in range(5000)}),
        ("marks.stop", ("marks",), [MARK] * 8193),
        ("marks.stop", ("marks", 0, "reply"), 0),
        ("marks.stop", ("unread_packets",), None),
        ("marks.stop", ("stopped", "wall_ns"), -1),
        ("guest.ask_all", ("guests", 0, "answered_ns"), None),
        ("guest.ask_all", ("guests", 0, "asked_ns"), 52001442525683),
        ("guest.ask_all", ("guests", 0, "code"), "busy"),
        ("guest.ask_all", ("guests", 1, "message"), None),
        ("guest.ask_all", ("guests", 0, "printed"), "x" * 4097),
        ("guest.ask_all", ("guests",), [ASKED] * 257),
        ("guest.ask_all", ("waited_s",), -1.0),
        ("guest.ask_all", ("waited_cpu_s",), None),
        ("net.undo", ("failed",), "all of it"),
        ("net.undo", ("failed",), [1]),
        ("net.read", ("sysctls",), {"a": 1}),
        ("net.read", ("routes",), [[0] * 1000]),
        ("exec", ("exit_status",), None),
        ("exec", ("exit_status",), 256),
        ("exec", ("stdout",), "x" * (2**20 + 1)),
        ("close", ("failed",), 5),
    ],
)
def test_an_answer_that_is_not_as_described_is_refused_by_name(op: str, path: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(WireError, match=f"^{op}: "):
        checked(op, put(BY_OP[op] if op != "capture.stop" else CAPTURE, path, value))


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"ok": []},
        {"ok": None},
        {"error": "x"},
        {"error": None, "ok": {}},
        {"error": {"code": 1, "message": ""}},
        {"error": {"code": ""}},
        {"error": {"code": "a\nb", "message": ""}},
    ],
)
def test_an_answer_is_an_object_or_an_error_with_code_and_message(reply: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="^ping: "):
        kept_reply("ping", {"id": 1, **reply})


def test_the_detail_of_an_error_is_plain_bounded_and_clean() -> None:
    message: dict[str, Any] = {"error": {"code": "x", "message": "m\x1b[31m", "detail": {"owner": "\x1b[2Jann"}}}
    assert kept_reply("lease.take", message)["error"] == {"code": "x", "message": "m", "detail": {"owner": "ann"}}
    message = {"error": {"code": "x", "message": "m"}}
    assert kept_reply("lease.take", message)["error"]["detail"] is None
    for detail in (float("nan"), 10**30, [0] * 2000, [[[[[[[[0]]]]]]]]):
        with pytest.raises(WireError, match="^lease.take: detail "):
            kept_reply("lease.take", {"error": {"code": "x", "message": "m", "detail": detail}})


def test_text_for_people_is_one_clean_line_and_cut() -> None:
    (said,) = checked("net.undo", {"failed": ["a\x1b]0;title\x07\nb\u202e" + "c" * 10_000]})["failed"]
    assert said.startswith("a bccc") and said.endswith("…") and len(said) == 4096


def test_the_output_of_a_program_keeps_its_lines_and_tabs_and_nothing_else_unprintable() -> None:
    said = checked("exec", {**BY_OP["exec"], "stdout": "a\tb\r\n\x1b[31mc\x07\u202e\ud800é\n"})["stdout"]
    assert said == "a\tb\n[31mcé\n"


def test_an_extra_key_cannot_become_one_that_was_checked() -> None:
    with pytest.raises(WireError):
        checked("capture.drain", {"packets": 1, "pack\x07ets": "many"})


def test_the_limits_leave_room_for_all_that_an_agent_says() -> None:
    assert capture.MAX_CAPTURED_STREAMS >= analysis.MAX_STREAMS
    assert execution.MAX_OUTPUT >= program_execution.OUTPUT_BYTES


def test_every_request_is_answered_by_one_method_of_the_agent_that_takes_it_and_returns_its_reply() -> None:
    modules = [
        importlib.import_module(f"{operations.__name__}.{each.name}") for each in iter_modules(operations.__path__)
    ]
    classes = {value for module in (server, *modules) for value in vars(module).values() if isinstance(value, type)}
    methods = [
        (m, vars(m)["request"])
        for each in classes
        for m in vars(each).values()
        if inspect.isfunction(m) and "request" in vars(m)
    ]
    assert sorted(request.op for _, request in methods) == sorted(set(REQUESTS) - {"close"})
    for method, request in methods:
        hints = get_type_hints(method, vars(server) | vars(sys.modules[method.__module__]))
        assert (hints["request"], hints["return"]) == (request, request.reply), method


def readers(op: str, ok: dict[str, Any]) -> None:
    """Do with a checked answer what its readers do; they rely on every type."""
    if op == "counters.read":
        parse_snapshot(InterfaceCounters.parse(ok))
    elif op == "links":
        Telemetry().set_links("uut", NodeLinks.parse(ok).links)
    elif op == "capture.stop":
        for stream in ok["analysis"]["streams"]:
            if stream["sequence"] is not None:
                found = stream["sequence"]
                Sequence(**{key: found[key] for key in ("lost_runs", "reordered_packets", "duplicate_packets")})
    elif op in ("generator.wait", "generator.close"):
        assert sum(result["sent_packets"] or 0 for result in ok["streams"]) >= 0


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


VALUES = JSON | st.sampled_from([-1, 2**63, 2**64, 1e400, True, "\x1b[2J", "\ud800", "x" * 5000, [[]] * 9, {"": None}])


def mutated(data: st.DataObject, value: Any) -> Any:
    """``value`` with up to three of its inner values replaced, removed or added to, as a line would bring it."""
    for _ in range(data.draw(st.integers(1, 3))):
        paths = list(places(value))
        if not paths:
            return {data.draw(st.text(max_size=5)): data.draw(VALUES)}
        *outer, key = data.draw(st.sampled_from(paths))
        value = copy.deepcopy(value)
        place: Any = value
        for step in outer:
            place = place[step]
        change = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "remove":
            del place[key]
        elif change == "replace":
            place[key] = data.draw(VALUES)
        elif isinstance(place, dict):
            place[data.draw(st.text(max_size=5))] = data.draw(VALUES)
        else:
            place.append(data.draw(VALUES))
    return value


def as_received(message: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(message))  # not decode(): what it refuses already, the checks are to refuse as well


def harmless(check: Callable[[], dict[str, Any] | None], *, lines: bool = False) -> dict[str, Any] | None:
    """What the check lets through; it must refuse as a WireError, or leave what can be shown and stored."""
    try:
        message = check()
    except WireError as exc:
        assert exc.message.isprintable() and len(exc.message) < 300
        return None
    if message is None:
        return None
    encode(message)
    for text in strings(message):
        assert text.isprintable() or (lines and text.replace("\n", "").replace("\t", "").isprintable())
    return message


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(REAL), st.data())
def test_whatever_an_answer_holds_it_is_refused_as_a_wire_error_or_harmless(
    real: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    op, ok = real
    message = as_received({"id": 1, "ok": mutated(data, ok)})
    kept = harmless(partial(kept_reply, op, message), lines=op in OF_LINES)
    if kept is not None:
        readers(op, kept["ok"])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(GOOD), st.data())
def test_whatever_an_event_holds_it_is_refused_as_a_wire_error_or_harmless(
    event: dict[str, Any], data: st.DataObject
) -> None:
    sent = as_received(mutated(data, event))
    kept = harmless(partial(kept_event, as_received(sent)), lines=event["event"] == "generator.done")
    if kept is None:
        return
    if kept.pop("event") == "counters":  # what is kept of a sample has its zeros again
        Telemetry().add_counters("uut", CountersSampled.parse({k: v for k, v in sent.items() if k != "event"}))
    elif event["event"] == "links":
        Telemetry().set_links("uut", LinksChanged.parse(kept).links)


@settings(deadline=None)
@given(st.sampled_from(sorted(BY_OP)), JSON)
def test_any_json_at_all_as_an_answer_never_raises_anything_else(op: str, value: Any) -> None:
    for message in ({"id": 1, "ok": value}, {"id": 1, "error": value}):
        message = as_received(message)
        harmless(partial(kept_reply, op, message), lines=op in OF_LINES)


def test_a_sample_is_refused_before_its_zeros_are_put_back_where_these_would_be_too_many() -> None:
    """Nine bytes on the wire stand for sixty-four numbers."""
    rows = [[index, 64, []] for index in range(4000)]
    sample = {"monotonic_ns": 1, "wall_ns": 1, "missed": 0, "late": False}
    assert CountersSampled.parse({**sample, "namespaces": {"": [[1, 64, [7]]]}}).namespaces[""][0][1][:2] == [7, 0]
    with pytest.raises(WireError, match="has more than 1048576 statistics"):
        CountersSampled.parse({**sample, "namespaces": {f"n{number}": list(rows) for number in range(5)}})
    assert rows[0] == [0, 64, []]
