"""Contradictions made by hand, one at a time, in the runs of consistent_runs: each a change, and where it has to be seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.consistent_runs import PILOT

Runs = dict[str, dict[str, Any]]
Change = Callable[[Runs], object]


def set_to(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Put a value at a path of a record: ``streams.0.loss_packets``. A function is asked for the new value."""

    def change(data: dict[str, Any]) -> None:
        *way, last = path.split(".")
        held: Any = data
        for key in way:
            held = held[int(key)] if isinstance(held, list) else held[key]
        at = int(last) if isinstance(held, list) else last
        held[at] = value(held[at]) if callable(value) else value

    return change


def reasons(*codes: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"code": code, "detail": code, "evidence": more.get("evidence"), "follows": more.get("follows")}
        for code in codes
    ]


def judged(status: str, *codes: str, **more: Any) -> dict[str, Any]:
    return {"status": status, "reasons": reasons(*codes, **more)}


def several(*changes: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        for each in changes:
            each(data)

    return change


def loses_more(data: dict[str, Any]) -> None:
    """Sequence numbers of 9000 packets are missing, and 49 730 were lost in all: one packet more than can be."""
    runs = data["streams"][0]["sequence"]["lost_runs"]
    runs["9000"] = runs.get("9000", 0) + 1


def wire_lost(data: dict[str, Any]) -> None:
    """The source's NIC sent less than the generator says, and a counter there says why; every number follows."""
    stream = data["streams"][0]
    stream["generator_packets"] += 500
    stream["ledger"][0]["packets"] += 500
    stream["ledger"][1] |= {"lost_packets": 500, "drops": {"tx_dropped": 500}}
    stream["source_lost_packets"] = data["total"]["source_lost_packets"] = 500
    data["total"]["generator_packets"] += 500


def beyond_calibration(**figures: float) -> Callable[[dict[str, Any]], None]:
    limited = judged("suspect", "instrument_limited", evidence={"stream": "s1", **figures})
    return several(set_to("environment.calibration", {"id": "c"}), set_to("verdict", limited))


ONE = "block-1-raw"
PPS = 1e9 / 7040
"""What it was asked for."""
RECORD: list[tuple[str, str, Callable[[dict[str, Any]], None], str]] = [
    # contradictions that verify once let pass
    ("a lost node in a valid run", "lost-node", set_to("verdict", judged("valid")), "verdict"),
    (
        "more captured than the NIC saw",
        "missed",
        several(set_to("streams.0.counters.sink_rx_packets", 600_000), set_to("streams.0.ledger.4.packets", 600_000)),
        "streams[0]",
    ),
    ("sequence loses more than was lost", ONE, loses_more, "streams[0].sequence.lost_runs"),
    ("counters against ledger", ONE, set_to("streams.0.ledger.2.packets", 710_000), "streams[0].ledger[2].packets"),
    ("p99 below p50", ONE, set_to("streams.0.delay.ipdv_ns.p99", 100), "streams[0].delay.ipdv_ns"),
    (
        "one-way delay by clocks 1 s apart",
        ONE,
        set_to("streams.0.delay.clock_bound_ns", 10**9),
        "streams[0].delay.clock_bound_ns",
    ),
    # the verdict
    ("valid with a reason", ONE, set_to("verdict.reasons", reasons("sources_apart")), "verdict.status"),
    ("suspect without one", ONE, set_to("verdict.status", "suspect"), "verdict.status"),
    ("a reason of no known code", ONE, set_to("verdict", judged("suspect", "bad_weather")), "verdict.reasons[0].code"),
    ("a heavier reason than the verdict", ONE, set_to("verdict", judged("suspect", "guest_changed")), "verdict.status"),
    (
        "offered short of intended",
        "two",
        several(
            set_to("requested.duration_s", 5.1),
            set_to("streams.0.intended_packets", 724_432),
            set_to("streams.1.intended_packets", 724_432),
        ),
        "verdict.reasons",
    ),
    (
        "a tolerance that the run is beyond",
        ONE,
        set_to("in_force.tolerances.duration_ratio", 0.00001),
        "verdict.reasons",
    ),
    ("offered_over where nothing was", ONE, set_to("verdict", judged("suspect", "offered_over")), "verdict.reasons"),
    ("an incomplete capture untold", "missed", set_to("verdict", judged("valid")), "verdict.reasons"),
    (
        "a rate left open by samples untold",
        "missed",
        set_to("verdict.reasons", lambda told: told[:1]),
        "verdict.reasons",
    ),
    ("a rate left open by a capture", ONE, set_to("verdict", judged("suspect", "rate_uncertain")), "verdict.reasons"),
    (
        "a rate over a window that samples do not prove",
        "missed",
        several(
            set_to("streams.0.arrivals.window_s", 5.05), set_to("streams.0.forwarding_pps", lambda pps: pps * 5 / 5.05)
        ),
        "streams[0].forwarding_pps",
    ),
    (
        "a missing capture told that is there",
        ONE,
        set_to("verdict", judged("suspect", "capture_missing")),
        "verdict.reasons",
    ),
    ("duplicates untold", ONE, set_to("streams.0.sequence.duplicate_packets", 4), "verdict.reasons"),
    ("packets lost at the source untold", ONE, wire_lost, "verdict.reasons"),
    ("a process of others untold", ONE, set_to("influences.1.cpu_ratio", 0.9), "verdict.reasons"),
    ("time stolen untold", ONE, set_to("influences.0.steal_ratio", 0.3), "verdict.reasons"),
    ("a node that did not answer untold", ONE, set_to("influences.1.kind", "not_observed"), "verdict.reasons"),
    (
        "a background load that was not reached",
        "beside",
        set_to("background.achieved.offered_pps", 60_000.0),
        "background.achieved.offered_pps",
    ),
    (
        "a background load beyond its tolerance",
        "beside",
        set_to("in_force.tolerances.background_ratio", 0.0),
        "verdict.reasons",
    ),
    (
        "beyond a calibration that there was not",
        ONE,
        set_to("verdict", judged("suspect", "instrument_limited")),
        "verdict.reasons",
    ),
    (
        "beyond a calibration that it is within",
        ONE,
        beyond_calibration(rate_pps=PPS, calibrated_pps=2 * PPS),
        "verdict.reasons[0].evidence",
    ),
    (
        "beyond a calibration by less than 1 %",
        ONE,
        beyond_calibration(rate_pps=PPS, calibrated_pps=PPS / 1.009),
        "verdict.reasons[0].evidence",
    ),
    (
        "beyond a calibration by more than was asked for",
        ONE,
        beyond_calibration(rate_pps=2 * PPS, calibrated_pps=1.9 * PPS),
        "verdict.reasons[0].evidence",
    ),
    (
        "not in a calibration that there was not",
        ONE,
        set_to("verdict", judged("suspect", "not_calibrated")),
        "verdict.reasons",
    ),
    (
        "a figure within its tolerance",
        ONE,
        set_to("verdict", judged("suspect", "sources_apart", evidence={"start_skew_s": 0.001})),
        "verdict.reasons[0].evidence",
    ),
    (
        "a figure that the record does not hold",
        "missed",
        set_to("verdict.reasons.0.evidence.dropped_packets", 2),
        "verdict.reasons[0].evidence",
    ),
    (
        "the consequence of nothing",
        "missed",
        set_to("verdict.reasons.0.follows", "link_lost"),
        "verdict.reasons[0].follows",
    ),
    ("a failure of another code", "lost-node", set_to("failure.failure", "lease_taken"), "verdict.reasons"),
    ("link_lost without a failure", "lost-node", set_to("failure", None), "verdict.reasons"),
    # what follows
    (
        "offered above the wire",
        ONE,
        set_to("streams.0.counters.source_tx_packets", 710_000),
        "streams[0].offered_packets",
    ),
    (
        "a loss of another side",
        ONE,
        several(set_to("streams.0.uut_lost_packets", 0), set_to("streams.0.sink_lost_packets", 49_730)),
        "streams[0].uut_lost_packets",
    ),
    (
        "a forwarding rate over too short a window",
        ONE,
        set_to("streams.0.forwarding_pps", lambda pps: pps * 1.5),
        "streams[0].forwarding_pps",
    ),
    ("late packets in no total", ONE, set_to("total.late_packets", 9), "total.late_packets"),
    (
        "lost together without a gap",
        ONE,
        set_to("streams.0.lost_together", [{"sides": ["uut", "sink"], "packets": 5}]),
        "streams[0].lost_together[0].sides",
    ),
    # counts against each other
    (
        "late packets in a window that ended before",
        ONE,
        set_to("streams.0.arrivals.late_packets", 5),
        "streams[0].arrivals.late_packets",
    ),
    (
        "arrivals that were not captured",
        ONE,
        set_to("streams.0.arrivals.packets", 710_000),
        "streams[0].arrivals.packets",
    ),
    (
        "a window longer than the trial",
        ONE,
        set_to("streams.0.arrivals.window_s", 50.0),
        "streams[0].arrivals.window_s",
    ),
    (
        "a complete capture that dropped",
        ONE,
        set_to("streams.0.capture.dropped_packets", 3),
        "streams[0].capture.complete",
    ),
    ("a digest that is none", ONE, set_to("streams.0.capture.sha256", "0" * 63), "streams[0].capture.sha256"),
    (
        "fewer than none",
        ONE,
        set_to("streams.0.ledger.3.drops", {"tx_dropped": -4}),
        "streams[0].ledger[3].drops.tx_dropped",
    ),
    (
        "a mean outside the range",
        ONE,
        set_to("streams.0.delay.one_way_ns.mean", 9e6),
        "streams[0].delay.one_way_ns.mean",
    ),
    (
        "variation that is not the delay's",
        ONE,
        set_to("streams.0.delay.pdv_ns.p50", 1_000_000),
        "streams[0].delay.pdv_ns.p50",
    ),
    (
        "neighbours further apart than any",
        ONE,
        set_to("streams.0.delay.ipdv_ns.max", 5_000_000),
        "streams[0].delay.ipdv_ns.max",
    ),
    (
        "clocks closer than the environment says",
        ONE,
        set_to("streams.0.delay.clock_bound_ns", 1000),
        "streams[0].delay.clock_bound_ns",
    ),
    ("a sample of more than came", ONE, set_to("streams.0.delay.packets", 10**6), "streams[0].delay.packets"),
    (
        "the generator's hop beside its word",
        ONE,
        set_to("streams.0.generator_packets", 720_000),
        "streams[0].ledger[0].packets",
    ),
    # the record
    ("finished before it began", ONE, set_to("finished_at", "2026-11-21T02:00:00.000Z"), "finished_at"),
    ("finished long after", ONE, set_to("finished_at", "2026-11-22T02:00:00.000Z"), "finished_at"),
    ("a shorter whole than its parts", ONE, set_to("timeline.total_s", 1.0), "timeline.total_s"),
    ("sent longer than the phase", ONE, set_to("timeline.send_s", 2.0), "streams[0].offered_duration_s"),
    ("waited less than it had to", ONE, set_to("timeline.drain_s", 0.2), "timeline.drain_s"),
    ("phases missing from a whole trial", ONE, set_to("timeline", {"arm_s": 0.1, "total_s": 5.6}), "timeline"),
    ("attempt 5 of 3", ONE, set_to("plan.attempt", 5), "plan.attempt"),
    ("a thousand attempts", ONE, set_to("plan.attempts", 1000), "plan.attempts"),
    ("block 7 of 2", ONE, set_to("plan.block", 7), "plan.block"),
    ("a pilot in a block", ONE, set_to("role", "pilot"), "role"),
    ("trial 0 of its set-up", ONE, set_to("set_up.trial", 0), "set_up.trial"),
    ("set up after the trial began", ONE, set_to("set_up.started_at", "2026-11-21T04:00:00.000Z"), "set_up.started_at"),
    ("a kernel that did not run", ONE, set_to("conditions.uut_kernel", "6.12.0"), "conditions.uut_kernel"),
    ("tolerances untold", ONE, set_to("in_force", None), "in_force"),
    (
        "a tolerance that nobody knows",
        ONE,
        set_to("in_force.tolerances.kindness_ratio", 0.5),
        "in_force.tolerances.kindness_ratio",
    ),
    (
        "a tolerance that no plan may have",
        ONE,
        set_to("in_force.tolerances.offered_ratio", 7.0),
        "in_force.tolerances.offered_ratio",
    ),
    ("a method that is to come", ONE, set_to("method", 9), "method"),
    ("two streams of one source", ONE, set_to("requested.sources", 2), "requested.sources"),
    (
        "another second guest than was asked for",
        "beside",
        set_to("background.kind", "forwarding-95"),
        "background.kind",
    ),
    (
        "half that is a third",
        "beside",
        set_to("background.reference.share_ratio", 0.3),
        "background.reference.share_ratio",
    ),
]


def copied(runs: Runs, of: str, run_id: str, later_s: int = 7200, **plan: Any) -> dict[str, Any]:
    """The same run again under another id, later, with its own set-up and its own captures."""
    data: dict[str, Any] = json.loads(json.dumps(runs[of]))
    data["run_id"] = run_id
    data["set_up"]["id"] = f"set-up-of-{run_id}"
    for each in (data, data["set_up"]):
        each["started_at"] = each["started_at"].replace("T02:", "T05:")
    data["finished_at"] = data["finished_at"].replace("T02:", "T05:")
    for place, stream in enumerate(data["streams"]):
        stream["capture"]["sha256"] = f"{place}{run_id.encode().hex()}".ljust(64, "0")[:64]
    data["plan"] |= plan
    return data


def in_one_set_up(runs: Runs, other: str, **changes: Any) -> dict[str, Any]:
    """``other`` says that it was taken in the set-up of block-1-raw, as its second trial."""
    runs[other]["set_up"] = {**runs[ONE]["set_up"], "trial": 2, **changes}
    return runs[other]


SEVERAL: list[tuple[str, Change, str, str]] = [
    ("a set-up of two platforms", lambda r: in_one_set_up(r, "block-1-kvm"), "block-1-kvm", "set_up.id"),
    ("a set-up of two blocks", lambda r: in_one_set_up(r, "block-2-raw"), "block-2-raw", "set_up.id"),
    (
        "a set-up on two testbeds",
        lambda r: (in_one_set_up(r, "two"), set_to("testbed_fingerprint", "f" * 16)(r["two"])),
        "two",
        "set_up.id",
    ),
    (
        "a set-up under two kernels",
        lambda r: (
            in_one_set_up(r, "two"),
            set_to("conditions.uut_kernel", "6.12.0")(r["two"]),
            set_to("environment.nodes.uut.facts.kernel", "6.12.0")(r["two"]),
        ),
        "two",
        "set_up.id",
    ),
    (
        "a set-up of two boots",
        lambda r: (
            in_one_set_up(r, "two"),
            set_to("conditions.uut_boot_id", "other")(r["two"]),
            set_to("environment.nodes.uut.facts.boot_id", "other")(r["two"]),
        ),
        "two",
        "set_up.id",
    ),
    ("a set-up that took twice as long", lambda r: in_one_set_up(r, "two", setup_s=2.5), "two", "set_up.id"),
    ("one trial of a set-up twice", lambda r: in_one_set_up(r, "two", trial=1), "two", "set_up.trial"),
    (
        "a later trial before an earlier one",
        lambda r: (in_one_set_up(r, "two", trial=1), set_to("set_up.trial", 4)(r[ONE])),
        ONE,
        "set_up.trial",
    ),
    (
        "a set-up that holds more than it can",
        lambda r: r.update(extra={**copied(r, ONE, "extra", point=7), "set_up": {**r[ONE]["set_up"], "trial": 2}}),
        ONE,
        "plan.set_up_trials",
    ),
    ("a place of the plan taken twice", lambda r: r.update(extra=copied(r, ONE, "extra")), "extra", "plan"),
    (
        "attempts out of order",
        lambda r: r.update(
            extra={
                **copied(r, ONE, "extra", attempt=1),
                "set_up": {**r[ONE]["set_up"], "trial": 2},
                "verdict": judged("invalid", "generator_failed"),
            }
        ),
        "extra",
        "plan.attempt",
    ),
    (
        "one capture in two runs",
        lambda r: set_to("streams.0.capture.sha256", r[ONE]["streams"][0]["capture"]["sha256"])(r["two"]),
        "two",
        "streams[0].capture.sha256",
    ),
    (
        "a plan's point that is two things",
        lambda r: set_to("plan.point", 0)(r["block-2-kvm"]),
        "block-2-kvm",
        "requested",
    ),
    (
        "a reference that moved",
        lambda r: set_to("plan.fixed.reference_pps", 99_000.0)(r["block-2-kvm"]),
        "block-2-kvm",
        "plan.fixed.reference_pps",
    ),
    (
        "a load of the maximum that moved",
        lambda r: set_to("plan.fixed.maximum_target_bps", 1000)(r["block-2-kvm"]),
        "block-2-kvm",
        "plan.fixed.maximum_target_bps",
    ),
    ("a pilot that is not there", lambda r: set_to("plan.fixed.run_ids", ["gone"])(r[ONE]), ONE, "plan.fixed.run_ids"),
    (
        "a pilot that was a trial like others",
        lambda r: set_to("plan.fixed.run_ids", ["block-2-raw"])(r[ONE]),
        ONE,
        "plan.fixed.run_ids",
    ),
    (
        "a pilot of another platform",
        lambda r: set_to("plan.fixed.run_ids", [PILOT[1]])(r[ONE]),
        ONE,
        "plan.fixed.run_ids",
    ),
    ("a testbed that is and is not emulated", lambda r: set_to("emulated", True)(r["two"]), "two", "emulated"),
    (
        "a share of a maximum that was not beside an idle guest",
        lambda r: set_to("background.reference.run_id", "block-1-kvm")(r["beside"]),
        "beside",
        "background.reference.run_id",
    ),
    (
        "a share of more than was forwarded",
        lambda r: (
            set_to("background.reference.measured_pps", lambda pps: pps * 2)(r["beside"]),
            set_to("background.reference.share_ratio", 0.5)(r["beside"]),
        ),
        "beside",
        "background.reference.measured_pps",
    ),
    (
        "a maximum at another load than the pilot's",
        lambda r: [set_to("plan.fixed.maximum_target_bps", "max")(r[name]) for name in (ONE, "block-2-raw")],
        ONE,
        "plan.fixed.maximum_target_bps",
    ),
    (
        "a share of another platform's maximum",
        lambda r: set_to("background.reference.run_id", ONE)(r["beside"]),
        "beside",
        "background.reference.run_id",
    ),
]
