"""Maximum deviations of a trial with a valid verdict. The only definition, also of a plan's ``tolerances:``.

docs/data-format.md lists the codes that each of them decides.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labconsole.model.strict_model import StrictModel

Ratio = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Packets = Annotated[int, Field(strict=True, ge=0)]


class Tolerances(StrictModel):
    """Maximum deviations; beyond any of them a run is not simply valid."""

    offered_ratio: Ratio = 0.005
    """Offered against intended packets, either way."""

    duration_ratio: Annotated[float, Field(strict=True, ge=0, le=10, allow_inf_nan=False)] = 0.02
    """A source's sending time against the requested duration."""

    start_skew_s: Annotated[float, Field(strict=True, ge=0, le=60, allow_inf_nan=False)] = 0.1
    """Time between the first and the last source's start."""

    foreign_packets: Packets = 0
    """Packets on one data port that are neither the stream's nor known control traffic, each way."""

    outside_loss_ratio: Ratio = 0.0001
    """Share of the generated packets that were lost in the source or behind the unit under test's port, not by the UUT.
    """

    missed_samples_ratio: Ratio = 0.1
    """Share of the due counter samples. They draw the time series; the counts before and after do not depend on them.
    """

    clock_step_s: Annotated[float, Field(strict=True, ge=0, le=3600, allow_inf_nan=False)] = 0.01
    """Wall clock against monotonic clock of one node, between before and after. Slewing moves both alike."""

    other_cpu_ratio: Annotated[float, Field(strict=True, ge=0, le=100_000, allow_inf_nan=False)] = 0.1
    """Use of a node's CPUs by foreign processes, in CPUs: 0.1 is a tenth of one CPU."""

    steal_ratio: Ratio = 0.05
    """Share of a node's CPU time taken by the hypervisor it runs under. Not judged on an emulated testbed."""

    background_ratio: Ratio = 0.05
    """Achieved against requested background load, either way."""
