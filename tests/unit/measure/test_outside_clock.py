"""Marks told apart: whose they are, which are missing, which came twice, and which are nobody's."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from labconsole.measure.external_timing import MarkFinder, MarkSender, Nonce, find_marks

ONE = MarkSender(name="g1/1", address="198.18.64.1", mac="02:6c:77:00:00:00", start=Nonce(100, 7), end=Nonce(200, 8))
TWO = MarkSender(name="g2/1", address="198.18.64.2", mac="02:6c:77:00:00:01", start=Nonce(101, 7), end=Nonce(200, 9))


@dataclass(frozen=True)
class Packet:
    address: str
    mac: str
    payload_bytes: int
    pattern: int | None
    wall_ns: int
    reply: bool = False
    pattern_from_byte: int | None = 4


def mark(sender: MarkSender, nonce: Nonce, wall_ns: int, *, reply: bool = False) -> Packet:
    return Packet(sender.address, sender.mac.upper(), nonce.payload_bytes, nonce.pattern, wall_ns, reply)


def whole(sender: MarkSender, at_ns: int, took_ns: int) -> list[Packet]:
    end_ns = at_ns + 5 + took_ns
    return [
        mark(sender, sender.start, at_ns),
        mark(sender, sender.start, at_ns + 5, reply=True),
        mark(sender, sender.end, end_ns),
        mark(sender, sender.end, end_ns + 3, reply=True),
    ]


def test_the_work_lasts_from_the_first_reply_to_the_second_request():
    found = find_marks([ONE, TWO], [*whole(TWO, 1_000, 40), *whole(ONE, 1_001, 3_000_000_000)])
    assert {name: marks.outside_ns for name, marks in found.of.items()} == {"g1/1": 3_000_000_000, "g2/1": 40}
    assert (found.doubled, found.strange_packets) == ((), 0)


def test_a_sender_whose_mac_address_is_not_known_yet_is_known_by_all_else():
    packets = whole(ONE, 1_000, 40)
    later = replace(ONE, mac=None)
    assert find_marks([later, TWO], packets).of == find_marks([ONE, TWO], packets).of
    forged = [replace(packet, address="198.18.64.3") for packet in packets]
    assert find_marks([later], forged).strange_packets == 2


@pytest.mark.parametrize("left_out", [1, 2])
def test_without_the_reply_to_the_first_or_the_second_request_there_is_no_time(left_out: int):
    packets = whole(ONE, 1_000, 40)
    del packets[left_out]
    (marks,) = find_marks([ONE], packets).of.values()
    assert marks.outside_ns is None


def test_only_a_mark_that_says_something_new_is_somebodys():
    finder = MarkFinder([ONE, TWO])
    packets = whole(ONE, 1_000, 40)
    assert [finder.see(packet) for packet in (*packets, packets[0])] == ["g1/1"] * 4 + [None]
    assert finder.see(replace(packets[0], address="198.18.64.9")) is None
    assert (finder.found().doubled, finder.found().strange_packets) == (("g1/1",), 1)


def test_a_copy_of_a_mark_is_told_and_changes_no_time():
    packets = whole(ONE, 1_000, 40)
    found = find_marks([ONE], [*packets, replace(packets[2], wall_ns=9_999)])
    assert found.doubled == ("g1/1",)
    assert found.of["g1/1"].outside_ns == 40


@pytest.mark.parametrize(
    "forged",
    [
        {"payload_bytes": 99},
        {"pattern": 6},
        {"pattern": None},
        {"address": "198.18.64.9"},
        {"mac": "02:00:00:00:00:01"},
        {"pattern_from_byte": 5},
    ],
    ids=str,
)
def test_what_differs_in_anything_is_nobodys(forged: dict[str, object]):
    packets = whole(ONE, 1_000, 40)
    found = find_marks([ONE], [*packets, replace(packets[2], wall_ns=1_010, **forged)])  # type: ignore[arg-type]
    assert found.strange_packets == 1
    assert found.of["g1/1"].outside_ns == 40


def test_answers_to_strangers_follow_from_their_questions_and_are_not_counted():
    strange = Packet("198.18.64.9", "02:00:00:00:00:01", 64, 0, 5)
    assert find_marks([ONE], [strange, replace(strange, reply=True)]).strange_packets == 1
