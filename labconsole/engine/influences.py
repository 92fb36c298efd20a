"""What else went on while a trial ran, on every node, for the record; and what of it makes the run suspect. Pure.

On an emulated testbed all nodes share one machine: the time that a hypervisor stole from it is told and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labconsole.engine.causes import pauses
from labconsole.engine.changes import settings_changes
from labconsole.engine.codes import reason
from labconsole.engine.hops import data_ports, growth
from labconsole.engine.observations import StreamSeen, TrialSeen
from labconsole.model.record import Reason, StreamRecord
from labconsole.model.tolerances import Tolerances

NAMED_RATIO = 0.05
"""Of one processor: a process that used more is named."""

OTHERS = ("other", "labconsole", "guest")
"""Whose processes are not ours, in the agent's words. A guest that the platform attests is ours."""

Influence = dict[str, Any]


def influences(seen: TrialSeen, streams: tuple[StreamRecord, ...], uut: str) -> list[Influence]:
    """Every entry of the record's ``influences``: node, kind, a sentence, figures. ``streams``: of every flow."""
    found: list[Influence] = list(seen.notes)
    for nodes in _machines(seen):
        found += _cpu(nodes)
    for node in seen.end:
        first, last = ((side[node].surroundings if node in side else None) or {} for side in (seen.begin, seen.end))
        found += _processes(node, last, _attested(seen, node, uut))
        found += _people(node, first, last)
        found += _lists(node, first, last, _attested(seen, node, uut))
    for raw, record in zip(seen.flows, streams, strict=True):
        for port in foreign(seen, raw, record, uut):
            detail = f"{port.interface} {port.verb} {port.packets} packets that are not the stream's"
            figures = {"interface": port.interface, "direction": port.direction, "packets": port.packets}
            found.append(_entry(port.node, "foreign_packets", detail, **figures))
        for node, interface in data_ports(raw, uut):
            paused = pauses(seen, node, interface)
            if paused:
                words = ", ".join(f"{name} {packets}" for name, packets in paused.items())
                found.append(
                    _entry(node, "flow_control", f"{interface}: {words}", interface=interface, counters=paused)
                )
            for key, old, new in settings_changes(seen, node, [interface], unjudged=True):
                found.append(_entry(node, "setting", f"{key} went from {old} to {new}"))
    return found


def _entry(node: str, kind: str, detail: str, **figures: Any) -> Influence:
    return {"node": node, "kind": kind, "detail": detail, **figures}


def _attested(seen: TrialSeen, node: str, uut: str) -> set[str]:
    """Guests that belong to the platform under test or to its background load."""
    if node != uut:
        return set()
    second = seen.background.guest if seen.background is not None else None
    names = [*seen.attestation.get("guests", ()), second]
    return {str(name) for name in names if name is not None}


def _machines(seen: TrialSeen) -> list[dict[str, dict[str, Any]]]:
    """Nodes with their last reading, those of one machine together: namespaces of it share its processors."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for node, reading in seen.end.items():
        if reading.surroundings is not None:
            found.setdefault(reading.surroundings.get("boot_id") or node, {})[node] = reading.surroundings
    return list(found.values())


def _cpu(nodes: dict[str, dict[str, Any]]) -> Iterator[Influence]:
    node, last = next(iter(nodes.items()))
    window = last.get("window")
    if not window or not window["cpu"]:
        return
    cpu, hottest, load = window["cpu"], window["hottest"], last.get("load")
    detail = (
        f"processors {cpu['busy_ratio']:.0%} busy, {cpu['interrupt_ratio']:.0%} in interrupts, "
        f"{cpu['steal_ratio']:.1%} stolen"
    )
    if hottest is not None:
        detail += f"; {hottest['cpu']} {hottest['busy_ratio']:.0%} busy, {hottest['interrupt_ratio']:.0%} in interrupts"
    if load:
        detail += f"; load {load[0]:g}"
    if len(nodes) > 1:
        detail += f"; one machine for {len(nodes)} nodes"
    used_s: dict[str, float] = {}
    for reading in nodes.values():
        for whose, seconds in ((reading.get("window") or {}).get("used_s") or {}).items():
            used_s[whose] = round(used_s.get(whose, 0.0) + seconds, 3)
    figures = {**cpu, "hottest": hottest, "load": load, "cpus": last.get("cpus"), "used_s": used_s}
    yield _entry(node, "cpu", detail, nodes=list(nodes), **figures, window_s=window["elapsed_s"])


def _processes(node: str, last: dict[str, Any], attested: set[str]) -> Iterator[Influence]:
    window = last.get("window")
    if not window:
        return
    for process in window["processes"]:
        ratio = process["cpu_s"] / window["elapsed_s"] if window["elapsed_s"] else 0.0
        if ratio < NAMED_RATIO or process["whose"] == "ours":
            continue
        whose = _whose(process, last, attested)
        detail = f"{process['name']} ({process['pid']}, {whose}) used {ratio:.0%} of a processor"
        yield _entry(node, "process", detail, name=process["name"], pid=process["pid"], whose=whose, cpu_ratio=ratio)


def _whose(process: dict[str, Any], last: dict[str, Any], attested: set[str]) -> str:
    """The agent's word, but a guest that the platform attests is ours."""
    names = {guest["pid"]: guest["name"] for guest in last.get("guests", ())}
    return "ours" if names.get(process["pid"]) in attested else str(process["whose"])


def _people(node: str, first: dict[str, Any], last: dict[str, Any]) -> Iterator[Influence]:
    before, after = ({_login(entry) for entry in side.get("logins") or ()} for side in (first, last))
    if before | after:
        words = sorted(before | after)
        came, went = sorted(after - before), sorted(before - after)
        change = "".join([f"; came: {', '.join(came)}" if came else "", f"; went: {', '.join(went)}" if went else ""])
        yield _entry(node, "logins", f"{', '.join(words)}{change}", logins=words, came=came, went=went)


def _login(entry: dict[str, Any]) -> str:
    return f"{entry['user']} on {entry['line']}" + (f" from {entry['host']}" if entry["host"] else "")


def _lists(node: str, first: dict[str, Any], last: dict[str, Any], attested: set[str]) -> Iterator[Influence]:
    before, after = (_guest_names(side, attested) for side in (first, last))
    if before | after:
        names = sorted(before | after)
        yield _entry(node, "guests", f"other guests run here: {', '.join(names)}", guests=names)
    sessions = sorted({*first.get("sessions", ()), *last.get("sessions", ())})
    if sessions:
        detail = f"{len(sessions)} other labconsole session{'s' if len(sessions) > 1 else ''} on this node"
        yield _entry(node, "sessions", detail, pids=sessions)


def _guest_names(side: dict[str, Any], attested: set[str]) -> set[str]:
    return {guest["name"] for guest in side.get("guests", ()) if guest["name"] not in attested}


# What of it is judged


def doubts(
    seen: TrialSeen, streams: tuple[StreamRecord, ...], limits: Tolerances, uut: str, *, emulated: bool
) -> Iterator[Reason]:
    """Reasons that lie in what others did meanwhile."""
    for node in seen.end:
        first, last = ((side[node].surroundings if node in side else None) or {} for side in (seen.begin, seen.end))
        attested = _attested(seen, node, uut)
        yield from _other_cpu(node, last, attested, limits)
        stolen = ((last.get("window") or {}).get("cpu") or {}).get("steal_ratio")
        if stolen is not None and stolen > limits.steal_ratio and not emulated:
            yield reason(
                "cpu_stolen",
                f"the hypervisor under {node} took {stolen:.1%} of its processors' time",
                node=node,
                steal_ratio=stolen,
            )
        if first and last:
            before, after = (_guest_names(side, attested) for side in (first, last))
            if before != after:
                changed = sorted(before ^ after)
                yield reason(
                    "guests_changed",
                    f"other guests started or ended on {node}: {', '.join(changed)}",
                    node=node,
                    guests=changed,
                )
    for raw, record in zip(seen.flows, streams, strict=True):
        for port in foreign(seen, raw, record, uut):
            if port.packets > limits.foreign_packets:
                yield reason(
                    "foreign_frames",
                    f"{record.name}: {port.node}/{port.interface} {port.verb} {port.packets} packets that are not the "
                    "stream's",
                    node=port.node,
                    interface=port.interface,
                    direction=port.direction,
                    packets=port.packets,
                )


def _other_cpu(node: str, last: dict[str, Any], attested: set[str], limits: Tolerances) -> Iterator[Reason]:
    window = last.get("window")
    if not window or not window["elapsed_s"]:
        return
    used_s = sum(window["used_s"].get(whose, 0.0) for whose in OTHERS)
    others = [process for process in window["processes"] if process["whose"] in OTHERS]
    used_s -= sum(process["cpu_s"] for process in others if _whose(process, last, attested) == "ours")
    ratio = used_s / window["elapsed_s"]
    if ratio > limits.other_cpu_ratio:
        named = [process for process in others if _whose(process, last, attested) != "ours"][:5]
        words = ", ".join(f"{p['name']} {p['cpu_s'] / window['elapsed_s']:.0%}" for p in named)
        yield reason(
            "other_cpu",
            f"processes that are not ours used {ratio:.0%} of a processor on {node}" + (f": {words}" if words else ""),
            node=node,
            cpu_ratio=ratio,
            processes=[{"name": p["name"], "pid": p["pid"], "cpu_s": p["cpu_s"]} for p in named],
        )


@dataclass(frozen=True, slots=True)
class Foreign:
    """Packets on a data port that are not the stream's. ``direction``: in or out of the port."""

    node: str
    interface: str
    direction: str
    packets: int

    @property
    def verb(self) -> str:
        """What the port did with them."""
        return "received" if self.direction == "in" else "sent"


def foreign(seen: TrialSeen, raw: StreamSeen, record: StreamRecord, uut: str) -> Iterator[Foreign]:
    """Every port of a stream that counted more than the stream can have brought there, in either direction."""
    offered, stream = record.offered_packets, raw.stream

    def count(node: str, interface: str, statistic: str) -> int | None:
        return growth(seen, node, "", interface, statistic)

    source, sink = (stream.source.node, stream.source.interface), (stream.sink.node, stream.sink.interface)
    inward, outward = (uut, stream.uut_in), (uut, stream.uut_out)
    sent = record.counters.get("source_tx_packets")
    # The most that the stream can have brought: what was counted one port earlier.
    expected: list[tuple[tuple[str, str], str, int | None]] = [(source, "out", offered), (source, "in", 0)]
    if raw.path.points:
        received = record.counters.get("uut_in_rx_packets")
        expected += [
            (inward, "in", offered if sent is None else sent),
            (inward, "out", 0),
            (outward, "out", offered if received is None else received),
            (outward, "in", 0),
        ]
    captured = record.capture.captured_packets if record.capture is not None and record.capture.complete else None
    before_sink = record.counters.get("uut_out_tx_packets") if raw.path.points else sent
    expected += [(sink, "in", before_sink if captured is None else captured), (sink, "out", 0)]
    for (node, interface), direction, most in expected:
        counted = count(node, interface, "rx_packets" if direction == "in" else "tx_packets")
        if counted is not None and most is not None and counted > most:
            yield Foreign(node, interface, direction, counted - most)
