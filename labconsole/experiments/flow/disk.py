"""A guest that works on its disk while others send: its command, its marks and its effect on the others. Pure.

Its marks are datagrams from ports of their own, so that the sink's capture stamps them by the clock of the bins.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labconsole.engine.crew_sink import find_shared_span
from labconsole.experiments.flow.rates import bin_rates
from labconsole.experiments.flow.record import BackgroundDiskRecord, FlowRequested, SinkFlowRecord
from labconsole.experiments.flow.script import (
    FIRST_SOURCE_PORT,
    PORTS_PER_GUEST,
    SINK_ADDRESS,
    SINK_PORT,
    FlowWindow,
    SenderAnswer,
    build_shell_line,
    read_answer,
)
from labconsole.measure.fairness import during_ratio, recovery_bins, whole_bins
from labconsole.model.flow_scenarios import DiskBeside
from labconsole.model.record.run import Reason
from labconsole.platforms.base.crew_disks import build_disk_command
from labconsole.verdict.reasons import reason
from labconsole.wire.flows import CountedFlow

MARK_BYTES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskWorker:
    """The guest that works, numbered from 0. ``disk``: where its disk is in the guest, and its size in MiB."""

    name: str
    address: str
    mac: str
    number: int
    disk: tuple[str, int]
    neighbour: str | None

    @property
    def ports(self) -> tuple[int, int]:
        """The UDP source ports of its marks, before and after its work."""
        first = FIRST_SOURCE_PORT + PORTS_PER_GUEST * self.number
        return first + PORTS_PER_GUEST - 2, first + PORTS_PER_GUEST - 1

    def line(self, background: DiskBeside) -> str:
        """The command for its shell."""
        before, after = (
            f"iperf -c {SINK_ADDRESS} -p {SINK_PORT} -u -l {MARK_BYTES} -n {MARK_BYTES} -B {self.address}:{port} "
            "--no-udp-fin >/dev/null 2>&1"
            for port in self.ports
        )
        work = f"sh -c {shlex.quote(build_disk_command(self.disk, 1, background.command()))}"
        both = f"{before}; {work}; s=$?; {after}; (exit $s)"
        return build_shell_line(both, after_s=background.from_s, neighbour=self.neighbour)


def find_marks(worker: DiskWorker, window: FlowWindow) -> tuple[CountedFlow | None, CountedFlow | None]:
    """The counted marks before and after the work, each None if it did not arrive."""
    counted = window.counted or {}
    before, after = (counted.get((worker.mac, port, SINK_PORT)) for port in worker.ports)
    return before, after


def build_disk_observation(
    worker: DiskWorker,
    background: DiskBeside,
    window: FlowWindow,
    flows: Sequence[SinkFlowRecord],
    guests: Sequence[str],
    requested: FlowRequested,
) -> BackgroundDiskRecord:
    """Build the record of the work, with the others' rates before, during and after it."""
    said = window.said(worker.name)
    answer = SenderAnswer() if said is None or said.printed is None else read_answer(said.printed)
    before, after = find_marks(worker, window)
    found = BackgroundDiskRecord(
        guest=worker.name,
        address=worker.address,
        mac=worker.mac,
        job=background.job,
        size=background.size,
        exit_status=answer.exit_status,
        output=answer.output,
        mark_packets=sum(each.packets for each in (before, after) if each is not None),
        start_ns=None if before is None else before.last_at_ns,
        end_ns=None if after is None else after.first_at_ns,
    )
    return found.model_copy(update=derive_rates_around(found, flows, guests, window.origin_ns, requested))


def derive_rates_around(
    seen: BackgroundDiskRecord,
    flows: Sequence[SinkFlowRecord],
    guests: Sequence[str],
    origin_ns: int | None,
    requested: FlowRequested,
) -> dict[str, object]:
    """The others' rates before, during and after the work, as fields of the record."""
    bin_ns, span_ns = round(requested.bin_s * 1e9), find_shared_span(flows)
    if origin_ns is None or seen.start_ns is None or seen.end_ns is None or span_ns is None:
        return {}
    first_ns, last_ns = span_ns
    before = whole_bins(first_ns, min(seen.start_ns, last_ns), origin_ns, bin_ns)
    during = whole_bins(seen.start_ns, min(seen.end_ns, last_ns), origin_ns, bin_ns)
    after, stop = whole_bins(seen.end_ns, last_ns, origin_ns, bin_ns)
    counted = max((len(flow.bin_packets) for flow in flows), default=0)
    if max(stop, during[1]) > counted + 1:
        return {}  # no counts exist beyond the bins
    rates = [0.0] * max(stop, during[1])
    for guest in guests:
        own = bin_rates(flows, guest, len(rates), requested.payload_bytes, requested.bin_s)
        rates = [rate + more for rate, more in zip(rates, own, strict=True)]
    waited = recovery_bins(rates[:stop], before, after) if during[0] < during[1] else None
    return {
        "before_bins": before if before[0] < before[1] else None,
        "during_bins": during if during[0] < during[1] else None,
        "during_ratio": during_ratio(rates, before, during),
        "recovered_s": None if waited is None else waited * requested.bin_s,
    }


def disk_reasons(requested: FlowRequested, seen: BackgroundDiskRecord | None) -> Iterator[Reason]:
    """Reasons against a trial in which a guest was to work on its disk."""
    if requested.disk is None:
        return
    if seen is None:
        yield reason("not_measured", "the work on the disk was not observed")
        return
    if seen.exit_status is None:
        detail = f"{seen.guest}: its report on the end of its work on the disk is unreadable"
        yield reason("guests_missing", detail, guest=seen.guest)
    elif seen.exit_status != 0:
        why = f": {seen.output}" if seen.output else ""
        detail = f"{seen.guest}: {seen.job} ended with status {seen.exit_status}{why}"
        yield reason("job_failed", detail, guest=seen.guest, exit_status=seen.exit_status)
    for what, at_ns in (("before", seen.start_ns), ("after", seen.end_ns)):
        if at_ns is None:
            detail = f"{seen.guest}: the mark {what} its work on the disk did not arrive at the sink"
            yield reason("mark_lost", detail, guest=seen.guest)
    if seen.start_ns is not None and seen.end_ns is not None and seen.during_ratio is None:
        detail = "no bin in which the others send lies wholly before the work on the disk, or none in it"
        yield reason("rate_uncertain", detail, guest=seen.guest)
