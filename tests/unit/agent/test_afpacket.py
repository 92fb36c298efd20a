"""The sender's loop on a path that takes, drops, refuses and breaks as a kernel may."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.agent.sending import afpacket, sendpath
from labconsole.packets.frame import FrameRing, FrameTemplate
from labconsole.wire.stream_spec import StreamSpec

TEMPLATE = FrameTemplate(b"\x02\0\0\0\1\2", b"\x02\0\0\0\6\1", "198.18.1.1", "198.19.1.1", 9, 9, 60)


class ScriptedPath:
    """Answers calls from a script, then takes everything; keeps the sequence number of each frame that went out."""

    kind = "scripted"

    def __init__(self, script: list[tuple[int, bool, int]]) -> None:
        self.buffer = bytearray(sendpath.SLOTS * 64)
        self.ring = FrameRing(TEMPLATE, self.buffer, sendpath.SLOTS, 64)
        self.script = list(script)
        self.out: list[int] = []

    def send(self, slot: int, packets: int) -> tuple[int, int, int]:
        assert 0 < packets <= sendpath.SLOTS - slot
        used, drop_last, number = self.script.pop(0) if self.script else (packets, False, 0)
        used = min(used, packets)
        accepted = used - 1 if drop_last and used else used
        for index in range(slot, slot + accepted):
            self.out.append(struct.unpack_from("!I", self.buffer, index * 64 + 46)[0])
        if drop_last and used:
            number = errno.EBUSY
        return used, accepted, number


class GoodLink:
    def trouble(self) -> str | None:
        return None


class BrokenLink:
    def trouble(self) -> str | None:
        return "s has no carrier"


def spec(**changes: Any) -> StreamSpec:
    args: dict[str, Any] = {
        "stream": "s1",
        "interface": "s",
        "generator": "afpacket",
        "destination_mac": "02:00:00:00:01:02",
        "source_mac": None,
        "source_ip": "198.18.1.1",
        "sink_ip": "198.19.1.1",
        "udp_source_port": 9,
        "udp_sink_port": 9,
        "pkt_size_bytes": 60,
        "delay_ns": 0,
        "count": 1000,
        "duration_s": None,
        "max_count": 10**8,
        "cpus": None,
    }
    return StreamSpec.parse({**args, **changes})


def run(path: Any, link: Any = None, **changes: Any) -> afpacket.Shared:
    shared = afpacket.Shared()
    afpacket.Sender(spec(**changes), shared, path, link or GoodLink()).run()
    return shared


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.booleans(), st.sampled_from([0, errno.EAGAIN, errno.ENOBUFS, errno.EINTR])),
        max_size=30,
    )
)
def test_whatever_the_kernel_drops_or_refuses_the_numbers_that_go_out_are_contiguous(
    script: list[tuple[int, bool, int]],
) -> None:
    path = ScriptedPath(script)
    shared = run(path, count=3000)
    assert path.out == list(range(1, 3001))
    assert shared.words[afpacket.SENT] == 3000
    assert afpacket.REASONS[shared.words[afpacket.REASON]] == "count"
    assert shared.error_text is None


def test_refused_and_dropped_frames_are_counted_as_errors_and_not_as_sent() -> None:
    path = ScriptedPath([(0, False, errno.ENOBUFS), (5, True, 0), (0, False, errno.ENOBUFS)])
    shared = run(path, count=10)
    assert (shared.words[afpacket.SENT], shared.words[afpacket.ERRORS]) == (10, 3)


@pytest.mark.parametrize(
    ("number", "link", "words"),
    [
        (errno.ENOBUFS, BrokenLink(), "s has no carrier"),
        (errno.EMSGSIZE, GoodLink(), "Message too long"),
        (errno.ENXIO, GoodLink(), "No such device or address"),
    ],
)
def test_an_error_that_does_not_pass_ends_the_run_with_a_sentence(number: int, link: Any, words: str) -> None:
    shared = afpacket.Shared()
    sender = afpacket.Sender(spec(), shared, ScriptedPath([(3, False, 0), (0, False, number)]), link)
    # The periodic look at the link would find it broken before the first frame.
    link_at_start, sender._watch = sender._watch, GoodLink()
    sender._load(0, 0)
    sender._watch = link_at_start
    assert sender._send()
    assert not sender._send()
    assert words in (shared.error_text or "")
    assert afpacket.REASONS[shared.words[afpacket.REASON]] == "error"
    assert shared.words[afpacket.SENT] == 3


def test_a_link_found_broken_ends_the_run_although_the_kernel_takes_frames() -> None:
    path = ScriptedPath([])
    shared = run(path, BrokenLink())
    assert path.out == []
    assert shared.error_text == "s has no carrier"


def test_an_error_text_longer_than_its_page_is_cut() -> None:
    shared = afpacket.Shared()
    shared.set_error("x" * 10_000)
    assert 0 < len(shared.error_text or "") < 4096
