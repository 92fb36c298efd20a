"""A session with an agent that says anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from labconsole.nodes.channel import AgentSession
from labconsole.wire.codec import MAX_LINE_BYTES, PROTOCOL
from support.fuzzing import harmful

HELLO = json.dumps(
    {"event": "hello", "protocol": PROTOCOL, "version": "1", "pid": 1, "euid": 0, "monotonic_ns": 1, "wall_ns": 1}
).encode()


def listen_to_agent(chunks: Iterable[bytes]) -> None:
    """Give a session what an agent sends, piece by piece, to its end. Fails unless all it keeps is bounded and words."""

    async def talk() -> None:
        session = AgentSession("n")
        for chunk in chunks:
            session.data_received(chunk, None)
        session.data_received(b"\x1b[2J" * 30_000, 1)
        assert len(session.stderr) <= 65536 and len(session._line_begun) <= MAX_LINE_BYTES
        session.exit_signal_received("\x1bX", False, "", "")
        session.connection_lost(None)
        assert not harmful(session.ended.result())
        if session.hello.done() and not session.hello.cancelled():
            assert not harmful(json.dumps(session.hello.result().to_wire(), ensure_ascii=False))

    asyncio.run(talk())
