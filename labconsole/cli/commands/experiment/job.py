"""``labconsole experiment job``: a job in guests, timed by a clock outside; and stored trials."""

from __future__ import annotations

import argparse
from typing import Any

from labconsole.cli.commands.experiment.guest_experiments import (
    add_display_options,
    add_execution_options,
    counts,
    parse_factor_options,
    require_options,
    run_trials,
    show_stored,
)
from labconsole.cli.options import add_common, comma_separated, number, whole_number
from labconsole.model.jobs import JOBS

DESCRIPTION = (
    "Set up any number of guests side by side, have some or all of them do a fixed piece of work, and take "
    "the time by a clock outside of them: the sink of the first stream, which sees a ping before and one after the "
    "work. Times of jobs that do nothing are taken off. The job key of a plan does the same for every combination of "
    "factors and can be resumed. Exit status: 0 no trial is invalid; 1 one is; 2 bad usage; 3 a node "
    "is out of reach, lost or cannot do its part; 130 interrupted."
)


def add_kind(kinds: Any) -> None:
    """Add the options of this kind."""
    job: argparse.ArgumentParser = kinds.add_parser(
        "job",
        help="fixed work in guests",
        description=DESCRIPTION,
        epilog=_jobs_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_common(job, "--hosts", "--store", "--json")
    job.add_argument(
        "--platforms", type=comma_separated, metavar="A,B", help="platforms of hosts.yaml; raw is the bare host"
    )
    job.add_argument("--jobs", type=comma_separated, metavar="A,B", help="the jobs, from the list below")
    job.add_argument("--size", type=whole_number, metavar="N", help="the size of each job (default: the usual one)")
    job.add_argument("--guests", type=counts, metavar="N,M", help="how many guests stand side by side (default: 1)")
    job.add_argument("--working", type=comma_separated, metavar="A,B", help="one, all, one-two (default: one)")
    job.add_argument("--cpu", type=comma_separated, metavar="A,B", help="same, own, any (default: any)")
    job.add_argument("--cpu-shares", type=counts, metavar="A,B", help="the guests' weights on a CPU, in turn")
    job.add_argument("--cpu-quota", type=number, metavar="RATIO", help="share of one CPU that a guest has at most")
    job.add_argument(
        "--memory-mib", type=whole_number, metavar="MIB", help="memory of each guest (default: the platform's)"
    )
    job.add_argument(
        "--disk-mib",
        type=whole_number,
        metavar="MIB",
        help="disk of each guest, where a job works on it (default: what it needs)",
    )
    job.add_argument("--limit", type=number, metavar="S", help="a job that takes longer has failed (default: 600)")
    add_execution_options(job, set_ups="how often the guests are set up", repetitions="trials in each set-up")
    add_display_options(job, summary="times with intervals, overhead, isolation")


def _jobs_epilog() -> str:
    width = max(map(len, JOBS))
    lines = [f"  {job.name:<{width}}  {job.does} (usual size {job.size} {job.unit})" for job in JOBS.values()]
    return "jobs:\n" + "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    """Return 0 if no trial is invalid, else 1."""
    from labconsole.cli.text.guest_kinds import JOBS_VIEW
    from labconsole.experiments.job.plan import JobFactors

    if args.list or args.show or args.summary:
        return show_stored(args, JOBS_VIEW)
    require_options(args, "platforms", "jobs")
    jobs = [{"job": name, "size": args.size} if args.size is not None else name for name in args.jobs]
    wanted = {
        "jobs": jobs,
        "guests": args.guests,
        "working": args.working,
        "cpu": args.cpu,
        "cpu_shares": args.cpu_shares,
        "cpu_quota_ratio": args.cpu_quota,
        "memory_mib": args.memory_mib,
        "disk_mib": args.disk_mib,
        "limit_s": args.limit,
    }
    return run_trials(args, JOBS_VIEW, parse_factor_options(JobFactors, wanted))
