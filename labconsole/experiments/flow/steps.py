"""Trials of flows as steps of a plan, one trial each, in the order that the plan draws."""

from __future__ import annotations

import math

from labconsole.contracts.experiment import Stage
from labconsole.engine.crew_experiment import SOME_CPUS, CrewExperiment, require_program
from labconsole.engine.crew_step import CrewStep
from labconsole.errors import ConfigError
from labconsole.experiments.flow.plan import FlowFactors, FlowPoint
from labconsole.experiments.flow.rates import line_frames_bps
from labconsole.experiments.flow.record import RECORD, FlowRecord
from labconsole.measure.paired_blocks import BARE_HOST
from labconsole.model.inventory import Inventory
from labconsole.units import format_rate_bps, format_target

LEAST_BINS = 2
"""Least length of work on a disk, in bins: of this number, one lies wholly between its marks."""


class Flows(CrewExperiment[FlowFactors, FlowPoint, FlowRecord]):
    """The kind of experiment for a plan's key ``flow``."""

    kind = RECORD

    def check(self, step: CrewStep[FlowFactors, FlowPoint, FlowRecord], inventory: Inventory, stage: Stage) -> None:
        """See CrewExperiment."""
        from labconsole.experiments.flow.weights import link_bps, weights_misfit

        factors, point = step.factors, step.trial.point
        most_guests, most_limits = max(factors.guests), max(factors.limits, key=len)
        _refuse_of_ring(factors)
        _refuse_short_work(point, factors.bin_s)
        if len(most_limits) > most_guests:
            raise ConfigError(
                "are more than guests",
                key="flow.limits",
                value=", ".join(map(format_target, most_limits)),
                allowed=f"one for all, one for each of {most_guests}, or fewer that they take in turn",
            )
        if most_guests < 2 and max(factors.second_after_s) > 0:
            raise ConfigError(
                "needs at least two guests; this plan has one",
                key="flow.second_after_s",
                value=max(factors.second_after_s),
                allowed="0, or two guests or more",
            )
        offer = stage.offer(point.platform, step.members(SOME_CPUS))
        link_speed_bps = inventory.streams[0].link_speed_bps
        fits_bps = (line_frames_bps if point.weights is None else link_bps)(link_speed_bps, point.payload_bytes)
        if point.pattern != "ring" and any(limit >= fits_bps for limit in point.limits):
            raise ConfigError(
                "do not limit anything on this link",
                key="flow.limits",
                value=", ".join(map(format_target, point.limits)),
                allowed=f"less than {format_rate_bps(fits_bps)}, which is all that guests get of the link's "
                f"{format_rate_bps(link_speed_bps)} with {point.payload_bytes} bytes of payload in each frame",
            )
        misfit = weights_misfit(point, link_speed_bps)
        if misfit is not None:
            raise ConfigError(f"are not possible: {misfit}", key="flow.weights")
        bare = inventory.platforms[point.platform].driver == BARE_HOST
        if bare and point.pattern == "in" and point.guests > 1:
            raise ConfigError(
                "processes of the bare host share its network stack, so packets to several of them cannot be "
                "attributed",
                key="guests",
                value=point.guests,
                allowed="1, or platforms with guests",
            )
        requested = "limits" if point.limits else "weights" if point.weights else "pattern"
        of_interfaces = bool(point.limits or point.weights or point.pattern == "ring")
        if bare and of_interfaces:
            raise ConfigError(
                "processes of the bare host have no interface and no network stack of their own",
                key=requested,
                value=point.platform,
                allowed="platforms with guests; measure the bare host by a plan of its own",
            )
        if of_interfaces and not offer.own_interfaces:
            raise ConfigError(
                "guests of this platform have no interface of their own on the UUT",
                key=requested,
                value=point.platform,
                allowed="platforms whose guests have one (docs/platforms.md: `to_guest`)",
            )
        require_program("iperf", offer)


def _refuse_of_ring(factors: FlowFactors) -> None:
    """Raise ConfigError for a factor that applies to datagrams if the plan has rings alone."""
    if factors.pattern != ("ring",):
        return
    for name in ("offered", "greedy", "second_after_s", "payload_bytes"):
        usual, values = FlowFactors.model_fields[name].default, getattr(factors, name)
        if values != usual:
            shown = [format_target(each) if name == "offered" and each != "line" else str(each) for each in values]
            raise ConfigError(
                "applies to UDP flows to the sink; guests of a ring send TCP at full speed",
                key=f"flow.{name}",
                value=", ".join(shown),
                allowed=str(usual[0]),
            )


def _refuse_short_work(point: FlowPoint, bin_s: float) -> None:
    """Raise ConfigError for work on a disk that may contain no whole bin: its marks arrive a little late, or early."""
    disk = point.disk
    needed_s = 0.0 if disk is None else LEAST_BINS * bin_s + disk.early_s
    if disk is None or round(disk.to_s - disk.from_s) >= needed_s - 1e-9:  # requests are in whole seconds
        return
    shorter = "a shorter bin_s, or " if disk.to_s - disk.from_s > disk.early_s else ""
    raise ConfigError(
        f"leaves too few bins in the work on the disk, which is from {disk.from_s:g} to {disk.to_s:g} s",
        key="flow.bin_s",
        value=bin_s,
        allowed=f"{shorter}to_s {math.ceil(needed_s - 1e-9)} s after from_s and more",
    )


EXPERIMENT = Flows
