"""Flow control of a NIC whose driver answers as e1000's does: set, put back, and refused where there is none."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest

from labconsole.agent.undo import no_namespace, run
from labconsole.network import nic_features
from labconsole.network.nic_features import FlowControl
from labconsole.wire.codec import WireError


class Drivers:
    """By interface what each has set: negotiated, rx, tx; an error number: what it says instead."""

    def __init__(self, **nics: Any) -> None:
        self.nics: dict[str, Any] = nics
        self.refuses = 0
        self.keeps = False
        self.set = 0

    def asked(self, interface: str, command: bytes) -> bytes:
        number, *settings = struct.unpack("=4I", command)
        found = self.nics.get(interface, errno.ENODEV)
        if isinstance(found, int):
            raise OSError(found, "no")
        if number == nic_features.SET_PAUSE:
            if self.keeps and settings[0] != found[0]:
                raise OSError(errno.EOPNOTSUPP, "no")
            if self.refuses:
                raise OSError(self.refuses, "no")
            self.set += 1
            self.nics[interface] = found = tuple(settings)
        return struct.pack("=4I", number, *found)


class Journal:
    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def promise(self, kind: str, **entry: Any) -> None:
        self.entries.append({"kind": kind, **entry})


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> Drivers:
    made = Drivers(eth1=(1, 1, 1), eth2=errno.EOPNOTSUPP)
    monkeypatch.setattr(nic_features, "_query_interface", made.asked)
    return made


@pytest.mark.parametrize("on", [True, False])
def test_it_is_forced_as_asked_and_put_back_as_it_was(drivers: Drivers, on: bool) -> None:
    journal = Journal()
    change = FlowControl(interface="eth1", on=on)
    change.apply(journal)  # type: ignore[arg-type]
    assert drivers.nics["eth1"] == (0, on, on)
    change.apply(journal)  # type: ignore[arg-type]
    assert (drivers.set, len(journal.entries)) == (1, 1), "it was so already: a link would go down for nothing"
    for _ in range(2):
        run(journal.entries[0], no_namespace)
        assert drivers.nics["eth1"] == (1, 1, 1)


def test_a_nic_that_is_gone_has_nothing_to_put_back(drivers: Drivers) -> None:
    journal = Journal()
    FlowControl(interface="eth1", on=False).apply(journal)  # type: ignore[arg-type]
    del drivers.nics["eth1"]
    run(journal.entries[0], no_namespace)


def test_a_driver_without_it_is_refused_before_anything_is_promised(drivers: Drivers) -> None:
    journal = Journal()
    for interface in ("eth2", "eth9"):
        with pytest.raises(WireError, match=f"the driver of {interface} has no flow control to set"):
            FlowControl(interface=interface, on=False).apply(journal)  # type: ignore[arg-type]
    assert journal.entries == []


def test_a_driver_that_refuses_it_is_named(drivers: Drivers) -> None:
    drivers.refuses = errno.EINVAL
    with pytest.raises(WireError, match="flow control of eth1: Invalid argument"):
        FlowControl(interface="eth1", on=False).apply(Journal())  # type: ignore[arg-type]


def test_a_driver_that_negotiates_on_is_left_at_that(drivers: Drivers) -> None:
    """As those of Intel's 40 and 100 Gbit/s NICs answer."""
    drivers.keeps, journal = True, Journal()
    FlowControl(interface="eth1", on=False).apply(journal)  # type: ignore[arg-type]
    assert drivers.nics["eth1"] == (1, 0, 0)
    run(journal.entries[0], no_namespace)
    assert drivers.nics["eth1"] == (1, 1, 1)
