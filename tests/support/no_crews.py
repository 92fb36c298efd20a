"""A stage on which no crew ever stands, for scripted sessions."""

from __future__ import annotations

from typing import Any


class NoCrews:
    """Has nothing to undo."""

    def refuse(self, platform: str, members: Any) -> None:
        """Whatever would stand could."""

    async def restore(self) -> None:
        """Nothing stands."""

    async def leave(self) -> None:
        """Nothing stands."""
