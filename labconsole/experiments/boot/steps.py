"""Boot trials as steps of a plan: one trial each, in the order that the plan draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from labconsole.contracts.experiment import Stage
from labconsole.engine.crew_step import build_step, filter_trials, find_refusals, load_by_hash
from labconsole.errors import ConfigError
from labconsole.experiments.boot.plan import BootPoint, BootTrial, boot_hash
from labconsole.experiments.boot.record import BOOT_FORMAT, BootRecord
from labconsole.experiments.boot.record import RECORD as BOOT
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan

if TYPE_CHECKING:
    from labconsole.experiments.boot.procedure import BootStep, BootStore


class Boots:
    """The kind of experiment that a plan's key ``boot`` asks for."""

    def __init__(self, store: BootStore) -> None:
        self._store = store

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[BootStep]:
        """Return every trial of a plan that is resolved for its testbed, or ``only`` on the platforms of these
        points.
        """
        if plan.boots is None:
            return []
        from labconsole.experiments.boot.procedure import BootStep

        boots = plan.boots

        def hash_of(trial: BootTrial) -> str:
            return boot_hash(boots.factors, trial, salt or boots.salt)

        return [
            build_step(BootStep, plan, trial, hash_of, factors=boots.factors, store=self._store)
            for trial in filter_trials(plan, boots.trials, only)
        ]

    def stored(self, steps: Sequence[BootStep], testbed_fingerprint: str) -> Mapping[str, BootRecord]:
        """Return the newest usable record of each trial. Each trial is a set-up of its own."""
        hashes = [each.hash for each in steps]
        found = load_by_hash(self._store, BOOT, hashes, testbed_fingerprint)
        newest = {each.plan.hash: each for each in found if each.format == BOOT_FORMAT and each.status == "done"}
        return newest

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[BootStep, BootRecord]]:
        """Empty: earlier boot trials are shown with the results."""
        return []

    def refuse(
        self, steps: Sequence[BootStep], plan: Plan, inventory: Inventory, stage: Stage
    ) -> Mapping[str, ConfigError]:
        """Return the steps whose guests the platform cannot start as requested, with reasons."""
        if plan.boots is None:
            return {}
        from labconsole.experiments.boot.procedure import boot_members

        factors = plan.boots.factors

        def refuse(point: BootPoint) -> None:
            offer = stage.offer(point.platform, boot_members(point, factors))
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

        return find_refusals(steps, refuse)


EXPERIMENT = Boots
