"""A stage on which no crew ever stands, for scripted sessions."""

from __future__ import annotations


class NoCrews:
    """Has nothing to undo."""

    async def restore(self) -> None:
        """Nothing stands."""

    async def leave(self) -> None:
        """Nothing stands."""
