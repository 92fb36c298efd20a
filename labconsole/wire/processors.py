"""Load of a node's processors, sent about once a second alongside its counters."""

from __future__ import annotations

from typing import Annotated

from labconsole.wire.message import AgentEvent, Message
from labconsole.wire.rules import Count, Index, Rule, bad, between, whole

MAX_PROCESSORS = 65536
ROUNDING = 0.001

Share = Annotated[float, Rule(between(0, 1))]


class ProcessorUse(Message):
    """Shares of the time. ``busy``: all but idle and waiting for disks. Packets are forwarded in ``softirq``."""

    busy: Share
    softirq: Share
    steal: Share

    def check_fields(self) -> None:
        if self.softirq + self.steal > self.busy + ROUNDING:
            raise bad("softirq and steal", "are more than busy")


class ProcessorsSampled(AgentEvent, kind="processors"):
    """Processor use since the previous sample. None is taken in a quiet window, so the next sample covers all of it.

    ``busiest_number``: the kernel's number of the busiest processor. ``mean``: of all ``processors`` that ran.
    """

    monotonic_ns: Count
    wall_ns: Count
    elapsed_ns: Annotated[int, Rule(whole(1, 2**63 - 1))]
    processors: Annotated[int, Rule(whole(1, MAX_PROCESSORS))]
    mean: ProcessorUse
    busiest: ProcessorUse
    busiest_number: Index

    def check_fields(self) -> None:
        if self.mean.busy > self.busiest.busy + ROUNDING:
            raise bad("mean", "is busier than the busiest processor")
