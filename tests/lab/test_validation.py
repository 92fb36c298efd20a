"""``make validate`` works: in its short form every row is exact, and what people wrote in the document is kept."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "tools" / "validation" / "run.py"
sys.path.insert(0, str(PROGRAM.parent))

import document  # noqa: E402
import loss  # noqa: E402
from tables import NO, YES, Table  # noqa: E402

HOPS = ("generator", "source_nic", "uut_in", "uut_out", "sink_nic", "capture")


def reported(
    *,
    total: int = 7,
    unplaced: int | None = 0,
    status: str = "valid",
    offered: int = 100,
    at_source: int = 0,
    **lost: int,
) -> dict:
    """A run as --json prints it, as far as a row of the document reads it."""
    ledger = [{"hop": hop, "lost_packets": lost.get(hop, 0)} for hop in HOPS]
    stream = {"ledger": ledger, "loss_packets": total, "unplaced_packets": unplaced, "offered_packets": offered}
    stream["source_lost_packets"] = at_source
    return {
        "streams": [stream],
        "requested": {"platform": "raw", "frame_size_bytes": 64},
        "verdict": {"status": status, "reasons": [{"code": "counter_decreased"}]},
    }


@pytest.mark.parametrize(
    ("run", "exact"),
    [
        (reported(uut_out=7), True),
        (reported(uut_out=6, total=6), False),
        (reported(uut_out=8, total=8), False),
        (reported(uut_out=6, sink_nic=1), False),
        (reported(sink_nic=7), False),
        (reported(uut_out=7, capture=1, total=8), False),
        (reported(uut_out=7, total=8, unplaced=1), False),
        (reported(uut_out=7, unplaced=None), False),
        (reported(uut_out=7, status="invalid"), False),
        (reported(uut_out=7, offered=0), False),
        (reported(uut_out=7, at_source=1), False),
        (reported(uut_out=7, source_nic=1, at_source=1), False),
    ],
)
def test_a_row_is_exact_only_where_everything_agrees_to_the_packet(run: dict, exact: bool):
    table = Table("t", loss.COLUMNS)
    loss._row(table, run, "uut/eth5 egress", "0.07", {"uut_out": 7})
    assert table.rows[0][-1] == (YES if exact else NO)
    assert bool(table.failures) != exact


@pytest.mark.parametrize(
    ("run", "exact"),
    [
        (reported(source_nic=7, at_source=7, total=0), True),
        (reported(source_nic=7, at_source=6, total=0), False),
        (reported(source_nic=7, at_source=7, total=7), False),
        (reported(source_nic=7, at_source=7, total=1, uut_out=1), False),
    ],
)
def test_what_a_source_never_sent_is_its_own_and_no_loss(run: dict, exact: bool):
    table = Table("1", loss.COLUMNS)
    loss._row(table, run, "src1/eth1 queue", "queue", {"source_nic": 7})
    assert (table.rows[0][-1] == YES) is exact
    assert bool(table.failures) is not exact


@pytest.mark.alone
def test_a_short_validation_finds_every_packet_and_keeps_the_prose(lab_home: Path, tmp_path: Path):
    page = tmp_path / "validation.md"
    page.write_text(f"above\n{document.BEGIN}old\n{document.END}below\n")
    argv = [sys.executable, str(PROGRAM), "--quick", "--out", str(page)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
    text = page.read_text()
    assert done.returncode == 0, done.stdout + done.stderr + text
    assert text.startswith("above\n") and text.endswith(f"{document.END}below\n") and "\nold\n" in text
    with (tmp_path / "validation/01-injected-and-reported-loss.csv").open(newline="") as opened:
        rows = [row for row in csv.DictReader(opened) if row["exact"] == YES and row["share"] == "0.07"]
    injected = {row["dropped where"]: (int(row["injected"]), int(row["lost at the hop"])) for row in rows}
    assert set(injected) == {"uut/eth5 egress", "guest/eth1 egress"}
    assert all(truth == lost > 0 for truth, lost in injected.values())


def test_a_part_does_not_take_the_place_of_the_whole_document():
    done = subprocess.run([sys.executable, str(PROGRAM), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--out" in done.stderr
