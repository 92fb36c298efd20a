"""What the kernel dropped off every stream's path is shown with a saved run, on the screen and as text."""

from __future__ import annotations

import pytest

from labconsole.cli.text.runs import run_lines
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import RunRecord
from labconsole.tui.screens.runs.run_pages import packets_page
from support.fake_session import make_record

REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**7, duration_s=1.0)
TOLD = {
    "version": 1,
    "asked": "auto",
    "budget_ns": None,
    "mode": "tp_btf",
    "tells_reasons": True,
    "passed_packets": 0,
    "looked_packets": 9,
    "unreadable_packets": 0,
    "unlisted_packets": 0,
    "missed_packets": 0,
    "counted_ns": 10**9,
    "ended_early": False,
    "complete": True,
    "estimated_cost_ns": 0,
    "elsewhere": [
        {
            "namespace": "",
            "interface": "br0",
            "stream": "s1",
            "reason": "NETFILTER_DROP",
            "function": "nft_do_chain",
            "packets": 7,
        },
    ],
}


def shown(record: RunRecord, width: int) -> list[str]:
    return ["".join(text for text, _ in row) for row in packets_page(record, width)]


@pytest.mark.parametrize("width", [60, 110, 190])
def test_it_stands_above_the_streams_and_fits(width: int) -> None:
    plain = make_record(REQUEST, "r1")
    record = plain.model_copy(update={"extensions": {"kernel_drops": TOLD}})
    rows = shown(record, width)
    above = " ".join(" ".join(rows[: rows.index("")]).split())
    assert above.startswith(
        "kernel 7 packets of s1, off every stream's path, at br0: kernel.NETFILTER_DROP@nft_do_chain"
    )
    assert above.endswith("a firewall rule dropped it (nft list ruleset, iptables-save -c)")
    assert max(map(len, rows[: rows.index("")])) <= width
    assert rows[rows.index("") + 1 :] == shown(plain, width)


def test_it_is_told_as_text_too() -> None:
    record = make_record(REQUEST, "r1").model_copy(update={"extensions": {"kernel_drops": TOLD}})
    for details in (False, True):  # run, and runs show
        (line,) = [line for line in run_lines(record, saved=True, details=details) if line.startswith("  kernel ")]
        assert "7 packets of s1, off every stream's path, at br0" in line
