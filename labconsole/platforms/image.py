"""Guests that are a program on the UUT: taps bridged to its NICs, a kernel and the forwarding image, a console.

The image (``lab/guest_image.py`` builds one) reads what to forward from its kernel command line, says READY on its
console, and then runs the lines it is given there. So a guest needs no address, no SSH and no disk, and ends with the
agent that started it. A hypervisor adds only its command line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from labconsole.engine.driver import PathPoint, Prepared, StreamPath, StreamWiring
from labconsole.engine.ports import AgentLink
from labconsole.errors import ConfigError, NodeError
from labconsole.platforms.forwarding import restored_on_failure, undo

TOKEN = "platform"
READY = "LABCONSOLE-GUEST-READY"
DONE = "LABCONSOLE-DONE"
ASK_S = 10.0
BOOT_S = 120.0
GUEST = "first"

_KERNEL = re.compile(rf"{READY} (\S{{1,100}})")


@dataclass(frozen=True, slots=True)
class GuestNic:
    """One NIC of a guest: the tap on the UUT and the MAC inside."""

    tap: str
    mac: str


def guest_nics(wirings: Sequence[StreamWiring]) -> list[tuple[GuestNic, GuestNic]]:
    """The inbound and outbound NIC for every stream. No MAC is that of a bridge port: such frames never arrive."""
    return [
        (
            GuestNic(f"lcti{index}", f"02:6c:67:00:{index:02x}:01"),
            GuestNic(f"lcto{index}", f"02:6c:67:00:{index:02x}:02"),
        )
        for index in range(1, len(wirings) + 1)
    ]


def kernel_words(wirings: Sequence[StreamWiring]) -> str:
    """What the image is told: per stream the two MACs, the two test addresses, the sink's MAC."""
    return " ".join(
        f"lc.stream={inbound.mac},{outbound.mac},{w.source_ip},{w.sink_ip},{w.sink_mac.lower()}"
        for w, (inbound, outbound) in zip(wirings, guest_nics(wirings), strict=True)
    )


class ImageDriver:
    """What the drivers of such guests share. ``OPTIONS``: key of hosts.yaml to its type and default (None: needed)."""

    DRIVER: ClassVar[str] = ""
    OPTIONS: ClassVar[dict[str, tuple[type, Any]]] = {}

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        for key in sorted(set(options) - set(self.OPTIONS)):
            raise ConfigError(
                f"is not an option of driver {self.DRIVER}",
                key=f"platforms.{name}.{key}",
                allowed=", ".join(self.OPTIONS),
            )
        self.options: dict[str, Any] = {}
        for key, (kind, default) in self.OPTIONS.items():
            value = options.get(key, default)
            if value is None and key not in options and default is None and key not in self.optional():
                raise ConfigError(f"is needed by driver {self.DRIVER}", key=f"platforms.{name}.{key}")
            if value is not None and (type(value) is not kind):
                raise ConfigError(
                    "has the wrong type",
                    key=f"platforms.{name}.{key}",
                    value=value,
                    allowed={str: "text", int: "a whole number"}.get(kind, kind.__name__),
                )
            self.options[key] = value

    @classmethod
    def optional(cls) -> frozenset[str]:
        """Options that may be left out although they have no default."""
        return frozenset()

    def argv(self, wirings: Sequence[StreamWiring]) -> list[str]:
        """The program that is the guest."""
        raise NotImplementedError

    def attestation(self) -> dict[str, Any]:
        """What the record says of the guest beside its kernel."""
        raise NotImplementedError

    async def prepare(self, uut: AgentLink, wirings: Sequence[StreamWiring]) -> Prepared:
        """Make taps and bridges, boot the guest, wait until it says that it forwards."""
        changes: list[dict[str, Any]] = []
        for wiring, (inbound, outbound) in zip(wirings, guest_nics(wirings), strict=True):
            for nic, port in ((inbound, wiring.uut_in), (outbound, wiring.uut_out)):
                changes.append({"do": "tap", "name": nic.tap})
                changes.append({"do": "bridge", "name": f"lcb{nic.tap[3:]}", "ports": [port, nic.tap]})
        async with restored_on_failure(self.restore, uut):
            await uut.request("net.apply", {"token": TOKEN, "changes": changes})
            started = await uut.request(
                "guest.start",
                {"guest": GUEST, "argv": self.argv(wirings), "ready": READY, "timeout_s": BOOT_S},
                timeout_s=BOOT_S + 10,
            )
            kernel = await self._kernel(uut)
        attestation = {"driver": self.DRIVER, "guests": [GUEST], "guest_kernel": kernel, **self.attestation()}
        pid = started["pid"]

        async def attest(link: AgentLink) -> dict[str, Any]:
            status = await link.request("guest.status", {"guest": GUEST})
            if not status["running"] or status["pid"] != pid:
                raise NodeError(link.name, f"the guest of platform {self.name} is not the one that was started")
            return {**attestation, "guest_kernel": await self._kernel(link)}

        return Prepared(paths=self._paths(wirings), attestation=attestation, attest=attest)

    def _paths(self, wirings: Sequence[StreamWiring]) -> dict[str, StreamPath]:
        return {
            wiring.name: StreamPath(
                destination_mac=inbound.mac,
                points=(
                    PathPoint("uut_in", "", wiring.uut_in, "rx_packets"),
                    PathPoint("to_guest", "", inbound.tap, "tx_packets"),
                    PathPoint("from_guest", "", outbound.tap, "rx_packets"),
                    PathPoint("uut_out", "", wiring.uut_out, "tx_packets"),
                ),
            )
            for wiring, (inbound, outbound) in zip(wirings, guest_nics(wirings), strict=True)
        }

    async def _kernel(self, uut: AgentLink) -> str | None:
        printed = (await self._ask(uut, f"echo {READY} $(uname -r)"))["printed"]
        found = _KERNEL.findall(printed)
        return found[-1] if found else None

    async def _ask(self, uut: AgentLink, line: str) -> dict[str, Any]:
        return await uut.request("guest.ask", {"guest": GUEST, "line": line, "until": DONE, "timeout_s": ASK_S})

    async def restore(self, uut: AgentLink) -> None:
        """End the guest, take its taps and bridges away."""
        try:
            await uut.request("guest.stop", {"guest": GUEST})
        except NodeError as exc:
            if getattr(exc, "code", "") != "no_such_guest":
                raise
        finally:
            await undo(uut, TOKEN)
