"""What processors did in a window: files as kernels write them, statistics as drivers name them, and differences."""

from __future__ import annotations

import json

import pytest

from labconsole.agent.reading.host_activity import Snapshot
from labconsole.agent.reading.processor_work import WorkCounts, derive_work, parse_queues, parse_table, parse_times
from labconsole.wire.processor_work import MAX_LINES, NodeWork

INTERRUPTS = """\
           CPU0       CPU2
  0:         10          0   IO-APIC   2-edge      timer
 24:    4000000          7  PCI-MSI-0000:00:03.0   0-edge      virtio0-input.0
NMI:          1          2   Non-maskable interrupts
ERR:          0
MIS:          0
"""
SOFTIRQS = """\
                    CPU0       CPU2
          HI:          0          1
      NET_TX:          5          6
      NET_RX:       1000        {}
"""
STAT = """\
cpu  30 0 60 4000 5 0 600 7 20 0
cpu0 10 0 30 2000 5 0 {} 3 20 0
cpu2 20 0 30 2000 0 0 200 4 0 0
intr 12345 1 2
"""


def test_tables_of_processors_are_read_and_what_is_none_is_left_out() -> None:
    table = parse_table(INTERRUPTS)
    assert table["24"] == ("PCI-MSI-0000:00:03.0 0-edge virtio0-input.0", {0: 4_000_000, 2: 7})
    assert table["NMI"] == ("Non-maskable interrupts", {0: 1, 2: 2})
    assert set(table) == {"0", "24", "NMI"}
    assert parse_table("") == parse_table("nothing of the kind\nat all: 1 2\n") == {}
    assert parse_times(STAT.format(400))[2] == (20, 0, 30, 2000, 0, 0, 200, 4, 0, 0)
    assert parse_times("cpu0 1 2 3\ncpux 1 2 3 4 5 6 7 8 9 10\n") == {}


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("rx_queue_3_packets", ("rx", 3)),  # virtio_net, ixgbe, igb
        ("tx-12.packets", ("tx", 12)),  # i40e of old
        ("rx-0.rx_packets", ("rx", 0)),
        ("tx1_packets", ("tx", 1)),  # mlx5
        ("queue_2_rx_cnt", ("rx", 2)),  # ena
        ("[5]: rx_ucast_packets", ("rx", 5)),  # bnxt_en
    ],
)
def test_queues_are_known_by_the_names_that_drivers_give_them(name: str, queue: tuple[str, int]) -> None:
    assert parse_queues("eth1", {name: 7, "rx_packets": 99, "rx_queue_drops": 3}) == {("eth1", *queue): 7}


@pytest.mark.parametrize("name", ["rx_packets", "rx_queue_0_drops", "rx_queue_0_bytes", "tx_timeout", "rx_packets_phy"])
def test_what_counts_no_queues_packets_is_none(name: str) -> None:
    assert parse_queues("eth1", {name: 7}) == {}


def moment(at_ns: int, softirq: int, received: int, interrupts: str, backlog: int, packets: int) -> WorkCounts:
    return WorkCounts(
        at_ns=at_ns,
        processes=Snapshot(),
        times=parse_times(STAT.format(softirq)),
        softirqs=parse_table(SOFTIRQS.format(received)),
        interrupts=parse_table(interrupts),
        softnet={0: [backlog, 1, 2], 2: [5, 0, 0]},
        queues={("eth1", "rx", 0): packets, ("eth1", "tx", 0): 3},
    )


def test_a_window_has_what_grew_in_it_also_past_32_bits() -> None:
    first = moment(10, 100, 2**32 - 5, INTERRUPTS, 2**32 - 1, 100)
    later = INTERRUPTS.replace("4000000          7", "4000100          7").replace("NMI:          1", "NMI:          9")
    told = derive_work(first, moment(2_000_000_010, 140, 15, later, 4, 350))
    assert json.loads(json.dumps(NodeWork.parse(told).to_wire())) == told
    assert told["elapsed_ns"] == 2_000_000_000 and told["tick_ns"] == 10_000_000
    busy, idle = told["processors"]
    assert (busy["number"], busy["softirq_ns"], busy["user_ns"]) == (0, 400_000_000, 0)
    assert (busy["stack_packets"], busy["backlog_dropped_packets"], busy["squeezed"]) == (5, 0, 0)
    assert (idle["number"], idle["softirq_ns"], idle["received_softirqs"]) == (2, 0, 20)
    assert [(each["line"], each["by_processor"]) for each in told["interrupts"]] == [
        ("24", [[0, 100]]),
        ("NMI", [[0, 8]]),
    ]
    assert told["queues"] == [{"interface": "eth1", "direction": "rx", "queue": 0, "packets": 250}]


def test_of_very_many_interrupts_the_busiest_are_told_and_the_others_counted() -> None:
    lines = [f"{number}: {{}} 0 PCI-MSI dev-{number}" for number in range(MAX_LINES + 9)]
    before, after = (
        "  CPU0 CPU2\n" + "\n".join(line.format(grown * number) for number, line in enumerate(lines)) + "\n"
        for grown in (0, 1)
    )
    told = derive_work(moment(1, 1, 1, before, 1, 1), moment(2, 1, 1, after, 1, 1))
    assert len(told["interrupts"]) == MAX_LINES
    assert told["interrupts"][0]["line"] == str(MAX_LINES + 8)
    assert told["unlisted_interrupts"] == sum(range(1, 9))
