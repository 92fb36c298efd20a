"""What makes a link of tests, which answers ``request`` with plain data, answer ``ask`` with messages."""

from __future__ import annotations

from typing import Any

from labconsole.wire.message import R, Request


class Asking:
    """Beside it stands ``request(op, args, *, timeout_s)``."""

    async def ask(self: Any, request: Request[R], *, timeout_s: float = 30.0) -> R:
        answer = await self.request(request.op, request.arguments(), timeout_s=timeout_s)
        return request.reply.parse(answer)  # type: ignore[return-value]
