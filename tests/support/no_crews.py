"""A stage on which no crew ever stands, for scripted sessions."""

from __future__ import annotations

from typing import Any

from labconsole.contracts.crew import CrewOffer


class NoCrews:
    """Has nothing to undo."""

    def refuse(self, platform: str, members: Any) -> None:
        """Whatever would stand could."""

    def offer(self, platform: str, members: Any) -> CrewOffer:
        """Of that, what most have."""
        return CrewOffer(place="/var/tmp", files={}, memory_mib=None)

    async def restore(self) -> None:
        """Nothing stands."""

    async def leave(self) -> None:
        """Nothing stands."""
