"""What a unit under test would have told of its processors, made up."""

from __future__ import annotations

from typing import Any


def processor(number: int, **changes: Any) -> dict[str, Any]:
    """Two seconds of a processor that forwards a million packets, half of the time in softirq."""
    return {
        "number": number,
        "user_ns": 100_000_000,
        "guest_ns": 0,
        "system_ns": 300_000_000,
        "interrupt_ns": 0,
        "softirq_ns": 1_000_000_000,
        "steal_ns": 0,
        "idle_ns": 600_000_000,
        "received_softirqs": 50_000,
        "sent_softirqs": 10,
        "stack_packets": 1_000_000,
        "backlog_dropped_packets": 0,
        "squeezed": 3,
    } | changes


def told_work(*processors: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The extension of a run's record."""
    return {
        "version": 1,
        "node": "uut",
        "elapsed_ns": 2_000_000_000,
        "tick_ns": 10_000_000,
        "processors": list(processors or (processor(0), processor(1, softirq_ns=0, user_ns=0, idle_ns=1_700_000_000))),
        "interrupts": [
            {"line": "24", "what": "PCI-MSI 65536-edge eth1-TxRx-0", "by_processor": [[0, 40_000], [1, 2_000]]},
            {"line": "LOC", "what": "Local timer interrupts", "by_processor": [[0, 500], [1, 300]]},
        ],
        "unlisted_interrupts": 200,
        "queues": [
            {"interface": "eth1", "direction": "rx", "queue": 0, "packets": 750_000},
            {"interface": "eth1", "direction": "rx", "queue": 1, "packets": 250_000},
        ],
        "processes": [{"pid": 15, "name": "ksoftirqd/0", "kernel": True, "cpu_ns": 900_000_000}],
    } | changes
