"""What the drivers leave behind on the unit under test when something goes wrong: nothing, or it is said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from labconsole.agent.reading.survey import OURS
from labconsole.contracts.driver import StreamWiring
from labconsole.errors import AgentError, ConfigError, NodeError, NodeLost
from labconsole.platforms.base.forwarding import apply, shell_lines
from labconsole.platforms.base.image import guest_nics
from labconsole.platforms.drivers.container import ContainerDriver
from labconsole.platforms.drivers.qemu import QemuDriver
from labconsole.platforms.drivers.raw import RawDriver
from support.agent_events import LINK
from support.asking import Asking

WIRING = StreamWiring(
    name="s1",
    uut_in="eth1",
    uut_in_mac="02:00:00:00:00:01",
    uut_out="eth5",
    uut_out_mac="02:00:00:00:00:05",
    sink_mac="02:00:00:00:00:aa",
    source_ip="198.18.1.1",
    sink_ip="198.19.1.1",
)
DRIVERS = [
    RawDriver("raw", {}),
    RawDriver("raw", {"forwarding": "bridge"}),
    ContainerDriver("container", {}),
    QemuDriver("q", {"kernel": "/boot/vmlinuz", "initrd": "/srv/guest.cpio"}),
]


class Uut(Asking):
    """A unit under test on which the first change is answered by ``fails``; ``left`` is what cannot be undone."""

    name = "uut"

    def __init__(self, fails: BaseException, left: tuple[str, ...] = (), lost: bool = False) -> None:
        self.fails, self.left, self.lost = fails, left, lost
        self.asked: list[str] = []
        self.master: str | None = None

    async def request(self, op: str, args: Any = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        self.asked.append(op)
        if op == "links":
            return {"links": [{**LINK, "name": name, "master": self.master} for name in ("eth1", "eth5")]}
        if op == "net.apply":
            raise self.fails
        if self.lost:
            raise NodeLost("uut", "the cable was pulled")
        if op == "guest.stop":
            raise AgentError("uut", "no guest", code="no_such_guest")
        assert op == "net.undo"
        return {"failed": list(self.left)}


def prepare(driver: Any, uut: Any) -> None:
    asyncio.run(driver.prepare(uut, [WIRING]))


@pytest.mark.parametrize("driver", DRIVERS, ids=["raw", "raw-bridge", "container", "qemu"])
@pytest.mark.parametrize("fails", [NodeError("uut", "eth1 is busy"), asyncio.CancelledError()], ids=["error", "cancel"])
def test_what_was_begun_is_undone_when_it_cannot_be_finished(driver: Any, fails: BaseException):
    uut = Uut(fails)
    with pytest.raises(type(fails)):
        prepare(driver, uut)
    assert uut.asked[-1] == "net.undo"


@pytest.mark.parametrize("driver", DRIVERS, ids=["raw", "raw-bridge", "container", "qemu"])
def test_what_cannot_be_undone_is_said_beside_what_went_wrong_first(driver: Any):
    uut = Uut(NodeError("uut", "eth1 is busy"), left=("cannot remove lcb1: busy",))
    with pytest.raises(NodeError, match="eth1 is busy; then not undone: cannot remove lcb1: busy"):
        prepare(driver, uut)
    with pytest.raises(NodeError, match="not undone: cannot remove lcb1: busy"):
        asyncio.run(driver.restore(uut))


@pytest.mark.parametrize("driver", DRIVERS, ids=["raw", "raw-bridge", "container", "qemu"])
def test_a_lost_link_stays_a_lost_link(driver: Any):
    with pytest.raises(NodeLost, match="gone in the middle"):
        prepare(driver, Uut(NodeLost("uut", "gone in the middle"), lost=True))


def test_a_check_knows_the_taps_and_bridges_of_a_guest_for_ours():
    for pair in guest_nics([WIRING, WIRING]):
        for nic in pair:
            assert OURS.match(nic.tap)
            assert OURS.match(f"lcb{nic.tap[3:]}")
    assert not OURS.match("lctx0")
    assert not OURS.match("lct1x")


def test_what_a_plug_in_hands_over_that_is_no_change_is_refused_before_anything_is_asked():
    uut: Any = None
    change: Any = {"do": "bridge", "name": "lcb1", "ports": ["eth1"]}
    with pytest.raises(ConfigError, match=r"not a NetworkChange \(labconsole.network\): {'do': 'bridge'"):
        asyncio.run(apply(uut, "platform", [change]))
    with pytest.raises(ConfigError, match="not a NetworkChange"):
        shell_lines([change])
