"""What a packet cost the processors: sums, what is not known, the words for people, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.measure.processor_time import processor_rows, processor_sentences, processor_time, work_refused
from labconsole.measure.recompute.extensions import contradicting_telemetry
from labconsole.measure.recompute.record import unjudged
from labconsole.model.record.run import RunRecord
from support.saved_runs import saved_record
from support.worked import processor, told_work


def run_with(told: Any, *, forwarded: int | None = 500_000, role: str = "telemetry") -> RunRecord:
    record = saved_record(1)
    (stream,) = record.streams
    stream = stream.model_copy(update={"counters": {**stream.counters, "uut_out_tx_packets": forwarded}})
    return record.model_copy(update={"streams": (stream,), "extensions": {"telemetry": told}, "role": role})


def test_a_packet_costs_what_all_processors_did_by_what_was_forwarded() -> None:
    time = processor_time(run_with(told_work()))
    assert time.busy_ns == (100 + 300 + 1000 + 300) * 10**6
    assert time.per_packet(time.busy_ns) == 3400
    assert time.per_packet(time.softirq_ns) == 2000
    assert time.busy_processors == 0.85
    assert time.busiest == (0, 0.7)
    assert (time.interrupts, time.squeezed, time.packets_by_softirq) == (43_000, 6, 20.0)


def test_what_the_kernel_or_the_counters_do_not_say_is_not_known() -> None:
    told = told_work(processor(0), processor(1, received_softirqs=None, squeezed=None, stack_packets=None))
    time = processor_time(run_with(told, forwarded=None))
    assert (time.received_softirqs, time.squeezed, time.packets_by_softirq) == (None, None, None)
    assert time.per_packet(time.busy_ns) is None
    sentences = dict(processor_sentences(run_with(told, forwarded=None)))
    assert sentences["per packet"] == "the number of forwarded packets is not known"
    assert sentences["softirqs"] == "the kernel does not count them"
    assert processor_time(run_with(told, forwarded=0)).per_packet(1) is None


def test_people_read_where_the_time_went() -> None:
    record = run_with(told_work())
    assert [(label, words.replace("\u2009", " ")) for label, words in processor_sentences(record)] == [
        (
            "per packet",
            "3 400 ns of processor time for each of 500 000 forwarded packets: softirq 2 000, system 1 200, user 200, "
            "interrupts 0",
        ),
        ("processors", "0.85 of 2 busy; the busiest, 0, 70 %"),
        (
            "softirqs",
            "NET_RX ran 100 000 times, 20.0 packets per run, 6 times ended with work left (squeezed)",
        ),
        (
            "interrupts",
            "43 000, 0.086 per packet: eth1-TxRx-0 42 000 on processors 0, 1; Local timer interrupts 800 on processors "
            "0, 1",
        ),
        ("queues", "eth1 rx 1 000 000 packets in 2 queues, most in 0 (75 %)"),
        ("processes", "ksoftirqd/0 45.0 % of a processor"),
    ]
    assert tuple(cell.replace("\u2009", " ") for cell in processor_rows(record)[0]) == (
        "0",
        "70 %",
        "50 %",
        "15 %",
        "5 %",
        "50 000",
        "1 000 000",
        "3",
    )


def test_nodes_of_one_machine_are_named() -> None:
    record = run_with(told_work())
    nodes = {name: {"facts": {"boot_id": "b" if name != "snk1" else "c"}} for name in ("src1", "uut", "snk1")}
    record = record.model_copy(update={"environment": {"nodes": nodes}})
    assert processor_time(record).nodes == ("src1", "uut")
    assert dict(processor_sentences(record))["shared"].startswith("src1, uut are one machine")


def test_a_node_that_could_not_tell_says_why() -> None:
    refused = {"version": 1, "node": "uut", "refused": {"code": "failed", "message": "no /proc\nhere"}}
    record = run_with(refused)
    assert processor_time(record) is None
    assert work_refused(record) == "no /proc here"
    assert processor_sentences(record) == [("processors", "it did not report what they did: no /proc here")]
    assert list(contradicting_telemetry(record)) == []


@pytest.mark.parametrize("told", [None, 7, {}, {"version": 1}, told_work(processors=[{"number": "x"}])])
def test_what_is_no_telemetry_is_told_by_verify_and_read_by_nobody(told: Any) -> None:
    record = run_with(told)
    assert processor_time(record) is None and processor_sentences(record) == []
    assert [*contradicting_telemetry(record), *unjudged(record)]


@pytest.mark.parametrize(
    ("told", "where", "what"),
    [
        (told_work(processor(0, softirq_ns=5 * 10**9)), "processors.0", "of time within 2000000000 ns"),
        (told_work(processor(0, guest_ns=10**9)), "processors.0.guest_ns", "is more than user_ns"),
        (told_work(processor(3), processor(3)), "processors", "has a processor twice"),
    ],
)
def test_what_cannot_be_is_told_by_verify(told: dict[str, Any], where: str, what: str) -> None:
    (found,) = contradicting_telemetry(run_with(told))
    assert found.where == f"extensions.telemetry.{where}" and what in found.says


def test_what_a_hostile_record_says_of_nodes_and_queues_ends_nothing() -> None:
    record = run_with(told_work(queues=[]))
    for nodes in ([1], {"uut": "x"}, {"uut": {"facts": 3}}, 7):
        assert processor_time(record.model_copy(update={"environment": {"nodes": nodes}})).nodes == ("uut",)
    none = {"interface": "eth1", "direction": "rx", "queue": 0, "packets": 0}
    assert processor_time(run_with(told_work(queues=[none]))) is None


def test_a_trial_for_telemetry_that_tells_nothing_is_told_by_verify() -> None:
    record = run_with(told_work()).model_copy(update={"extensions": {}})
    (found,) = contradicting_telemetry(record)
    assert found.says == "is missing in a run with the role telemetry"


def test_only_trials_for_telemetry_have_it_and_this_version_judges_it() -> None:
    (found,) = contradicting_telemetry(run_with(told_work(), role="measured"))
    assert "role measured" in found.says
    assert list(contradicting_telemetry(run_with(told_work()))) == []
    assert not [each for each in unjudged(run_with(told_work())) if "telemetry" in each]
    assert "the extension telemetry" in list(unjudged(run_with({**told_work(), "version": 2})))
