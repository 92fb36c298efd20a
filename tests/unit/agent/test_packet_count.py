"""Packets counted without a program, however many: the kernel's own number has 32 bits."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations import timing
from labconsole.agent.reading.packet_times import PacketCounter
from labconsole.agent.reading.port_listeners import MAGIC_BYTES
from labconsole.wire.packet_times import StartPacketCount, StopPacketCount, StreamToTime, TimedPort
from support.requirements import missing

SELF = "127.0.0.1"


@pytest.mark.asyncio
async def test_the_kernel_is_asked_meanwhile_and_what_it_said_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        missing("raw sockets are for root")
    said: list[list[int]] = []
    ask = PacketCounter.packets

    def packets(counter: PacketCounter) -> list[int]:
        said.append(ask(counter))
        return said[-1]

    monkeypatch.setattr(PacketCounter, "packets", packets)
    monkeypatch.setattr(timing, "LOOK_S", 0.01)
    here = timing.Timing(UndoJournal(os.open(os.devnull, os.O_WRONLY)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink, socket.socket(type=socket.SOCK_DGRAM) as source:
        sink.bind((SELF, 0))
        port = sink.getsockname()[1]
        stream = StreamToTime(source_ip=SELF, sink_ip=SELF, udp_sink_port=port, interval_ns=0)
        await here.start_count(StartPacketCount(ports=[TimedPort(interface="lo", streams=[stream])]))
        for number in (1, 2, 3):
            source.sendto(MAGIC_BYTES, (SELF, port))
            async with asyncio.timeout(10):
                while said[-1] != [number]:
                    await asyncio.sleep(0.001)
        told = await here.stop_count(StopPacketCount())
    assert told.ports[0].packets == [3]
    asked = len(said)
    await asyncio.sleep(0.05)
    assert len(said) == asked  # and nobody is asked any more
