"""The ledger as a picture: every count in it, every loss at its place, never wider than the screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labconsole.measure.ledger import ledger_rows
from labconsole.model.record.run import RunRecord, StreamRecord

TEXT = (Path(__file__).parents[3] / "docs" / "data-format.md").read_text()
EXAMPLE = RunRecord.model_validate(json.loads(TEXT.partition("```json\n")[2].partition("```")[0])).streams[0]
TONES = {"", "muted", "good", "warn", "bad"}


def lines(stream: StreamRecord, width: int = 100) -> list[str]:
    rows = ledger_rows(stream, width)
    assert {tone for row in rows for _, tone in row} <= TONES
    return ["".join(text for text, _ in row).replace("\u2009", " ") for row in rows]


def hops(**bend) -> StreamRecord:
    ledger = [hop.model_copy(update=bend.get(hop.hop, {})) for hop in EXAMPLE.ledger]
    return EXAMPLE.model_copy(update={"ledger": tuple(ledger), **bend.get("stream", {})})


def test_a_loss_stands_between_the_hops_where_it_happened():
    shown = lines(EXAMPLE)
    place = next(number for number, line in enumerate(shown) if "lost before UUT out" in line)
    assert shown[place - 1].startswith("UUT in") and shown[place + 1].startswith("UUT out")
    assert "−49 716 (7 %) lost before UUT out: no counter says why" in shown[place]
    assert shown[-1].strip() == "└─ measured 660 511, by capture"


def test_what_counters_say_of_a_loss_is_told_with_it():
    shown = lines(hops(uut_out={"drops": {"tx_dropped": 16, "qdisc_tbf": 49700}}))
    assert any("lost before UUT out: qdisc_tbf 49 700, tx_dropped 16" in line for line in shown)


def test_counters_without_room_beside_the_loss_stand_below_it_with_their_counts():
    drops = {"kernel.NETFILTER_DROP@nft_do_chain": 49700, "nft.labconsole.egress-eth5": 49700}
    shown = lines(hops(uut_out={"drops": drops}), width=80)
    place = next(number for number, line in enumerate(shown) if line.endswith("lost before UUT out"))
    assert [line.strip(" │") for line in shown[place + 1 : place + 3]] == [f"{name} 49 700" for name in drops]
    assert shown[place + 3].strip(" │") == "a firewall rule dropped it (nft list ruleset, iptables-save -c)"


def test_what_a_kernels_word_means_stands_below_it_and_is_never_wider_than_the_screen():
    drops = {"kernel.CPU_BACKLOG@enqueue_to_backlog": 7, "kernel.IP_INHDR@ip_forward": 4}
    shown = lines(hops(uut_out={"drops": drops}), width=50)
    assert max(map(len, shown)) <= 50
    text = " ".join(line.strip(" │") for line in shown)
    assert "one processor received more packets than it could handle (net.core.netdev_max_backlog;" in text
    assert "its time to live expired here (a loop," in text


def test_a_drop_without_a_loss_and_a_hop_without_a_count_are_shown_as_that():
    shown = lines(hops(capture={"packets": None, "lost_packets": None, "drops": {"capture_buffer": 3}}))
    assert any("counted as dropped: capture_buffer 3" in line for line in shown)
    assert any(line.startswith("capture") and line.rstrip().endswith("–") for line in shown)


def test_packets_that_joined_and_packets_that_have_no_place_are_named():
    shown = lines(hops(sink_nic={"lost_packets": -4}, stream={"unplaced_packets": 7}))
    assert any("+4 foreign packets joined here" in line for line in shown)
    assert any("−7 unplaced" in line for line in shown)
    assert any("not known" in line for line in lines(hops(stream={"unplaced_packets": None})))


def test_what_is_missing_at_all_shows_in_the_bar():
    shown = lines(hops(uut_out={"packets": 710226}))
    assert shown[0].endswith("█") and next(line for line in shown if line.startswith("UUT out"))[-1] != "█"


@pytest.mark.parametrize("width", [1, 10, 20, 40, 80, 200])
def test_no_row_is_wider_than_the_screen(width: int):
    assert max(map(len, lines(EXAMPLE, width))) <= width


def test_a_stream_without_hops_has_a_picture_too():
    empty = EXAMPLE.model_copy(update={"ledger": (), "measured_packets": None, "unplaced_packets": None})
    assert len(lines(empty)) == 1
