"""Errors after the console has stopped listening: printed on stderr, and only while the agent is debugged."""

from __future__ import annotations

import os
import sys


def complain(message: str) -> None:
    """Print a message, if LABCONSOLE_AGENT_DEBUG is set."""
    if os.environ.get("LABCONSOLE_AGENT_DEBUG"):
        sys.stderr.write("labconsole agent: %s\n" % message)
