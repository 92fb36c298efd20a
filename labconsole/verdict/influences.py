"""What else went on while a trial ran, on every node, for the record; and what of it makes the run suspect. Pure.

On an emulated testbed all nodes share one machine: the time that a hypervisor stole from it is told and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labconsole.model.record.run import Reason, StreamRecord
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.changes import settings_changes
from labconsole.verdict.foreign import foreign
from labconsole.verdict.held_back import held_back
from labconsole.verdict.hops import data_ports
from labconsole.verdict.machines import machines, same_machine, unseen
from labconsole.verdict.observed import TrialObservations
from labconsole.verdict.reasons import reason
from labconsole.verdict.shortfall import pauses

NAMED_RATIO = 0.05
"""Of one processor: a process that used more is named."""

OTHERS = ("other", "labconsole", "guest")
"""Whose processes are not ours, in the agent's words. A guest that the platform attests is ours."""

Influence = dict[str, Any]


def influences(seen: TrialObservations, streams: tuple[StreamRecord, ...], uut: str) -> list[Influence]:
    """Every entry of the record's ``influences``: node, kind, a sentence, figures. ``streams``: of every flow."""
    found: list[Influence] = list(seen.notes)
    for nodes in machines(seen):
        found += _cpu(seen, nodes)
    for node in seen.end:
        first, last = ((side[node].surroundings if node in side else None) or {} for side in (seen.begin, seen.end))
        found += _processes(node, last, _attested(seen, node, uut))
        found += _people(node, first, last)
        found += _lists(node, first, last, _attested(seen, node, uut))
    for raw, record in zip(seen.flows, streams, strict=True):
        found += [
            _entry(each.node, "foreign_packets", each.sentence, **each.figures)
            for each in foreign(seen, raw, record, uut)
        ]
        late = held_back(record)
        if late is not None:
            found.append(_entry(raw.stream.sink.node, "buffered", f"{record.name}: {late.sentence}", **late.figures))
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


def _attested(seen: TrialObservations, node: str, uut: str) -> set[str]:
    """Guests that belong to the platform under test or to its background load, on every node that may see them."""
    if not same_machine(seen, node, uut):
        return set()
    second = seen.background.guest if seen.background is not None else None
    names = [*seen.attestation.get("guests", ()), second]
    return {str(name) for name in names if name is not None}


def _cpu(seen: TrialObservations, nodes: dict[str, dict[str, Any]]) -> Iterator[Influence]:
    told = ((name, reading) for name, reading in nodes.items() if (reading.get("window") or {}).get("cpu"))
    node, last = next(told, (None, {}))
    if node is None:
        return
    window = last["window"]
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
        detail += f"; one machine hosts {len(nodes)} nodes"
    used_s: dict[str, float] = {}
    for reading in nodes.values():
        for whose, seconds in ((reading.get("window") or {}).get("used_s") or {}).items():
            used_s[whose] = round(used_s.get(whose, 0.0) + seconds, 3)
    hidden = unseen(seen, nodes)
    if hidden is not None and hidden.at_least_ratio >= NAMED_RATIO:
        detail += f"; at least {hidden.at_least_ratio:.0%} of one used by processes that no node sees"
    figures = {**cpu, "hottest": hottest, "load": load, "cpus": last.get("cpus"), "used_s": used_s}
    yield _entry(
        node,
        "cpu",
        detail,
        nodes=list(nodes),
        **figures,
        window_s=window["elapsed_s"],
        unseen_ratio=None if hidden is None else hidden.at_least_ratio,
    )


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
        change = "".join(
            [f"; started: {', '.join(came)}" if came else "", f"; ended: {', '.join(went)}" if went else ""]
        )
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
    seen: TrialObservations, streams: tuple[StreamRecord, ...], limits: Tolerances, uut: str, *, emulated: bool
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
                f"the hypervisor under {node} took {stolen:.1%} of its processor time",
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
    for nodes in machines(seen):
        hidden = unseen(seen, nodes)
        if hidden is not None and hidden.at_least_ratio > limits.other_cpu_ratio:
            names = ", ".join(nodes)
            yield reason(
                "unseen_cpu",
                f"processes that none of {names} sees used at least {hidden.at_least_ratio:.0%} of a processor of "
                f"the machine they run on",
                nodes=list(nodes),
                cpu_ratio=hidden.cpu_ratio,
                error_ratio=hidden.error_ratio,
            )
    told = [each for raw, record in zip(seen.flows, streams, strict=True) for each in foreign(seen, raw, record, uut)]
    for each in told:
        if each.doubtful(limits.foreign_packets):
            yield reason("foreign_frames", f"{each.node}/{each.sentence}", node=each.node, **each.figures)


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
            f"other processes used {ratio:.0%} of a processor on {node}" + (f": {words}" if words else ""),
            node=node,
            cpu_ratio=ratio,
            processes=[{"name": p["name"], "pid": p["pid"], "cpu_s": p["cpu_s"]} for p in named],
        )
