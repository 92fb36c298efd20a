"""The guests' use of the UUT's memory, by four witnesses: available memory, processes, control groups, hypervisor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from labconsole.contracts.crew import HypervisorWord
from labconsole.contracts.ports import AgentLink
from labconsole.wire.execution import Execute
from labconsole.wire.memory import ReadMemory

KIB = 1024
_ASK_S = 60.0
_FIGURE = re.compile(r"^(MemAvailable|pswpin|pswpout|ksm_run|ksm_pages_sharing):?\s+(\d{1,19})\b", re.MULTILINE)

_LOOK = """\
cat /proc/meminfo /proc/vmstat
for file in run pages_sharing; do echo "ksm_$file $(cat /sys/kernel/mm/ksm/$file)"; done 2>/dev/null
:"""


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """The UUT's memory at one moment, with None for what it does not report.

    ``swapped_pages``: pages moved since the UUT started. ``word``: the report of its hypervisor.
    """

    available_bytes: int | None = None
    swapped_pages: int | None = None
    ksm_run: int | None = None
    ksm_pages_sharing: int | None = None
    word: HypervisorWord | None = None


@dataclass(frozen=True, slots=True)
class GuestsMemory:
    """The memory of each process with its descendants, in bytes, or why that of its control group is unknown. By
    PID.
    """

    pss_bytes: dict[int, int] = field(default_factory=dict)
    group_bytes: dict[int, int] = field(default_factory=dict)
    group_reason: dict[int, str] = field(default_factory=dict)


async def read_memory(uut: AgentLink) -> MemoryReading:
    """Read the UUT's memory. Raises NodeError."""
    return parse_memory_reading(
        (await uut.ask(Execute(argv=["sh", "-c", _LOOK], timeout_s=_ASK_S), timeout_s=_ASK_S + 10)).stdout
    )


async def read_guest_memory(uut: AgentLink, pids: Iterable[int]) -> GuestsMemory:
    """Read the memory of guests by their processes. Raises NodeError."""
    if not (wanted_pids := list(pids)):
        return GuestsMemory()
    found = GuestsMemory()
    for each in (await uut.ask(ReadMemory(pids=wanted_pids), timeout_s=_ASK_S)).processes:
        if each.pss_bytes is not None:
            found.pss_bytes[each.pid] = each.pss_bytes
        if each.group_bytes is not None:
            found.group_bytes[each.pid] = each.group_bytes
        elif each.group_reason is not None:
            found.group_reason[each.pid] = each.group_reason
    return found


def parse_memory_reading(text: str) -> MemoryReading:
    """Parse the output of read_memory()'s command. Pure."""
    found = {key: int(value) for key, value in _FIGURE.findall(text)}
    swapped = [found.get("pswpin"), found.get("pswpout")]
    available = found.get("MemAvailable")
    return MemoryReading(
        available_bytes=None if available is None else available * KIB,
        swapped_pages=sum_known(swapped),
        ksm_run=found.get("ksm_run"),
        ksm_pages_sharing=found.get("ksm_pages_sharing"),
    )


def sum_known(values: Sequence[int | None]) -> int | None:
    """Return the sum, or None if a value is unknown or there are none."""
    known = [each for each in values if each is not None]
    return sum(known) if known and len(known) == len(values) else None
