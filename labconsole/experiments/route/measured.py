"""Quantity of a trial of routers for comparisons: what all of them forward together, as in a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.comparison.guest_trials import TrialFacts, build_guest_trials
from labconsole.contracts.measured import Bound, MeasuredKind, MeasuredTrial, MeasuredValue, Quantity
from labconsole.experiments.route.points import lost_ratio, route_key, sum_pps
from labconsole.experiments.route.record import RECORD as KIND
from labconsole.experiments.route.record import RouteRecord
from labconsole.measure.maximum import REACHED_LOSS_RATIO
from labconsole.model.record.summary import RunSummary

FORWARDED = Quantity(name="forwarding rate", unit="pps", better="higher", shown_unit="kpackets/s", scale=1e3)
OF_THE_POINT = (
    "platform",
    "guests",
    "cpu",
    "routes",
    "destinations",
    "filters",
    "target_pps",
    "frame_bytes",
    "duration_s",
    "memory_mib",
)
COMPARED = ("platform", "guests", "cpu", "routes", "destinations", "filters", "memory_mib")


def _trials(records: Sequence[RouteRecord], runs: Mapping[str, RunSummary]) -> list[MeasuredTrial]:
    return build_guest_trials(KIND.name, records, _build_trial)


def _build_trial(record: RouteRecord) -> TrialFacts:
    key, rate = route_key(record), sum_pps(record)
    memory = "" if key.memory_mib is None else f", {key.memory_mib} MiB each"
    return TrialFacts(
        id=record.route_id,
        factors={name: getattr(key, name) for name in OF_THE_POINT},
        words=f"{key.platform}: {key.words}, {key.frame_bytes} B{memory}",
        values={} if rate is None else {FORWARDED: MeasuredValue(rate, _bound(record), resolution=_packet_pps(record))},
        set_up=record.set_up_id,
    )


def _packet_pps(record: RouteRecord) -> float | None:
    """The rate of a single packet, or None if not known."""
    rate, packets = sum_pps(record), sum(each.packets for each in record.routers)
    return rate / packets if rate and packets else None


def _bound(record: RouteRecord) -> Bound:
    lost = lost_ratio(record)
    return "unknown" if lost is None else "at least" if lost < REACHED_LOSS_RATIO else "exact"


MEASURED = MeasuredKind(kind=KIND, compared=COMPARED, trials=_trials)
