"""The forwarding image, as a driver that boots it speaks to it (``lab/guest_image.py`` builds one).

It reads what to forward from its kernel command line, says READY on its console, and then runs the lines it is given
there. So a guest needs no address, no SSH and no disk, and ends with the agent that started it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from labconsole.engine.driver import StreamWiring
from labconsole.engine.ports import AgentLink

READY = "LABCONSOLE-GUEST-READY"
DONE = "LABCONSOLE-DONE"
ASK_S = 10.0

_SEEN = re.compile(rf"{READY} (\S{{1,100}}) (\d{{1,5}})")


@dataclass(frozen=True, slots=True)
class TapNic:
    """One NIC of a guest: the tap on the UUT and the MAC inside."""

    tap: str
    mac: str


def guest_nics(wirings: Sequence[StreamWiring]) -> list[tuple[TapNic, TapNic]]:
    """The inbound and outbound NIC for every stream. No MAC is that of a bridge port: such frames never arrive."""
    return [
        (
            TapNic(f"lcti{index}", f"02:6c:67:00:{index:02x}:01"),
            TapNic(f"lcto{index}", f"02:6c:67:00:{index:02x}:02"),
        )
        for index in range(1, len(wirings) + 1)
    ]


def kernel_words(wirings: Sequence[StreamWiring]) -> str:
    """What the image is told: per stream the two MACs, the two test addresses, the sink's MAC."""
    return " ".join(
        f"lc.stream={inbound.mac},{outbound.mac},{w.source_ip},{w.sink_ip},{w.sink_mac.lower()}"
        for w, (inbound, outbound) in zip(wirings, guest_nics(wirings), strict=True)
    )


async def look_inside(uut: AgentLink, guest: str) -> tuple[str, int] | None:
    """The guest's own word for its kernel and for how many processors it has; None when it does not say."""
    ask = {"guest": guest, "line": f"echo {READY} $(uname -r) $(nproc)", "until": DONE, "timeout_s": ASK_S}
    found = _SEEN.findall((await uut.request("guest.ask", ask))["printed"])
    return (found[-1][0], int(found[-1][1])) if found else None
