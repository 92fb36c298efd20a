"""What goes wrong when no console listens any more: told on stderr, and only where somebody debugs the agent."""

from __future__ import annotations

import os
import sys


def complain(message: str) -> None:
    """Say it, if LABCONSOLE_AGENT_DEBUG is set."""
    if os.environ.get("LABCONSOLE_AGENT_DEBUG"):
        sys.stderr.write("labconsole agent: %s\n" % message)
