"""Requests to a node's kernel for more than counts: restart a probe left by an earlier trial, and parse refusals."""

from __future__ import annotations

from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.wire.message import R, Request

TIMEOUT_S = 10.0


async def begin_probe(link: AgentLink, start: Request[R], stop: Request[Any], *, timeout_s: float = TIMEOUT_S) -> R:
    """Request the node to begin. Raises NodeError."""
    try:
        return await link.ask(start, timeout_s=timeout_s)
    except NodeError as exc:
        if parse_refusal(exc)[0] != "exists":
            raise
    await link.ask(stop, timeout_s=timeout_s)  # left by a trial whose end the node did not receive
    return await link.ask(start, timeout_s=timeout_s)


def parse_refusal(exc: NodeError) -> tuple[str, str]:
    """A code and a sentence."""
    return getattr(exc, "code", None) or "failed", exc.message
