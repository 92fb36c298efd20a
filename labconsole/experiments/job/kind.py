"""Fixed work in guests, timed by a clock outside of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labconsole.model.plan.guest_kind import FactorOption, GuestCommand, GuestKind


def _list_jobs() -> str:
    from labconsole.model.jobs import JOBS

    width = max(map(len, JOBS))
    lines = [f"  {job.name:<{width}}  {job.does} (usual size {job.size} {job.unit})" for job in JOBS.values()]
    return "jobs:\n" + "\n".join(lines)


def _build_factors(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """``--size`` is the size of every job."""
    factors, size = dict(given), given["jobs.size"]
    del factors["jobs.size"]
    if size is not None:
        factors["jobs"] = [{"job": name, "size": size} for name in given["jobs"]]
    return factors


KIND = GuestKind(
    name="job",
    plural="jobs",
    place=10,
    instead="jobs for guests",
    purpose="jobs in guests",
    assumed="if each takes ten seconds",
    title="Jobs",
    result_title="time",
    claim_tables=("job-overheads",),
    abstract_tables=("quetier-abstract-jobs",),
    command=GuestCommand(
        help="fixed work in guests",
        description="Set up any number of guests side by side, have some or all of them do a fixed piece of work, "
        "and measure its time by a clock outside the guests: the sink of the first stream receives a "
        "ping before and one after the work. The time of an empty job is subtracted.",
        epilog=_list_jobs,
        platforms="platforms of hosts.yaml; raw is the bare host",
        options=(
            FactorOption("--jobs", "jobs", "names", "A,B", "the jobs, from the list below", required=True),
            FactorOption("--size", "jobs.size", "whole number", "N", "the size of each job (default: the usual one)"),
            FactorOption("--guests", "guests", "counts", "N,M", "number of guests running side by side (default: 1)"),
            FactorOption("--working", "working", "names", "A,B", "one, all, one-two (default: one)"),
            FactorOption("--cpu", "cpu", "names", "A,B", "same, own, any (default: any)"),
            FactorOption("--cpu-shares", "cpu_shares", "counts", "A,B", "the guests' weights on a CPU, in turn"),
            FactorOption(
                "--cpu-quota", "cpu_quota_ratio", "number", "RATIO", "largest share of one CPU for each guest"
            ),
            FactorOption(
                "--memory-mib", "memory_mib", "whole number", "MIB", "memory of each guest (default: the platform's)"
            ),
            FactorOption(
                "--disk-mib",
                "disk_mib",
                "whole number",
                "MIB",
                "disk of each guest, where a job works on it (default: what it needs)",
            ),
            FactorOption("--limit", "limit_s", "number", "S", "seconds after which a job has failed (default: 600)"),
        ),
        factors=_build_factors,
        set_ups="number of set-ups of the guests",
        repetitions="trials in each set-up",
        summary="times with intervals, overhead, isolation",
    ),
)
