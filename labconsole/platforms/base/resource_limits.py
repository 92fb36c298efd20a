"""Guests of an installed hypervisor held to limits (weight, quota, memory), each read back, and put back afterwards.

What a limit is called differs: a setting is a name and a value in the hypervisor's own words.
"""

from __future__ import annotations

from collections.abc import Mapping

from labconsole.errors import NodeError, NodeLost
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import Settings, UnknownGuest
from labconsole.platforms.base.lifecycle import Lifecycle
from labconsole.platforms.base.shell import Shell

KINDS = ("cpu_shares", "cpu_quota_ratio", "memory_mib")


class ResourceLimits(Lifecycle):
    """A hypervisor's guests, some of them held to limits."""

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self._held: dict[str, Settings] = {}

    def limits_refusal(self, wanted: Limits) -> str | None:
        """Why a guest cannot be held to these, in a sentence; None: it can."""
        for kind in KINDS:
            if getattr(wanted, kind) is not None and kind not in self.limits_it_has():
                return f"driver {self.about.name} cannot hold a guest{self.where()} to {kind}; set it up there"
        return None

    async def hold(self, shell: Shell, name: str, wanted: Limits) -> Settings:
        """Hold it, and keep what it was held to before. Returns what is read back."""
        if all(getattr(wanted, kind) is None for kind in KINDS):
            return {}
        settings = await self.limit_settings(shell, name, wanted)
        before = await self.settings(shell, name, list(settings))
        if before != settings:
            self._held[name] = before
            await self._set(shell, name, settings)
        return settings

    async def put_back(self, shell: Shell) -> list[NodeError]:
        """Limits, too, of guests that go on running."""
        failures: list[NodeError] = []
        while self._held:
            name, before = next(reversed(self._held.items()))
            try:
                if name not in self._started:
                    await self._set(shell, name, before)
            except UnknownGuest:
                pass  # transient: with its end its limits are forgotten
            except NodeLost as exc:
                return [exc]
            except NodeError as exc:
                failures.append(exc)
            del self._held[name]
        return failures + await super().put_back(shell)

    async def _set(self, shell: Shell, name: str, wanted: Settings) -> None:
        answer = await self.set_limits(shell, name, wanted)
        seen = await self.settings(shell, name, list(wanted))
        if seen != wanted:
            raise shell.error(f"guest {name} is held to {seen}; expected: {wanted}. It said: {answer.said}")
