"""Runs as a replay would leave them, made up: for tests of the report, and to look at one without a testbed.

``taken`` is one run as JSON of format 1, ``measured`` of format 2 in a set-up of a block; ``evaluation`` a whole
evaluation of made-up platforms with everything a report points out, ``old_evaluation`` the same of format 1.
``python tests/support/report_runs.py FILE`` writes a store of it. Deterministic: the same call gives the same runs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from labconsole.model.record.run import RunRecord
from labconsole.store.importing import import_records
from labconsole.store.open import open_store

WIRE_EXTRA_BYTES = 24
NODE = {
    "facts": {
        "os": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0-28-amd64",
        "cpu_model": "Xeon E5-2630",
        "cpus": 8,
        "memory_bytes": 33_554_432,
        "hostname": "node",
        "load": [0.1, 0.2, 0.3],
        "pktgen": "2.75",
        "logins": None,
    },
    "round_trip_s": 0.0004,
    "clock_offset_ns": 1200,
    "clock_error_ns": 90_000,
}


def stream(
    number: int, size: int, offered_mbps: float, measured_mbps: float, duration_s: float, guest: bool, lost_at: str
) -> dict[str, Any]:
    """One stream whose counts, rates and ledger agree."""
    wire_bits = 8 * (size + WIRE_EXTRA_BYTES)
    offered = round(offered_mbps * 1e6 / wire_bits * duration_s)
    measured = min(offered, round(measured_mbps * 1e6 / wire_bits * duration_s))
    hops = ["generator", "source_nic", "uut_in", *(["to_guest", "guest_in", "guest_out"] if guest else []), "uut_out"]
    hops += ["sink_nic", "capture"]
    ledger, left = [], offered
    for hop in hops:
        lost = left - measured if hop == lost_at else 0
        left -= lost
        node = (
            "uut"
            if hop in ("uut_in", "to_guest", "guest_in", "guest_out", "uut_out")
            else (f"snk{number}" if hop in ("sink_nic", "capture") else f"src{number}")
        )
        port = {"uut_in": f"eth{number}", "uut_out": f"eth{number + 4}"}.get(hop, "eth1")
        ledger.append(
            {
                "hop": hop,
                "node": node,
                "interface": port,
                "packets": left,
                "lost_packets": None if hop == "generator" else lost,
                "drops": {},
            }
        )
    return {
        "name": f"s{number}",
        "generator": "pktgen",
        "generator_version": "2.75",
        "delay_ns": 1000,
        "burst_packets": 1,
        "intended_packets": offered,
        "intended_pps": offered / duration_s,
        "offered_packets": offered,
        "offered_duration_s": duration_s,
        "offered_pps": offered / duration_s,
        "offered_bps": offered / duration_s * wire_bits,
        "measured_packets": measured,
        "measured_pps": measured / duration_s,
        "measured_bps": measured / duration_s * wire_bits,
        "measured_from": "capture",
        "loss_packets": offered - measured,
        "loss_ratio": (offered - measured) / offered if offered else None,
        "capture": {"captured_packets": measured, "dropped_packets": 0, "complete": True},
        "counters": {},
        "sequence": None,
        "ledger": ledger,
        "unplaced_packets": 0,
        "delay": None,
        "spacing": None,
    }


def total(streams: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums over the streams."""
    names = ("offered_packets", "offered_pps", "offered_bps", "measured_packets", "measured_pps", "measured_bps")
    sums = {name: sum(s[name] for s in streams) for name in names}
    lost = sums["offered_packets"] - sums["measured_packets"]
    return {**sums, "loss_packets": lost, "loss_ratio": lost / sums["offered_packets"]}


def background(kind: str, second_mbps: tuple[float, float], duration_s: float) -> dict[str, Any] | None:
    """The second guest's part of a record."""
    if kind == "none":
        return None
    base: dict[str, Any] = {
        "kind": kind,
        "guest": "guest-b",
        "cpus": "3",
        "requested": {},
        "achieved": {"host_cpu_s": 0.01},
        "streams": [],
        "reference": None,
    }
    if kind in ("light", "heavy"):
        base["requested"] = {"demand_ratio": 1.0}
        base["achieved"] = {"demand_ratio": 0.998, "guest_cpu_s": 0.97 * duration_s, "memory_touched_bytes": 2**20}
    elif kind.startswith("forwarding"):
        own = stream(3, 64, *second_mbps, duration_s, True, "guest_in")
        base["requested"] = {"offered_pps": own["offered_pps"]}
        base["achieved"] = {"offered_pps": own["offered_pps"], "measured_pps": own["measured_pps"]}
        base["streams"] = [own]
        base["reference"] = {"share_ratio": int(kind[-2:]) / 100, "measured_pps": own["offered_pps"], "run_id": "r"}
    return base


def taken(
    number: int,
    measured_mbps: float,
    *,
    target: int | str = 100_000_000,
    platform: str = "raw",
    sources: int = 1,
    kind: str = "none",
    status: str = "valid",
    size: int = 1000,
    reasons: Sequence[dict[str, Any]] = (),
    lost_at: str = "uut_out",
    second_mbps: tuple[float, float] = (30.0, 30.0),
    offered_mbps: float | None = None,
    plan: dict[str, Any] | None = None,
    emulated: bool = True,
    includes_fcs: bool = False,
) -> dict[str, Any]:
    """A run whose streams share ``measured_mbps`` equally, as JSON."""
    duration_s = 1.0
    offered = offered_mbps or sources * (1000.0 if target == "max" else float(target) / 1e6)
    guest = not platform.startswith("raw")
    streams = [
        stream(n, size, offered / sources, measured_mbps / sources, duration_s, guest, lost_at)
        for n in range(1, sources + 1)
    ]
    if status != "valid" and not reasons:
        reasons = [{"code": "aborted", "detail": "the operator stopped the run", "evidence": None}]
    second = number % 60
    started = f"2026-11-{21 + number // 86400:02d}T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{second:02d}"
    nodes = dict.fromkeys(("src1", "uut", "snk1"), NODE)
    return {
        "run_id": f"20261121T000000Z-{number:06x}",
        "format": 1,
        "started_at": f"{started}.000000Z",
        "finished_at": f"{started}.900000Z",
        "testbed": "wuerzburg",
        "testbed_fingerprint": "7d3f9a11c0de4b52",
        "emulated": emulated,
        "operator": "op@console",
        "labconsole_version": "0.2.0",
        "plan": plan,
        "requested": {
            "platform": platform,
            "frame_size_bytes": size,
            "frame_size_includes_fcs": includes_fcs,
            "sources": sources,
            "target_bps": target,
            "background": kind,
            "duration_s": duration_s,
            "generator": "auto",
            "observe": "quiet",
        },
        "streams": streams,
        "total": total(streams),
        "background": background(kind, second_mbps, duration_s),
        "verdict": {"status": status, "reasons": list(reasons)},
        "influences": [{"node": "uut", "kind": "cpu", "detail": "processors 12 % busy"}],
        "environment": {
            "platform": {"driver": "raw" if not guest else "qemu", "guests": ["guest"] if guest else []},
            "nodes": nodes,
            "calibration": None,
            "calibration_void": None,
        },
        "timeline": {"total_s": 1.4},
        "failure": None,
    }


def measured(
    number: int,
    mbps: float,
    *,
    block: int | None = 1,
    point: int = 0,
    repetition: int = 1,
    attempt: int = 1,
    set_up: str | None = None,
    trials: int = 1,
    boot: str | None = "boot-1",
    kernel: str = "6.1.0-28-amd64",
    role: str = "measured",
    plan_hash: str = "3b1f7a90c4d2e865",
    late: int = 0,
    at_source: int = 0,
    fixed: int | str | None = None,
    margin: float | None = None,
    claims: tuple[str, ...] | None = None,
    set_ups: int = 3,
    repetitions: int = 1,
    duration_s: float = 1.0,
    started: str | None = None,
    **how: Any,
) -> dict[str, Any]:
    """A run of format 2 in a set-up of a block, as JSON. ``late``, ``at_source``: packets of its first stream."""
    data = taken(number, mbps, **how)
    asked = data["requested"]
    asked["duration_s"] = duration_s
    if started is None:  # block after block, a day each
        started = f"{datetime.fromisoformat(data['started_at']) + timedelta(days=(1 if block is None else block) - 1):%Y-%m-%dT%H:%M:%S}"
    data |= {"started_at": f"{started}.000000Z", "finished_at": f"{started}.900000Z"}
    told = f"{asked['platform']}-{asked['background']}-{block}"
    data |= {
        "format": 2,
        "role": role,
        "method": 2,
        "plan": {
            "name": "made-up",
            "hash": plan_hash,
            "point": point,
            "repetition": repetition,
            "seed": 1,
            "block": block,
            "attempt": attempt,
            "attempts": 3,
            "position": number,
            "set_ups": set_ups,
            "repetitions": repetitions,
            "set_up_trials": trials,
            "margin_ratio": margin,
            "claims": claims,
            "fixed": None if fixed is None else {"maximum_target_bps": None if fixed == "none" else fixed},
        },
        "set_up": {"id": set_up or told, "started_at": data["started_at"], "setup_s": 12.5, "trial": 1},
        "conditions": {
            "uut_kernel": kernel,
            "hypervisor": data["environment"]["platform"]["driver"],
            "uut_boot_id": boot,
        },
    }
    for place, each in enumerate(data["streams"]):
        lost, arrived = each["loss_packets"], each["measured_packets"]
        early = at_source if place == 0 else 0
        wire_bits = each["offered_bps"] / each["offered_pps"]
        window_s = duration_s * (1 + (late / arrived if place == 0 and arrived else 0.0))
        each |= {
            "generator_packets": each["offered_packets"] + early,
            "source_lost_packets": early,
            "uut_lost_packets": lost,
            "sink_lost_packets": 0,
            "forwarding_pps": arrived / window_s,
            "forwarding_bps": arrived / window_s * wire_bits,
            "arrivals": {
                "packets": arrived,
                "window_s": window_s,
                "window_from": "capture",
                "resolution_s": 1e-6,
                "late_packets": late if place == 0 else 0,
            },
        }
    total_of = data["total"]
    total_of |= {
        "generator_packets": total_of["offered_packets"] + at_source,
        "source_lost_packets": at_source,
        "uut_lost_packets": total_of["loss_packets"],
        "sink_lost_packets": 0,
        "uut_loss_ratio": total_of["loss_ratio"],
        "late_packets": late,
        "forwarding_pps": sum(each["forwarding_pps"] for each in data["streams"]),
        "forwarding_bps": sum(each["forwarding_bps"] for each in data["streams"]),
    }
    return RunRecord.model_validate(data).to_json()


def set_ups_of(values: Sequence[float], first: int = 0, **how: Any) -> list[dict[str, Any]]:
    """One trial of a point in each of as many blocks as there are values."""
    return [
        measured(first + place, mbps, block=place + 1, set_ups=len(values), **how) for place, mbps in enumerate(values)
    ]


CAPACITY_MPPS = {"raw": 0.60, "container": 0.52, "lxc": 0.51, "qemu-virtio": 0.18, "qemu-e1000": 0.07}
"""What the made-up platforms forward, in million frames per second."""

UNDER = {"none": 1.0, "idle": 0.998, "light": 0.97, "heavy": 0.86, "forwarding-50": 0.8, "forwarding-95": 0.55}
SIZES = (64, 500, 1000, 1500)
TARGETS: tuple[int | str, ...] = (10**7, 10**8, 2 * 10**8, 4 * 10**8, 6 * 10**8, 8 * 10**8, 10**9, "max")


def forwarded_mbps(platform: str, size: int, sources: int, offered_mbps: float, kind: str, noise: float) -> float:
    """What a made-up platform makes of a load: all of it, or what it can; containers collapse beyond their maximum."""
    most = CAPACITY_MPPS[platform] * 8 * (size + WIRE_EXTRA_BYTES) * (UNDER[kind] if platform != "raw" else 1.0)
    most *= 1 + 0.15 * (sources - 1)
    if offered_mbps <= most:
        return offered_mbps
    beyond = offered_mbps / most
    if platform == "container" and size == 64 and beyond > 1.3:
        most *= 0.6
    return most * (1 + noise)


def old_evaluation(
    repetitions: int = 5,
    *,
    platforms: Sequence[str] = tuple(CAPACITY_MPPS),
    sizes: Sequence[int] = SIZES,
    targets: Sequence[int | str] = TARGETS,
) -> Iterator[dict[str, Any]]:
    """A dedicated and a shared evaluation of made-up platforms, run by run, of format 1."""
    number = 0
    for place, (platform, size, (sources, kind)) in enumerate(
        (p, s, sk)
        for p in platforms
        for s in sizes
        for sk in ((1, "none"), (2, "none"), (3, "none"), *((1, kind) for kind in UNDER if kind != "none"))
    ):
        for at, target in enumerate(targets):
            for repetition in range(repetitions):
                number += 1
                noise = ((number * 7919) % 1000 / 1000 - 0.5) * 0.01
                link = 1000.0 if size > 64 else 650.0
                offered = sources * (link if target == "max" else min(link, float(target) / 1e6))
                measured = forwarded_mbps(platform, size, sources, offered, kind, noise)
                share = int(kind[-2:]) / 100 if kind.startswith("forwarding") else 0.5
                own = CAPACITY_MPPS[platform] * 8 * 88 * share * (1 + noise / 10)
                plan = {
                    "name": "made-up",
                    "hash": "3b1f7a90c4d2e865",
                    "point": place * len(targets) + at,
                    "repetition": repetition + 1,
                    "seed": 1,
                }
                yield taken(
                    number,
                    measured,
                    target=target,
                    platform=platform,
                    sources=sources,
                    kind=kind,
                    size=size,
                    offered_mbps=offered,
                    lost_at="to_guest" if platform != "raw" else "uut_in",
                    plan=plan,
                    second_mbps=(own, own * (0.8 if share > 0.9 and platform != "raw" else 1.0)),
                )


def evaluation(
    set_ups: int = 5,
    repetitions: int = 1,
    *,
    platforms: Sequence[str] = tuple(CAPACITY_MPPS),
    sizes: Sequence[int] = SIZES,
    targets: Sequence[int | str] = TARGETS,
    margin: float | None = None,
) -> Iterator[dict[str, Any]]:
    """The same in blocks, of format 2: each platform and background set up anew in each block."""
    loads = [
        (p, s, sk)
        for p in platforms
        for s in sizes
        for sk in ((1, "none"), (2, "none"), (3, "none"), *((1, kind) for kind in UNDER if kind != "none"))
    ]
    held = Counter((platform, kind) for platform, _, (_, kind) in loads)
    number = 0
    for block in range(1, set_ups + 1):
        for place, (platform, size, (sources, kind)) in enumerate(loads):
            link = 1000.0 if size > 64 else 650.0
            offers = {t: sources * (link if t == "max" else min(link, float(t) / 1e6)) for t in targets}
            most = {t: forwarded_mbps(platform, size, sources, offers[t], kind, 0.0) for t in targets}
            for at, target in enumerate(targets):
                for repetition in range(1, repetitions + 1):
                    number += 1
                    noise = ((number * 7919) % 1000 / 1000 - 0.5) * 0.01
                    share = int(kind[-2:]) / 100 if kind.startswith("forwarding") else 0.5
                    own = CAPACITY_MPPS[platform] * 8 * 88 * share * (1 + noise / 10)
                    yield measured(
                        number,
                        forwarded_mbps(platform, size, sources, offers[target], kind, noise),
                        block=block,
                        point=place * len(targets) + at,
                        repetition=repetition,
                        margin=margin,
                        set_ups=set_ups,
                        trials=held[platform, kind] * len(targets) * repetitions,
                        repetitions=repetitions,
                        fixed=max(targets, key=most.__getitem__),
                        target=target,
                        platform=platform,
                        sources=sources,
                        kind=kind,
                        size=size,
                        offered_mbps=offers[target],
                        lost_at="to_guest" if platform != "raw" else "uut_in",
                        second_mbps=(own, own * (0.8 if share > 0.9 and platform != "raw" else 1.0)),
                    )


if __name__ == "__main__":
    with open_store(str(Path(sys.argv[1]))) as store:
        print(import_records(store, evaluation(int(sys.argv[2]) if len(sys.argv) > 2 else 5)))
