"""Other activity on every node during a trial, and what makes a run suspect: it, or a queue that emptied late. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labconsole.measure.counts import rate_error_ratio
from labconsole.measure.packet_times import describe_xdp, numbers_doubt, packet_times, timed_all
from labconsole.model.plan.search import QUEUED_S
from labconsole.model.record.extensions import CLOCKS, ClockAgreement, read_extension
from labconsole.model.record.run import Figures, Reason, StreamRecord
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.changes import settings_changes
from labconsole.verdict.foreign_packets import foreign
from labconsole.verdict.observations import TrialObservations, data_ports
from labconsole.verdict.offered_shortfall import Machine, machines, pauses, same_machine, unseen
from labconsole.verdict.reasons import reason
from labconsole.wire.facts import Login
from labconsole.wire.host_activity import BusyProcess, CpuShares, NodeSurroundings, UsageWindow

# -- queue drain -------------------------------------------------------------------------------------------------------
# Decides whether a rate is the unit under test's, or partly that of a queue that emptied after sending had ended.

LATE_RATIO = 0.01
"""The share of arrivals that may be late without a doubt."""

COARSE_RATIO = 0.01
"""The share of the forwarding rate above which the uncertainty from sampling is too large."""


@dataclass(frozen=True, slots=True)
class Coarse:
    """A forwarding rate that samples of a counter determine only within this share of it."""

    rate_error_ratio: float
    resolution_s: float

    @property
    def sentence(self) -> str:
        """Readable description."""
        return (
            f"the forwarding rate is known to \u00b1 {self.rate_error_ratio:.1%}: samples of the sink's counter, "
            f"{self.resolution_s:.3g} s apart, are all that shows when packets arrived"
        )

    @property
    def figures(self) -> Figures:
        """The evidence for a reason."""
        return {"rate_error_ratio": self.rate_error_ratio, "resolution_s": self.resolution_s}


def coarse(record: StreamRecord) -> Coarse | None:
    """How coarsely the forwarding rate is known, or None if it is known well, or not at all."""
    arrivals = record.arrivals
    error_ratio = rate_error_ratio(arrivals, record.offered_duration_s)
    if arrivals is None or error_ratio is None or error_ratio <= COARSE_RATIO:
        return None
    return Coarse(error_ratio, arrivals.resolution_s)


@dataclass(frozen=True, slots=True)
class QueueDrain:
    """Packets that arrived after the last one was sent: the contents of the path's buffers in packets and seconds."""

    late_packets: int
    packets: int
    buffer_s: float
    window_from: str

    @property
    def sentence(self) -> str:
        """Readable description."""
        return (
            f"{self.late_packets} of {self.packets} packets arrived late, the last {self.buffer_s:.3f} s after "
            f"sending had ended: a buffer on the path delayed them, and the trial is short compared with it"
        )

    @property
    def figures(self) -> Figures:
        """The evidence for a reason."""
        return {
            "late_packets": self.late_packets,
            "packets": self.packets,
            "buffer_s": self.buffer_s,
            "window_from": self.window_from,
        }


def find_queue_drain(record: StreamRecord) -> QueueDrain | None:
    """The late packets if they are more than a momentary queue, or None if they are not or nothing is known."""
    arrivals, sending_s = record.arrivals, record.offered_duration_s
    if arrivals is None or arrivals.late_packets is None or sending_s is None:
        return None
    buffer_s = arrivals.window_s - sending_s
    if arrivals.late_packets <= LATE_RATIO * arrivals.packets or buffer_s <= QUEUED_S:
        return None
    return QueueDrain(arrivals.late_packets, arrivals.packets, buffer_s, arrivals.window_from)


# -- influences --------------------------------------------------------------------------------------------------------
# Other activity on every node during a trial, for the record, and the part of it that makes the run suspect.
#
# On an emulated testbed all nodes share one machine: the time that a hypervisor stole from it is reported but not
# judged.

NAMED_RATIO = 0.05
"""The share of one processor above which a process is named."""

OTHERS = ("other", "labconsole", "guest")
"""Owners of processes that are not ours, by the agent's classification. A guest that the platform attests is ours."""


def influences(seen: TrialObservations, streams: tuple[StreamRecord, ...], uut: str) -> list[Figures]:
    """Every entry of the record's ``influences``: node, kind, a sentence, figures. ``streams``: of every flow."""
    found = list(seen.notes)
    for nodes in machines(seen):
        found += _cpu(seen, nodes)
    for node in seen.end:
        first, last = (reading.surroundings for reading in seen.readings(node))
        attested = _attested(seen, node, uut)
        if last is not None:
            found += _processes(node, last, attested)
        found += _people(node, first, last)
        found += _lists(node, first, last, attested)
    timed: set[tuple[str, str]] = set()
    for raw, record in zip(seen.flows, streams, strict=True):
        sink = (raw.stream.sink.node, raw.stream.sink.interface)
        if sink not in timed:
            found += _timed_by_xdp(record, *sink)
            timed.add(sink)
        found += [
            _entry(each.node, "foreign_packets", each.sentence, **each.figures)
            for each in foreign(seen, raw, record, uut)
        ]
        if record.capture is not None and not record.capture.complete and timed_all(record):
            detail = (
                f"{record.name}: the capture is not complete, and the sink's kernel counted each packet that its NIC "
            )
            detail += (
                "counted"
                + numbers_doubt(record)
                + "; sequence numbers and the sample of delays are from what was captured"
            )
            figures = {"stream": record.name, "dropped_packets": record.capture.dropped_packets}
            found.append(_entry(raw.stream.sink.node, "capture_incomplete", detail, **figures))
        clocks = read_extension(record.extensions, CLOCKS, ClockAgreement)
        if clocks is not None and clocks.contradicted:
            figures = {"stream": record.name, "stated_ns": clocks.stated_ns, "measured_ns": clocks.measured_ns}
            found.append(
                _entry(raw.stream.sink.node, "clocks_contradicted", f"{record.name}: {clocks.unused}", **figures)
            )
        late = find_queue_drain(record)
        if late is not None:
            found.append(_entry(raw.stream.sink.node, "buffered", f"{record.name}: {late.sentence}", **late.figures))
        for node, interface in data_ports(raw, uut):
            paused = pauses(seen, node, interface)
            if paused:
                counts = ", ".join(f"{name} {packets}" for name, packets in paused.items())
                found.append(
                    _entry(node, "flow_control", f"{interface}: {counts}", interface=interface, counters=paused)
                )
            for key, old, new in settings_changes(seen, node, [interface], unjudged=True):
                found.append(_entry(node, "setting", f"{key} went from {old} to {new}"))
    return found


def _timed_by_xdp(record: StreamRecord, node: str, interface: str) -> Iterator[Figures]:
    """An entry for a sink's port: one program measures the times of all streams that end there."""
    timing = packet_times(record)
    xdp_description = None if timing is None else describe_xdp(timing)
    if timing is not None and xdp_description is not None:
        figures = {} if timing.port is None else timing.port.model_dump(mode="json")
        detail = f"{interface}: packets were timed by {timing.by}: {xdp_description}"
        yield _entry(node, "xdp", detail, interface=interface, by=timing.by, **figures)


def _entry(node: str, kind: str, detail: str, **figures: Any) -> Figures:
    return {"node": node, "kind": kind, "detail": detail, **figures}


def _attested(seen: TrialObservations, node: str, uut: str) -> set[str]:
    """Guests that belong to the platform under test or to its background load, on every node that may see them."""
    if not same_machine(seen, node, uut):
        return set()
    second = seen.background.guest if seen.background is not None else None
    names = [*seen.attestation.get("guests", ()), second]
    return {str(name) for name in names if name is not None}


def _cpu(seen: TrialObservations, nodes: Machine) -> Iterator[Figures]:
    """The load of a machine's processors, from its first node that reports it."""
    for node, last in nodes.items():
        if last.window is not None and last.window.cpu is not None:
            yield _processors(seen, nodes, node, last.window, last.window.cpu)
            return


def _processors(seen: TrialObservations, nodes: Machine, node: str, window: UsageWindow, cpu: CpuShares) -> Figures:
    hottest, load = window.hottest, nodes[node].load
    detail = (
        f"processors {cpu.busy_ratio:.0%} busy, {cpu.interrupt_ratio:.0%} in interrupts, {cpu.steal_ratio:.1%} stolen"
    )
    if hottest is not None:
        detail += f"; {hottest.cpu} {hottest.busy_ratio:.0%} busy, {hottest.interrupt_ratio:.0%} in interrupts"
    if load:
        detail += f"; load {load[0]:g}"
    if len(nodes) > 1:
        detail += f"; one machine hosts {len(nodes)} nodes"
    used_s: dict[str, float] = {}
    for reading in nodes.values():
        for whose, seconds in (reading.window.used_s if reading.window is not None else {}).items():
            used_s[whose] = round(used_s.get(whose, 0.0) + seconds, 3)
    hidden = unseen(seen, nodes)
    if hidden is not None and hidden.lower_bound_ratio >= NAMED_RATIO:
        detail += f"; at least {hidden.lower_bound_ratio:.0%} of one used by processes that no node sees"
    return _entry(
        node,
        "cpu",
        detail,
        nodes=list(nodes),
        **cpu.to_wire(),
        hottest=hottest.to_wire() if hottest is not None else None,
        load=load,
        cpus=nodes[node].cpus,
        used_s=used_s,
        window_s=window.elapsed_s,
        unseen_ratio=None if hidden is None else hidden.lower_bound_ratio,
    )


def _processes(node: str, last: NodeSurroundings, attested: set[str]) -> Iterator[Figures]:
    window = last.window
    if window is None:
        return
    for process in window.processes:
        ratio = process.cpu_s / window.elapsed_s if window.elapsed_s else 0.0
        if ratio < NAMED_RATIO or process.whose == "ours":
            continue
        whose = _find_owner(process, last, attested)
        detail = f"{process.name} ({process.pid}, {whose}) used {ratio:.0%} of a processor"
        yield _entry(node, "process", detail, name=process.name, pid=process.pid, whose=whose, cpu_ratio=ratio)


def _find_owner(process: BusyProcess, last: NodeSurroundings, attested: set[str]) -> str:
    """The agent's classification, except that a guest that the platform attests is ours."""
    names = {guest.pid: guest.name for guest in last.guests}
    return "ours" if names.get(process.pid) in attested else process.whose


def _people(node: str, first: NodeSurroundings | None, last: NodeSurroundings | None) -> Iterator[Figures]:
    before, after = ({_login(entry) for entry in side.logins or ()} if side else set() for side in (first, last))
    if before | after:
        logins = sorted(before | after)
        started, went = sorted(after - before), sorted(before - after)
        change = "".join(
            [f"; started: {', '.join(started)}" if started else "", f"; ended: {', '.join(went)}" if went else ""]
        )
        yield _entry(node, "logins", f"{', '.join(logins)}{change}", logins=logins, came=started, went=went)


def _login(entry: Login) -> str:
    return f"{entry.user} on {entry.line}" + (f" from {entry.host}" if entry.host else "")


def _lists(
    node: str, first: NodeSurroundings | None, last: NodeSurroundings | None, attested: set[str]
) -> Iterator[Figures]:
    before, after = (_guest_names(side, attested) for side in (first, last))
    if before | after:
        names = sorted(before | after)
        yield _entry(node, "guests", f"other guests run here: {', '.join(names)}", guests=names)
    sessions = sorted({pid for side in (first, last) if side is not None for pid in side.sessions})
    if sessions:
        detail = f"{len(sessions)} other labconsole session{'s' if len(sessions) > 1 else ''} on {node}"
        yield _entry(node, "sessions", detail, pids=sessions)


def _guest_names(side: NodeSurroundings | None, attested: set[str]) -> set[str]:
    return {guest.name for guest in side.guests if guest.name not in attested} if side is not None else set()


# Activity that is judged


def unobserved(seen: TrialObservations) -> Iterator[Reason]:
    """A reason for everything that could not be observed: it may have disturbed the trial."""
    for note in seen.notes:
        if note.get("kind") == "not_observed":
            yield reason("not_observed", f"{note['node']}: {note['detail']}", node=note["node"])


def doubts(
    seen: TrialObservations, streams: tuple[StreamRecord, ...], limits: Tolerances, uut: str, *, emulated: bool
) -> Iterator[Reason]:
    """Reasons from what others did during the trial."""
    for node in seen.end:
        first, last = (reading.surroundings for reading in seen.readings(node))
        attested = _attested(seen, node, uut)
        if last is not None and last.window is not None:
            yield from _other_cpu(node, last, last.window, attested, limits)
            stolen = last.window.cpu.steal_ratio if last.window.cpu is not None else 0.0
            if stolen > limits.steal_ratio and not emulated:
                detail = f"the hypervisor under {node} took {stolen:.1%} of its processor time"
                yield reason("cpu_stolen", detail, node=node, steal_ratio=stolen)
        if first is not None and last is not None:
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
        if hidden is not None and hidden.lower_bound_ratio > limits.other_cpu_ratio:
            names = ", ".join(nodes)
            yield reason(
                "unseen_cpu",
                f"at least {hidden.lower_bound_ratio:.0%} of a processor went to processes that none of {names} sees, "
                f"on the machine they run on",
                nodes=list(nodes),
                cpu_ratio=hidden.cpu_ratio,
                error_ratio=hidden.error_ratio,
            )
    traffic = [
        each for raw, record in zip(seen.flows, streams, strict=True) for each in foreign(seen, raw, record, uut)
    ]
    for each in traffic:
        if each.doubtful(limits.foreign_packets):
            yield reason("foreign_frames", f"{each.node}/{each.sentence}", node=each.node, **each.figures)


def _other_cpu(
    node: str, last: NodeSurroundings, window: UsageWindow, attested: set[str], limits: Tolerances
) -> Iterator[Reason]:
    if not window.elapsed_s:
        return
    used_s = sum(window.used_s.get(whose, 0.0) for whose in OTHERS)
    others = [process for process in window.processes if process.whose in OTHERS]
    used_s -= sum(process.cpu_s for process in others if _find_owner(process, last, attested) == "ours")
    ratio = used_s / window.elapsed_s
    if ratio > limits.other_cpu_ratio:
        named = [process for process in others if _find_owner(process, last, attested) != "ours"][:5]
        named_shares = ", ".join(f"{process.name} {process.cpu_s / window.elapsed_s:.0%}" for process in named)
        yield reason(
            "other_cpu",
            f"other processes used {ratio:.0%} of a processor on {node}"
            + (f": {named_shares}" if named_shares else ""),
            node=node,
            cpu_ratio=ratio,
            processes=[{"name": process.name, "pid": process.pid, "cpu_s": process.cpu_s} for process in named],
        )
