"""Boot trials as steps of a plan: one trial each, in the order that the plan draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.experiment import Stage
from labconsole.engine.crew_experiment import CrewExperiment, load_by_hash
from labconsole.engine.crew_step import CrewStep
from labconsole.errors import ConfigError
from labconsole.experiments.boot.plan import BootFactors, BootPoint
from labconsole.experiments.boot.record import RECORD, BootRecord
from labconsole.model.inventory import Inventory


class Boots(CrewExperiment[BootFactors, BootPoint, BootRecord]):
    """The kind of experiment that a plan's key ``boot`` asks for."""

    kind = RECORD

    def stored(
        self, steps: Sequence[CrewStep[BootFactors, BootPoint, BootRecord]], testbed_fingerprint: str
    ) -> Mapping[str, BootRecord]:
        """Return the newest usable record of each trial. Each trial is a set-up of its own."""
        found = load_by_hash(self.store, RECORD, [each.hash for each in steps], testbed_fingerprint)
        return {each.plan.hash: each for each in found if each.format == RECORD.format and each.status == "done"}

    def check(self, step: CrewStep[BootFactors, BootPoint, BootRecord], inventory: Inventory, stage: Stage) -> None:
        """See CrewExperiment."""
        point = step.trial.point
        offer = stage.offer(point.platform, step.members(()))
        if offer.never_started is not None:
            raise ConfigError(offer.never_started, key="platforms", value=point.platform)
        if point.start == "cold" and not offer.files:
            raise ConfigError(
                f"platform {point.platform} names no files that its guests start from, so nothing can be cold"
                + ("; name them as `guest_files` in hosts.yaml" if offer.installed else ""),
                key="boot.start",
                value="cold",
                allowed="hot",
            )


EXPERIMENT = Boots
