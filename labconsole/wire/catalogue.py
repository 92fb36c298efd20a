"""All messages by their names on the wire."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Type

from labconsole.wire import (
    capture,
    changes,
    clocks,
    counters,
    drops,
    execution,
    facts,
    foreign,
    generator,
    guests,
    host_activity,
    kernel_drops,
    lease,
    links,
    marks,
    memory,
    packet_times,
    processor_work,
    processors,
    queues,
    session,
    settings,
    survey,
    usage,
)
from labconsole.wire.message import AgentEvent

_TOPICS = (
    session,
    facts,
    clocks,
    links,
    settings,
    survey,
    lease,
    counters,
    processors,
    processor_work,
    drops,
    kernel_drops,
    host_activity,
    generator,
    capture,
    packet_times,
    foreign,
    marks,
    changes,
    queues,
    guests,
    usage,
    memory,
    execution,
)


def messages(base: Type[Any]) -> Iterator[Type[Any]]:
    """Return all messages of one kind: ``Request`` or ``AgentEvent``."""
    for topic in _TOPICS:
        for each in vars(topic).values():
            if isinstance(each, type) and issubclass(each, base) and each.__module__ == topic.__name__:
                yield each


EVENTS: Dict[str, Type[AgentEvent]] = {each.kind: each for each in messages(AgentEvent)}
