"""What an agent answers, checked operation by operation before whoever asked sees it.

Every key that docs/agent-protocol.md promises must be there with its type; unknown ones need only be plain, so that an
agent may say more than this console knows. An operation without a description here has a plain answer.
"""

from __future__ import annotations

import re
from typing import Any

from labconsole.agent.sequence import MAX_RUN_LENGTHS, SEQUENCE_MODULUS
from labconsole.agent.wire import MAX_LINE_BYTES, WireError
from labconsole.nodes.checks import (
    S64,
    Check,
    amount,
    bad,
    count,
    fields,
    finite,
    flag,
    lines,
    listed,
    mapping,
    maybe,
    name,
    plain,
    printable,
    sentence,
    unsigned,
    whole,
)
from labconsole.nodes.inbound import HOLDER, LINKS, MAX_CPUS, MAX_NAMESPACES, MAX_STREAMS, RESULTS, check_statistics

MAX_CODE = 64
MAX_DETAIL_ITEMS = 1000
MAX_ARGUMENTS = 256
MAX_FAILURES = 10_000
MAX_ROUTES = 100_000
MAX_SETTINGS = 10_000
MAX_INTERFACES = 4096
MAX_FEATURES = 100
MAX_LISTED = 200
MAX_HEARD = 1000
MAX_IRQS = 1024
MAX_IDLE_STATES = 100
MAX_CAPTURED_STREAMS = 1024
"""As many as an agent counts each for itself."""
MAX_DRIVER_STATISTICS = 512
MAX_FILTERS = 1000
MAX_IP_STATISTICS = 100
MAX_PROTOCOLS = 100
MAX_TAPS = 64
MAX_OWNERS = 20
MAX_PROCESSES = 1000
MAX_GUESTS = 256
MAX_PIDS = 64
MAX_LOGINS = 1000
MAX_OUTPUT = 1024 * 1024
"""Characters of a program's output: an agent keeps that many bytes."""
_MAX_DIGITS = 19
"""Of a run length: 2^63 has so many."""

_PLAIN = plain(characters=MAX_LINE_BYTES)


def check_reply(op: str, message: dict[str, Any]) -> None:
    """Check the reply to ``op`` in place: ``ok`` as described, or ``error`` with code, message and a plain detail.

    Raises WireError naming the operation and what is wrong.
    """
    try:
        if "error" in message:
            message["error"] = _error(message["error"], "error")
        else:
            ok = message.get("ok")
            if type(ok) is not dict:
                raise bad("ok", "is not an object")
            message["ok"] = _CHECKS.get(op, _PLAIN)(ok, "ok")
    except WireError as exc:
        raise WireError(exc.code, f"{op}: {exc.message}") from None


def _code(value: Any, where: str) -> str:
    if type(value) is not str or not value.isprintable() or len(value) > MAX_CODE:
        raise bad(where, "is not a word")
    return value


_ERROR_FIELDS = fields({"code": _code, "message": sentence, "detail": plain(most=MAX_DETAIL_ITEMS)})


def _error(value: Any, where: str) -> Any:
    if type(value) is dict:
        value.setdefault("detail", None)
    return _ERROR_FIELDS(value, where)


def _statistics(value: Any, where: str) -> Any:
    check_statistics(value, named=True)
    return value


def _run_length(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) <= _MAX_DIGITS


_NUMBER = whole(0, SEQUENCE_MODULUS - 1)
_OUTPUT = lines(MAX_OUTPUT)
_PORT = whole(0, 65535)
_SENTENCES = listed(sentence, MAX_FAILURES)

_SEQUENCE = fields(
    {
        "first": _NUMBER,
        "last": _NUMBER,
        "expected_packets": count,
        "lost_packets": count,
        "lost_runs": mapping(_run_length, count, MAX_RUN_LENGTHS),
        "reordered_packets": count,
        "duplicate_packets": count,
    }
)
_GAPS = fields({"min": count, "mean": amount, "p50": count, "p99": count, "max": count})
_SIGNED = whole(-S64, S64 - 1)
_VARIATION: dict[str, Check] = {"p50": count, "p99": count, "p999": count, "max": count}
_DELAY = fields(
    {
        "packets": count,
        "pair_every_packets": count,
        "raw_ns": fields(
            {"min": _SIGNED, "mean": finite, "p50": _SIGNED, "p99": _SIGNED, "p999": _SIGNED, "max": _SIGNED}
        ),
        "pdv_ns": fields(_VARIATION),
        "ipdv_ns": maybe(fields({"mean": amount, **_VARIATION})),
    }
)
_SPACING = fields(
    {
        "packets": count,
        "gap_ns": _GAPS,
        "burst_packets": count,
        "peak_packets": fields({"1": maybe(count), "10": maybe(count), "100": maybe(count)}),
    }
)
_COUNTED_STREAM = fields(
    {
        "source_ip": name,
        "sink_ip": name,
        "udp_source_port": _PORT,
        "udp_sink_port": _PORT,
        "packets": count,
        "bytes": count,
        "first_at_ns": maybe(count),
        "last_at_ns": maybe(count),
        "sequence": maybe(_SEQUENCE),
        "sequence_error": maybe(sentence),
        "gap_ns": maybe(_GAPS),
        "gaps_exact": flag,
        "backward_steps": count,
        "pps": maybe(amount),
        "frame_bps": maybe(amount),
    }
)


def _captured_stream(value: Any, where: str) -> Any:
    if type(value) is not dict:
        raise bad(where, "is not an object")
    known = {
        "delay": maybe(_DELAY),
        "delay_error": maybe(sentence),
        "spacing": maybe(_SPACING),
        "late_packets": count,
        "queued_packets": count,
    }
    timing = {key: check(value.pop(key), key) for key, check in known.items() if key in value}
    stream = {**_COUNTED_STREAM(value, where), **timing}
    late = stream.get("late_packets", 0)
    if not stream.get("queued_packets", 0) <= late <= stream["packets"]:
        raise bad("late_packets", "is not from queued_packets to packets")
    return stream


def _digest(value: Any, where: str) -> str:
    if type(value) is not str or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise bad(where, "is not a SHA-256 of 64 digits")
    return value


_ANALYSIS = fields(
    {
        "format": name,
        "link_type": maybe(sentence),
        "packets": count,
        "bytes": count,
        "first_at_ns": maybe(count),
        "last_at_ns": maybe(count),
        "duration_ns": maybe(count),
        "truncated": flag,
        "corrupt_at_byte": maybe(count),
        "corrupt_reason": maybe(sentence),
        "read_bytes": count,
        "other_packets": count,
        "unlisted_stream_packets": count,
        "untimed_packets": count,
        "pps": maybe(amount),
        "frame_bps": maybe(amount),
        "streams": listed(_captured_stream, MAX_CAPTURED_STREAMS),
    }
)
_PREPARED = fields(
    {
        "stream": name,
        "generator": name,
        "version": maybe(name),
        "interface": name,
        "burst_packets": maybe(count),
        "cpus": maybe(listed(count, MAX_CPUS)),
    }
)
_KILO = whole(0, 2**32 - 1)
"""What a driver keeps in 32 bits: ring entries, microseconds, queues."""

_PAIR = {"rx": _KILO, "tx": _KILO}
_SETTING = mapping(printable, maybe(sentence), MAX_SETTINGS)
_INTERFACE_SETTINGS = fields(
    {
        "driver": maybe(name),
        "driver_version": maybe(name),
        "firmware": maybe(name),
        "mac": maybe(name),
        "mtu": maybe(count),
        "up": flag,
        "carrier_changes": maybe(count),
        "queue_length": maybe(count),
        "qdisc": maybe(name),
        "speed_mbps": maybe(count),
        "duplex": maybe(name),
        "autoneg": maybe(flag),
        "pause": maybe(fields({"autoneg": flag, "rx": flag, "tx": flag})),
        "offloads": mapping(printable, maybe(flag), MAX_FEATURES),
        "rings": maybe(fields({**_PAIR, "rx_max": _KILO, "tx_max": _KILO})),
        "coalesce": maybe(
            fields(
                dict.fromkeys(("rx_usecs", "rx_frames", "tx_usecs", "tx_frames", "adaptive_rx", "adaptive_tx"), _KILO)
            )
        ),
        "queues": maybe(fields({**_PAIR, "combined": _KILO})),
        "bus": maybe(
            fields(
                {
                    "address": name,
                    "kind": maybe(name),
                    "link_speed": maybe(name),
                    "link_width": maybe(count),
                    "numa_node": maybe(whole(-1, 2**31)),
                }
            )
        ),
        "irqs": mapping(_run_length, maybe(sentence), MAX_IRQS),
        "sysctls": _SETTING,
    }
)
_SETTINGS = fields(
    {
        "interfaces": mapping(printable, _INTERFACE_SETTINGS, MAX_INTERFACES),
        "governors": maybe(mapping(printable, count, MAX_CPUS)),
        "turbo": maybe(flag),
        "idle_states": maybe(
            listed(fields({"name": maybe(name), "exit_latency_us": maybe(count), "disabled": flag}), MAX_IDLE_STATES)
        ),
        "irqbalance": flag,
        "isolated_cpus": maybe(sentence),
        "online_cpus": maybe(sentence),
        "smt": maybe(name),
        "sysctls": _SETTING,
    }
)
_SURVEY = fields(
    {
        "clock": maybe(
            fields(
                {
                    "synchronised": flag,
                    "offset_ns": whole(-S64, S64 - 1),
                    "max_error_us": count,
                    "estimated_error_us": count,
                }
            )
        ),
        "conntrack": fields({"entries": maybe(count), "limit": maybe(count)}),
        "disk": fields(
            {"directory": sentence, "error": maybe(sentence), "free_bytes": maybe(count), "total_bytes": maybe(count)}
        ),
        "heat": fields({"throttled": maybe(count), "hottest_millidegrees": maybe(count)}),
        "icmp": fields({"sent_unreachable": maybe(count), "sent_redirects": maybe(count)}),
        "iptables": listed(name, MAX_FEATURES),
        "leftovers": listed(fields({"kind": name, "name": sentence}), MAX_LISTED),
        "load": maybe(listed(amount, 3)),
        "management": fields(
            {
                "address": maybe(name),
                "interface": maybe(name),
                "addresses": mapping(printable, listed(name, MAX_LISTED), MAX_INTERFACES),
            }
        ),
        "memory": fields({"total_bytes": maybe(count), "available_bytes": maybe(count)}),
        "namespaces": listed(name, MAX_LISTED),
        "pktgen_devices": listed(name, MAX_INTERFACES),
        "processes": listed(
            fields({"pid": count, "kind": name, "name": name, "command": sentence, "same_network": maybe(flag)}),
            MAX_LISTED,
        ),
        "tools": mapping(printable, maybe(sentence), MAX_FEATURES),
        "watchdog": fields({"armed": flag, "heard_before_s": maybe(amount)}),
    }
)
_HEARD = fields(
    {
        "heard": listed(
            fields({"interface": name, "source_ip": name, "sink_ip": name, "udp_sink_port": _PORT, "packets": count}),
            MAX_HEARD,
        )
    }
)
_NET_READ = fields({"sysctls": mapping(printable, sentence, MAX_SETTINGS)})
_TABLE = listed(plain(most=100), MAX_ROUTES)

_QDISC_COUNTS = fields({"drops": count, "requeues": count, "overlimits": count})


def _softnet_row(value: Any, where: str) -> list[Any]:
    if type(value) is not list or len(value) != 4:
        raise bad(where, "is not a row of 4")
    return [maybe(count)(value[0], where), *(count(number, where) for number in value[1:])]


def _qdisc_row(value: Any, where: str) -> list[Any]:
    if type(value) is not list or len(value) != 3:
        raise bad(where, "has a row that is not of 3")
    return [name(value[0], "an interface"), name(value[1], where), _QDISC_COUNTS(value[2], where)]


_DRIVER = mapping(printable, maybe(mapping(printable, unsigned, MAX_DRIVER_STATISTICS)), MAX_INTERFACES)
_FILTER = fields(
    {
        "family": name,
        "table": name,
        "chain": name,
        "handle": unsigned,
        "interface": maybe(name),
        "hook": maybe(name),
        "packets": unsigned,
    }
)
_DROPS = fields(
    {
        "filters": maybe(listed(_FILTER, MAX_FILTERS)),
        "ip": maybe(mapping(printable, count, MAX_IP_STATISTICS)),
        "qdiscs": listed(_qdisc_row, MAX_INTERFACES),
        "driver": _DRIVER,
    }
)
_PROTOCOLS = mapping(printable, count, MAX_PROTOCOLS)
_TAP = fields(
    {
        "interface": name,
        "every": flag,
        "received": _PROTOCOLS,
        "sent": _PROTOCOLS,
        "missed_packets": maybe(count),
    }
)
_CPU_SHARES: dict[str, Check] = {"busy_ratio": amount, "interrupt_ratio": amount, "steal_ratio": amount}
_PROCESS = fields({"pid": count, "name": name, "whose": name, "cpu_s": amount})
_LOGIN = fields({"user": name, "line": name, "host": maybe(name), "since_wall_s": whole(-(2**31), 2**31 - 1)})
_WINDOW = fields(
    {
        "elapsed_s": amount,
        "cpu": maybe(fields(_CPU_SHARES)),
        "hottest": maybe(fields({"cpu": name, **_CPU_SHARES})),
        "used_s": mapping(printable, amount, MAX_OWNERS),
        "processes": listed(_PROCESS, MAX_PROCESSES),
    }
)
_SURROUNDINGS: dict[str, Check] = {
    "monotonic_ns": count,
    "wall_ns": count,
    "boot_id": maybe(name),
    "pid_namespace": maybe(count),
    "logins": maybe(listed(_LOGIN, MAX_LOGINS)),
    "load": maybe(listed(amount, 3)),
    "cpus": maybe(count),
    "guests": listed(fields({"name": name, "pid": count}), MAX_GUESTS),
    "sessions": listed(count, MAX_PROCESSES),
    "window": maybe(_WINDOW),
}


def _net_read(value: Any, where: str) -> Any:
    # Long tables are there only when they were asked for.
    tables = {key: _TABLE(value.pop(key), key) for key in ("routes", "neighbours") if key in value}
    return {**_NET_READ(value, where), **tables}


_CHECKS: dict[str, Check] = {
    "ping": fields({"monotonic_ns": count, "wall_ns": count}),
    "facts": plain(),
    "links": fields({"links": LINKS}),
    "settings": _SETTINGS,
    "survey": _SURVEY,
    "clean": fields({"removed": _SENTENCES}),
    "listen.start": fields({}),
    "listen.read": _HEARD,
    "listen.stop": _HEARD,
    "lease.take": fields({"since_wall_ns": count, "taken_from": maybe(fields(HOLDER))}),
    "lease.read": fields({"holder": maybe(fields({**HOLDER, "own": flag}))}),
    "lease.watch": fields({}),
    "lease.release": fields({}),
    "counters.read": fields({"monotonic_ns": count, "wall_ns": count, "namespaces": _statistics}),
    "counters.start": fields({}),
    "counters.stop": fields({}),
    "counters.quiet": fields({"samples": count, "missed": count}),
    "drops.read": fields(
        {
            "monotonic_ns": count,
            "softnet": maybe(listed(_softnet_row, MAX_CPUS)),
            "namespaces": mapping(printable, _DROPS, MAX_NAMESPACES),
        }
    ),
    "surroundings": fields(_SURROUNDINGS),
    "generator.prepare": fields({"streams": listed(_PREPARED, MAX_STREAMS)}),
    "generator.start": fields({}),
    "generator.wait": fields({"streams": RESULTS}),
    "generator.stop": fields({}),
    "generator.close": fields({"streams": RESULTS}),
    "capture.start": fields({"path": sentence, "argv": listed(sentence, MAX_ARGUMENTS), "tcpdump": maybe(name)}),
    "capture.drain": fields({"packets": count}),
    "capture.stop": fields(
        {
            "captured_packets": maybe(count),
            "received_by_filter_packets": maybe(count),
            "dropped_kernel_packets": maybe(count),
            "dropped_interface_packets": maybe(count),
            "file_bytes": count,
            "sha256": maybe(_digest),
            "analysis": _ANALYSIS,
            "kept_path": maybe(sentence),
        }
    ),
    "foreign.start": fields({}),
    "foreign.stop": fields({"ports": listed(_TAP, MAX_TAPS)}),
    "net.apply": fields({}),
    "net.undo": fields({"failed": _SENTENCES}),
    "net.read": _net_read,
    "guest.start": fields({"pid": count, "console": _OUTPUT}),
    "guest.ask": fields({"printed": _OUTPUT}),
    "guest.status": fields({"running": flag, "pid": count, "cpu_s": maybe(amount)}),
    "guest.stop": fields({}),
    "process.usage": fields(
        {
            "monotonic_ns": count,
            "processes": count,
            "threads": count,
            "cpu_ns": count,
            "run_ns": maybe(count),
            "wait_ns": maybe(count),
            "gone": listed(count, MAX_PIDS),
        }
    ),
    "exec": fields({"exit_status": whole(-255, 255), "stdout": _OUTPUT, "stderr": _OUTPUT, "truncated": flag}),
    "watchdog": fields({}),
    "close": fields({"failed": _SENTENCES}),
}
