"""Processor time for what guests send: known of a unit under test that has its machine for itself, else of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.report_data import summarize_compared
from labconsole.experiments.flow.summary import cpu_s_per_gb, machine_cpu_s_per_gb, payload_bytes, unknown_because
from labconsole.experiments.flow.text import summary_lines
from labconsole.store.open import open_store
from support.flow_records import flow_record, ring_record

ENVIRONMENT = {"uut": "uut", "nodes": {"uut": {"facts": {"boot_id": "boot-1"}}}}


def seen(nodes: tuple[str, ...] = ("uut",), **changes: Any) -> dict[str, Any]:
    told = {"kind": "cpu", "node": nodes[0], "nodes": list(nodes), "busy_ratio": 0.5, "cpus": 4, "window_s": 10.0}
    return {"influences": ({"kind": "load"}, told | changes), "environment": ENVIRONMENT}


def trial(packets: int = 1000, **changes: Any) -> FlowRecord:
    return flow_record([[packets] * 5, [packets] * 5], **changes)


def test_seconds_of_a_unit_under_test_that_has_its_machine_for_itself() -> None:
    record = trial(**seen())
    gigabytes = 10_000 * 1472 / 1e9
    assert payload_bytes(record) == pytest.approx(1e9 * gigabytes)
    assert cpu_s_per_gb(record) == machine_cpu_s_per_gb(record) == pytest.approx(0.5 * 4 * 10 / gigabytes)


def test_where_other_nodes_share_the_machine_it_is_the_machines_alone() -> None:
    record = trial(**seen(("src1", "uut", "snk1")))
    assert cpu_s_per_gb(record) is None
    assert machine_cpu_s_per_gb(record) is not None
    assert "with all that runs on the machine, for each GB" in summary_lines(summarize_compared([record]))[1]


@pytest.mark.parametrize(
    "changes",
    [
        seen(("src1",)),
        {"influences": ()},
        seen(busy_ratio=None),
        seen(cpus="4"),
        seen(window_s=float("nan")),
        seen(cpus=True),
    ],
)
def test_what_is_not_known_stays_so(changes: dict[str, Any]) -> None:
    record = trial(**{"environment": ENVIRONMENT, **changes})
    assert (cpu_s_per_gb(record), machine_cpu_s_per_gb(record)) == (None, None)
    assert "for each GB" not in "".join(summary_lines(summarize_compared([record])))


@pytest.mark.parametrize(("said_bps", "known"), [(79e6, True), (60e6, False), (None, False)])
def test_a_rings_bytes_are_iperfs_where_its_rates_are_those_of_the_interfaces(
    said_bps: float | None, known: bool
) -> None:
    record = ring_record([80e6, 80e6], **seen())
    ring = tuple(
        each.model_copy(
            update={"said_bps": said_bps, "output": f"20260101,1.2.3.4,5,6,7,3,0.0-10.0,100000000,{79e6:.0f}|"}
        )
        for each in record.ring
    )
    record = record.model_copy(update={"ring": ring})
    assert payload_bytes(record) == (200_000_000 if known else None)
    assert cpu_s_per_gb(record) == (pytest.approx(0.5 * 4 * 10 / 0.2) if known else None)
    why = {79e6: None, 60e6: "differ by more than 10 %", None: "iperf did not say"}[said_bps]
    assert (unknown_because(record) is None) if why is None else (why in (unknown_because(record) or ""))


def test_a_ring_whose_witnesses_disagree_has_its_row_without_a_number_and_the_reason_below(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "s")) as store:
        for name, said_bps in (("lxc", 79e6), ("uml", 60e6)):
            record = ring_record([80e6, 80e6], **seen(), flow_id=f"20260101T000000000000Z-{name}", platform=name)
            told = {"said_bps": said_bps, "output": f"1,1.2.3.4,5,6,7,3,0-10,100000000,{said_bps:.0f}|"}
            ring = tuple(each.model_copy(update=told) for each in record.ring)
            store.save_experiment(FLOW, record.model_copy(update={"ring": ring}))
    assert main(["report", "--store", str(tmp_path / "s"), "--out", str(tmp_path / "o"), "--formats", "md,csv"]) == 0
    text = (tmp_path / "o" / "flow-processors.md").read_text()
    assert "| in a ring | lxc | 2 | in a ring | 100.0 | 100.0 | 1 |" in text
    assert "| in a ring | uml | 2 | in a ring | – | – | 0 |" in text
    assert "differ by more than 10 %: uml, 2 guests, in a ring (1 of 1)" in text
