"""End to end: a small flow from every source at once through each platform must arrive complete, in order and once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from labconsole.contracts.driver import Driver, Prepared
from labconsole.engine.check.context import CheckContext
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, skipped, warned
from labconsole.engine.live.events import Event
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import Telemetry
from labconsole.engine.trial.forwarding_proof import wait_forwarding
from labconsole.engine.trial.setup import TrialSettings, find_wiring
from labconsole.engine.trial.trial import Trial
from labconsole.errors import Aborted, LabError, NodeError
from labconsole.measure.ledger import format_hop
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.run import RunRecord, StreamRecord
from labconsole.verdict.record import build_record
from labconsole.wire.survey import TakeSurvey

# -- rehearsal ---------------------------------------------------------------------------------------------------------
# A trial that is not kept: a run's procedure without a store or listeners.

LEARN_S = 4.0
"""Time until a platform must forward. A stream that does not forward by then is still measured, to identify it."""

DRAIN_S = 0.3
"""Drain time on virtual links, whose counters are exact at every moment. A NIC may update its counters only every
second or two, and packets not counted yet would look like a contradiction, so other testbeds use their own drain_s."""


def _ignore_event(event: Event) -> None:
    """Discard the event: a rehearsal is not a run."""


async def rehearse(
    bench: CheckContext, request: DesignPoint, streams: Sequence[Stream]
) -> tuple[RunRecord, str | None]:
    """Take one trial of exactly these streams; return its record and why some did not forward at first, or None.

    The platform is set up for the trial and undone afterwards. Raises LabError if no frame could be sent.
    """
    session, uut = bench.session, bench.inventory.uut
    inventory = bench.inventory.model_copy(update={"streams": tuple(streams)})
    driver = session.driver_for(request.platform, bench.inventory)
    wirings = [find_wiring(stream, bench.inventory, session.telemetry) for stream in streams]
    prepared = await driver.prepare(bench.link(uut), wirings)
    try:
        dark = await _learn(bench, inventory, prepared, request)
        record = await _take(bench, inventory, prepared, request)
    finally:
        await _restore(bench, driver)
    return record, dark


async def _learn(bench: CheckContext, inventory: Inventory, prepared: Prepared, request: DesignPoint) -> str | None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LEARN_S

    def enough() -> bool:
        # A graceful stop closes what was opened; a cancellation might leave a generator armed.
        return bench.session.stopping or loop.time() > deadline

    try:
        await wait_forwarding(
            inventory, bench.links, prepared, inventory.streams, generator=request.generator, stopping=enough
        )
    except Aborted:
        return f"not every stream came through within {LEARN_S:g} s"
    except NodeError as exc:
        return exc.message
    return None


async def _take(bench: CheckContext, inventory: Inventory, prepared: Prepared, request: DesignPoint) -> RunRecord:
    session, defaults = bench.session, inventory.defaults
    links = {name: bench.link(name) for name in _nodes(inventory)}
    live = LiveStreams(Telemetry(), inventory, {name: link.monotonic_offset_ns for name, link in links.items()})
    trial = Trial(
        run_id=new_run_id(datetime.now(UTC)),
        inventory=inventory,
        request=request,
        links=links,
        prepared=prepared,
        settings=replace(
            TrialSettings.of(inventory, bench.plan),
            drain_s=min(DRAIN_S, defaults.drain_s) if inventory.emulated else defaults.drain_s,
        ),
        live=live,
        nodes={},
        guests=bench.session.guest_processes(),
        emit=_ignore_event,
    )
    with session.attending(trial):
        observations = await trial.execute()
    return build_record(
        observations,
        inventory=inventory,
        request=request,
        operator=session.operator,
        plan=None,
        environment={},
        finished_at=utc_now(),
        tolerances=session.tolerances,
    )


def _nodes(inventory: Inventory) -> list[str]:
    names = [inventory.uut]
    for stream in inventory.streams:
        names += [stream.source.node, stream.sink.node]
    return names


async def _restore(bench: CheckContext, driver: Driver) -> None:
    link = bench.links.get(bench.inventory.uut)
    if link is not None:
        await driver.restore(link)


# -- flows -------------------------------------------------------------------------------------------------------------

LOAD_RATIO = 0.01
"""Share of the slowest link's rate. Loss at this rate has another cause than load."""

FLOW_S = 0.5
FIREWALL_HINT = "look at uut.firewall, uut.routes and the cables above"


async def flow(bench: CheckContext, platform: str) -> CheckFinding:
    """Every source's flow through one platform at 1 % of the line."""
    streams, blocked = bench.usable()
    if not streams:
        return skipped("; ".join(dict.fromkeys(reason.partition(": ")[2] for reason in blocked)))
    slowest_bps = min(stream.link_speed_bps for stream in streams)
    request = DesignPoint(
        platform=platform,
        frame=FrameSize(bench.frame_sizes()[0]),
        sources=len(streams),
        target=max(1, round(slowest_bps * LOAD_RATIO)),
        duration_s=FLOW_S,
        generator=(bench.plan.generator if bench.plan is not None else None) or bench.inventory.defaults.generator,
    )
    before = await _refusals(bench)
    record, dark = await rehearse(bench, request, streams)
    after = await _refusals(bench)
    refused = after - before if before is not None and after is not None else None
    return judge(record, dark, refused, left_out=blocked)


async def _refusals(bench: CheckContext) -> int | None:
    """ICMP errors that the UUT has sent so far."""
    return (await bench.link(bench.inventory.uut).ask(TakeSurvey(tools=[]), timeout_s=8)).icmp.sent_unreachable


def judge(record: RunRecord, dark: str | None, refused: int | None, *, left_out: list[str]) -> CheckFinding:
    """The finding on one rehearsal: each stream's loss and its place, duplicates and reordering."""
    complaints: list[tuple[str, str]] = []
    counts_by_stream = []
    for stream in record.streams:
        counts = (stream.measured_packets, stream.offered_packets)
        measured, offered = ("?" if packets is None else packets for packets in counts)
        counts_by_stream.append(f"{stream.name} {measured} of {offered}")
        complaints += _complaints(stream)
    if refused:
        complaints.append((f"the UUT sent {refused} ICMP unreachable", "it rejects frames instead of forwarding them"))
    evidence = f"{', '.join(counts_by_stream)} packets at {LOAD_RATIO:.0%} load"
    values: Values = {
        "streams": [
            {
                "name": s.name,
                "offered_packets": s.offered_packets,
                "measured_packets": s.measured_packets,
                "loss_packets": s.loss_packets,
            }
            for s in record.streams
        ],
        "icmp_unreachable": refused,
        "attestation": record.environment.get("platform"),
        "verdict": record.verdict.status,
        "reasons": [reason.code for reason in record.verdict.reasons],
    }
    reasons = "; ".join(dict.fromkeys(reason.detail for reason in record.verdict.reasons))
    if complaints:
        problems = "; ".join(text for text, _ in complaints)
        return failed(f"{evidence}: {problems}", complaints[0][1] + (f" ({dark})" if dark else ""), **values)
    if record.verdict.status == "invalid":
        return failed(f"{evidence}: {reasons}", "a run like this would be invalid for the same reason", **values)
    missing = f"; left out: {'; '.join(left_out)}" if left_out else ""
    if record.verdict.status == "suspect":
        hint = "a run like this would be suspect for the same reason"
        return warned(f"{evidence}: {reasons}{missing}", hint, **values)
    if left_out:
        return warned(
            f"{evidence}{missing}", "see above for the cause (SSH session, lease, links up), then check again", **values
        )
    return passed(f"{evidence}: none lost, reordered or duplicated", **values)


def _complaints(stream: StreamRecord) -> list[tuple[str, str]]:
    """(problem, remedy) pairs of one stream."""
    found = []
    offered, measured, lost = stream.offered_packets, stream.measured_packets, stream.loss_packets
    if offered is None:
        found.append((f"the generator of {stream.name} did not report what it sent", "look at tools.generator"))
    elif offered == 0:
        found.append((f"{stream.name} sent nothing", "look at nic.up and tools.generator of its source"))
    elif measured == 0:
        found.append(
            (
                f"{stream.name} did not come through{_place(stream)}",
                f"nothing of {stream.name} reached its sink: {FIREWALL_HINT}",
            )
        )
    elif lost and lost > 0:  # a negative loss is left to the verdict
        share = f"{lost / offered:.2%}"
        found.append((f"{stream.name} lost {lost} ({share}){_place(stream)}", f"loss without load: {FIREWALL_HINT}"))
    elif measured is None:
        found.append((f"{stream.name} could not be counted at its sink", "look at tools.capture and capacity.disk"))
    sequence = stream.sequence
    if sequence is not None and sequence.reordered_packets:
        found.append(
            (
                f"{stream.name} had {sequence.reordered_packets} reordered",
                "something on the path spreads frames over several queues: give the UUT's NICs one queue, or pin them",
            )
        )
    if sequence is not None and sequence.duplicate_packets:
        found.append(
            (
                f"{stream.name} had {sequence.duplicate_packets} duplicated",
                "frames take two paths: look for a second bridge or a loop",
            )
        )
    return found


def _place(stream: StreamRecord) -> str:
    """Where the ledger places the largest loss."""
    worst = max(stream.ledger, key=lambda hop: hop.lost_packets or 0, default=None)
    if worst is None or not worst.lost_packets:
        return ""
    return f", {worst.lost_packets} of it before {format_hop(worst.hop)} ({worst.node}/{worst.interface})"


async def judge_platform_flow(bench: CheckContext, platform: str) -> CheckFinding:
    """Run ``flow``; a platform that cannot be set up is a finding, too."""
    try:
        return await flow(bench, platform)
    except LabError as exc:
        return failed(str(exc), f"platform {platform} could not be set up or measured: the evidence has the reason")
