"""One run in full: verdict with reasons, what was asked, per stream the numbers and where the packets went."""

from __future__ import annotations

import textwrap

from labconsole.model.record import RunRecord, StreamRecord
from labconsole.tui.state import VERDICT_GLYPHS
from labconsole.tui.text import UNKNOWN, count, mbit, percent, safe
from labconsole.tui.widgets.lines import Lines, Span
from labconsole.tui.widgets.status import VERDICT_TONE
from labconsole.units import format_target

LABEL_CELLS = 12


def _field(label: str, text: str, width: int, tone: str = "") -> list[list[Span]]:
    room = max(10, width - LABEL_CELLS)
    rows = textwrap.wrap(safe(text, 2000), room) or [""]
    return [[((label if i == 0 else "").ljust(LABEL_CELLS), "head"), (row, tone)] for i, row in enumerate(rows[:6])]


def _stream(part: StreamRecord, width: int) -> list[list[Span]]:
    rows: list[list[Span]] = [[("", "")], [(f"Stream {safe(part.name, 20)}", "strong")]]
    rows += _field("generator", f"{part.generator}, delay {count(part.delay_ns)} ns", width, "muted")
    for label, packets, pps, bps in (
        ("intended", part.intended_packets, part.intended_pps, None),
        ("offered", part.offered_packets, part.offered_pps, part.offered_bps),
        ("measured", part.measured_packets, part.measured_pps, part.measured_bps),
    ):
        tail = f"  {mbit(bps):>9} Mbit/s" if bps is not None else ""
        rows += [
            [(label.ljust(LABEL_CELLS), "head"), (f"{count(packets):>13} packets  {count(pps):>10} pps{tail}", "")]
        ]
    loss_tone = "" if not part.loss_packets else "warn" if part.loss_packets > 0 else "bad"
    loss = f"{count(part.loss_packets):>13} packets  {percent(part.loss_ratio):>10} %"
    rows.append([("lost".ljust(LABEL_CELLS), "head"), (loss, loss_tone)])
    rows += _field("measured by", part.measured_from or UNKNOWN, width, "muted")
    if part.sequence is not None:
        s = part.sequence
        runs = sum(s.lost_runs.values())
        rows += _field(
            "sequence",
            f"{count(runs)} gaps, {count(s.reordered_packets)} reordered, {count(s.duplicate_packets)} twice",
            width,
        )
    for i, hop in enumerate(part.ledger):
        where = safe(f"{hop.hop} {hop.node}/{hop.interface}", max(8, width - LABEL_CELLS - 36))
        lost = f"  ▼ {count(hop.lost_packets)} lost" if hop.lost_packets else ""
        rows.append(
            [
                (("path" if i == 0 else "").ljust(LABEL_CELLS), "head"),
                (f"{count(hop.packets):>13}  {where}", ""),
                (lost, "warn"),
            ]
        )
    if part.unplaced_packets:
        rows += _field("", f"{count(part.unplaced_packets)} packets lost at a place that is not known", width, "warn")
    return rows


class RunDetails(Lines):
    """The run under the cursor of the list; scrolls inside its container."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._record: RunRecord | None = None
        self._words = "no run chosen"

    def show(self, record: RunRecord | None, words: str = "") -> None:
        """Show a record, or a sentence why there is none."""
        self._record, self._words = record, words
        self._painted_width = -1
        self.refresh(layout=True)

    def lines(self, width: int) -> list[list[Span]]:
        record = self._record
        if record is None:
            return [[(safe(self._words, width), "muted")]]
        v, r = record.verdict, record.requested
        rows = _field("run", record.run_id, width, "strong")
        rows += _field("verdict", f"{VERDICT_GLYPHS[v.status]} {v.status}", width, VERDICT_TONE[v.status])
        for reason in v.reasons:
            rows += _field("", f"{reason.code}: {reason.detail}", width, VERDICT_TONE[v.status])
        if record.failure is not None:
            rows += _field("failure", record.failure.message, width, "bad")
        fcs = "with" if r.frame_size_includes_fcs else "without"
        rows += _field(
            "asked",
            f"{r.platform}, {r.frame_size_bytes} B {fcs} FCS, {r.sources} x {format_target(r.target_bps)}, "
            f"background {r.background}, {r.duration_s:g} s, generator {r.generator}, observe {r.observe}",
            width,
        )
        emulated = " (emulated)" if record.emulated else ""
        rows += _field("testbed", f"{record.testbed}{emulated}, by {record.operator}", width, "muted")
        rows += _field("time", f"{record.started_at} to {record.finished_at}", width, "muted")
        t = record.total
        rows += _field(
            "total", f"offered {count(t.offered_pps)} pps, measured {count(t.measured_pps)} pps, "
            f"lost {count(t.loss_packets)} ({percent(t.loss_ratio)} %)", width, "strong",
        )  # fmt: skip
        for part in record.streams:
            rows += _stream(part, width)
        return rows
