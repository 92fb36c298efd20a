"""What chronyc and pmc print of a clock's error, and what bounds nothing.

The words of pmc are those of Red Hat's Deployment Guide (RHEL 6, section 23.4, its spelling included) and of linuxptp
3.1.1 between two namespaces of one machine (FOLLOWER); chronyc's local reference was printed by chrony 4.3.
"""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from labconsole.agent.processes import children
from labconsole.agent.reading import clocks
from labconsole.agent.reading.clocks import closest
from labconsole.agent.reading.ethtool import Ethtool
from labconsole.wire.codec import WireError

TRACKING = (
    "C0000201,192.0.2.1,3,1795846725.746930703,-0.000001234,0.000000731,0.000002002,-12.345,0.001,0.021,"
    "0.000041002,0.000017301,16.2,Normal\n"
)
LOCAL = (
    "7F7F0101,,10,1795846725.746930703,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,"
    "0.000000000,0.000000000,0.0,Normal\n"
)
PMC = """\
sending: GET CURRENT_DATA_SET
sending: GET TIME_STATUS_NP
sending: GET TIME_PROPERTIES_DATA_SET
sending: GET PORT_PROPERTIES_NP
	90e2ba.fffe.20c7f8-0 seq 0 RESPONSE MANAGMENT CURRENT_DATA_SET
		stepsRemoved        1
		offsetFromMaster  -142.0
		meanPathDelay     9310.0
	90e2ba.fffe.20c7f8-0 seq 1 RESPONSE MANAGMENT TIME_STATUS_NP
		master_offset              310
		ingress_time               1361545089345029441
		cumulativeScaledRateOffset   +1.000000000
		scaledLastGmPhaseChange    0
		gmTimeBaseIndicator        0
		lastGmPhaseChange          0x0000'0000000000000000.0000
		gmPresent                  true
		gmIdentity                 00a069.fffe.0b552d
	90e2ba.fffe.20c7f8-0 seq 2 RESPONSE MANAGEMENT TIME_PROPERTIES_DATA_SET
		currentUtcOffset      37
		leap61                0
		leap59                0
		currentUtcOffsetValid 1
		ptpTimescale          1
		timeTraceable         1
		frequencyTraceable    1
		timeSource            0x20
	90e2ba.fffe.20c7f8-1 seq 3 RESPONSE MANAGEMENT PORT_PROPERTIES_NP
		portIdentity            90e2ba.fffe.20c7f8-1
		portState               SLAVE
		timestamping            SOFTWARE
		interface               eth3
"""


FOLLOWER = """\
sending: GET CURRENT_DATA_SET
sending: GET TIME_STATUS_NP
	127e05.fffe.200c0f-0 seq 0 RESPONSE MANAGEMENT CURRENT_DATA_SET
		stepsRemoved     1
		offsetFromMaster 148.0
		meanPathDelay    2005.0
sending: GET TIME_PROPERTIES_DATA_SET
sending: GET PORT_PROPERTIES_NP
	127e05.fffe.200c0f-0 seq 1 RESPONSE MANAGEMENT TIME_STATUS_NP
		master_offset              148
		ingress_time               1795848804604629653
		gmPresent                  true
		gmIdentity                 22c129.fffe.ef954d
	127e05.fffe.200c0f-0 seq 2 RESPONSE MANAGEMENT TIME_PROPERTIES_DATA_SET
		currentUtcOffset      37
		ptpTimescale          0
	127e05.fffe.200c0f-1 seq 3 RESPONSE MANAGEMENT PORT_PROPERTIES_NP
		portIdentity            127e05.fffe.200c0f-1
		portState               UNCALIBRATED
		timestamping            SOFTWARE
		interface               b0
"""
"""Of one that measures, and sets no clock (free_running)."""

ALONE = (
    PMC.replace("stepsRemoved        1", "stepsRemoved        0")
    .replace("-142.0", "0.0")
    .replace("9310.0", "0.0")
    .replace("gmPresent                  true", "gmPresent                  false")
    .replace("00a069.fffe.0b552d", "90e2ba.fffe.20c7f8")
    .replace("SLAVE", "LISTENING")
)
"""Of one that follows nobody and is followed by nobody."""


def test_what_is_measured_and_not_followed_bounds_nothing() -> None:
    with pytest.raises(WireError, match="no port of ptp4l follows a master: UNCALIBRATED"):
        clocks.ptp4l(FOLLOWER)
    followed = clocks.ptp4l(FOLLOWER.replace("UNCALIBRATED", "SLAVE"))
    assert (followed.error_ns, followed.reference) == (148 + 2005, "22c129.fffe.ef954d")


def test_chronys_bound_is_offset_dispersion_and_half_the_delay() -> None:
    told = clocks.chrony(TRACKING)
    assert (told.error_ns, told.reference) == (1234 + 17301 + 20501, "C0000201 192.0.2.1")
    assert clocks.chrony(TRACKING.replace("192.0.2.1", "2001:db8::1")).reference == "C0000201 2001:db8::1"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (LOCAL, "no server but 7F7F0101"),
        (TRACKING.replace("192.0.2.1", "PHC0"), "no server but PHC0, which another node need not have"),
        (TRACKING.replace("Normal", "Not synchronised"), "chronyd is not synchronised"),
        ("506 Cannot talk to daemon\n", "chronyc: 506 Cannot talk to daemon"),
        ("", "chronyc: no answer"),
        (TRACKING.replace("-0.000001234", "-2000000.5"), "the clock may be off by 2000000 s"),
        (TRACKING.replace("0.000041002", "nan"), "nan is not a number"),
        (TRACKING.replace("0.000041002", "1e300"), "is not a number"),
    ],
)
def test_what_chrony_says_that_bounds_nothing_is_refused(said: str, words: str) -> None:
    with pytest.raises(WireError, match=words):
        clocks.chrony(said)


def test_ptp4ls_bound_is_its_offset_and_the_delay_of_its_path() -> None:
    told = clocks.ptp4l(PMC)
    assert (told.error_ns, told.reference) == (142 + 9310, "00a069.fffe.0b552d")
    assert told.is_reference is False


@pytest.mark.parametrize("state", ["MASTER", "GRAND_MASTER"])
def test_a_grandmaster_is_its_own_reference(state: str) -> None:
    told = clocks.ptp4l(ALONE.replace("LISTENING", state))
    assert (told.error_ns, told.reference, told.is_reference) == (0, "90e2ba.fffe.20c7f8", True)


@pytest.mark.parametrize("stamps", ["SOFTWARE", "HARDWARE"])
@pytest.mark.parametrize("state", ["LISTENING", "FAULTY", "DISABLED", "PASSIVE", "UNCALIBRATED", "SLAVE"])
def test_a_ptp4l_that_hears_no_master_bounds_nothing(monkeypatch: pytest.MonkeyPatch, state: str, stamps: str) -> None:
    """It has its own clock for the grandmaster, and no error."""
    monkeypatch.setattr(clocks, "offset_ns", lambda interface: (37 * 10**9 + 210, 300))
    with pytest.raises(WireError, match=f"no port of ptp4l is a master: {state}"):
        clocks.ptp4l(ALONE.replace("LISTENING", state).replace("SOFTWARE", stamps))


def test_a_master_in_the_name_of_another_clock_bounds_nothing() -> None:
    other = ALONE.replace("LISTENING", "MASTER").replace("gmPresent                  false", "gmPresent true")
    with pytest.raises(WireError, match="no port of ptp4l follows a master: MASTER"):
        clocks.ptp4l(other)


def test_of_several_ports_the_one_that_leads_is_asked_for_its_nics_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def offset_ns(interface: str) -> tuple[int, int]:
        asked.append(interface)
        return 37 * 10**9, 0

    monkeypatch.setattr(clocks, "offset_ns", offset_ns)
    head, port = ALONE.split("\t90e2ba.fffe.20c7f8-1")
    ports = "".join(
        f"\t90e2ba.fffe.20c7f8-1{port}".replace("LISTENING", state).replace("eth3", interface)
        for state, interface in (("FAULTY", "eth3"), ("MASTER", "eth4"))
    )
    assert clocks.ptp4l((head + ports).replace("SOFTWARE", "HARDWARE")).error_ns == 0
    assert asked == ["eth4"]


def test_with_stamps_of_the_nic_the_systems_clock_is_compared_with_the_nics(monkeypatch: pytest.MonkeyPatch) -> None:
    """phc2sys keeps it 210 ns behind: the grandmaster's time is TAI, 37 s ahead of UTC."""
    asked: list[str] = []

    def offset_ns(interface: str) -> tuple[int, int]:
        asked.append(interface)
        return 37 * 10**9 + 210, 650

    monkeypatch.setattr(clocks, "offset_ns", offset_ns)
    hardware = PMC.replace("SOFTWARE", "HARDWARE")
    assert clocks.ptp4l(hardware).error_ns == 142 + 9310 + 210 + 650
    arbitrary = hardware.replace("ptpTimescale          1", "ptpTimescale          0")
    assert clocks.ptp4l(arbitrary).error_ns == 142 + 9310 + 37 * 10**9 + 210 + 650
    assert asked == ["eth3", "eth3"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("stepsRemoved        1", "stepsRemoved        2", "2 steps from its grandmaster"),
        ("SLAVE", "UNCALIBRATED", "no port of ptp4l follows a master: UNCALIBRATED"),
        ("-142.0", "-142,0", "-142,0 is not a number"),
        ("meanPathDelay     9310.0", "", "meanPathDelay: nothing is not a number"),
        ("meanPathDelay     9310.0", "meanPathDelay 0.0", r"reports no path delay \(meanPathDelay 0\), as with"),
        ("meanPathDelay     9310.0", "meanPathDelay -12.5", r"reports no path delay \(meanPathDelay -12\.5\)"),
        ("PORT_PROPERTIES_NP\n\t\tport", "NULL\n\t\tport", "does not answer pmc, or does not answer every query"),
    ],
)
def test_what_ptp4l_says_that_bounds_nothing_is_refused(old: str, new: str, words: str) -> None:
    changed = PMC.replace(old, new)
    assert changed != PMC
    with pytest.raises(WireError, match=words):
        clocks.ptp4l(changed)
    with pytest.raises(WireError, match="does not answer pmc"):
        clocks.ptp4l("sending: GET CURRENT_DATA_SET\n")


def program(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_the_program_itself_is_asked_and_its_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "SEARCH_PATH", f"{tmp_path}:/usr/bin:/bin")
    program(tmp_path, "pmc", f"cat <<'END'\n{PMC}END")
    assert asyncio.run(clocks.read("ptp4l")).error_ns == 9452
    with pytest.raises(WireError, match="chronyc is not installed on this node"):
        asyncio.run(clocks.read("chrony"))
    program(tmp_path, "chronyc", "echo 506 Cannot talk to daemon; exit 1")
    with pytest.raises(WireError, match="chronyc: 506 Cannot talk to daemon"):
        asyncio.run(clocks.read("chrony"))
    monkeypatch.setattr(clocks, "TIMEOUT_S", 0.2)
    program(tmp_path, "chronyc", "exec sleep 60")
    with pytest.raises(WireError, match=r"chronyc did not answer within 0\.2 s"):
        asyncio.run(clocks.read("chrony"))


def test_a_clock_read_between_two_of_another_is_wrong_by_half_of_what_that_took() -> None:
    times = iter([100, 150, 1000, 1006, 2000, 2500] * 20)
    assert closest(lambda: next(times), lambda: 5000) == (5000 - 1003, 3)


def test_a_port_without_a_clock_of_its_own_is_told() -> None:
    tool = Ethtool()
    try:
        assert tool.time_stamps("lo") == {"all_received": False, "clock": None}
        assert tool.time_stamps("none0") is None
    finally:
        tool.close()
    with pytest.raises(WireError, match="lo: this port's NIC has no clock of its own"):
        clocks.offset_ns("lo")
