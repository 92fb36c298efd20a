"""Trials of routers as steps of a plan, one trial each, in the order that the plan draws."""

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
from labconsole.experiments.route.plan import RoutePoint, RouteTrial, format_target_pps, route_hash
from labconsole.experiments.route.record import RECORD as ROUTE
from labconsole.experiments.route.record import RouteRecord
from labconsole.model.design_point import PREAMBLE_AND_GAP_BYTES
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.units import format_rate_bps

if TYPE_CHECKING:
    from labconsole.experiments.route.procedure import RouteStep, RouteStore


ROUNDED_RATIO = 1.001
"""Tolerance for a rounded line rate in a plan."""


class Routes:
    """The kind of experiment for a plan's key ``route``."""

    def __init__(self, store: RouteStore) -> None:
        self._store = store

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[RouteStep]:
        """Every trial of a plan that is resolved for its testbed. ``only``: restricts it to the platforms of these
        points.
        """
        if plan.routes is None:
            return []
        from labconsole.experiments.route.procedure import RouteStep

        routes = plan.routes

        def hash_of(trial: RouteTrial) -> str:
            return route_hash(routes.factors, trial, salt or routes.salt)

        return [
            build_step(RouteStep, plan, trial, hash_of, factors=routes.factors, store=self._store)
            for trial in filter_trials(plan, routes.trials, only)
        ]

    def stored(self, steps: Sequence[RouteStep], testbed_fingerprint: str) -> Mapping[str, RouteRecord]:
        """See load_usable_records()."""
        return load_usable_records(self._store, ROUTE, steps, testbed_fingerprint)

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[RouteStep, RouteRecord]]:
        """Empty: earlier trials are shown with the results."""
        return []

    def refuse(
        self, steps: Sequence[RouteStep], plan: Plan, inventory: Inventory, stage: Stage
    ) -> Mapping[str, ConfigError]:
        """Return the steps that a platform cannot run, with reasons. See find_refusals()."""
        if plan.routes is None:
            return {}
        from labconsole.experiments.route.procedure import route_members

        factors = plan.routes.factors

        def refuse(point: RoutePoint) -> None:
            members = route_members(point, factors, SOME_CPUS)
            offer = stage.offer(point.platform, members)
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

        return find_refusals(steps, refuse)


EXPERIMENT = Routes
