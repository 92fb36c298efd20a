"""Jobs in guests as steps of a plan: one trial each, in the order that the plan draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.experiment import Stage
from labconsole.engine.crew_experiment import SOME_CPUS, CrewExperiment, load_usable_records, require_program
from labconsole.engine.crew_step import CrewStep
from labconsole.errors import ConfigError
from labconsole.experiments.job.plan import JobFactors, JobPoint
from labconsole.experiments.job.record import RECORD, JobRecord
from labconsole.model.inventory import Inventory
from labconsole.model.jobs import JOBS
from labconsole.model.plan.plan import Plan

IN_EVERY_GUEST = "busybox"
"""The program that guest images always contain."""


class Jobs(CrewExperiment[JobFactors, JobPoint, JobRecord]):
    """The kind of experiment that a plan's key ``job`` asks for."""

    kind = RECORD

    def stored(
        self, steps: Sequence[CrewStep[JobFactors, JobPoint, JobRecord]], testbed_fingerprint: str
    ) -> Mapping[str, JobRecord]:
        """Return the stored records, see load_usable_records(). A disk sized for the jobs of a plan is in no hash."""
        disks_mib = {each.factors.crew_disk_mib or None for each in steps}

        def another(record: JobRecord) -> bool:
            return record.requested.disk_mib not in disks_mib

        return load_usable_records(self.store, RECORD, steps, testbed_fingerprint, another)

    def refuse(
        self,
        steps: Sequence[CrewStep[JobFactors, JobPoint, JobRecord]],
        plan: Plan,
        inventory: Inventory,
        stage: Stage,
    ) -> Mapping[str, ConfigError]:
        """Return the steps whose crews this platform cannot have, with reasons.

        Raises ConfigError for a request that no guest can meet.
        """
        if steps:
            _check_disks(steps[0].factors)
        return super().refuse(steps, plan, inventory, stage)

    def check(self, step: CrewStep[JobFactors, JobPoint, JobRecord], inventory: Inventory, stage: Stage) -> None:
        """See CrewExperiment."""
        point = step.trial.point
        offer = stage.offer(point.platform, step.members(SOME_CPUS))
        if (program := JOBS[point.job].program) != IN_EVERY_GUEST:
            require_program(program, offer)


def _check_disks(factors: JobFactors) -> None:
    """Raise ConfigError if a job needs more than the disk that the plan requests."""
    for wish in factors.jobs:
        needed, disk_mib = factors.needed_disk_mib(wish), factors.disk_mib
        if disk_mib is not None and disk_mib < needed:
            raise ConfigError(
                f"is too little for {JOBS[wish.job].words(wish.effective_size)}",
                key="job.disk_mib",
                value=disk_mib,
                allowed=f"{needed} or more; without it as much as the jobs need",
            )


EXPERIMENT = Jobs
