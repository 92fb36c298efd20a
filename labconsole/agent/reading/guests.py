"""Guests of hypervisors on this node: processes by whose names the console knows them, and what they are called."""

from __future__ import annotations

import re
from typing import Optional, Pattern, Sequence

from labconsole.wire.codec import WireError

MAX_PATTERNS = 100
MAX_PATTERN_CHARACTERS = 200

_CALLED = (
    re.compile(rb"(?:-name|--?comment|--startvm|--api-sock)\0(?:guest=)?([^\0,]+)"),
    re.compile(rb"\A\[lxc monitor\] [^\0]* ([^\0 ]+)"),
    re.compile(rb"\0umid=([^\0]+)"),
    re.compile(rb"\Axl\0create\0[^\0]+\0name=[\"']?([^\0\"']+)"),
    re.compile(rb"\Axl\0create\0(?:[^\0]*/)?([^\0/]+?)(?:\.cfg)?\0"),
)
"""How command lines say a guest's name: virtual machines, LXC, User-mode Linux, Xen."""


def matching(patterns: Sequence[str]) -> Pattern[str]:
    """What fully matches the name of a guest's process and no other's. Raises WireError."""
    if len(patterns) > MAX_PATTERNS or max(map(len, patterns), default=0) > MAX_PATTERN_CHARACTERS:
        raise WireError("bad_request", "guests has too many or too long patterns")
    try:
        return re.compile("|".join("(?:%s)" % pattern for pattern in patterns))
    except re.error as exc:
        raise WireError("bad_request", "guests has a pattern that is not a regular expression: %s" % exc) from exc


def called(command_line: bytes) -> Optional[str]:
    """What a guest's command line, its words ended by null bytes, calls it."""
    for said in _CALLED:
        match = said.search(command_line)
        if match is not None:
            return match.group(1).decode("utf-8", "replace")
    return None
