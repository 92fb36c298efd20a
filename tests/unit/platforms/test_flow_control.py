"""Flow control as a platform's option: set before the platform, read back with it, and undone with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from labconsole.contracts.crew import Crew, CrewWanted
from labconsole.contracts.driver import DriverInfo, Prepared, StreamWiring
from labconsole.errors import ConfigError, NodeError, NodeLost
from labconsole.model.inventory import load_inventory
from labconsole.platforms.base import driver_wrapper
from labconsole.platforms.base.driver_wrapper import BootedDriver, FlowControlledDriver, take_flow_control
from labconsole.platforms.drivers.raw import RawDriver
from labconsole.platforms.loading import build_driver, hosts_schema
from support.asking import Asking

HOSTS = Path(__file__).parents[2] / "golden" / "format-1" / "hosts.yaml"
WIRING = StreamWiring(
    name="s1",
    uut_in="eth1",
    uut_in_mac="02:00:00:00:00:01",
    uut_out="eth5",
    uut_out_mac="02:00:00:00:00:05",
    sink_mac="02:00:00:00:00:09",
    source_ip="198.18.1.2",
    sink_ip="198.19.1.2",
)


class Uut(Asking):
    """A UUT whose NICs negotiate anew when they are set, for as many looks as ``dark``."""

    name = "uut"

    def __init__(self, dark: int = 0) -> None:
        self.pause = dict.fromkeys(("eth1", "eth5"), (True, True, True))
        self.carrier = {"eth1": True, "eth5": True}
        self.dark, self.left, self.done = dark, 0, list[str]()
        self.obeys, self.refuses = True, False

    async def request(self, op: str, args: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        args = args or {}
        if op == "links":
            self.left = max(0, self.left - 1)
            return {"links": [self._link(number, nic) for number, nic in enumerate(self.pause, 1)]}
        self.done.append(op)
        if op == "net.undo":
            self.pause = dict.fromkeys(self.pause, (True, True, True))
            self.left = self.dark
            if self.refuses:
                return {"failed": ["flow_control: no"]}
            return {"failed": []}
        assert op == "net.apply"
        for change in args["changes"]:
            assert change["do"] == "flow_control"
            if self.obeys:
                self.pause[change["interface"]] = (False, change["on"], change["on"])
        self.left = self.dark
        return {}

    def _link(self, number: int, nic: str) -> dict[str, Any]:
        autoneg, rx, tx = self.pause[nic]
        return {
            "namespace": "",
            "index": number,
            "name": nic,
            "mac": None,
            "mtu": 1500,
            "kind": None,
            "driver": "e1000",
            "up": True,
            "carrier": self.carrier[nic] and not self.left,
            "speed_bps": None,
            "master": None,
            "pause": {"autoneg": autoneg, "rx": rx, "tx": tx},
        }


class Inner:
    """A driver that prepares at once, or fails."""

    about = DriverInfo(name="fake", summary="", tried="", Options=BaseModel)
    fails: type[NodeError] | None = None
    restored = 0
    can_ask = True

    async def prepare(self, uut: Any, wirings: Any, *, second: Any = None) -> Prepared:
        if self.fails:
            raise self.fails("uut", "no guest came")

        async def attest(_: Any) -> dict[str, Any]:
            return {"driver": "fake"}

        return Prepared(paths={}, attestation={"driver": "fake"}, attest=attest if self.can_ask else None)

    async def prepare_crew(self, uut: Any, wanted: CrewWanted) -> Crew:
        if self.fails:
            raise self.fails("uut", "no guest came")
        return Crew(members=(), started_ns=1, attestation={"driver": "fake"}, attest=None)

    async def restore(self, uut: Any) -> None:
        self.restored += 1
        if self.fails:
            raise self.fails("uut", "no guest went")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_wrapper, "_LOOK_S", 0.001)
    monkeypatch.setattr(driver_wrapper, "CARRIER_S", 0.02)


def made(inner: Any, on: bool = False) -> FlowControlledDriver:
    return FlowControlledDriver("raw-off", on, inner)


def prepared(driver: FlowControlledDriver, uut: Any) -> Prepared:
    return asyncio.run(driver.prepare(uut, [WIRING]))


def test_it_is_set_and_in_the_attestation_and_goes_with_the_platform() -> None:
    uut, inner = Uut(dark=2), Inner()
    driver = made(inner)
    found = prepared(driver, uut)
    off = {"rx": False, "tx": False}
    assert found.attestation == {"driver": "fake", "flow_control": {"eth1": off, "eth5": off}}
    assert found.attest is not None
    attest = found.attest

    async def again() -> Any:
        return await attest(uut)  # type: ignore[arg-type]

    assert asyncio.run(again()) == found.attestation
    uut.pause["eth5"] = (False, True, False)
    with pytest.raises(NodeError, match="eth5 should be off on platform raw-off, but is rx on, tx off"):
        asyncio.run(again())
    asyncio.run(driver.restore(uut))  # type: ignore[arg-type]
    assert (inner.restored, uut.done, uut.pause["eth1"]) == (1, ["net.apply", "net.undo"], (True, True, True))


def test_it_is_undone_where_the_driver_or_its_end_fails() -> None:
    uut, inner = Uut(), Inner()
    inner.fails = NodeError
    driver = made(inner)
    with pytest.raises(NodeError, match="no guest came"):
        prepared(driver, uut)
    assert uut.done == ["net.apply", "net.undo"]
    with pytest.raises(NodeError, match="no guest went"):
        asyncio.run(driver.restore(uut))  # type: ignore[arg-type]
    assert uut.done[2:] == ["net.undo"]


def test_a_unit_under_test_that_is_lost_stays_lost_whatever_else_fails() -> None:
    """Only then is its driver owed what is left in a hypervisor (engine/links.py)."""
    uut, inner = Uut(), Inner()
    driver = made(inner)
    prepared(driver, uut)
    inner.fails, uut.refuses = NodeLost, True
    with pytest.raises(NodeLost):
        asyncio.run(driver.restore(uut))  # type: ignore[arg-type]


def test_links_are_up_again_before_whatever_comes_next() -> None:
    uut, driver = Uut(dark=4), made(Inner())
    prepared(driver, uut)
    assert uut.left == 0
    asyncio.run(driver.restore(uut))  # type: ignore[arg-type]
    assert uut.left == 0
    uut.dark = 1_000_000
    with pytest.raises(NodeError, match="after its flow control was set"):
        prepared(made(Inner()), uut)


def test_a_driver_that_cannot_ask_is_asked_for_flow_control_all_the_same() -> None:
    uut, inner = Uut(), Inner()
    inner.can_ask = False
    found = prepared(made(inner), uut)
    assert found.attest is not None
    attest = found.attest

    async def again() -> Any:
        return await attest(uut)  # type: ignore[arg-type]

    assert asyncio.run(again()) == found.attestation
    uut.pause["eth1"] = (False, True, True)
    with pytest.raises(NodeError, match="eth1 should be off"):
        asyncio.run(again())


def test_a_setting_up_that_is_cancelled_is_undone() -> None:
    async def cancelled() -> None:
        uut: Any = Uut(dark=1_000_000)
        task = asyncio.create_task(made(Inner()).prepare(uut, [WIRING]))
        while "net.apply" not in uut.done:
            await asyncio.sleep(0)
        uut.dark = 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert uut.done == ["net.apply", "net.undo"]

    asyncio.run(cancelled())


def test_a_link_that_does_not_come_back_and_a_nic_that_does_not_obey_are_said_and_undone() -> None:
    uut = Uut(dark=1_000_000)
    with pytest.raises(NodeError, match="eth1 has no link"):
        prepared(made(Inner()), uut)
    assert uut.done == ["net.apply", "net.undo"]
    uut, inner = Uut(), Inner()
    uut.obeys = False
    with pytest.raises(NodeError, match="flow control of eth1 should be off"):
        prepared(made(inner), uut)
    assert (uut.done, inner.restored) == (["net.apply", "net.undo"], 1)


def test_a_link_that_was_dark_before_is_not_waited_for() -> None:
    uut = Uut()
    uut.carrier["eth5"] = False
    prepared(made(Inner()), uut)


def test_a_crew_has_it_on_the_nics_that_its_guests_share() -> None:
    uut: Any = Uut()
    crew = asyncio.run(made(Inner(), on=True).prepare_crew(uut, CrewWanted(members=(), port="eth5")))
    assert crew.attestation["flow_control"] == {"eth5": {"rx": True, "tx": True}}
    both = CrewWanted(members=(), port="eth5", inbound_port="eth1")
    assert list(asyncio.run(made(Inner(), on=True).prepare_crew(uut, both)).attestation["flow_control"]) == [
        "eth5",
        "eth1",
    ]
    inner = Inner()
    inner.fails = NodeError
    with pytest.raises(NodeError, match="no guest came"):
        asyncio.run(made(inner).prepare_crew(uut, both))
    assert uut.done[-1] == "net.undo" and uut.pause["eth1"] == (True, True, True)


def test_a_dry_run_says_it_before_what_the_driver_does() -> None:
    lines = made(RawDriver("raw-off", {})).commands([WIRING])
    assert lines[:2] == [f"ethtool -A {nic} autoneg off rx off tx off" for nic in ("eth1", "eth5")]
    assert lines[2:] == RawDriver("raw-off", {}).commands([WIRING])


def test_any_platform_may_have_it_beside_what_its_uut_boots() -> None:
    options = {"driver": "raw", "boot": "linux", "flow_control": "off"}
    inventory = load_inventory(HOSTS)
    entry = type(inventory.platforms["raw"]).model_validate(options)
    driver = build_driver("raw", inventory.model_copy(update={"platforms": {"raw": entry}}))
    assert isinstance(driver, BootedDriver)
    assert driver.commands([WIRING])[0] == "ethtool -A eth1 autoneg off rx off tx off"
    assert hosts_schema()["$defs"]["raw"]["properties"]["flow_control"]["enum"] == ["on", "off", True, False]


@pytest.mark.parametrize(("told", "wanted"), [("on", True), ("off", False), (True, True), (False, False)])
def test_the_option_is_taken_away_from_the_drivers(told: Any, wanted: bool) -> None:
    options = {"flow_control": told, "forwarding": "bridge"}
    assert take_flow_control("raw-off", options) is wanted
    assert options == {"forwarding": "bridge"}
    assert take_flow_control("raw-off", options) is None


@pytest.mark.parametrize("told", ["of", "", 0, 1, [], {}, "rx"])
def test_what_is_neither_on_nor_off_is_refused(told: Any) -> None:
    with pytest.raises(ConfigError, match=r"platforms.raw-off.flow_control.*on, off"):
        take_flow_control("raw-off", {"flow_control": told})
