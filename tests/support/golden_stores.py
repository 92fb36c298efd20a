"""Stores of which the golden outputs are made: every kind of trial, with values that never change.

The forwarding runs and searches are those of golden/format-2; the trials of guests are those of consistent_guests, those
really taken on a lab, and a designed evaluation in blocks, so that every table, comparison and claim has something in it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labconsole.experiments.job.record import JobRecord
from labconsole.model.record.kind import ExperimentRecord, record_kinds
from labconsole.store.experiments import parse_experiment
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.boot_records import boot_data, boot_record
from support.consistent_guests import consistent_guests
from support.flow_records import flow_record, inward_record, ring_record
from support.flow_scenarios import stalled, steps_of, weighted
from support.golden_sets import GOLDEN_SETS
from support.job_records import disk_data, drawn_at, job_record, taken
from support.measured_sides import around, boots, flows, jobs, keep, over_link, routes, searches, with_disk
from support.occasions import stored as occasions
from support.recorded_guests import recorded_guests
from support.report_runs import evaluation, measured, set_ups_of
from support.route_records import route_record
from support.timed_packets import told_times
from support.worked import told_work

BLOCKS = (1, 2, 3, 4)
PLANS = {"job": "work", "boot": "starts", "flow": "shared link", "route": "routers"}


def store_of_all_kinds(place: Path) -> None:
    """Runs, searches and trials of guests, whose numbers follow from each other."""
    shutil.copy(GOLDEN_SETS / "format-2" / "runs.sqlite", place)
    shutil.copytree(GOLDEN_SETS / "format-2" / "runs.sqlite.series", place.with_name(f"{place.name}.series"))
    kinds = record_kinds()
    with open_store(str(place)) as store:
        for kind, data in (*consistent_guests().values(), *recorded_guests().values()):
            store.save_experiment(kinds[kind], parse_experiment(kinds[kind], json.dumps(data), "golden"))


def store_of_guests(place: Path) -> None:
    """A designed evaluation of guests, kind by kind, in blocks."""
    keep(place, [_of_plan(number, *each) for number, each in enumerate(_designed(), 1)])


def _designed() -> Iterator[tuple[int, str, Any]]:
    """Block, kind and record."""
    draw = random.Random(46)
    for block in BLOCKS:
        yield from ((block, "job", each) for each in _jobs(block, draw))
        yield from ((block, "boot", each) for each in _boots(block, draw))
        yield from ((block, "flow", each) for each in _flows(block, draw))
        yield from ((block, "route", each) for each in _routes(block, draw))


def _jobs(block: int, draw: random.Random) -> Iterator[JobRecord]:
    for platform, factor in (("host", 1.0), ("lxc", 1.25), ("uml", 1.25)):
        for guests, working in ((1, "one"), (2, "one"), (2, "all"), (5, "all"), (2, "one-two")):
            times = {"one": [4.0], "all": [4.0 * guests] * guests, "one-two": [8.0, 12.0, 12.0]}[working]
            took = [factor * each * draw.gauss(1, 0.002) for each in times]
            record = taken(took, platform=platform, guests=guests, working=working, cpu="same", block=block)
            asked = record.requested.model_copy(update={"job": "cpu-sqrt2", "size": 2000})
            yield record.model_copy(update={"requested": asked})
    yield taken([9.0, 9.0], platform="qemu", block=block, codes=("swapped",))
    yield over_link(3.4 * draw.gauss(1, 0.002), block)
    yield with_disk(4.0 * draw.gauss(1, 0.01), block, "disk-bonnie", 512, 520 * 2**20)
    yield with_disk(1.0 * draw.gauss(1, 0.01), block, "serve-http", 64, (32 if block == 2 else 80) * 2**20)
    yield job_record({**disk_data(), "started_at": drawn_at(block, "disk")})


def _boots(block: int, draw: random.Random) -> Iterator[Any]:
    for platform, each_s in (("uml", 0.8), ("lxc", 0.05)):
        for start, more_s in (("cold", 1.0), ("hot", 0.0)):
            for guests in (1, 2, 5):
                data = boot_data([more_s + each_s * n * draw.gauss(1, 0.01) for n in range(1, guests + 1)])
                data["started_at"] = drawn_at(block, platform, start, guests)
                data["requested"] |= {"platform": platform, "start": start, "guests": guests}
                data["idle"] = {"before": _quiet(100 + block), "standing": _quiet(100 + block + 200 * guests)}
                yield boot_record(data)
    if block == BLOCKS[-1]:
        yield boot_record(boot_data([1.0, None]))


def _quiet(per_s: int) -> dict[str, Any]:
    return {"took_ns": 5_000_000_000, "switches": 5 * per_s, "switches_per_s": float(per_s)}


def _flows(block: int, draw: random.Random) -> Iterator[Any]:
    def each(packets: int) -> list[int]:
        return [round(packets * draw.gauss(1, 0.005)) for _ in range(5)]

    for platform, driver in (("host", "raw"), ("lxc", "lxc"), ("uml", "uml")):
        for guests in (1, 2):
            record = flow_record([each(8000 // guests)] * guests, platform=platform)
            yield record.model_copy(update={"attestation": {"driver": driver}})
    yield flow_record([each(2400), each(4900)], limits_bps=(30_000_000, 60_000_000))
    yield flow_record([each(4000), each(4000)[:3]], begin_bins=[0, 2], second_after_s=2.0)
    yield flow_record([[7990, *each(4000)[1:]], [10, *each(4000)[1:]]], platform="qemu")
    yield ring_record([40e6 * draw.gauss(1, 0.01), 40e6, 38e6])
    yield inward_record([6000 + block, 6000], losses=[{"guest_socket_full": 100}, {"to_guest": 7}])
    yield inward_record([3000 + block])
    yield weighted(steps_of("3:1", "1:3"), (0.75, 0.25 + block / 1000))
    yield stalled(500 + block)


def _routes(block: int, draw: random.Random) -> Iterator[Any]:
    for platform in ("container", "uml"):
        for guests, loaded, filters, target in (
            (1, 0, 0, None),
            (2, 0, 0, None),
            (1, 1000, 0, None),
            (1, 0, 100, None),
            (1, 0, 0, 2000),
        ):
            each = [round((200 if loaded or filters else 240) / guests * draw.gauss(1, 0.01)) for _ in range(guests)]
            lost = [4000] * guests if target is None else []
            yield route_record(
                [200] if target else each,
                routes=loaded,
                filters=filters,
                lost_inside=lost,
                platform=platform,
                target_pps=target,
            )


def _of_plan(number: int, block: int, kind: str, record: Any) -> ExperimentRecord:
    """As one of its plan, with an id, a meaning and a set-up of its own."""
    place = {"name": PLANS[kind], "hash": f"{kind}-{number:04}", "block": block, "set_ups": len(BLOCKS)}
    changed: ExperimentRecord = record.model_copy(
        update={
            f"{kind}_id": f"20261201T0{block}{number // 60:02}{number % 60:02}Z-{number:06x}",
            "testbed": "lab",
            "testbed_fingerprint": "7d3f9a11c0de4b52",
            "plan": record.plan.model_copy(update=place),
            "environment": {"nodes": {"uut": {"facts": {"boot_id": f"boot-{block}", "kernel": "6.1.0-28-amd64"}}}},
            "set_up": record.set_up and record.set_up.model_copy(update={"id": f"s-{number}"}),
        }
    )
    return changed


def store_of_runs(place: Path) -> None:
    """A designed evaluation of forwarding: rates by platform, background and load, delays, drops and telemetry."""
    runs = list(evaluation(3, platforms=("raw", "container", "lxc"), sizes=(64, 1500), targets=(10**8, 10**9, "max")))
    for run in runs[::7]:
        for stream in run["streams"]:
            stream["extensions"] = {"packet_times": told_times({20_000: 9_000, 50_000: 990, 900_000: 10})}
            stream["ledger"][-3]["drops"] = {"kernel.NETFILTER_DROP@nft_do_chain": 10}
    for number in (90_000, 90_001):
        run = measured(number, 70, block=None, role="telemetry", plan_hash="feedc0dedeadbeef")
        run["extensions"] = {"telemetry": told_work()}
        for stream in run["streams"]:
            stream["counters"]["uut_out_tx_packets"] = 50_000
        runs.append(run)
    with open_store(str(place)) as store:
        import_records(store, runs)


def store_of_two_plans(place: Path) -> None:
    """Of every kind a plan ``old`` and a plan ``new``, whose results are known to differ by some per cent."""
    keep(place, [], _runs_of("old", 60.0, 0) + _runs_of("new", 57.0, 500))
    for name, factor, kernel in (("old", 1.0, "6.1"), ("new", 1.03, "6.6")):
        found, runs = searches(name, [factor * each for each in around(30_000.0, 5, 4)], kernel=kernel)
        trials = [
            *jobs(name, around(4.0 * factor, 1, 4), kernel=kernel),
            *boots(name, around(2.0 * factor, 2, 4), kernel=kernel),
            *flows(name, around(4000.0 * factor, 3, 4), kernel=kernel),
            *routes(name, around(20_000.0, 4, 4), kernel=kernel),
        ]
        keep(place, [*found, *trials], runs)


def _runs_of(plan: str, mbps: float, first: int) -> list[dict[str, Any]]:
    runs = set_ups_of(
        around(mbps, first + 1, 4), first, boot=f"boot-of-{plan}", kernel="6.1" if plan == "old" else "6.6"
    )
    for run in runs:
        run["plan"] |= {"name": plan, "hash": f"{plan}-runs"}
        run["set_up"]["id"] += plan
    return runs


def store_of_days(place: Path) -> None:
    """A plan of every kind on twelve days, whose results step by three per cent on the seventh."""
    means = [1.0] * 6 + [1.03] * 6
    occasions(place, [60 * each for each in means], kernels=["6.1"] * 6 + ["6.6"] * 6)
    records: list[Any] = []
    for day, mean in enumerate(means, 1):
        kernel = "6.1" if day < 7 else "6.6"
        of_day = [
            *jobs(f"d{day}", around(4.0 * mean, day, 4), kernel=kernel),
            *boots(f"d{day}", around(2.0 * mean, day, 4), kernel=kernel),
            *flows(f"d{day}", around(4000.0 * mean, day, 4), kernel=kernel),
            *routes(f"d{day}", around(20_000.0 * mean, day, 4), kernel=kernel),
        ]
        for record in of_day:
            plan = record.plan.model_copy(update={"name": f"nightly@{day:02}", "set_ups": 4})  # type: ignore[attr-defined]
            records.append(record.model_copy(update={"plan": plan, "started_at": f"2026-10-{day:02}T01:00:00.000000Z"}))
    keep(place, records)
