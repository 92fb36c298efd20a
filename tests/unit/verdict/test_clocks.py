"""How far two clocks may be apart: measured, or by what is stated of them, and what of both a record tells."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from labconsole.cli.text.runs import run_lines
from labconsole.engine.trial.recorder import worse
from labconsole.measure.packet_times import packet_times
from labconsole.measure.recompute.counts import contradicting_counts
from labconsole.measure.recompute.record import unjudged
from labconsole.measure.timing import agreement, clock_sentence
from labconsole.model.inventory import Inventory
from labconsole.model.record.extensions import CLOCKS, ClockAgreement, ClockStatement
from labconsole.model.record.run import RunRecord
from labconsole.verdict.observations import NicClockObservation, TimedStream
from labconsole.wire.capture import CountedDelay
from labconsole.wire.clocks import NicClock
from support.observed_trials import SENT, bent, codes, counted, observe, record, recounted
from support.timed_packets import stream_times

ENDS = ("src1", "snk1")


def node(offset_ns: int, error_ns: int, boot: str = "", /, **said: Any) -> dict[str, Any]:
    stated = {"clock_stated": ClockStatement.model_validate(said).model_dump()} if said else {}
    return {"facts": {"boot_id": boot or None}, "clock_offset_ns": offset_ns, "clock_error_ns": error_ns, **stated}


def declared(error_ns: int) -> dict[str, Any]:
    return {"by": "declared", "error_ns": error_ns}


def ptp(error_ns: int, grandmaster: str = "00a069.fffe.0b552d") -> dict[str, Any]:
    return {"by": "ptp4l", "error_ns": error_ns, "reference": grandmaster}


def grandmaster(error_ns: int) -> dict[str, Any]:
    return ptp(error_ns) | {"is_reference": True}


Found = tuple[int | None, str | None, bool]


def agreed(source: dict[str, Any], sink: dict[str, Any]) -> Found:
    found = agreement(ENDS, source, sink)
    return found.bound_ns, found.bound_by, found.contradicted


def test_the_smaller_of_what_is_stated_and_what_is_measured_holds() -> None:
    assert agreed(node(0, 50_000), node(-900, 40_000)) == (90_900, "measured", False)
    assert agreed(node(0, 50_000, **declared(500)), node(-900, 40_000, **ptp(700))) == (1200, "stated", False)
    assert agreed(node(0, 200, **declared(500)), node(0, 200, **declared(700))) == (400, "measured", False)
    unknown = node(0, 50_000) | {"clock_offset_ns": None}
    assert agreed(unknown, node(0, 1)) == (None, None, False)
    assert agreed(unknown | node(0, 1, **declared(5)) | {"clock_offset_ns": None}, node(0, 1, **declared(6))) == (
        11,
        "stated",
        False,
    )
    assert agreement(ENDS, None, node(0, 1)).bound_ns is None


def test_nodes_of_one_kernel_need_no_statement() -> None:
    one = node(0, 50_000, "a", **declared(500))
    assert agreed(one, node(90, 40_000, "a")) == (0, "one kernel", False)


@pytest.mark.parametrize(
    ("source", "sink", "words"),
    [
        (node(0, 9000, **declared(500)), node(0, 9000), "the clock of snk1: its error is not stated"),
        (node(0, 9000, by="chrony", refused="506 Cannot talk"), node(0, 9000, **ptp(9)), "src1: 506 Cannot talk"),
        (node(0, 9000, **declared(0)), node(0, 9000, **declared(0)), "both are stated to be exact"),
        (node(0, 9000, **ptp(9, "a")), node(0, 9000, **ptp(9, "b")), "their references differ: src1 a, snk1 b"),
        (node(0, 9000, **declared(0)), node(0, 9000, **grandmaster(510)), "snk1 claims to be the reference"),
        (node(0, 9000, **grandmaster(510)), node(0, 9000, **declared(9)), "src1 claims to be the reference"),
        (
            node(0, 9000, **grandmaster(9)),
            node(0, 9000, **grandmaster(9)),
            "src1 claims to be the reference",
        ),
        (node(0, 9000, **grandmaster(9)), node(0, 9000, **ptp(9, "b")), "their references differ"),
    ],
)
def test_a_statement_that_does_not_bound_both_counts_for_nothing(
    source: dict[str, Any], sink: dict[str, Any], words: str
) -> None:
    found = agreement(ENDS, source, sink)
    assert (found.bound_ns, found.bound_by, found.contradicted) == (18_000, "measured", False)
    assert words in (found.unused or "")


def test_a_grandmasters_own_word_counts_beside_a_report_that_follows_it() -> None:
    assert agreed(node(0, 9000, **grandmaster(9)), node(0, 9000, **ptp(90))) == (99, "stated", False)


def test_a_record_by_a_grandmasters_own_word_is_judged_again(inventory: Inventory) -> None:
    alone = taken(inventory, node(0, 50_000, **declared(0)), node(60_000, 50_000, **grandmaster(510)))
    told = packet_times(alone.streams[0])
    assert told is not None and told.delay_ns is None
    assert wrong(alone) == []
    followed = taken(inventory, node(0, 50_000, **grandmaster(510)), node(0, 50_000, **ptp(90)))
    told = packet_times(followed.streams[0])
    assert told is not None and told.clock_bound_ns == 600 + 1000
    assert wrong(followed) == []
    followed.environment["nodes"]["snk1"]["clock_stated"]["is_reference"] = True
    assert "streams[0].extensions.clocks.stated_ns" in wrong(followed)


def test_a_statement_that_the_measurement_shows_to_be_false_is_not_used() -> None:
    """60 000 ns apart, to 20 000 ns: at least 40 000 ns."""
    source, sink = node(10_000, 10_000, **declared(20_000)), node(70_000, 10_000, **declared(20_000))
    assert agreed(source, sink) == (40_000, "stated", False)
    sink = node(70_000, 10_000, **declared(19_999))
    assert agreed(source, sink) == (80_000, "measured", True)
    assert "at least 40000 ns apart" in (agreement(ENDS, source, sink).unused or "")


def test_what_was_stated_before_and_after_a_trial_is_the_worse_of_both() -> None:
    def of(**said: Any) -> dict[str, ClockStatement]:
        return {"snk1": ClockStatement.model_validate(said)}

    assert worse(of(**ptp(90)), of(**ptp(70))) == of(**ptp(90))
    assert worse(of(**ptp(70)), of(**ptp(90))) == of(**ptp(90))
    assert worse(of(**declared(5)), of(**declared(5))) == of(**declared(5))
    gone = worse(of(**ptp(90)), of(by="ptp4l", refused="the link was lost"))["snk1"]
    assert (gone.error_ns, gone.refused) == (None, "after the trial ptp4l reported the link was lost")
    other = worse(of(**ptp(90, "a")), of(**ptp(90, "b")))["snk1"]
    assert other.error_ns is None and "followed a before the trial and b after it" in (other.refused or "")


def taken(inventory: Inventory, source: dict[str, Any], sink: dict[str, Any]) -> RunRecord:
    seen = observe(inventory)
    seen.streams[0].times = TimedStream(stream_times({20_000: SENT}, 70_400), 0)
    return record(inventory, seen, environment={"nodes": {"src1": source, "snk1": sink}})


def wrong(run: RunRecord) -> list[str]:
    return [each.where for each in contradicting_counts(run)]


def test_by_a_stated_bound_a_delay_is_one_way_that_none_measured_would_show(inventory: Inventory) -> None:
    plain = taken(inventory, node(0, 50_000), node(0, 50_000))
    told = packet_times(plain.streams[0])
    assert told is not None and told.delay_ns is None and CLOCKS not in plain.streams[0].extensions
    assert clock_sentence(plain.streams[0]) is None

    run = taken(inventory, node(0, 50_000, **declared(300)), node(0, 50_000, **ptp(400)))
    told = packet_times(run.streams[0])
    assert told is not None and told.delay_ns is not None
    assert told.clock_bound_ns == 300 + 400 + 1000
    assert clock_sentence(run.streams[0]) == (
        "the clocks agree to 700 ns, as is stated of them (measured: to 100000 ns)"
    )
    assert "  s1: the clocks agree to 700 ns, as is stated of them (measured: to 100000 ns)" in run_lines(
        run, saved=True, details=True
    )
    assert wrong(run) == [] and not [each for each in unjudged(run) if "extension" in each]


def test_a_record_says_that_its_clocks_were_stated_wrongly(inventory: Inventory) -> None:
    run = taken(inventory, node(0, 1000, **declared(300)), node(9000, 1000, **declared(400)))
    told = packet_times(run.streams[0])
    assert told is not None and told.delay_ns is None
    (entry,) = [each for each in run.influences if each["kind"] == "clocks_contradicted"]
    assert (entry["node"], entry["stated_ns"], entry["measured_ns"]) == ("snk1", 700, 11_000)
    assert "at least 7000 ns apart" in entry["detail"]
    assert codes(run) == set()
    assert "what is stated does not count: the clocks of src1 and snk1 are stated" in (
        clock_sentence(run.streams[0]) or ""
    )
    assert wrong(run) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"bound_ns": 1}, "bound_ns"),
        ({"stated_ns": 1}, "stated_ns"),
        ({"contradicted": True}, "contradicted"),
        ({"bound_ns": -1}, "bound_ns"),
    ],
)
def test_an_agreement_that_its_environment_does_not_bear_out_is_seen(
    inventory: Inventory, change: dict[str, Any], where: str
) -> None:
    run = copy.deepcopy(taken(inventory, node(0, 50_000, **declared(300)), node(0, 50_000, **ptp(400))))
    run.streams[0].extensions[CLOCKS].update(change)
    assert f"streams[0].extensions.clocks.{where}" in wrong(run)
    tighter = copy.deepcopy(taken(inventory, node(0, 50_000, **declared(300)), node(0, 50_000, **ptp(400))))
    tighter.environment["nodes"]["snk1"]["clock_stated"]["reference"] = None
    tighter.environment["nodes"]["snk1"]["clock_stated"]["error_ns"] = None
    assert "streams[0].extensions.packet_times.clock_bound_ns" in wrong(tighter)


def test_an_agreement_of_another_version_is_left_alone(inventory: Inventory) -> None:
    run = copy.deepcopy(taken(inventory, node(0, 50_000, **declared(300)), node(0, 50_000, **ptp(400))))
    run.streams[0].extensions[CLOCKS]["version"] = 2
    assert wrong(run) == [] and "the extension clocks" in list(unjudged(run))
    assert clock_sentence(run.streams[0]) is None


def test_what_another_program_wrote_of_clocks_is_told_as_text(inventory: Inventory) -> None:
    told = ClockAgreement(bound_ns=None, bound_by=None, measured_ns=None, stated_ns=None, unused="no\nword")
    run = copy.deepcopy(taken(inventory, node(0, 1, **declared(3)), node(0, 1)))
    run.streams[0].extensions[CLOCKS] = told.model_dump()
    assert clock_sentence(run.streams[0]) == (
        "how far the clocks agree is not known; what is stated does not count: no word"
    )


TAI_NS = 37 * 10**9


def captured(inventory: Inventory, sink: dict[str, Any], *, ahead_ns: int, refused: str | None = None) -> RunRecord:
    """A capture with stamps of the NIC, by whose clock 20 µs are 37 s and 20 µs."""
    seen = observe(inventory)
    began_ns = 10**18

    def reading(after_s: int) -> NicClock:
        return NicClock(at_ns=began_ns + ahead_ns + after_s * 10**9, ahead_ns=ahead_ns, error_ns=50)

    raw = {"p50": 20_000, "p99": 30_000, "p999": 30_000, "max": 31_000, "min": 19_000}
    varied = {name: value - raw["min"] for name, value in raw.items() if name != "min"}
    delay = CountedDelay.parse(
        {
            "packets": 100,
            "pair_every_packets": 1,
            "pdv_ns": varied,
            "ipdv_ns": None,
            "raw_ns": {name: value + TAI_NS for name, value in raw.items()} | {"mean": 21_000.0 + TAI_NS},
        }
    )
    recounted(seen, bent(counted(SENT), delay=delay))
    seen.streams[0].nic_clock = NicClockObservation([reading(-1), reading(3)], refused)
    return record(inventory, seen, environment={"nodes": {"src1": node(0, 50_000, "a"), "snk1": sink}})


def test_delays_by_the_stamps_of_a_nic_are_without_the_seconds_of_its_time_scale(inventory: Inventory) -> None:
    run = captured(inventory, node(0, 50_000, "a"), ahead_ns=TAI_NS + 100)
    delay = run.streams[0].delay
    assert delay is not None and delay.one_way_ns is not None
    assert (delay.clock_bound_ns, delay.one_way_ns.min, delay.one_way_ns.mean) == (1150, 19_000, 21_000.0)
    told = run.streams[0].extensions["capture_stamps"]
    assert (told["by"], told["seconds_ahead"], told["clock_bound_ns"]) == ("nic", 37, 150)
    line = "  s1: captured frames are stamped by the sink's NIC, to 150 ns by the sink's clock, 37 s ahead"
    assert line in run_lines(run, saved=True, details=True)
    assert wrong(run) == [] and not [each for each in unjudged(run) if "extension" in each]
    tighter = copy.deepcopy(run)
    tighter.streams[0].extensions["capture_stamps"]["clock_bound_ns"] = 151
    assert wrong(tighter) == ["streams[0].delay.clock_bound_ns"]


def test_by_stamps_of_a_clock_that_is_not_known_only_variation_is_told(inventory: Inventory) -> None:
    run = captured(inventory, node(0, 50_000, "a"), ahead_ns=TAI_NS, refused="eth1: this port's NIC has no clock")
    delay = run.streams[0].delay
    assert delay is not None and delay.one_way_ns is None and delay.clock_bound_ns is None
    assert delay.reason == "the sink's NIC stamped what was captured: eth1: this port's NIC has no clock"
    assert delay.pdv_ns.p50 == 1000 and wrong(run) == []
    free = captured(inventory, node(0, 50_000, "a"), ahead_ns=TAI_NS + 400_000_000).streams[0].delay
    assert free is not None and free.one_way_ns is None and "too coarse" in (free.reason or "")
    invented = copy.deepcopy(run)
    object.__setattr__(invented.streams[0].delay, "clock_bound_ns", 1000)
    assert "streams[0].delay.clock_bound_ns" in wrong(invented)


def test_a_clock_that_shows_anything_is_no_end_of_a_trial(inventory: Inventory) -> None:
    source, sink = node(2**63 - 1, 2**61, **declared(300)), node(-(2**63), 2**61, **declared(300))
    run = record(inventory, observe(inventory), environment={"nodes": {"src1": source, "snk1": sink}})
    assert run.streams[0].extensions[CLOCKS]["contradicted"] and wrong(run) == []
