"""Quantity of a trial of flows for comparisons: what all guests together send or read, as in a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.comparison.guest_trials import TrialFacts, build_guest_trials
from labconsole.contracts.measured import Bound, MeasuredKind, MeasuredTrial, MeasuredValue, Quantity
from labconsole.experiments.flow.rates import arrived_packets, let_through_bps, sent_to_at_once
from labconsole.experiments.flow.record import RECORD as KIND
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.summary import flow_key
from labconsole.measure.maximum import REACHED_LOSS_RATIO
from labconsole.model.record.summary import RunSummary

PAYLOAD = Quantity(name="payload of all guests", unit="bps", better="higher", shown_unit="Mbit/s", scale=1e6)
FRAMES = Quantity(name="frames of all guests", unit="bps", better="higher", shown_unit="Mbit/s", scale=1e6)
"""For a ring, whose rates count frames at the guests' interfaces."""

OF_THE_POINT = (
    "platform",
    "guests",
    "cpu",
    "offered_bps",
    "limits_bps",
    "greedy",
    "second_after_s",
    "payload_bytes",
    "duration_s",
    "bin_s",
    "memory_mib",
    "pattern",
    "weights",
    "disk",
)
"""Parts of a point's key that are factors of its design."""


def _trials(records: Sequence[FlowRecord], runs: Mapping[str, RunSummary]) -> list[MeasuredTrial]:
    return build_guest_trials(KIND.name, records, _build_trial)


def _build_trial(record: FlowRecord) -> TrialFacts:
    key, quantity = flow_key(record), FRAMES if record.requested.pattern == "ring" else PAYLOAD
    memory = "" if key.memory_mib is None else f", {key.memory_mib} MiB each"
    where = {"same": ", one CPU for all", "own": ", a CPU for each", "any": ""}[key.cpu]
    many = f"{key.guests} guest{'s' if key.guests > 1 else ''}"
    return TrialFacts(
        id=record.flow_id,
        factors={name: getattr(key, name) for name in OF_THE_POINT},
        words=f"{key.platform}: {many}, {key.scenario}{where}, payload {key.payload_bytes} B{memory}",
        values=(
            {}
            if record.sum_bps is None
            else {quantity: MeasuredValue(record.sum_bps, _bound(record), resolution=_packet_bps(record))}
        ),
        set_up=record.set_up_id,
    )


def _packet_bps(record: FlowRecord) -> float | None:
    """The rate of a single packet, or None if not known."""
    packets = arrived_packets(record)
    return record.sum_bps / packets if record.sum_bps and packets else None


def _bound(record: FlowRecord) -> Bound:
    """``at least`` if everything arrived that there was room for: guests capable of more could not have shown it."""
    most_bps, arrived_bps = _most_bps(record), record.sum_bps
    full = most_bps is not None and arrived_bps is not None and arrived_bps > (1 - REACHED_LOSS_RATIO) * most_bps
    full = full and sent_to_at_once(record.receivers)
    return "at least" if full else "exact"


def _most_bps(record: FlowRecord) -> float | None:
    """The rate that link, limits and offered loads allow all guests together, or None if it is unbounded. The guests of
    a ring share no link.
    """
    requested = record.requested
    if requested.pattern == "ring":
        return (
            float(sum(requested.limit_of(place) or 0 for place in range(requested.senders)))
            if requested.limits_bps
            else None
        )
    return min(sum(let_through_bps(requested, place) for place in range(requested.senders)), record.line_bps)


MEASURED = MeasuredKind(kind=KIND, compared=("platform", "cpu", "memory_mib"), trials=_trials)
