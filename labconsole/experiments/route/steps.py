"""Trials of routers as steps of a plan, one trial each, in the order that the plan draws."""

from __future__ import annotations

from labconsole.contracts.experiment import Stage
from labconsole.engine.crew_experiment import SOME_CPUS, CrewExperiment, require_program
from labconsole.engine.crew_step import CrewStep
from labconsole.errors import ConfigError
from labconsole.experiments.route.plan import RouteFactors, RoutePoint, format_target_pps
from labconsole.experiments.route.record import RECORD, RouteRecord
from labconsole.model.design_point import PREAMBLE_AND_GAP_BYTES
from labconsole.model.inventory import Inventory
from labconsole.units import format_rate_bps

ROUNDED_RATIO = 1.001
"""Tolerance for a rounded line rate in a plan."""


class Routes(CrewExperiment[RouteFactors, RoutePoint, RouteRecord]):
    """The kind of experiment for a plan's key ``route``."""

    kind = RECORD

    def check(self, step: CrewStep[RouteFactors, RoutePoint, RouteRecord], inventory: Inventory, stage: Stage) -> None:
        """See CrewExperiment."""
        point = step.trial.point
        offer = stage.offer(point.platform, step.members(SOME_CPUS))
        link_speed_bps = inventory.streams[0].link_speed_bps
        line_pps = link_speed_bps / (8 * (point.frame_bytes + PREAMBLE_AND_GAP_BYTES))
        if point.target != "max" and point.target > ROUNDED_RATIO * line_pps:
            raise ConfigError(
                "is more than the source's link carries",
                key="route.targets",
                value=format_target_pps(point.target),
                allowed=f"max, or at most {int(line_pps)}pps of {point.frame_bytes} B in all on a link of "
                f"{format_rate_bps(link_speed_bps)}, whatever the number of routers",
            )
        require_program("iproute2, by which routes are given to them", offer)
        if point.filters and not offer.in_namespaces:
            raise ConfigError(
                "are possible only where a router is a network namespace of the UUT's kernel",
                key="route.filters",
                value=point.filters,
                allowed="0 on this platform; any number on container and lxc",
            )


EXPERIMENT = Routes
