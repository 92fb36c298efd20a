"""How far a trial may stray before its verdict is not simply valid. The one definition: a plan's ``tolerances:`` too.

docs/data-format.md says which code each of them decides.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labconsole.model.strict_model import StrictModel

Ratio = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Packets = Annotated[int, Field(strict=True, ge=0)]


class Tolerances(StrictModel):
    """Beyond which deviation a run is not simply valid."""

    offered_ratio: Ratio = 0.005
    """Offered against intended packets, either way."""

    duration_ratio: Annotated[float, Field(strict=True, ge=0, le=10, allow_inf_nan=False)] = 0.02
    """Time a source took to send against the requested duration."""

    start_skew_s: Annotated[float, Field(strict=True, ge=0, le=60, allow_inf_nan=False)] = 0.1
    """Between the first and the last source to start."""

    foreign_packets: Packets = 0
    """Packets on one data port that are neither the stream's nor known control traffic, each way."""

    outside_loss_ratio: Ratio = 0.0001
    """Of what a generator made: lost in the source or behind the unit under test's port, and so not by it."""

    missed_samples_ratio: Ratio = 0.1
    """Of the counter samples due. They draw the time series; the counts before and after do not depend on them."""

    clock_step_s: Annotated[float, Field(strict=True, ge=0, le=3600, allow_inf_nan=False)] = 0.01
    """Wall clock against monotonic clock of one node, between before and after. Slewing moves both alike."""

    other_cpu_ratio: Annotated[float, Field(strict=True, ge=0, le=100_000, allow_inf_nan=False)] = 0.1
    """What processes that are not ours used on one node, in CPUs: 0.1 is a tenth of one CPU."""

    steal_ratio: Ratio = 0.05
    """Of a node's CPU time, taken by the hypervisor it runs under. Not judged on an emulated testbed."""

    background_ratio: Ratio = 0.05
    """Background load reached against asked, either way."""
