"""Flows out of guests as plain lines of text: what each delivered to the sink, and how they shared the link."""

from __future__ import annotations

from typing import Any

from labconsole.experiments.flow.limiters import waits_for_credit
from labconsole.experiments.flow.live_view import format_line_share
from labconsole.experiments.flow.plan import FlowPoint
from labconsole.experiments.flow.procedure import describe_receiver
from labconsole.experiments.flow.quantities import quantities, sent_bps
from labconsole.experiments.flow.record import FlowRecord, ReceiverRecord, RingGuestRecord, SenderRecord
from labconsole.experiments.flow.report_data import describe_missing_result, summarize_compared
from labconsole.experiments.flow.script import reported_sent_s
from labconsole.experiments.flow.summary import BareHostComparison, FlowPointResult, FlowsSummary, GuestResult
from labconsole.experiments.flow.weights import WeightStepResult
from labconsole.measure.statistics.as_json import effect_json, mean_json
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.flow_scenarios import weights_text
from labconsole.model.plan.guest_kind import GuestText
from labconsole.report.formatting import format_effect, format_mean
from labconsole.report.trial_text import describe_left_out, format_sink
from labconsole.text.cells import UNKNOWN
from labconsole.units import format_rate_bps, format_target

MAX_GUESTS = 20
MAX_STEPS = 30
MEGA = 1e6


def format_flow_request(record: FlowRecord) -> str:
    """The request in one line."""
    request = record.requested
    limits = f", limit {', '.join(map(format_target, request.limits_bps))}" if request.limits_bps else ""
    placed = "" if request.cpu == "any" else f", cpu {request.cpu}"
    if request.pattern == "ring":
        return f"{request.platform}: {request.guests} guests in a ring{limits}{placed}"
    if request.pattern == "in":
        many = f"{request.guests} guests are sent" if request.guests > 1 else "1 guest is sent"
        each = " each" if request.guests > 1 else ""
        return f"{request.platform}: {many} {format_target(request.offered_bps)}{each}{placed}"
    text = f"{request.platform}: {request.guests} guest{'s offer' if request.guests > 1 else ' offers'} "
    text += format_target(request.offered_bps)
    text += f", the first in {request.greedy} flows" if request.greedy > 1 else ""
    text += limits
    text += "" if request.weights is None else f", {request.weights.words()}"
    text += "" if request.disk is None else f", {request.disk.words()}"
    text += f", all but the first {request.second_after_s:g} s later" if request.second_after_s else ""
    return text + placed


def format_flow_result(record: FlowRecord) -> str:
    """Format ``95.7 Mbit/s of payload, 100.00 % of the line``."""
    if record.ring and record.sum_bps is not None:
        jain = "" if record.jain is None else f", Jain {record.jain:.4f}"
        return f"{format_rate_bps(record.sum_bps)} out of all guests{jain}"
    if record.sum_bps is None or record.line_ratio is None:
        return UNKNOWN
    jain = "" if record.jain is None or record.requested.guests < 2 else f", Jain {record.jain:.4f}"
    return f"{format_rate_bps(record.sum_bps)} of payload, {format_line_share(record)}{jain}"


def format_trial(record: FlowRecord) -> list[str]:
    """The trial between its request and its verdict."""
    while_all = ""
    if record.shared_from is not None and record.shared_to is not None:
        bin_s = record.requested.bin_s
        while_all = f" from {record.shared_from * bin_s:g} to {record.shared_to * bin_s:g} s"
    if record.ring and record.window_s is not None:
        while_all = f" for {record.window_s:.1f} s by the clock of the unit under test"
    head = "read by all" if record.receivers else "while all sent"
    lines = [f"{head}{while_all}: {format_flow_result(record)}", *_receiver_lines(record)]
    lines += [_ring_line(each) for each in record.ring[:MAX_GUESTS]]
    if len(record.ring) > MAX_GUESTS:
        lines.append(f"and {len(record.ring) - MAX_GUESTS} more guests")
    shares = record.requested.weights is not None and not record.requested.limits_bps
    payload_bytes = record.requested.payload_bytes
    lines += [_guest_line(each, payload_bytes, shares=shares) for each in record.senders[:MAX_GUESTS]]
    if len(record.senders) > MAX_GUESTS:
        lines.append(f"and {len(record.senders) - MAX_GUESTS} more guests")
    lines += [*_weight_lines(record), *_disk_lines(record), *_sharing_lines(record)]
    if record.sink is not None:
        lines.append(format_sink(record.sink))
    if record.start_skew_s is not None:
        late_s = record.requested.second_after_s
        line = f"off from the requested {late_s:g} s" if late_s else "apart"
        lines.append(f"the first and the last guest began {record.start_skew_s * 1e3:.1f} ms {line}")
    return lines


def _ring_line(each: RingGuestRecord) -> str:
    out = UNKNOWN if each.out_bps is None else format_rate_bps(each.out_bps)
    text = f"{each.guest + ' → ' + each.to:<10} {out} at its interface"
    text += "" if each.said_bps is None else f"; {format_rate_bps(each.said_bps)} of payload by its own report"
    if each.limiter is not None and each.limiter.rate_bps is not None:
        text += f"; limit {format_rate_bps(each.limiter.rate_bps)} in frames"
    return text


def _receiver_lines(record: FlowRecord) -> list[str]:
    """A line per guest with its ledger, and one of the source."""
    lines = [f"{each.guest:<6} {describe_receiver(each)}" for each in record.receivers[:MAX_GUESTS]]
    lines += (
        [f"       {_format_receiver_counts(each)}" for each in record.receivers[:1]]
        if len(record.receivers) == 1
        else []
    )
    if (more := len(record.receivers) - MAX_GUESTS) > 0:
        lines.append(f"and {more} more guests")
    if record.source is not None:
        source, sent = record.source, [each.sent_packets for each in record.receivers]
        total = UNKNOWN if None in sent else sum(each or 0 for each in sent)
        lines.append(
            f"source {source.node}/{source.interface} ({source.generator}): {total} packets sent, "
            f"{UNKNOWN if source.nic_packets is None else source.nic_packets} left its NIC, "
            f"{UNKNOWN if source.uut_packets is None else source.uut_packets} came in at {source.uut_interface}"
        )
    return lines


def _format_receiver_counts(each: ReceiverRecord) -> str:
    counts = [
        ("sent", each.sent_packets),
        ("handed to it", each.handed_packets),
        ("in at its NIC", each.nic_packets),
        ("at its UDP layer", each.ip_packets),
        ("read", each.udp_packets),
    ]
    text = "packets: " + ", ".join(f"{UNKNOWN if count is None else count} {text}" for text, count in counts)
    return text + (f"; {each.dropped_packets} dropped at its interface" if each.dropped_packets else "")


def _guest_line(sender: SenderRecord, payload_bytes: int, *, shares: bool) -> str:
    """A guest's line, in the time of the line above. ``shares``: it has a class of the queue without a limit of its
    own.
    """
    shared, own = (UNKNOWN if bps is None else format_rate_bps(bps) for bps in (sender.shared_bps, sender.payload_bps))
    text = f"{sender.guest:<6} {shared} of payload; {own} from its first to its last packet, {sender.packets} packets"
    if sender.host_packets is not None:
        sent, sent_s = sent_bps(sender, payload_bytes), reported_sent_s(sender.output)
        rate = "" if sent is None else f", {format_rate_bps(sent)}"
        if sent is not None and sent_s is not None and not waits_for_credit(sender.limiter):
            rate += f" for {sent_s:.1f} s by its own clock"
        lost = UNKNOWN if sender.lost_packets is None else sender.lost_packets
        text += f"; it sent {sender.host_packets}{rate}, of which {lost} did not arrive"
    if sender.limiter is not None and sender.limiter.rate_bps is not None:
        text += "" if shares else f"; limit {format_rate_bps(sender.limiter.rate_bps)} in frames"
        if sender.limiter.dropped_packets is not None:
            text += "; its class of the queue" if shares else ", which"
            text += f" dropped {sender.limiter.dropped_packets}"
    return text


def _sharing_lines(record: FlowRecord) -> list[str]:
    found, lines = quantities(record), []
    if found.attained:
        each = ", ".join(f"{guest} {ratio:.4f}" for guest, ratio in found.attained.items())
        lines.append(f"attained of the limit, in frames: {each}")
    if found.interference_ratio is not None:
        lines.append(f"interference with the first guest: {found.interference_ratio:+.2%} of its rate alone")
    if found.dominant_bins is not None and found.dominant_s is not None:
        some, of = found.dominant_bins
        lines.append(f"one had over 90 % in {some / of:.1%} of the bins, {found.dominant_s:g} s at a stretch")
    return lines


def _disk_lines(record: FlowRecord) -> list[str]:
    seen = record.disk
    if seen is None:
        return []
    marks, origin_ns = (seen.start_ns, seen.end_ns), record.origin_ns or 0
    when = " to ".join(UNKNOWN if each is None else f"{(each - origin_ns) / 1e9:.3f}" for each in marks)
    ended = UNKNOWN if seen.exit_status is None else seen.exit_status
    lines = [f"{seen.guest}: {seen.job} from {when} s by its marks, ended with status {ended}"]
    if seen.during_ratio is not None:
        again = "never" if seen.recovered_s is None else f"{seen.recovered_s:g} s after it"
        lines.append(f"  the others brought {seen.during_ratio:.2%} of before meanwhile, and 95 % again {again}")
    return lines


def _weight_lines(record: FlowRecord) -> list[str]:
    if record.weights is None:
        return []
    mean = UNKNOWN if record.weights.mean_error_ratio is None else f"{record.weights.mean_error_ratio:.4f}"
    lines = [f"shares by weight in a queue of {format_rate_bps(record.weights.link_bps)} in frames; mean error {mean}"]
    for step in record.weights.steps[:MAX_STEPS]:
        shares = ", ".join(f"{share:.4f}" for share in step.share_ratios) or UNKNOWN
        error = UNKNOWN if step.error_ratio is None else f"{step.error_ratio:.4f}"
        late = UNKNOWN if step.taken_s is None else f"{(step.taken_s - step.due_s) * 1e3:.1f} ms"
        from_s = f"from {step.due_s:g} s {weights_text(step.weights)}"
        lines.append(f"  {from_s}: shares {shares}, error {error}; in force {late} late")
    more = len(record.weights.steps) - MAX_STEPS
    return lines + ([f"  and {more} more steps"] if more > 0 else [])


def summary_lines(summary: FlowsSummary) -> list[str]:
    """Rates of all points, guest by guest, and how they share."""
    lines = [
        "payload in Mbit/s while all guests send, or receive; mean with its 95 % interval over set-ups; only valid "
        "trials enter"
    ]
    for point in summary.points:
        lines.append(f"  {_format_point(point, summary.name_of(point.key))}")
        lost = [f"{place} {_format_mean(found, 0.01, 3)} %" for place, found in point.lost_ratios.items() if found.mean]
        lines += [f"    lost of what was sent: {', '.join(lost)}"] if lost else []
        for guest in point.guests:
            attained = (
                "" if guest.attained_ratio is None else f", {_format_mean(guest.attained_ratio, 1, 4)} of its limit"
            )
            spread = "" if guest.spread_bps is None else f", over bins sd {_format_mean(guest.spread_bps)}"
            lines.append(f"    {guest.guest}: {_format_mean(guest.shared_bps)}{spread}{attained}")
    if summary.compared:
        lines.append(
            "compared with the bare host, paired by block, with the 95 % interval; Holm-adjusted over all of these"
        )
    for each in summary.compared:
        name, scenario = summary.name_of(each.key), each.key.scenario
        lines.append(
            f"  {name}, {each.key.guests} guest{'s' if each.key.guests > 1 else ''}, {scenario}: "
            f"{format_effect(each.effect)}, {each.effect.blocks} blocks: {each.said}"
        )
    return lines


def _format_point(point: FlowPointResult, name: str) -> str:
    guests = f"{point.key.guests} guest{'s' if point.key.guests > 1 else ''}"
    if point.sum_bps is None:
        return f"{name}, {guests}, {point.key.scenario}: {describe_missing_result(point)}"
    text = f"{name}, {guests}, {point.key.scenario}: {_format_mean(point.sum_bps)} in all"
    text += f", {_format_mean(point.line_ratio, 0.01, 2)} % of the line" if point.line_ratio is not None else ""
    text += f", Jain {_format_mean(point.jain, 1, 4)}" if len(point.guests) > 1 and point.jain is not None else ""
    if point.interference_ratio is not None:
        text += f", interference {_format_mean(point.interference_ratio, 0.01, 2)} %"
    if point.dominant_ratio is not None:
        text += f", dominance {_format_mean(point.dominant_ratio, 0.01, 1)} % of the bins"
    if point.dominant_s is not None:
        text += f", longest dominance {_format_mean(point.dominant_s, 1, 1)} s"
    if point.during_disk_ratio is not None:
        text += f", {_format_mean(point.during_disk_ratio, 0.01, 2)} % of its earlier rate during the work on the disk"
    if point.machine_cpu_s_per_gb is not None:
        whose = "processors" if point.cpu_s_per_gb is not None else "processors, with all that runs on the machine,"
        text += f", {_format_mean(point.cpu_s_per_gb or point.machine_cpu_s_per_gb, 1, 1)} s of {whose} for each GB"
    text += f", error of weights {_format_mean(point.weight_error, 1, 4)}" if point.weight_error is not None else ""
    return text + describe_left_out(point.left_out)


def _format_mean(found: SetUpMean | None, unit: float = MEGA, digits: int = 2) -> str:
    return UNKNOWN if found is None else format_mean(found, unit, digits, lambda value, places: f"{value:.{places}f}")


def summary_json(found: FlowsSummary) -> dict[str, Any]:
    """As ``experiment flow --summary --json`` prints it: the keys are a format, whatever the fields are called."""
    return {
        "points": [_flow_point_found(each) for each in found.points],
        "testbeds": dict(found.testbeds),
        "superseded": found.superseded,
        "compared": [_beside_bare(each) for each in found.compared],
    }


def _flow_point_found(found: FlowPointResult) -> dict[str, Any]:
    return {
        "key": found.key,
        "line_bps": found.line_bps,
        "sum_bps": mean_json(found.sum_bps),
        "line_ratio": mean_json(found.line_ratio),
        "jain": mean_json(found.jain),
        "interference_ratio": mean_json(found.interference_ratio),
        "alone_spread_bps": mean_json(found.alone_spread_bps),
        "dominant_ratio": mean_json(found.dominant_ratio),
        "dominant_s": mean_json(found.dominant_s),
        "starved_ratio": mean_json(found.starved_ratio),
        "first_share_ratio": mean_json(found.first_share_ratio),
        "lost_ratios": {name: mean_json(each) for name, each in found.lost_ratios.items()},
        "during_disk_ratio": mean_json(found.during_disk_ratio),
        "recovered_s": mean_json(found.recovered_s),
        "not_recovered": found.not_recovered,
        "cpu_s_per_gb": mean_json(found.cpu_s_per_gb),
        "machine_cpu_s_per_gb": mean_json(found.machine_cpu_s_per_gb),
        "weight_error": mean_json(found.weight_error),
        "weight_steps": [_weight_step_found(each) for each in found.weight_steps],
        "guests": [_guest_found(each) for each in found.guests],
        "median_id": found.median_id,
        "left_out": dict(found.left_out),
        "flow_ids": found.flow_ids,
        "by_outcome": found.by_outcome,
    }


def _weight_step_found(found: WeightStepResult) -> dict[str, Any]:
    return {
        "weights": found.weights,
        "due_ratio": found.due_ratio,
        "first_share_ratio": mean_json(found.first_share_ratio),
        "error_ratio": mean_json(found.error_ratio),
        "deviations": [mean_json(each) for each in found.deviations],
        "packets": found.packets,
    }


def _guest_found(found: GuestResult) -> dict[str, Any]:
    return {
        "guest": found.guest,
        "shared_bps": mean_json(found.shared_bps),
        "attained_ratio": mean_json(found.attained_ratio),
        "spread_bps": mean_json(found.spread_bps),
        "lost_packets": mean_json(found.lost_packets),
        "bins_bps": [mean_json(each) for each in found.bins_bps],
    }


def _beside_bare(found: BareHostComparison) -> dict[str, Any]:
    return {
        "key": found.key,
        "bare": found.bare,
        "ours_bps": mean_json(found.ours_bps),
        "bare_bps": mean_json(found.bare_bps),
        "effect": effect_json(found.effect),
        "adjusted_p": found.adjusted_p,
        "equivalent_p": found.equivalent_p,
        "margin_ratio": found.margin_ratio,
        "word": found.word,
        "both_full": found.both_full,
        "one_full": found.one_full,
        "trials": found.trials,
    }


def _format_columns(record: FlowRecord) -> dict[str, str]:
    """The request by the headings of a table's columns."""
    request = record.requested
    point = FlowPoint.from_request(request, offered=request.offered_bps, limits=request.limits_bps)
    return point.format_factors()


TEXT = GuestText(
    request=format_flow_request,
    result=format_flow_result,
    columns=_format_columns,
    lines=format_trial,
    summarize=summarize_compared,
    summary_lines=summary_lines,
    summary_json=summary_json,
)
