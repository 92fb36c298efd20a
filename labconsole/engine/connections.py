"""A connected, watched testbed: links, live telemetry, lease holders, and another operator's trial.

It starts nothing on a node. The session, which takes trials, builds on it (session.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from labconsole.contracts.driver import DriverFor
from labconsole.contracts.ports import AgentLink, Connect, RunSink
from labconsole.engine.leases import LeaseHolder, Leases, newest_trial
from labconsole.engine.links import LinkPool
from labconsole.engine.live.events import Event, Listener
from labconsole.engine.live.observed_trial import ObservedStreams, ObservedTrial
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.engine.trial.second_guest import check_background, check_reference
from labconsole.engine.trial.setup import TrialSettings, check_mtu
from labconsole.errors import MeasurementError, NodeUnreachable, OnlyWatches
from labconsole.model.design_point import DesignPoint
from labconsole.model.identity import operator_name
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.limits_check import nodes_of
from labconsole.model.plan.plan import Plan
from labconsole.model.record.envelope import NodeVersions
from labconsole.wire import lease, message
from labconsole.wire.counters import CountersSampled

log = logging.getLogger("labconsole.engine")

POLL_S = 0.2
"""Interval between two looks at a node that is waited for."""

StoreT = TypeVar("StoreT", bound=RunSink, covariant=True)


class ConnectedTestbed(ABC, Generic[StoreT]):
    """The links to every node and their telemetry."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        connect: Connect,
        driver_for: DriverFor,
        guest_processes: Callable[[], Sequence[str]],
        store: StoreT,
        shell_argv: Callable[[str, Inventory], list[str]] | None,
        read_only: bool,
    ) -> None:
        self.read_only = read_only
        self.inventory, self.store = inventory, store
        self.telemetry = Telemetry()
        self.operator, self.driver_for, self.guest_processes = operator_name(), driver_for, guest_processes
        for name, node in inventory.nodes.items():
            self.telemetry.nodes[name] = NodeLive(name, node.roles)
        self._shell_argv = shell_argv
        self._pool = LinkPool(
            inventory,
            self.telemetry,
            connect=connect,
            emit=self._emit,
            on_event=self._on_agent_event,
            on_lost=self._on_lost,
            only_watch=read_only,
        )
        self._listeners: list[Listener] = []
        self._leases = Leases(self.operator)
        self._observed = ObservedStreams(self.telemetry, inventory, self._pool.links)

    @property
    @abstractmethod
    def running(self) -> bool:
        """True while a batch of trials is under way."""

    @property
    def timing_matters(self) -> bool:
        """Whether events need prompt attention: a batch of trials runs, or an answer from a node is awaited."""
        return self.running or self._pool.awaits_answer

    @property
    @abstractmethod
    def stopping(self) -> bool:
        """True once the running batch has been requested to stop."""

    @abstractmethod
    async def wait_stopping(self) -> None:
        """Return once the running batch has been requested to stop."""

    def _on_lost(self, name: str, reason: str) -> None:
        self._leases.forget(name)

    def _on_agent_event(self, node: str, event: message.AgentEvent) -> None:
        if isinstance(event, lease.LeaseChanged):
            link = self._pool.links.get(node)
            self._leases.seen(node, event, link.clock_offset_ns if link is not None else 0)
            self.telemetry.mark_quiet(node, event.quiet)
            if not self.running:
                self._observed.follow(self.observed_trial())
        elif isinstance(event, CountersSampled) and not self.running:
            self._observed.add_counters(node)

    # Listening

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every event from now on; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _emit(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:  # a listener's fault must not void a measurement
                log.exception("a listener failed on %s", type(event).__name__)

    # Links

    async def connect(self, nodes: Iterable[str] | None = None) -> None:
        """Connect to the nodes (default: all) at once; return when each is connected or has failed the first time.

        A failing node raises nothing here: it is reported as NodeChanged and retried in the background.
        """
        await self._pool.connect(nodes or self.inventory.nodes)

    @property
    def links(self) -> dict[str, AgentLink]:
        """The links that are up now, by node."""
        return self._pool.links

    def versions(self, streams: Iterable[Stream]) -> dict[str, NodeVersions]:
        """Current kernels and drivers of the nodes at both ends of these streams."""
        return self._pool.versions(streams)

    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None:
        """Wait until these nodes are connected again. Raises NodeUnreachable with the reason if one is late.

        Returns at once when the session is aborted.
        """
        names = list(nodes)
        deadline = time.monotonic() + within_s
        while not self.stopping:
            try:
                self._pool.require(names)
                return
            except NodeUnreachable as exc:
                if time.monotonic() > deadline:
                    why = f"was not back within {within_s:g} s: {exc.message}"
                    raise NodeUnreachable(exc.node, why, operation=exc.operation) from exc
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self.wait_stopping()

    # Nodes, for the operator who looks after them

    def reconnect(self, node: str) -> bool:
        """Retry a lost node now, without waiting for its back-off. Returns False if there is nothing to retry."""
        return self._pool.reconnect(node)

    def shell_argv(self, node: str) -> list[str]:
        """The command line for a shell on a node, over the link's SSH route. Blocking: reads ssh_config."""
        self.refuse_if_only_watching()
        if self._shell_argv is None:
            raise NodeUnreachable(node, "this testbed cannot open a shell", operation="shell")
        return self._shell_argv(node, self.inventory)

    @functools.cached_property
    def boots_s(self) -> dict[str, float]:
        """Time until one guest forwards, by platform. Raises ConfigError."""
        return {name: self.driver_for(name, self.inventory).about.boot_s for name in self.inventory.platforms}

    def check_background(self, request: DesignPoint) -> None:
        """Raises ConfigError for a background load that the platform cannot have. Sends no request."""
        check_background(request, self.inventory, self.driver_for)

    def check_now(self, request: DesignPoint) -> None:
        """Also raises ConfigError for a frame that a known interface does not carry. Sends no request."""
        self.check_background(request)
        check_mtu(request, self.inventory, self.telemetry)

    def check_stored(self, request: DesignPoint) -> None:
        """Raises ConfigError for a load defined by a maximum that is not stored, and StoreError. Blocking."""
        check_reference(request, self.inventory, self.store)

    # What a session may do

    def refuse_if_only_watching(self) -> None:
        """Raises OnlyWatches. The agents of such a session refuse as well (wire/session.py, OnlyWatch)."""
        if self.read_only:
            raise OnlyWatches

    def refuse_if_others_measure(self, nodes: Iterable[str], what: str) -> None:
        """Raises MeasurementError if another session has the lease of one of these nodes.

        The message says who, since when and what for. ``what`` would disturb that session.
        """
        for name in nodes:
            holder = self._leases.holders.get(name)
            if holder is not None:
                raise MeasurementError(f"{what} would disturb another session: {name} is leased by {holder.describe()}")

    # Leases

    def lease_holders(self) -> dict[str, LeaseHolder]:
        """Other sessions' leases on connected nodes. The agents keep this up to date; sends no request."""
        return dict(self._leases.holders)

    def observed_trial(self) -> ObservedTrial | None:
        """The trial of another operator, as reported by the agents of its sources; sends no request."""
        return newest_trial(self._leases.holders)

    # Requests

    def nodes_of(self, request: DesignPoint) -> list[str]:
        """The UUT, and the sources and sinks of the streams that a request uses."""
        return nodes_of(request, self.inventory)

    def settings(self, plan: Plan | None = None) -> TrialSettings:
        """The trial settings of this testbed, as modified by a plan."""
        return TrialSettings.of(self.inventory, plan)
