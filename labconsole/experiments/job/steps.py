"""Jobs in guests as steps of a plan: one trial each, in the order that the plan draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from labconsole.contracts.experiment import Stage
from labconsole.engine.crew_step import (
    SOME_CPUS,
    build_step,
    filter_trials,
    find_refusals,
    load_usable_records,
    require_program,
)
from labconsole.errors import ConfigError
from labconsole.experiments.job.plan import JobPoint, JobTrial, job_hash
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.job.record import JobRecord
from labconsole.model.inventory import Inventory
from labconsole.model.jobs import JOBS
from labconsole.model.plan.plan import Plan

if TYPE_CHECKING:
    from labconsole.experiments.job.procedure import JobStep, JobStore

IN_EVERY_GUEST = "busybox"
"""The program that guest images always contain."""


class Jobs:
    """The kind of experiment that a plan's key ``job`` asks for."""

    def __init__(self, store: JobStore) -> None:
        self._store = store

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[JobStep]:
        """Return every trial of a plan that is resolved for its testbed, or ``only`` on the platforms of these
        points.
        """
        if plan.jobs is None:
            return []
        from labconsole.experiments.job.procedure import JobStep

        jobs = plan.jobs

        def hash_of(trial: JobTrial) -> str:
            return job_hash(jobs.factors, trial, salt or jobs.salt)

        return [
            build_step(JobStep, plan, trial, hash_of, factors=jobs.factors, store=self._store)
            for trial in filter_trials(plan, jobs.trials, only)
        ]

    def stored(self, steps: Sequence[JobStep], testbed_fingerprint: str) -> Mapping[str, JobRecord]:
        """Return the stored records, see load_usable_records(). A disk sized for the jobs of a plan is in no hash."""
        disks_mib = {each.factors.crew_disk_mib or None for each in steps}

        def another(record: JobRecord) -> bool:
            return record.requested.disk_mib not in disks_mib

        return load_usable_records(self._store, JOB, steps, testbed_fingerprint, another)

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[JobStep, JobRecord]]:
        """Empty: earlier trials of a job are shown with the results."""
        return []

    def refuse(
        self, steps: Sequence[JobStep], plan: Plan, inventory: Inventory, stage: Stage
    ) -> Mapping[str, ConfigError]:
        """Return the steps whose crews this platform cannot have, with reasons.

        Raises ConfigError for a request that no guest can meet.
        """
        if plan.jobs is None:
            return {}
        from labconsole.experiments.job.procedure import crew_members

        for wish in plan.jobs.factors.jobs:
            job = JOBS[wish.job]
            needed, disk_mib = plan.jobs.factors.needed_disk_mib(wish), plan.jobs.factors.disk_mib
            if disk_mib is not None and disk_mib < needed:
                raise ConfigError(
                    f"is too little for {job.words(wish.effective_size)}",
                    key="job.disk_mib",
                    value=disk_mib,
                    allowed=f"{needed} or more; without it as much as the jobs need",
                )
        factors = plan.jobs.factors

        def refuse(point: JobPoint) -> None:
            offer = stage.offer(point.platform, crew_members(point, factors, SOME_CPUS))
            if (program := JOBS[point.job].program) != IN_EVERY_GUEST:
                require_program(program, offer)

        return find_refusals(steps, refuse)


EXPERIMENT = Jobs
