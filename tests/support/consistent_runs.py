"""A small store of format 2 that is really consistent: every number follows, and no two facts contradict each other.

A plan of two platforms in two blocks with its pilot, one run beside a forwarding second guest, and single runs: one
whose capture missed packets, one that the operator stopped, one that a lost node ended. Counts are chosen and all else
is reckoned here, a third time: a test that took them from the program would find nothing.
"""

from __future__ import annotations

import copy
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from labconsole.model.tolerances import Tolerances

START = datetime(2026, 11, 21, 2, 45, 1, tzinfo=UTC)
PLAN = "3b1f7a90c4d2e865"
BED = "7d3f9a11c0de4b52"
SIZE, TARGET, DURATION_S = 64, 100_000_000, 5.0
DELAY_NS = 7040
"""88 bytes on the wire at 100 Mbit/s."""

INTENDED = 710_227
BITS = 8 * 88
PILOT = ("pilot-raw", "pilot-kvm")
HOPS = ("generator", "source_nic", "uut_in", "uut_out", "sink_nic", "capture")


def at(second: float) -> str:
    return (START + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def node(name: str) -> dict[str, Any]:
    facts = {"hostname": name, "kernel": "6.1.0-28-amd64", "boot_id": f"boot-of-{name}", "cpus": 4}
    errors = {"src1": (1203, 205_000), "uut": (-844, 190_000), "snk1": (310, 220_000)}[name]
    return {"facts": facts, "round_trip_s": 0.0004, "clock_offset_ns": errors[0], "clock_error_ns": errors[1]}


def hops(counts: dict[str, int | None]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before = None
    for hop, packets in counts.items():
        where = (
            ("uut", {"uut_in": "eth1", "uut_out": "eth5"}.get(hop, "eth1"))
            if hop.startswith("uut")
            else (("snk1" if hop in ("sink_nic", "capture") else "src1"), "eth1")
        )
        lost = None if before is None or packets is None else before - packets
        found.append(
            {"hop": hop, "node": where[0], "interface": where[1], "packets": packets, "lost_packets": lost, "drops": {}}
        )
        before = before if packets is None else packets
    return found


def stream(
    run_id: str,
    *,
    sent: int = INTENDED,
    lost: int = 49_716,
    name: str = "s1",
    duration_s: float = 5.000118,
    delay_ns: int = DELAY_NS,
    intended: int = INTENDED,
    missed: int = 0,
) -> dict[str, Any]:
    """One stream that loses ``lost`` packets at the UUT. ``missed``: what tcpdump dropped, with the counters' word."""
    arrived = sent - lost
    captured = arrived - missed
    complete = missed == 0
    threes = lost // 7
    runs = {"1": lost - 3 * threes, "3": threes} if lost else {}
    window_s = duration_s - 2 * delay_ns / 1e9
    counts = [sent, sent, sent, arrived, arrived, captured if complete else None]
    return {
        "name": name,
        "generator": "afpacket",
        "generator_version": "1",
        "delay_ns": delay_ns,
        "burst_packets": 32,
        "intended_packets": intended,
        "intended_pps": 1e9 / delay_ns,
        "offered_packets": sent,
        "offered_duration_s": duration_s,
        "offered_pps": sent / duration_s,
        "offered_bps": sent / duration_s * BITS,
        "measured_packets": arrived,
        "measured_pps": arrived / duration_s,
        "measured_bps": arrived / duration_s * BITS,
        "measured_from": "capture" if complete else "counters",
        "loss_packets": lost,
        "loss_ratio": lost / sent,
        "capture": {
            "captured_packets": captured,
            "dropped_packets": missed,
            "complete": complete,
            "sha256": hashlib.sha256(f"{run_id} {name}".encode()).hexdigest(),
        },
        "counters": {
            "source_tx_packets": sent,
            "uut_in_rx_packets": sent,
            "uut_out_tx_packets": arrived,
            "sink_rx_packets": arrived,
        },
        "sequence": {"lost_runs": runs, "reordered_packets": 3, "duplicate_packets": 0},
        "ledger": hops(dict(zip(HOPS, counts, strict=True))),
        "unplaced_packets": 0,
        "delay": {
            "packets": 20_642,
            "pair_every_packets": 64,
            "one_way": True,
            "reason": None,
            "clock_bound_ns": 426_893,
            "one_way_ns": {
                "min": 5_100_000,
                "p50": 6_120_000,
                "p99": 7_000_000,
                "p999": 7_500_000,
                "max": 8_000_000,
                "mean": 6_130_000.5,
            },
            "pdv_ns": {"p50": 1_020_000, "p99": 1_900_000, "p999": 2_400_000, "max": 2_900_000},
            "ipdv_ns": {"p50": 6_200, "p99": 88_100, "p999": 240_600, "max": 700_200, "mean": 9412.5},
            "sampling": "random",
        },
        "spacing": None,
        "direction": "forward",
        "generator_packets": sent,
        "source_lost_packets": 0,
        "uut_lost_packets": lost,
        "sink_lost_packets": 0,
        "lost_together": [],
        "arrivals": {
            "packets": captured if complete else arrived,
            "window_s": window_s,
            "window_from": "capture" if complete else "counters",
            "resolution_s": 0.0 if complete else 0.1,
            "late_packets": 0 if complete else None,
            "queued_packets": 0 if complete else None,
        },
        "forwarding_pps": arrived / max(duration_s, window_s * arrived / (arrived - 1)),
        "forwarding_bps": arrived / max(duration_s, window_s * arrived / (arrived - 1)) * BITS,
        "extensions": {},
    }


def total(streams: list[dict[str, Any]]) -> dict[str, Any]:
    names = (
        "offered_packets",
        "offered_pps",
        "offered_bps",
        "measured_packets",
        "measured_pps",
        "measured_bps",
        "loss_packets",
        "generator_packets",
        "source_lost_packets",
        "uut_lost_packets",
        "sink_lost_packets",
        "forwarding_pps",
        "forwarding_bps",
    )
    sums = {name: sum(s[name] for s in streams) for name in names}
    late = [s["arrivals"]["late_packets"] for s in streams]  # as many as were queued
    return {
        **sums,
        "loss_ratio": sums["loss_packets"] / sums["offered_packets"],
        "uut_loss_ratio": sums["uut_lost_packets"] / sums["offered_packets"],
        "late_packets": None if None in late else sum(late),
        "queued_packets": None if None in late else sum(late),
    }


def run(run_id: str, second: float, **changes: Any) -> dict[str, Any]:
    """A single run; ``changes`` replace keys of the record, ``platform`` and ``background`` those of what was asked."""
    platform, background = changes.pop("platform", "raw"), changes.pop("background_kind", "none")
    streams = changes.pop("streams", None) or [stream(run_id)]
    return {
        "run_id": run_id,
        "format": 2,
        "started_at": at(second),
        "finished_at": at(second + 5.71),
        "testbed": "bench",
        "testbed_fingerprint": BED,
        "emulated": False,
        "operator": "op@console",
        "labconsole_version": "0.2.0",
        "plan": None,
        "requested": {
            "platform": platform,
            "frame_size_bytes": SIZE,
            "frame_size_includes_fcs": False,
            "sources": len(streams),
            "target_bps": TARGET,
            "background": background,
            "duration_s": DURATION_S,
            "generator": "auto",
            "observe": "quiet",
        },
        "streams": streams,
        "total": total(streams),
        "background": None,
        "verdict": {"status": "valid", "reasons": []},
        "influences": [
            {
                "node": "uut",
                "kind": "cpu",
                "detail": "processors 12 % busy",
                "nodes": ["uut"],
                "busy_ratio": 0.12,
                "interrupt_ratio": 0.02,
                "steal_ratio": 0.0,
                "window_s": 5.6,
                "used_s": {"kernel": 0.4},
            },
            {
                "node": "uut",
                "kind": "process",
                "detail": "cron",
                "name": "cron",
                "pid": 77,
                "whose": "other",
                "cpu_ratio": 0.06,
            },
        ],
        "environment": {
            "platform": {"driver": "raw" if platform == "raw" else "qemu", "versions": {"qemu": "7.2"}},
            "nodes": {name: node(name) for name in ("src1", "uut", "snk1")},
            "calibration": None,
            "calibration_void": None,
        },
        "timeline": {"arm_s": 0.081, "send_s": 5.021, "drain_s": 0.502, "count_s": 0.034, "total_s": 5.655},
        "failure": None,
        "role": "measured",
        "method": 2,
        "set_up": {"id": f"set-up-of-{run_id}", "started_at": at(second - 3), "setup_s": 1.5, "trial": 1},
        "conditions": {
            "uut_kernel": "6.1.0-28-amd64",
            "hypervisor": "raw" if platform == "raw" else "qemu",
            "hypervisor_version": "qemu 7.2",
            "uut_boot_id": "boot-of-uut",
        },
        "in_force": {
            "tolerances": Tolerances().model_dump(),
            "settle_s": 1.0,
            "drain_s": 0.5,
            "sample_interval_s": 0.1,
        },
        "extensions": {},
        **changes,
    }


def plan_ref(point: int, block: int, position: int, pilot: str | None, **changes: Any) -> dict[str, Any]:
    fixed = None
    if pilot is not None:
        fixed = {
            "maximum_target_bps": TARGET,
            "reference_pps": 132_000.0,
            "run_ids": [pilot],
            "source": "pilot",
        }
    return {
        "name": "small",
        "hash": PLAN,
        "point": point,
        "repetition": 1,
        "seed": 1,
        "warm_ups": 0,
        "block": block,
        "attempt": 1,
        "attempts": 3,
        "order": "blocked-random",
        "position": position,
        "set_ups": 2,
        "repetitions": 1,
        "set_up_trials": 1,
        "margin_ratio": 0.02,
        "claims": ["ranking"],
        "fixed": fixed,
        **changes,
    }


def consistent() -> list[dict[str, Any]]:
    """The whole store, the oldest run first. Every call makes it anew, so that a test may change it."""
    runs = []
    platforms = ("raw", "kvm")
    for place, platform in enumerate(platforms):
        ref = plan_ref(place, 0, place + 1, None)
        runs.append(run(PILOT[place], 60.0 * place, platform=platform, role="pilot", plan=ref))
    for block in (1, 2):
        for place, platform in enumerate(platforms):
            number = 2 * block + place
            ref = plan_ref(place, block, number + 1, PILOT[place])
            lost = 49_716 + 7 * number
            name = f"block-{block}-{platform}"
            streams = [stream(name, lost=lost)]
            runs.append(run(name, 60.0 * number, platform=platform, plan=ref, streams=streams))
    runs += [_two_sources(), _idle(), _beside(), _missed(), _stopped(), _lost_node()]
    return copy.deepcopy(runs)


def _two_sources() -> dict[str, Any]:
    streams = [stream("two", name=name, lost=700 * number) for number, name in enumerate(("s1", "s2"))]
    return run("two", 1000, streams=streams)


def _idle() -> dict[str, Any]:
    """The maximum that the next run's load is a share of."""
    return run(
        "idle-maximum",
        1100,
        platform="kvm",
        background_kind="idle",
        background={
            "kind": "idle",
            "guest": "guest-b",
            "cpus": "3",
            "requested": {},
            "achieved": {},
            "streams": [],
            "reference": None,
        },
    )


def _beside() -> dict[str, Any]:
    """Beside a second guest that forwards half of what the platform forwards at most."""
    share, maximum_pps = 0.5, _idle()["total"]["forwarding_pps"]
    delay_ns = round(BITS * 10**9 / round(share * maximum_pps * BITS))
    intended = round(DURATION_S * 1e9 / delay_ns)
    own = stream("beside", name="s2", sent=intended, lost=0, delay_ns=delay_ns, intended=intended)
    load = {
        "kind": "forwarding-50",
        "guest": "guest-b",
        "cpus": "3",
        "requested": {"offered_pps": share * maximum_pps},
        "achieved": {"offered_pps": own["offered_pps"], "measured_pps": own["measured_pps"], "window_s": 5.2},
        "streams": [own],
        "reference": {
            "share_ratio": share,
            "measured_pps": maximum_pps,
            "runs": 1,
            "run_id": "idle-maximum",
            "target_bps": TARGET,
            "background": "idle",
            "frame_size_bytes": 64,
            "sources": 1,
        },
    }
    return run("beside", 1200, platform="kvm", background_kind="forwarding-50", background=load)


def _missed() -> dict[str, Any]:
    found = run("missed", 1300, streams=[stream("missed", missed=12)])
    reason = {
        "code": "capture_incomplete",
        "detail": "s1: tcpdump missed 12 packets",
        "follows": None,
        "evidence": {"stream": "s1", "dropped_packets": 12, "drops": {"capture_buffer": 12}},
    }
    (sent,) = found["streams"]
    packets, came = sent["measured_packets"], sent["arrivals"]
    longest_s = (came["window_s"] + came["resolution_s"]) * packets / (packets - 1)
    coarse = {
        "code": "rate_uncertain",
        "detail": "s1: the forwarding rate is known to \u00b1 2.0%",
        "follows": "capture_incomplete",
        "evidence": {
            "stream": "s1",
            "rate_error_ratio": 1 - sent["offered_duration_s"] / longest_s,
            "resolution_s": 0.1,
        },
    }
    found["verdict"] = {"status": "suspect", "reasons": [reason, coarse]}
    return found


def _stopped() -> dict[str, Any]:
    found = run("stopped", 1400, streams=[stream("stopped", sent=100_000, lost=70, duration_s=0.704)])
    found["verdict"] = {
        "status": "invalid",
        "reasons": [{"code": "aborted", "detail": "the operator stopped the run", "evidence": None, "follows": None}],
    }
    del found["timeline"]["count_s"]
    return found


def _lost_node() -> dict[str, Any]:
    found = run("lost-node", 1500)
    found["failure"] = {"failure": "node_lost", "operation": "drain", "node": "snk1", "message": "snk1: gone"}
    reason = {
        "code": "link_lost",
        "detail": "snk1: gone",
        "evidence": {"node": "snk1", "operation": "drain"},
        "follows": None,
    }
    found["verdict"] = {"status": "invalid", "reasons": [reason]}
    return found


def by_id(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["run_id"]: each for each in runs}
