"""Resource limits of installed hypervisors' guests (weight, quota, memory), each read back, and restored afterwards.

Names of limits differ: a setting is a name and a value in the hypervisor's own terms.
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
    """A hypervisor's guests, some of them with limits."""

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self._held: dict[str, Settings] = {}

    def limits_refusal(self, wanted: Limits) -> str | None:
        """Why a guest cannot have these limits, in a sentence, or None if it can."""
        for kind in KINDS:
            if getattr(wanted, kind) is not None and kind not in self.limits_it_has():
                return f"driver {self.about.name} cannot set {kind} of a guest{self.where()}; set it up there"
        return None

    async def hold(self, shell: Shell, name: str, wanted: Limits) -> Settings:
        """Set limits, and keep the earlier ones. Returns the values read back."""
        if all(getattr(wanted, kind) is None for kind in KINDS):
            return {}
        settings = await self.limit_settings(shell, name, wanted)
        before = await self.settings(shell, name, list(settings))
        if before != settings:
            self._held[name] = before
            await self._set(shell, name, settings)
        return settings

    async def put_back(self, shell: Shell) -> list[NodeError]:
        """Restore limits, too, of guests that go on running."""
        failures: list[NodeError] = []
        while self._held:
            name, before = next(reversed(self._held.items()))
            try:
                if name not in self._started:
                    await self._set(shell, name, before)
            except UnknownGuest:
                pass  # transient: its limits end with it
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
            raise shell.error(f"guest {name} is limited to {seen}; expected: {wanted}. It said: {answer.said}")
