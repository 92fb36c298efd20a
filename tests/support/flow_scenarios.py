"""Records of guests that share a link by weights, and of one that works on its disk beside others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labconsole.experiments.flow.disk import derive_rates_around
from labconsole.experiments.flow.record import BackgroundDiskRecord, FlowRecord
from labconsole.experiments.flow.weights import derive_weights, link_bps
from labconsole.model.flow_scenarios import DiskBeside, WeightSteps
from labconsole.wire.queues import TakenChange, TakenChanges
from support.flow_records import ORIGIN_NS, flow_record

ALL_BPS = link_bps(100_000_000, 1472)
SECOND = 10**9
BIN_PACKETS = 800
BEGUN_NS = 5 * SECOND


def steps_of(*words: str, every_s: float = 1.0) -> WeightSteps:
    return WeightSteps.model_validate({"every_s": every_s, "steps": words})


def taken(steps: WeightSteps, late_ns: Sequence[int | None] = (), **changes: Any) -> TakenChanges:
    """As the UUT says it; ``late_ns`` None: that one was not made."""
    rates = steps.rates_bps(ALL_BPS, (ALL_BPS,) * steps.guests)
    found = []
    for number, own in enumerate(rates):
        due_ns = BEGUN_NS + round(number * steps.every_s * SECOND)
        late = late_ns[number] if number < len(late_ns) else 0
        found.append(
            TakenChange(
                due_ns=due_ns,
                taken_ns=None if late is None else due_ns + late,
                read_ns=due_ns,
                rates_bps=list(own),
                kept_bps=list(own),
                complaint="No such file or directory" if late is None else None,
                **changes,
            )
        )
    return TakenChanges(looked_ns=BEGUN_NS - 1, begun_ns=BEGUN_NS, changes=found)


def weighted(steps: WeightSteps, shares: Sequence[float], said: TakenChanges | None = None) -> FlowRecord:
    """A trial in bins of 0.1 s; ``shares``: of the first guest in each second."""
    first = [round(BIN_PACKETS * share) for share in shares for _ in range(10)]
    base = flow_record([first, [BIN_PACKETS - each for each in first]], bin_s=0.1)
    requested = base.requested.model_copy(update={"weights": steps})
    kept_bps = steps.rates_bps(ALL_BPS, (ALL_BPS, ALL_BPS))[-1]
    seen = derive_weights(
        requested,
        base.flows,
        ["g1", "g2"],
        (base.shared_from, base.shared_to),
        all_bps=ALL_BPS,
        taken=said or taken(steps),
        kept_bps=kept_bps,
    )
    return base.model_copy(update={"requested": requested, "weights": seen})


def stalled(during: int, **changes: Any) -> FlowRecord:
    """One guest sends for ten seconds, and brings so much from 4 to 6; the other works from 4 to 6."""
    base = flow_record([[1000] * 4 + [during] * 2 + [1000] * 4])
    asked = DiskBeside(from_s=4, to_s=6)
    requested = base.requested.model_copy(update={"guests": 2, "disk": asked})
    values: dict[str, Any] = {
        "guest": "g2",
        "address": "198.18.64.2",
        "mac": "02:6c:77:00:00:01",
        "job": "disk-mixed",
        "size": 2,
        "exit_status": 0,
        "output": "READ 1 WRITTEN 1",
        "mark_packets": 4,
        "start_ns": ORIGIN_NS + 4 * SECOND,
        "end_ns": ORIGIN_NS + 6 * SECOND,
    }
    seen = BackgroundDiskRecord(**(values | changes))
    seen = seen.model_copy(update=derive_rates_around(seen, base.flows, ["g1"], ORIGIN_NS, requested))
    assert base.sink is not None
    came = base.sink.captured_packets + 4
    sink = base.sink.model_copy(update={"captured_packets": came, "nic_packets": came})
    return base.model_copy(update={"requested": requested, "disk": seen, "sink": sink})
