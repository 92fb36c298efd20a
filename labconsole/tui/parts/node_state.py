"""Glyph and tone of a node's state."""

from __future__ import annotations

from labconsole.engine.live.events import NodeState

STATE_LOOKS = {
    NodeState.IDLE: ("○", "muted"),
    NodeState.CONNECTING: ("◌", "warn"),
    NodeState.CONNECTED: ("●", "good"),
    NodeState.LOST: ("✗", "bad"),
    NodeState.FAILED: ("✗", "bad"),
}
