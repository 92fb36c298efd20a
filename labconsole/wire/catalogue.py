"""All messages, by the words that name them on the wire."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Type

from labconsole.wire import (
    capture,
    changes,
    counters,
    drops,
    execution,
    facts,
    foreign,
    generator,
    guests,
    lease,
    links,
    session,
    settings,
    surroundings,
    survey,
    usage,
)
from labconsole.wire.message import AgentEvent, Request

_TOPICS = (
    session, facts, links, settings, survey, lease, counters, drops, surroundings, generator, capture, foreign, changes,
    guests, usage, execution,
)  # fmt: skip


def _of(base: Type[Any]) -> Iterator[Type[Any]]:
    for topic in _TOPICS:
        for each in vars(topic).values():
            if isinstance(each, type) and issubclass(each, base) and each.__module__ == topic.__name__:
                yield each


REQUESTS: Dict[str, Type[Request[Any]]] = {each.op: each for each in _of(Request)}
EVENTS: Dict[str, Type[AgentEvent]] = {each.kind: each for each in _of(AgentEvent)}
