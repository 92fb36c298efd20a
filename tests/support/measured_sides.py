"""Two sides of a comparison of trials that are no runs: records of every kind, whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from labconsole.cli.main import main
from labconsole.engine.crew_step import describe_failure
from labconsole.experiments.job.record import JobRecord
from labconsole.model.jobs import JOBS
from labconsole.model.record.kind import ExperimentRecord, record_kinds
from labconsole.model.record.run import Verdict
from labconsole.model.record.search import GoalRecord, SearchRecord
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from labconsole.verdict.reasons import reason
from support.boot_records import started
from support.flow_records import flow_record
from support.job_records import disk_data, taken
from support.report_runs import measured
from support.route_records import route_record
from support.search_script import Script, make

Records = list[ExperimentRecord]


def around(mean: float, seed: int, many: int = 8, sd: float = 0.004) -> list[float]:
    """So many values, normal, with this relative deviation."""
    return list(mean * (1 + sd * np.random.default_rng(seed).standard_normal(many)))


def of_side(record: Any, name: str, number: int, *, kernel: str = "6.1", boot: str | None = None) -> Any:
    """The record as one of a plan of this name: with an id, a meaning, a set-up and a boot of its own."""
    id_name = next(key for key in ("job_id", "boot_id", "flow_id", "route_id") if hasattr(record, key))
    facts = {"boot_id": boot or f"boot-of-{name}", "kernel": kernel}
    return record.model_copy(
        update={
            id_name: f"20260101T000000Z-{name}-{number}",
            "plan": record.plan.model_copy(update={"name": name, "hash": f"{name}-{number}", "set_ups": 8}),
            "environment": {"nodes": {"uut": {"facts": facts}}},
            "set_up": record.set_up and record.set_up.model_copy(update={"id": f"{name}-{number}"}),
        }
    )


def jobs(name: str, seconds: Sequence[float], **how: Any) -> Records:
    """A trial of two guests in each block."""
    return [of_side(taken([value, value], block=n), name, n, **how) for n, value in enumerate(seconds, 1)]


def unseen(record: JobRecord) -> JobRecord:
    """The same where no guest came, so that nothing is known of it."""
    verdict = Verdict(status="invalid", reasons=(reason("guests_missing", "no answer"),))
    return record.model_copy(
        update={
            "set_up": None,
            "copies": (),
            "attestation": {},
            "program": None,
            "verdict": verdict,
            "status": "failed",
            "failure": describe_failure(verdict),
        }
    )


FULL_S = 8 * 384 * 2**20 / (1448 / 1538 * 1e9)
"""What TCP takes to carry 384 MiB over a link of 1 Gbit/s that it fills."""


def working(record: JobRecord, job: str, size: int, **changes: Any) -> JobRecord:
    """The record as one of another job."""
    asked = record.requested.model_copy(update={"job": job, "size": size, "command": JOBS[job].command(size)})
    return record.model_copy(update={"requested": asked, **changes})


def over_link(seconds: float, block: int) -> JobRecord:
    """One guest that sends 384 MiB over a link of 1 Gbit/s."""
    return working(taken([seconds], guests=1, working="one", block=block), "tcp", 384, link_speed_bps=10**9)


def with_disk(seconds: float, block: int, job: str, size: int, read_bytes: int) -> JobRecord:
    """One guest that works on its disk, whose device gave so much."""
    record = taken([seconds], guests=1, working="one", block=block)
    told = JobRecord.model_validate({**record.model_dump(), "disk": disk_data(job, size)["disk"]}).disk
    assert told is not None
    return working(record, job, size, disk=told.model_copy(update={"device_read_bytes": read_bytes}))


def sent(name: str, seconds: Sequence[float], **how: Any) -> Records:
    """Jobs that send, in each block."""
    return [of_side(over_link(value, n), name, n, **how) for n, value in enumerate(seconds, 1)]


def served(name: str, seconds: Sequence[float], *, from_memory: bool | Collection[int], **how: Any) -> Records:
    """Files of 64 MiB that guests serve in each block, from their disks or from memory, or so in these blocks alone."""
    trials = []
    for n, value in enumerate(seconds, 1):
        cached = from_memory if isinstance(from_memory, bool) else n in from_memory
        trials.append(with_disk(value, n, "serve-http", 64, (32 if cached else 80) * 2**20))
    return [of_side(each, name, n, **how) for n, each in enumerate(trials, 1)]


def boots(name: str, seconds: Sequence[float], **how: Any) -> Records:
    """A start of two guests in each block, which use 50 MiB."""
    return [of_side(started(value, 50.0, guests=2, block=n), name, n, **how) for n, value in enumerate(seconds, 1)]


def flows(name: str, packets: Sequence[float], **how: Any) -> Records:
    """Two guests that bring this many packets together in each second."""
    return [
        of_side(
            flow_record([[round(value / 2)] * 4, [round(value / 2)] * 4], block=n, flow_id=f"20260101T0000{n:02}Z-f"),
            name,
            n,
            **how,
        )
        for n, value in enumerate(packets, 1)
    ]


def routes(name: str, packets: Sequence[float], *, lost: int = 4000, **how: Any) -> Records:
    """A router that forwards this many packets in each 0.1 s, and loses some."""
    return [
        of_side(route_record([round(value)], lost_inside=[lost], block=n), name, n, **how)
        for n, value in enumerate(packets, 1)
    ]


@cache
def _search() -> SearchRecord:
    script = Script()
    make(script)
    return script.store.searches[0]


def goal(lower_pps: float | None, **changes: Any) -> GoalRecord:
    """NDR with this lower bound."""
    known = {"goal": "ndr", "relative_width": 0.005, "lower_bound_pps": lower_pps, "limited_by": "uut"}
    return _search().goals[0].model_copy(update=known | changes)


def searches(
    name: str,
    lower_pps: Sequence[float | None],
    *,
    kernel: str = "6.1",
    set_up: str | None = None,
    fingerprint: str = "7d3f9a11c0de4b52",
    changes: Callable[[int], dict[str, Any]] = lambda number: {},
    **of_goal: Any,
) -> tuple[list[SearchRecord], list[dict[str, Any]]]:
    """Searches with these lower bounds, each in a set-up of its own, and the run that each is made of."""
    found = []
    runs = []
    for number, value in enumerate(lower_pps, 1):
        first = sum(map(ord, name)) * 100 + number
        run = measured(first, 60.0, block=None, kernel=kernel, boot=f"boot-of-{name}")
        run["plan"] = {**run["plan"], "name": name, "hash": f"search-{name}-{number}"}
        run["set_up"]["id"] = set_up or f"{name}-{number}"
        run["testbed_fingerprint"] = fingerprint
        runs.append(run)
        record = _search()
        found.append(
            record.model_copy(
                update={
                    "search_id": f"20260101T000000Z-{name}-{number}",
                    "testbed_fingerprint": fingerprint,
                    "started_at": f"2026-01-01T00:00:{number:02}.000000Z",
                    "plan": record.plan.model_copy(
                        update={"name": name, "hash": f"search-{name}-{number}", "repetition": number}
                    ),
                    "trials": (record.trials[0].model_copy(update={"run_id": run["run_id"]}),),
                    "goals": (goal(value, **of_goal),),
                    **changes(number),
                }
            )
        )
    return found, runs


def keep(place: Path, records: Iterable[ExperimentRecord], runs: Iterable[dict[str, Any]] = ()) -> None:
    """Put them into a store."""
    kinds = {kind.record: kind for kind in record_kinds().values()}
    with open_store(str(place)) as store:
        import_records(store, runs)
        for record in records:
            store.save_experiment(kinds[type(record)], record)


def compared(place: Path, capsys: Any, *words: str) -> dict[str, Any]:
    """What the command says of plans old and new, or of other sides, as JSON."""
    capsys.readouterr()
    assert main(["compare", "--store", str(place), "--json", *(words or ("plan=old", "plan=new"))]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
