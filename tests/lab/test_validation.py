"""``make validate`` works: in its short form every row is exact, and what people wrote in the document is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

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


def test_a_short_validation_finds_every_packet_and_keeps_the_prose(lab_home: Path, tmp_path: Path):
    document = tmp_path / "validation.md"
    document.write_text("above\n<!-- validation: begin -->\nold\n<!-- validation: end -->\nbelow\n")
    argv = [sys.executable, str(PROGRAM), "--quick", "--out", str(document)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
    text = document.read_text()
    assert done.returncode == 0, done.stdout + done.stderr + text
    assert text.startswith("above\n") and text.endswith("<!-- validation: end -->\nbelow\n") and "old" not in text
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    injected = {row[1]: (int(row[4]), int(row[5])) for row in rows if row and row[-1] == "yes" and row[2] == "0.07"}
    assert set(injected) == {"uut/eth5 egress", "guest/eth1 egress"}
    assert all(truth == lost > 0 for truth, lost in injected.values())


def test_a_part_does_not_take_the_place_of_the_whole_document():
    done = subprocess.run([sys.executable, str(PROGRAM), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--out" in done.stderr


def test_a_table_is_renewed_among_those_that_stay():
    first, third = (Table(f"{number}. T{number}", ("a", "b")) for number in (1, 3))
    first.add("x", "1")
    third.add("y", "2", failure="found 3")
    text = document.whole(
        "above\n<!-- validation: begin -->\n<!-- validation: end -->\nbelow\n", ["then"], [first, third]
    )
    assert "\nthen\n\n**1 failures** in 2 rows.\n" in text
    second, mended = (Table(f"{number}. T{number}", ("a", "b")) for number in (2, 3))
    second.add("z", "4")
    second.add("z", "5")
    mended.add("y", "3")
    again = document.renewed(text, ["later,", "", "elsewhere"], [mended, second])
    assert [line for line in again.splitlines() if line.startswith("### ")] == ["### 1. T1", "### 2. T2", "### 3. T3"]
    assert "\nthen\n\nNo failures in 4 rows.\n" in again
    assert again.count("Measured apart from the others: later, elsewhere") == 2
    assert "| x | 1 |" in again and "found 3" not in again
    assert again.startswith("above\n") and again.endswith("<!-- validation: end -->\nbelow\n")
    assert document.renewed(again, ["later,", "", "elsewhere"], [mended, second]) == again
    with pytest.raises(ValueError, match="markers"):
        document.renewed("no markers", [], [first])
