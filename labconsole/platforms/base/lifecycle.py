"""Guests of an installed hypervisor started, pinned, limited and stopped; each change is read back until reached."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping

from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError, NodeLost
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import (
    HypervisorGuest,
    Pinning,
    Settings,
    State,
    UnknownGuest,
    format_names,
    same_cpus,
)
from labconsole.platforms.base.hypervisor import Hypervisor
from labconsole.platforms.base.shell import Answer, Shell
from labconsole.wire.guests import PromiseStop, StopKept

# -- lifecycle ---------------------------------------------------------------------------------------------------------
# Guests started here are stopped here, even after a partial start; guests that ran before are left running.

POLL_S = 0.5
KILL_S = 60.0
MAX_GUESTS = 1000
_ALREADY = re.compile(
    r"already (?:running|active|started|exists|powered on|locked by a session)"
    r"|session for the machine .* is currently open",  # VirtualBox 3 and 4.0
    re.IGNORECASE,
)


class Lifecycle(Hypervisor):
    """A hypervisor's guests from off to running and back."""

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self._started: list[str] = []
        self._pinned: dict[str, Pinning] = {}
        self.poll_s = POLL_S

    def shell(self, uut: AgentLink) -> Shell:
        return Shell(uut, self.name, self.options.ssh)

    async def survey(self, shell: Shell) -> dict[str, HypervisorGuest]:
        """All guests, if exactly the planned ones run or can run. Changes nothing."""
        found = await self.guests(shell)
        if len(found) > MAX_GUESTS:
            raise shell.error(f"the hypervisor lists {len(found)} guests; at most {MAX_GUESTS} are plausible")
        for name in self.planned:
            if name not in found:
                raise self.unknown(shell, name, found)
        others = [g.name for g in found.values() if g.name not in self.planned and g.state is not State.STOPPED]
        if others and self.options.others == "refuse":
            second = self.options.second_guest
            only = (
                f", and {second} may run only with a background load"
                if second in others and self.options.guest in self.planned
                else ""
            )
            raise shell.error(
                f"{format_names(others)} run{'s' if len(others) == 1 else ''} next to "
                f"{format_names(self.planned)}{only}: stop it, or set `others: allow` in hosts.yaml"
            )
        for name in self.planned:
            if found[name].state not in (State.RUNNING, State.STOPPED):
                raise shell.error(f"guest {name} is {found[name].said}; expected: running or stopped")
        return found

    async def bring_up(self, shell: Shell, name: str) -> None:
        """Start it and wait until it runs."""
        await self._wait_until(shell, name, State.RUNNING, self.options.start_s, await self.begin(shell, name))

    async def begin(self, shell: Shell, name: str) -> Answer:
        """Start it. Returns the answer, which is not trusted yet."""
        # The guest is ours from here on: even after a partial start it is stopped again, by the keeper if necessary.
        await self._promise_stop(shell, name)
        self._started.append(name)
        answer = await self.start(shell, name)
        if _ALREADY.search(answer.text):
            self._started.remove(name)
            await shell.uut.ask(StopKept(guest=name))
            raise shell.error(
                f"guest {name} was listed as stopped, but `{answer.command}` says: {answer.said}. Another user "
                "started it, or it runs in another network namespace or for another user"
            )
        return answer

    async def _promise_stop(self, shell: Shell, name: str) -> None:
        commands = await self.build_stop_commands(shell, name)
        graceful_s = self.options.graceful_s
        await shell.uut.ask(
            PromiseStop(
                guest=name,
                ask=shell.sent(commands.ask) if graceful_s > 0 else None,
                kill=shell.sent(commands.kill),
                limit_s=max(1.0, graceful_s),
                runs=None if commands.runs is None else shell.sent(commands.runs),
            )
        )

    async def put_back(self, shell: Shell) -> list[NodeError]:
        """Restore pinning and stop the guests we started. Every guest is tried; failures are returned.

        Changes on a lost node remain to be undone: this may be called again when it is back.
        """
        failures: list[NodeError] = []
        while self._pinned:
            name, before = next(reversed(self._pinned.items()))
            try:
                if name not in self._started:
                    await self._repin(shell, name, before)
            except UnknownGuest:
                pass  # transient: its pinning ends with it
            except NodeLost as exc:
                return [*failures, exc]
            except NodeError as exc:
                failures.append(exc)
            del self._pinned[name]
        while self._started:
            try:
                await self._bring_down(shell, self._started[-1])
                await shell.uut.ask(StopKept(guest=self._started[-1]))
            except NodeLost as exc:
                return [*failures, exc]
            except NodeError as exc:
                failures.append(exc)
            self._started.pop()
        return failures

    async def _bring_down(self, shell: Shell, name: str) -> None:
        try:
            guest = await self.state(shell, name)
            if guest.state is State.STOPPED:
                return
            if guest.state in (State.RUNNING, State.CHANGING) and self.options.graceful_s > 0:
                answer = await self.ask_to_stop(shell, name)
                try:
                    return await self._wait_until(shell, name, State.STOPPED, self.options.graceful_s, answer)
                except (UnknownGuest, NodeLost):
                    raise
                except NodeError:
                    pass  # a guest that ignores the request is no failure yet
            answer = await self.kill(shell, name)
            await self._wait_until(shell, name, State.STOPPED, KILL_S, answer)
        except UnknownGuest:
            return  # transient: it ends with the guest

    async def _wait_until(self, shell: Shell, name: str, wanted: State, limit_s: float, answer: Answer) -> None:
        """Read the state back until it is ``wanted``. Raises NodeError with the observed state and the command's
        answer.
        """
        deadline = self.now() + limit_s
        while True:
            guest = await self.state(shell, name)
            if guest.state is wanted:
                return
            refused = self.refused(answer) and guest.state is not State.CHANGING
            if refused or guest.state is State.FAILED or self.now() >= deadline:
                after = "" if refused else f" {limit_s:g} s" if guest.state is not State.FAILED else ""
                raise shell.error(
                    f"guest {name} is {guest.said}{after} after `{answer.command}`; expected: {wanted}. "
                    f"It said: {answer.said}"
                )
            await self.pause(self.poll_s)

    def refused(self, answer: Answer) -> bool:
        """Whether the command reported a failure. One that had not ended may have succeeded."""
        return answer.exit_status not in (0, None)

    async def pin_planned(self, shell: Shell) -> None:
        """Pin every planned guest, and keep its earlier pinning."""
        for name, cpus in self.planned.items():
            if cpus is None:
                continue
            before = await self.pinning(shell, name)
            if before is None:
                raise shell.error(
                    f"{self.about.name} does not report where guest {name} may run, so the guest is not pinned"
                )
            if any(not same_cpus(now, cpus) for now in before.values()):
                self._pinned[name] = before
                await self._repin(shell, name, dict.fromkeys(before, cpus))

    async def _repin(self, shell: Shell, name: str, wanted: Pinning) -> None:
        answer = await self.pin(shell, name, wanted)
        seen = await self.pinning(shell, name) or {}
        if seen.keys() != wanted.keys() or any(not same_cpus(seen[vcpu], wanted[vcpu]) for vcpu in wanted):
            raise shell.error(f"guest {name} is pinned to {seen}; expected: {wanted}. It said: {answer.said}")

    # Time: replaced in tests --------------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic()

    async def pause(self, seconds: float) -> None:
        """Wait between two queries of a state."""
        await asyncio.sleep(seconds)


# -- resource limits ---------------------------------------------------------------------------------------------------
# Resource limits of installed hypervisors' guests (weight, quota, memory), each read back, and restored afterwards.
#
# Names of limits differ: a setting is a name and a value in the hypervisor's own terms.

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
