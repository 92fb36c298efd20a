"""Recomputation of the results of weights and of work on a disk, from packets in bins.

Shares no code with the functions that made the record.
"""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.flow.record import FlowRecord, WeightStepRecord
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against, same

SETTLED_NS = 200_000_000


def recompute_weights(record: FlowRecord) -> Iterator[Discrepancy]:
    """Find values of the weights' steps that do not follow from the packets."""
    requested, seen = record.requested.weights, record.weights
    if requested is None or seen is None:
        if (requested is None) != (seen is None):
            yield against("weights", "is present though none were requested, or is missing")
        return
    frame_bytes = record.requested.payload_bytes + 42
    share = int(0.985 * record.link_speed_bps * frame_bytes / (frame_bytes + 24))
    if abs(seen.link_bps - share) > 1:
        yield Discrepancy(where="weights.link_bps", stored=seen.link_bps, recomputed=share)
    if tuple(step.weights for step in seen.steps) != requested.steps:
        yield against("weights.steps", "are not what was requested")
        return
    errors = []
    for number, step in enumerate(seen.steps):
        due_s = number * requested.every_s
        yield from _compared(f"weights.steps[{number}].due_s", step.due_s, due_s)
        until_s = None if number + 1 == len(seen.steps) else due_s + requested.every_s
        yield from _step(record, f"weights.steps[{number}]", step, until_s)
        errors.append(step.error_ratio)
    known = [each for each in errors if each is not None]
    mean = sum(known) / len(known) if known and len(known) == len(errors) else None
    yield from _compared("weights.mean_error_ratio", seen.mean_error_ratio, mean)


def _step(record: FlowRecord, where: str, step: WeightStepRecord, until_s: float | None) -> Iterator[Discrepancy]:
    bin_ns, first, stop = round(record.requested.bin_s * 1e9), record.shared_from, record.shared_to
    bins: list[int] = []
    if step.taken_s is not None and first is not None and stop is not None:
        from_ns = round(step.taken_s * 1e9) + SETTLED_NS
        until_ns = stop * bin_ns if until_s is None else round(until_s * 1e9)
        bins = [
            each
            for each in range(first, min(stop, _counted(record)))
            if each * bin_ns >= from_ns and (each + 1) * bin_ns <= until_ns
        ]
    packets = [
        sum(
            flow.bin_packets[each]
            for flow in record.flows
            if flow.guest == sender.guest
            for each in bins
            if each < len(flow.bin_packets)
        )
        for sender in record.senders
    ]
    total, weight = sum(packets), sum(step.weights)
    if not total:
        bins = []
    shares = [each / total for each in packets] if bins else []
    apart = [abs(share - own / weight) for share, own in zip(shares, step.weights, strict=False)]
    yield from _compared(f"{where}.first_bin", step.first_bin, bins[0] if bins else None)
    yield from _compared(f"{where}.stop_bin", step.stop_bin, bins[-1] + 1 if bins else None)
    error = sum(apart) / len(apart) if apart and not record.requested.limits_bps else None
    yield from _compared(f"{where}.error_ratio", step.error_ratio, error)
    filled = None
    if bins and record.weights is not None:
        frame_bits = 8 * (record.requested.payload_bytes + 42)
        filled = total * frame_bits / (len(bins) * record.requested.bin_s) / record.weights.link_bps
    yield from _compared(f"{where}.filled_ratio", step.filled_ratio, filled)
    if len(shares) != len(step.share_ratios) or not all(map(same, step.share_ratios, shares)):
        yield against(f"{where}.share_ratios", "do not follow from the packets in its bins")


def recompute_disk(record: FlowRecord) -> Iterator[Discrepancy]:
    """Find values of the work on a disk that do not follow from the packets."""
    requested, seen = record.requested.disk, record.disk
    if requested is None or seen is None:
        if seen is not None or (requested is not None and record.senders):
            yield against("disk", "is present though none was requested, or is missing")
        return
    begun = [flow.first_at_ns for flow in record.flows]
    ended = [flow.last_at_ns for flow in record.flows]
    before: list[int] = []
    during: list[int] = []
    after: list[int] = []
    if seen.start_ns is not None and seen.end_ns is not None and record.origin_ns is not None and None not in begun:
        origin_ns, bin_ns = record.origin_ns, round(record.requested.bin_s * 1e9)
        last_ns = min(each for each in ended if each is not None)
        for number in range(min((last_ns - origin_ns) // bin_ns, _counted(record))):
            from_ns = origin_ns + number * bin_ns
            if any(each is not None and from_ns < each for each in begun):
                continue
            before += [number] if from_ns + bin_ns <= seen.start_ns else []
            during += [number] if from_ns >= seen.start_ns and from_ns + bin_ns <= seen.end_ns else []
            after += [number] if from_ns >= seen.end_ns else []

    def packets(number: int) -> int:
        return sum(flow.bin_packets[number] for flow in record.flows if number < len(flow.bin_packets))

    base = sum(map(packets, before)) / len(before) if before else 0.0
    ratio = sum(map(packets, during)) / len(during) / base if base and during else None
    again = next((number for number in after if packets(number) >= 0.95 * base), None)
    again = again if before and during else None
    recovered_s = None if again is None else (again - after[0]) * record.requested.bin_s
    for where, bins, stored in (("before", before, seen.before_bins), ("during", during, seen.during_bins)):
        if stored != ((bins[0], bins[-1] + 1) if bins else None):
            yield against(f"disk.{where}_bins", "are not those between the marks")
    yield from _compared("disk.during_ratio", seen.during_ratio, ratio)
    yield from _compared("disk.recovered_s", seen.recovered_s, recovered_s)


def _counted(record: FlowRecord) -> int:
    """One more than the number of bins with counts."""
    return 1 + max((len(flow.bin_packets) for flow in record.flows), default=0)


def _compared(where: str, stored: Number, recomputed: Number) -> Iterator[Discrepancy]:
    if not same(stored, recomputed):
        yield Discrepancy(where=where, stored=stored, recomputed=recomputed)
