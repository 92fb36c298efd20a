"""Whether a plan can be measured here: rates, the calibrated envelope, time; and whether a calibration exists."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from labconsole.engine.check.context import CheckContext
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, skipped, warned
from labconsole.engine.execution.pending import remaining
from labconsole.engine.trial.second_guest import find_reference, is_reference, reference_command
from labconsole.errors import ConfigError, OtherTestbed, StoreError
from labconsole.model.design_point import FORWARDING_SHARES
from labconsole.model.limits_check import check_request
from labconsole.model.plan.estimate import estimate
from labconsole.model.plan.loader import describe_testbed, find_missing_platforms, platforms_needed
from labconsole.model.plan.order import describe_fixed_order
from labconsole.model.plan.plan import PlannedPoint
from labconsole.model.record.envelope import Envelope, EnvelopePoint, node_versions, parse_envelope
from labconsole.units import counted, format_count
from labconsole.verdict.calibration_check import CODE, rate_doubts

OLD_DAYS = 90
LONG_S = 7 * 86400.0
MAX_NAMED = 3


async def _latest(bench: CheckContext) -> Envelope | None:
    """The newest calibration of this testbed, or None if there is none. Raises StoreError."""
    latest = getattr(bench.session.store, "latest_calibration", None)
    found = None if latest is None else await asyncio.to_thread(latest, bench.inventory.fingerprint())
    return None if found is None else parse_envelope(found)


async def calibration(bench: CheckContext) -> CheckFinding:
    """A valid calibration exists. Without one, the limits of generator and sinks are unknown."""
    try:
        envelope = await _latest(bench)
    except StoreError as exc:
        return failed(str(exc), "calibrate again: run `labconsole calibrate`")
    if envelope is None:
        return skipped("this testbed has never been calibrated: run `labconsole calibrate`")
    nodes = {}
    for node in bench.links:
        drivers = {
            key[2]: live.link.driver
            for key, live in bench.session.telemetry.interfaces.items()
            if key[0] == node and not key[1]
        }
        nodes[node] = node_versions(await bench.facts(node), drivers)
    reason = envelope.void_reason(bench.inventory.fingerprint(), nodes, bench.inventory.defaults.capture_buffer_kib)
    if reason is not None:
        return failed(f"{envelope.calibration_id}: {reason}", "calibrate again: run `labconsole calibrate`")
    age = _age_days(envelope.finished_at)
    evidence = f"{envelope.calibration_id} of {envelope.finished_at}"
    if age is not None and age > OLD_DAYS:
        return warned(f"{evidence}, {age:.0f} days old", "calibrate again: run `labconsole calibrate`")
    return passed(evidence)


def _age_days(text: str) -> float | None:
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (datetime.now(UTC) - then).total_seconds() / 86400 if then.tzinfo else None


def _all_are(points: int) -> str:
    return "the only point is" if points == 1 else f"all {points} points are"


def _format_some(texts: list[str]) -> str:
    """A few of the texts, without duplicates."""
    different = list(dict.fromkeys(texts))
    more = f"; and {len(different) - MAX_NAMED} more" if len(different) > MAX_NAMED else ""
    return "; ".join(different[:MAX_NAMED]) + more


async def points(bench: CheckContext) -> CheckFinding:
    """Every point is possible on this testbed: platform, sources, line rate."""
    assert bench.plan is not None
    total = len(bench.plan.points)
    if lacking := find_missing_platforms(bench.plan, bench.inventory):
        other = OtherTestbed([platforms_needed(lacking)], has=describe_testbed(bench.inventory))
        hint = "run it on a testbed that has these platforms, or add them to hosts.yaml"
        return failed(f"the plan {other}", hint, points=total, needs=lacking)
    refused = []
    for point in bench.plan.points:
        try:
            check_request(point.request, bench.inventory)
            bench.session.check_background(point.request)
        except ConfigError as exc:
            refused.append(f"point {point.index}: {exc}")
    if refused:
        return failed(
            f"{len(refused)} of {total} points: {_format_some(refused)}",
            "remove these values from the plan, or correct link_speed and platforms in hosts.yaml",
            points=total,
            refused=len(refused),
        )
    return passed(f"{_all_are(total)} within line rate, platforms and streams", points=total, refused=0)


async def references(bench: CheckContext) -> CheckFinding:
    """The maximum that defines a forwarding second guest's load is stored, or the plan measures it first."""
    assert bench.plan is not None
    inventory, store = bench.inventory, bench.session.store
    requests = [point.request for point in bench.plan.points]
    forwarding = [request for request in requests if request.background in FORWARDING_SHARES]
    if not forwarding:
        return skipped("no point of the plan has a forwarding second guest")
    missing: dict[str, None] = {}
    found: dict[str, float] = {}
    for request in {(r.platform, r.frame.includes_fcs): r for r in forwarding}.values():
        if any(is_reference(other, request) for other in requests):
            continue
        reference = await asyncio.to_thread(find_reference, request, inventory, store)
        if reference is None:
            missing[reference_command(request)] = None
        else:
            found[request.platform] = reference.measured_pps
    if missing:
        return failed(
            f"not yet measured with an idle second guest: the maximum of {len(missing)} platforms",
            "run first: " + "; ".join(missing),
            missing=list(missing),
        )
    maxima = ", ".join(f"{name} {format_count(round(pps))} packets/s" for name, pps in found.items())
    return passed(maxima or "the plan measures them itself", **found)


async def envelope(bench: CheckContext) -> CheckFinding:
    """Every point is within the calibrated limits of generator and sinks."""
    assert bench.plan is not None
    try:
        found = await _latest(bench)
    except StoreError as exc:
        return skipped(str(exc))
    if found is None:
        return skipped("this testbed has never been calibrated: run `labconsole calibrate`")
    beyond, unknown = [], []
    for point in bench.plan.points:
        covering = found.point_for(point.request.frame.pkt_size_bytes, point.request.sources)
        if covering is None:
            unknown.append(_format_size(point))
            continue
        over, uncovered = _compare_with_envelope(point, covering)
        beyond += over
        unknown += uncovered
    total = len(bench.plan.points)
    not_calibrated = f"not calibrated: {_format_some(unknown)}" if unknown else ""
    if beyond:
        return warned(
            "; ".join(filter(None, (_format_some(beyond), not_calibrated))),
            "such runs will be marked instrument_limited and enter no mean: remove them from the plan, or use a "
            "faster generator or sink",
            points=total,
        )
    if unknown:
        return warned(not_calibrated, "calibrate these too: run `labconsole calibrate`", points=total)
    return passed(f"{_all_are(total)} within calibration {found.calibration_id}", points=total)


def _compare_with_envelope(point: PlannedPoint, covering: EnvelopePoint) -> tuple[list[str], list[str]]:
    """Parts of a point beyond the envelope of a stream, and parts it does not cover, by the verdict's rule."""
    request = point.request
    flat_out = " (target max)" if request.intended_pps is None else ""
    beyond, unknown = [], []
    for stream in covering.streams[: request.sources]:
        if request.generator not in ("auto", stream.generator):
            unknown.append(f"{_format_size(point)} with {request.generator}")
            continue
        doubts = list(rate_doubts(stream, covering, request, request.intended_pps))
        over = next((evidence for code, _, evidence in doubts if code == CODE), None)
        if over is not None:
            beyond.append(
                f"{request.frame.pkt_size_bytes} B at {format_count(round(over['rate_pps']))} packets/s{flat_out} "
                f"is above {stream.stream}'s limit, {over['part']} ({format_count(round(over['calibrated_pps']))})"
            )
        elif doubts:
            unknown.append(f"{_format_size(point)}{flat_out}")
    return beyond, unknown


def _format_size(point: PlannedPoint) -> str:
    sources = point.request.sources
    return f"{point.request.frame.pkt_size_bytes} B from {sources} source{'s' if sources > 1 else ''}"


async def order(bench: CheckContext) -> CheckFinding:
    """A plan in blocks randomises its order. Without that, no comparison is valid."""
    assert bench.plan is not None
    plan = bench.plan
    if plan.set_ups is None:
        return skipped("the plan has no blocks (set_ups)")
    undrawn = describe_fixed_order(plan.set_ups, plan.order)
    return (
        passed(f"{plan.order}, seed {plan.seed}") if undrawn is None else warned(undrawn, "set order: blocked-random")
    )


async def time(bench: CheckContext) -> CheckFinding:
    """The plan's duration, without what is stored already."""
    assert bench.plan is not None
    todo = await asyncio.to_thread(remaining, bench.plan, bench.session)
    estimated = estimate(bench.plan, bench.inventory, bench.session.boots_s, todo)
    stored = bench.plan.trials - len(todo)
    hours, minutes = int(estimated.total_s // 3600), int(estimated.total_s % 3600 // 60)
    evidence = (
        f"{counted(estimated.trials, 'trial')} of {estimated.per_trial_s:.1f} s on average, about "
        f"{hours}:{minutes:02d}:{int(estimated.total_s % 60):02d} h"
    )
    if stored:
        evidence += f"; {format_count(stored)} are already stored"
    values: Values = {"trials": estimated.trials, "stored_trials": stored, "total_s": estimated.total_s}
    if estimated.total_s > LONG_S:
        return warned(
            evidence,
            "the plan can be interrupted and resumed; or lower repetitions, which can be raised later",
            **values,
        )
    return passed(evidence, **values)
