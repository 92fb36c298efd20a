"""The context switches of the UUT's kernel while it is idle (Quétier et al., section 5.2.1)."""

from __future__ import annotations

import asyncio

from labconsole.contracts.ports import AgentLink
from labconsole.experiments.boot.record import QuietTime
from labconsole.measure.context_switches import count_switches
from labconsole.wire.execution import Execute
from labconsole.wire.session import Ping

SETTLE_S = 2.0
"""Time for earlier work to finish: files are written back, a discarded guest is taken apart."""

_ASK_S = 10.0


async def measure_idle(uut: AgentLink, quiet_s: float) -> QuietTime | None:
    """Wait, and return the kernel's switches in that time without the first SETTLE_S, or None if it does not report
    them.

    Raises NodeError.
    """
    await asyncio.sleep(SETTLE_S)
    before, begun_ns = await _read(uut)
    await asyncio.sleep(quiet_s - SETTLE_S)
    after, ended_ns = await _read(uut)
    return quiet_time(before, after, ended_ns - begun_ns)


async def _read(uut: AgentLink) -> tuple[str, int]:
    """Return the kernel's count, and then its monotonic clock. The clock is read after the count at both ends."""
    said = await uut.ask(Execute(argv=["grep", "ctxt", "/proc/stat"], timeout_s=_ASK_S), timeout_s=_ASK_S + 10)
    return said.stdout, (await uut.ask(Ping())).monotonic_ns


def quiet_time(before: str, after: str, took_ns: int) -> QuietTime | None:
    """Return the quiet time between two readings of /proc/stat. Pure."""
    switches = count_switches(before, after)
    if switches is None or took_ns <= 0:
        return None
    return QuietTime(took_ns=took_ns, switches=switches, switches_per_s=switches / (took_ns / 1e9))
