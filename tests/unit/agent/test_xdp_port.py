"""What an XDP program changes at a port is promised to be put back before it is attached, put back, and told."""

from __future__ import annotations

import asyncio
import errno
import struct
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labconsole.agent.bpf import kernel
from labconsole.agent.keeper import undo_all
from labconsole.agent.operations import timing as operation
from labconsole.agent.operations.timing import Timing
from labconsole.agent.reading import packet_times, xdp_port
from labconsole.agent.reading.xdp_port import XdpPort
from labconsole.agent.undo import no_namespace, run
from labconsole.network import nic_features
from labconsole.wire.codec import WireError
from labconsole.wire.packet_times import NATIVE_XDP, StartPacketTimes, StopPacketTimes, TimedPackets, TimedPort

NAMES = [*(f"tx-{number}" for number in range(30)), "rx-checksum", "rx-lro", "rx-gro", "rx-gro-hw"]
"""More than fit into one word of bits."""


class Link(dict[Any, Any]):
    """A message of the kernel's about one interface."""

    def get_nested(self, *path: str) -> Any:
        return self.get(path)


class Machine:
    """NICs whose drivers answer ethtool as virtio_net's does, with what attaching does to them as the kernel does it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on = {"eth1": {"rx-checksum", "rx-gro", "rx-gro-hw"}, "bond0": {"rx-gro"}, "eth2": {"rx-lro"}}
        self.links = {
            "eth1": Link({"index": 2, "IFLA_CARRIER": 1, "IFLA_CARRIER_CHANGES": 5}),
            "bond0": Link({"index": 3, "IFLA_CARRIER": 1, "IFLA_CARRIER_CHANGES": 1}),
            "eth2": Link({"index": 4, "IFLA_MASTER": 3, "IFLA_CARRIER": 1, "IFLA_CARRIER_CHANGES": 1}),
            "eth2.7": Link({"index": 5, "IFLA_LINK": 4, "IFLA_CARRIER": 1}),
            "k0": Link({"index": 6, ("linkinfo", "kind"): "veth", "IFLA_LINK": 4, "IFLA_CARRIER": 1}),
        }
        self.stuck: set[str] = set()
        self.busy: set[str] = set()
        self.refuses = self.looks = self.down_looks = 0
        self.back_at: dict[str, int] = {}
        self.stays_down = ""
        self.timers: list[Timer] = []
        self.goes = threading.Event()
        self.goes.set()
        self.noted: dict[int, dict[str, Any]] = {}
        self.seen: list[str] = []
        monkeypatch.setattr(
            nic_features, "query_driver", lambda tool, interface, command: self.asked(interface, command)
        )
        monkeypatch.setattr(xdp_port, "_links", self.look)
        monkeypatch.setattr(xdp_port, "LINK_POLL_S", 0.01)
        monkeypatch.setattr(xdp_port, "LINK_S", 0.2)
        numbers = SimpleNamespace(if_nametoindex=lambda name: self.links[name]["index"])
        monkeypatch.setattr(xdp_port, "socket", numbers)
        monkeypatch.setattr(kernel, "attach_xdp", self.attach)

    def look(self) -> dict[str, Link]:
        self.looks += 1
        for name, at in self.back_at.items():
            self.links[name]["IFLA_CARRIER"] = int(self.looks >= at and name != self.stays_down)
        return self.links

    def resets(self, interface: str) -> None:
        """Its driver takes the link down; it is up again after so many looks."""
        assert self.goes.wait(timeout=10)
        self.back_at[interface] = self.looks + self.down_looks
        own = self.links[interface]
        own["IFLA_CARRIER"] = 0
        if "IFLA_CARRIER_CHANGES" in own:
            own["IFLA_CARRIER_CHANGES"] += 2

    def asked(self, interface: str, command: bytes) -> bytes:
        if interface not in self.links:
            raise OSError(errno.ENODEV, "no")
        on = self.on.setdefault(interface, set())
        (number,) = struct.unpack_from("=I", command)
        if number == nic_features.GET_COUNTS:
            assert struct.unpack_from("=Q", command, 8)[0] == 1 << 4
            return command[:16] + struct.pack("=I", len(NAMES))
        if number == nic_features.GET_STRINGS:
            assert len(command) == 12 + 32 * len(NAMES)
            return command[:12] + b"".join(name.encode().ljust(32, b"\0") for name in NAMES)
        if number == nic_features.GET_FEATURES:
            blocks = [
                sum(1 << place for place in range(32) if place + at < len(NAMES) and NAMES[at + place] in on)
                for at in (0, 32)
            ]
            return command[:8] + b"".join(struct.pack("=4I", 0xFFFFFFFF, word, word, 0) for word in blocks)
        assert number == nic_features.SET_FEATURES and len(command) == 8 + 16
        if interface in self.busy:
            raise OSError(errno.EBUSY, "no")
        for block, (valid, wanted) in enumerate(struct.iter_unpack("=II", command[8:])):
            for place in range(32):
                if valid >> place & 1 and NAMES[32 * block + place] not in self.stuck:
                    (on.add if wanted >> place & 1 else on.discard)(NAMES[32 * block + place])
        return command

    def attach(self, program: int, index: int, *, native: bool) -> int:
        self.seen.append(f"attach {index}, {len(self.noted)} promised")
        if self.refuses:
            raise OSError(self.refuses, "no")
        for name in ("eth1",) if index == 2 else ("bond0", "eth2", "eth3"):
            self.on.setdefault(name, set()).difference_update({"rx-lro", "rx-gro-hw"})
        return 99

    def promise(self, entry: dict[str, Any]) -> int:
        number = len(self.seen) + 1
        self.seen.append(f"promise {number}")
        self.noted[number] = entry
        return number

    def done(self, number: int) -> None:
        self.seen.append(f"done {number}")
        del self.noted[number]

    def port(self, interface: str, *, native: bool = False) -> XdpPort:
        return XdpPort(interface, self.promise, self.done, native=native)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_what_the_kernel_turned_off_is_turned_on_again_and_told(machine: Machine) -> None:
    port = machine.port("eth1")
    assert port.attach(7) == 99
    assert machine.seen == ["promise 1", "attach 2, 1 promised", "promise 3", "done 1"]
    (entry,) = machine.noted.values()
    assert entry["features"] == {"eth1": {"rx-gro-hw": True}}, "and nothing that others may change meanwhile"
    assert machine.on["eth1"] == {"rx-checksum", "rx-gro"}
    machine.on["eth1"].add("tx-3")  # somebody else does
    port.put_back()
    assert machine.on["eth1"] == {"rx-checksum", "rx-gro", "rx-gro-hw", "tx-3"} and not machine.noted
    told = port.told()
    assert (told.features, told.left_features, told.link_changes) == (["rx-gro-hw off"], [], 0)


def test_of_a_port_that_consists_of_others_theirs_is_put_back(machine: Machine) -> None:
    port = machine.port("bond0")
    port.attach(7)
    assert machine.on["eth2"] == set()
    port.put_back()
    assert machine.on["eth2"] == {"rx-lro"}
    assert port.told().features == ["eth2 rx-lro off"]


def test_the_keeper_puts_it_back_when_the_agent_is_gone(machine: Machine) -> None:
    machine.port("eth1").attach(7)
    (entry,) = machine.noted.values()
    run(entry, no_namespace)
    assert "rx-gro-hw" in machine.on["eth1"]
    run(entry, no_namespace)  # and is content when nothing is left
    del machine.links["eth1"]
    run(entry, no_namespace)


@pytest.mark.parametrize("fails", ["set", "read"])
def test_a_port_that_refuses_keeps_no_other_from_being_put_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, fails: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.links["eth3"] = Link({"index": 7, "IFLA_MASTER": 3, "IFLA_CARRIER": 1})
    machine.on["eth3"] = {"rx-lro"}
    port = machine.port("bond0")
    port.attach(7)
    (entry,) = machine.noted.values()
    read = nic_features.read_features

    def unreadable(interface: str) -> nic_features.Features:
        if interface == "eth2":
            raise OSError(errno.EIO, "no")
        return read(interface)

    if fails == "set":
        machine.busy = {"eth2"}
    else:
        monkeypatch.setattr(nic_features, "read_features", unreadable)
    port.put_back()
    assert (machine.on["eth2"], machine.on["eth3"]) == (set(), {"rx-lro"})
    assert port.told().left_features == ["eth2 rx-lro off"] and len(machine.noted) == 1, "the keeper tries it again"
    machine.on["eth3"].clear()
    monkeypatch.setenv("LABCONSOLE_AGENT_DEBUG", "1")
    undo_all([entry])
    assert machine.on["eth3"] == {"rx-lro"}
    assert "port_features: not as before: {'eth2': {'rx-lro': True}}" in capsys.readouterr().err


def test_what_cannot_be_put_back_is_told_and_stays_promised(machine: Machine) -> None:
    port = machine.port("eth1")
    port.attach(7)
    machine.stuck.add("rx-gro-hw")
    port.put_back()
    assert port.told().left_features == ["rx-gro-hw off"] and len(machine.noted) == 1
    machine.stuck.clear()
    port.put_back()
    assert port.told().left_features == [] and not machine.noted


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (errno.EOPNOTSUPP, "not_supported", "the driver of eth1 has no native XDP, or not with the port's offloads"),
        (errno.EINVAL, "not_supported", "it needs Linux 5.9"),
        (errno.EBUSY, "busy", "accepts no program for native XDP"),
    ],
)
def test_where_the_kernel_takes_none_nothing_is_promised_any_more(
    machine: Machine, number: int, code: str, words: str
) -> None:
    machine.refuses = number
    with pytest.raises(WireError, match=words) as refused:
        machine.port("eth1", native=True).attach(7)
    assert refused.value.code == code and not machine.noted


class Timer:
    """In place of the program and its tables: a port's, whose link a driver takes down when it comes and goes."""

    def __init__(self, machine: Machine, interface: str, port: XdpPort | None) -> None:
        self.machine, self.interface, self.port, self.memory_bytes, self.instructions = machine, interface, port, 1, 1
        if port is not None:
            port.attach(7)
        machine.resets(interface)
        machine.timers.append(self)

    def detach(self) -> None:
        self.machine.resets(self.interface)
        if self.port is not None:
            self.port.put_back()

    def close(self) -> None:
        self.detach()
        self.machine.timers.remove(self)

    def counted(self) -> list[Any]:
        return []


@pytest.fixture
def timing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Timing:
    def timer(interface: str, streams: Any, offset_ns: int, port: XdpPort | None) -> Timer:
        return Timer(machine, interface, port)

    monkeypatch.setattr(packet_times, "PacketTimer", timer)
    monkeypatch.setattr(operation, "_check", lambda ports: None)
    return Timing(cast(Any, SimpleNamespace(promise=machine.promise, done=machine.done)))


def asked_for(*interfaces: str) -> StartPacketTimes:
    return StartPacketTimes(ports=[TimedPort(interface=name, streams=[]) for name in interfaces], by=NATIVE_XDP)


def test_links_that_drivers_reset_are_waited_for_together_and_told(
    machine: Machine, timing: Timing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xdp_port, "LINK_S", 5.0)
    machine.down_looks = 4

    async def work() -> TimedPackets:
        await timing.start(asked_for("eth1", "eth2", "eth2.7"))
        assert machine.looks == 3 + 4, "one look for each before, then at all of them at once"
        told = await timing.stop(StopPacketTimes())
        assert machine.looks == 3 + 4 + 4 + 3
        return told

    told = asyncio.run(work())
    for port in told.ports:
        assert port.xdp is not None and port.xdp.link_is_back is True
    assert [port.xdp.link_changes for port in told.ports if port.xdp is not None] == [4, 4, None]


def test_a_port_whose_link_does_not_come_back_is_let_go_and_waited_for_once_more(
    machine: Machine, timing: Timing
) -> None:
    machine.down_looks = 10**6
    with pytest.raises(WireError, match="eth1, eth2 got a program.*the link was not up again after 7 s") as refused:
        asyncio.run(timing.start(asked_for("eth1", "eth2")))
    assert refused.value.code == "failed" and not machine.timers and not machine.noted
    assert machine.looks > 2 + 2 * 3, "and for its return afterwards"
    with pytest.raises(WireError, match="eth1 has no carrier") as refused:
        asyncio.run(timing.start(asked_for("eth1")))
    assert refused.value.code == "no_carrier" and not machine.timers and not machine.noted


def test_a_link_that_does_not_come_back_when_the_program_goes_is_told(machine: Machine, timing: Timing) -> None:
    async def work() -> TimedPackets:
        await timing.start(asked_for("eth1", "eth2"))
        machine.stays_down = "eth1"
        return await timing.stop(StopPacketTimes())

    told = asyncio.run(work())
    assert [port.xdp.link_is_back for port in told.ports if port.xdp is not None] == [False, True]


def test_a_driver_that_is_slow_to_let_a_program_go_does_not_keep_the_agent(machine: Machine, timing: Timing) -> None:
    async def work() -> None:
        await timing.start(asked_for("eth1"))
        machine.goes = threading.Event()
        timing.close()  # would not come back before the driver does
        assert machine.timers, "it is still there"
        again = asyncio.ensure_future(timing.start(asked_for("eth1")))
        await asyncio.sleep(0.05)
        assert len(machine.timers) == 1, "the next one waits for it"
        machine.goes.set()
        await again
        assert len(machine.timers) == 1
        await timing.stop(StopPacketTimes())

    asyncio.run(work())
    assert not machine.timers


def test_where_the_port_cannot_be_read_any_more_the_program_is_let_go_and_the_promise_stands(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = list[int]()
    monkeypatch.setattr(xdp_port, "os", SimpleNamespace(close=closed.append))

    def fails(before: Any) -> Any:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(nic_features, "differing", fails)
    with pytest.raises(OSError):
        machine.port("eth1").attach(7)
    assert closed == [99] and list(machine.noted) == [1]


def test_native_is_refused_at_a_veth_and_where_another_program_is(machine: Machine) -> None:
    with pytest.raises(WireError, match="loses and reorders packets at a veth, which k0 is"):
        machine.port("k0", native=True).attach(7)
    machine.links["eth1"]["IFLA_XDP", "IFLA_XDP_ATTACHED"] = "xdpgeneric"
    with pytest.raises(WireError, match=r"eth1 already has an XDP program \(xdpgeneric") as refused:
        machine.port("eth1").attach(7)
    assert refused.value.code == "busy" and machine.seen == []
