"""Stamps of a NIC: asked for, put back as they were, and refused where there are none.

The driver that answers behaves as Linux' hwtstamp_config is documented: it may widen a filter, refuses with ERANGE what
it cannot, and one without stamps answers EOPNOTSUPP, as loopback here does itself.
"""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest

from labconsole.agent.reading.ethtool import Ethtool
from labconsole.agent.undo import no_namespace, run
from labconsole.network import nic_features
from labconsole.network.nic_features import ALL_FRAMES, NicStamps
from labconsole.wire.codec import WireError

PTP_EVENTS = 12
"""HWTSTAMP_FILTER_PTP_V2_EVENT, which ptp4l asks for."""


class Driver:
    def __init__(self, config: list[int], *, answers: int = ALL_FRAMES, refuses: int = 0) -> None:
        self.config, self.answers, self.refuses = config, answers, refuses
        self.set_to: list[list[int]] = []

    def asked(self, interface: str, command: int, config: list[int]) -> list[int]:
        assert interface == "eth1"
        if command == nic_features.SET_STAMPS:
            if self.refuses:
                raise OSError(self.refuses, "no")
            self.set_to.append(config)
            self.config = [*config[:2], self.answers if config[2] == ALL_FRAMES else config[2]]
        return list(self.config)


class Journal:
    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def promise(self, kind: str, **entry: Any) -> None:
        self.entries.append({"kind": kind, **entry})


def apply(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> Journal:
    monkeypatch.setattr(nic_features, "_query_driver", driver.asked)
    journal = Journal()
    NicStamps(interface="eth1").apply(journal)  # type: ignore[arg-type]
    return journal


def test_every_frame_is_stamped_until_that_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver([0, 1, PTP_EVENTS])
    journal = apply(monkeypatch, driver)
    assert driver.config == [0, 1, ALL_FRAMES]
    for _ in range(2):
        run(journal.entries[0], no_namespace)
        assert driver.config == [0, 1, PTP_EVENTS]
    assert driver.set_to == [[0, 1, ALL_FRAMES], [0, 1, PTP_EVENTS]]


def test_what_libpcap_set_besides_is_undone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver([0, 0, 0])
    journal = apply(monkeypatch, driver)
    driver.config = [0, 1, ALL_FRAMES]
    run(journal.entries[0], no_namespace)
    assert driver.config == [0, 0, 0]


@pytest.mark.parametrize("meanwhile", [[0, 1, PTP_EVENTS], [0, 0, 0]])
@pytest.mark.parametrize("before", [[0, 0, 0], [0, 1, 3], [0, 1, ALL_FRAMES]])
def test_what_another_program_set_meanwhile_stays(
    monkeypatch: pytest.MonkeyPatch, before: list[int], meanwhile: list[int]
) -> None:
    """ptp4l was started during the trial, or an operator turned stamps off."""
    driver = Driver(before)
    journal = apply(monkeypatch, driver)
    driver.config = list(meanwhile)
    run(journal.entries[0], no_namespace)
    assert driver.config == meanwhile


def test_a_nic_that_stamps_every_frame_anyway_is_not_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver([0, 1, ALL_FRAMES])
    journal = apply(monkeypatch, driver)
    run(journal.entries[0], no_namespace)
    assert driver.set_to == []


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (Driver([0, 0, 0], refuses=errno.ERANGE), "the NIC of eth1 stamps no frames: Numerical result out of range"),
        (Driver([0, 0, 0], answers=PTP_EVENTS), "the NIC of eth1 does not stamp every frame"),
    ],
)
def test_a_nic_that_does_not_stamp_every_frame_is_refused(
    monkeypatch: pytest.MonkeyPatch, driver: Driver, words: str
) -> None:
    before = list(driver.config)
    with pytest.raises(WireError, match=words) as refused:
        apply(monkeypatch, driver)
    assert driver.config == before
    assert refused.value.code == "not_supported"


def test_a_real_port_without_stamps_is_refused_and_one_that_is_gone_has_nothing_to_put_back() -> None:
    journal = Journal()
    with pytest.raises(WireError, match="the NIC of lo stamps no frames: Operation not supported"):
        NicStamps(interface="lo").apply(journal)  # type: ignore[arg-type]
    assert journal.entries == []
    run({"kind": "nic_stamps", "interface": "gone0", "before": [0, 0, 0]}, no_namespace)


def told(flags: int, clock: int, filters: int) -> bytes:
    """struct ethtool_ts_info."""
    return struct.pack("=IIi4II3I", 0x41, flags, clock, 3, 0, 0, 0, filters, 0, 0, 0)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        # eth3 of Red Hat's System Administrator's Guide (RHEL 7, 20.2.1): all six capabilities, filters none and all
        (told(0x5F, 0, 0b11), {"all_received": True, "clock": 0}),
        # a NIC that stamps PTP's frames alone (filters none, ptpv1-l4-event and ptpv2-event)
        (told(0x5F, 3, 1 | 1 << 3 | 1 << 12), {"all_received": False, "clock": 3}),
        # a virtual port: software-transmit, software-receive, software-system-clock
        (told(0x1A, -1, 0), {"all_received": False, "clock": None}),
        # an adapter that stamps frames without a clock that could be read
        (told(0x5F, -1, 0b11), {"all_received": True, "clock": None}),
        (None, None),
    ],
)
def test_what_a_driver_says_of_its_stamps_is_read(
    monkeypatch: pytest.MonkeyPatch, answer: bytes | None, found: dict[str, Any] | None
) -> None:
    asked: list[bytes] = []

    def ask(self: Ethtool, name: str, question: bytes) -> bytes | None:
        asked.append(question)
        return answer

    monkeypatch.setattr(Ethtool, "ask", ask)
    tool = Ethtool()
    try:
        assert tool.time_stamps("eth3") == found
    finally:
        tool.close()
    assert asked == [struct.pack("=I40x", 0x41)]
