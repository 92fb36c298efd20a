"""The platform on the UUT: set up for the first trial that needs it, kept for the next ones, undone; its commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from labconsole.contracts.driver import Driver, DriverFor, Prepared, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import DeferredCleanup, LinkPool
from labconsole.engine.live.events import Event, Phase, PhaseChanged
from labconsole.engine.live.telemetry import Telemetry
from labconsole.engine.trial.forwarding_proof import ForwardingProof, wait_forwarding
from labconsole.engine.trial.second_guest import SecondGuestSetup, refusal
from labconsole.engine.trial.setup import find_wiring
from labconsole.errors import NodeError, NodeLost
from labconsole.model.design_point import DesignPoint
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.plan.order import SetUpKey
from labconsole.model.record.run import RunRecord, SetUp

# -- platforms ---------------------------------------------------------------------------------------------------------
# Every set-up has an id, which the records of its trials contain: trials of one set-up share the peculiarities of one
# boot of a guest, so they are not replicates of each other (Kalibera and Jones, ISMM 2013).

BREAKING = frozenset(
    {
        "aborted",
        "link_lost",
        "lease_taken",
        "failed",
        "interface_gone",
        "carrier_changed",
        "mtu_changed",
        "counter_decreased",
        "guest_changed",
    }
)
"""Reasons after which the current set-up is not trusted: it was interrupted, or is not what was set up.

The first four end a trial early, in an unknown state; the others mean that a guest, an interface or its settings
changed during the trial.
"""


def has_broken_platform(record: RunRecord) -> bool:
    """Whether a trial ended in a way that requires setting the platform up again."""
    return record.verdict.status == "invalid" and any(each.code in BREAKING for each in record.verdict.reasons)


class UutPlatform:
    """``forwarding_proof``: the effort until the current platform forwarded, or None before one is set up.

    ``set_up``: the current set-up and the number of trials begun in it, or None without one.
    """

    def __init__(
        self,
        inventory: Inventory,
        telemetry: Telemetry,
        pool: LinkPool,
        *,
        driver_for: DriverFor,
        emit: Callable[[Event], None],
        stopping: Callable[[], bool],
    ) -> None:
        self.forwarding_proof: ForwardingProof | None = None
        self.set_up: SetUp | None = None
        self.inventory, self._telemetry, self._pool = inventory, telemetry, pool
        self._driver_for, self._emit, self._stopping = driver_for, emit, stopping
        self._current: tuple[SetUpKey, Prepared, Driver] | None = None
        self._owed = DeferredCleanup(inventory, pool, emit)

    async def require(
        self,
        request: DesignPoint,
        links: dict[str, AgentLink],
        run_id: str,
        *,
        second_guest: SecondGuestSetup | None = None,
    ) -> Prepared:
        """Set the platform up for all streams whose nodes are connected, unless it is up already.

        ``second_guest``: set it up, too; it gets its own stream, if one is free, and no other.
        """
        wanted = {stream.name for stream in self.inventory.streams[: request.sources]}
        own = second_guest.stream if second_guest is not None else None
        key = SetUpKey(request.platform, second_guest is not None, own.name if own is not None else None)
        if self._current is not None:
            current, prepared, _ = self._current
            if current == key and wanted <= set(prepared.paths):
                return prepared
        await self.restore()
        begun, started_at = time.monotonic(), utc_now()
        driver = self._driver_for(request.platform, self.inventory)
        # A copy: a node that is lost meanwhile answers with NodeLost, while a missing name would be a bug.
        there = dict(self._pool.links)
        streams = [s for s in self.inventory.streams if s.source.node in there and s.sink.node in there]
        wirings = {s: find_wiring(s, self.inventory, self._telemetry) for s in streams}
        first, uut = [wiring for s, wiring in wirings.items() if s != own], links[self.inventory.uut]
        try:
            if second_guest is None:
                prepared = await driver.prepare(uut, first)
            else:
                prepared = await driver.prepare(uut, first, second=[wirings[s] for s in streams if s == own])
        except NodeLost:
            self._owed.defer(driver)
            raise
        self._current = (key, prepared, driver)
        if second_guest is not None and prepared.second is None:
            await self.restore()
            raise NodeError(uut.name, f"platform {request.platform} was set up without its second guest")
        self._emit(PhaseChanged(run_id=run_id, phase=Phase.LEARNING))
        try:
            self.forwarding_proof = await wait_forwarding(
                self.inventory,
                there,
                prepared,
                streams,
                generator=request.generator,
                stopping=self._stopping,
            )
        except BaseException:
            await self.restore()
            raise
        self.set_up = SetUp(
            id=new_run_id(datetime.now(UTC)), started_at=started_at, setup_s=time.monotonic() - begun, trial=0
        )
        return prepared

    def begin_trial(self) -> SetUp:
        """Count one more trial in the current set-up."""
        assert self.set_up is not None
        self.set_up = self.set_up.model_copy(update={"trial": self.set_up.trial + 1})
        return self.set_up

    async def restore(self) -> None:
        """Undo the current set-up, if any, and the clean-up that a lost UUT left, if it is back."""
        self.set_up = None
        drivers = [] if self._current is None else [self._current[2]]
        self._current = None
        await self._owed.settle(*drivers)

    def forget(self) -> None:
        """The UUT's agent is gone, and has undone its own changes."""
        self.set_up = None
        if self._current is not None:
            self._owed.defer(self._current[2])
            self._current = None


# -- commands of a dry run ---------------------------------------------------------------------------------------------
# The commands that would set a platform up, as stated by its driver without a request to any node.
#
# A driver derives these lines from the code that it would run, so the two cannot differ. Values known only to the nodes
# are replaced by placeholders such as ``mac-of-snk1/eth1``.


def build_placeholder_wiring(stream: Stream, uut: str) -> StreamWiring:
    """A stream with placeholders for the MAC addresses that its nodes would report."""
    return StreamWiring(
        name=stream.name,
        uut_in=stream.uut_in,
        uut_in_mac=f"mac-of-{uut}/{stream.uut_in}",
        uut_out=stream.uut_out,
        uut_out_mac=f"mac-of-{uut}/{stream.uut_out}",
        sink_mac=f"mac-of-{stream.sink}",
        source_ip=stream.source_ip,
        sink_ip=stream.sink_ip,
    )


def set_up_commands(request: DesignPoint, inventory: Inventory, driver_for: DriverFor) -> list[str]:
    """The commands that set up the platform of ``request`` for the streams that it uses. Raises ConfigError."""
    driver = driver_for(request.platform, inventory)
    sentence = refusal(driver, request.platform, request.background)
    if sentence is not None:
        return [f"# refused: {sentence}"]
    own = inventory.second_stream(request.sources) if request.background != "none" else None
    first = [build_placeholder_wiring(s, inventory.uut) for s in inventory.streams[: request.sources] if s != own]
    if request.background == "none":
        return driver.commands(first)
    return driver.commands(first, [build_placeholder_wiring(own, inventory.uut)] if own is not None else [])


def set_ups(requests: Iterable[DesignPoint]) -> list[DesignPoint]:
    """One request per way of setting a platform up, with all streams that any of the requests uses."""
    found: dict[tuple[str, bool], DesignPoint] = {}
    for request in requests:
        key = (request.platform, request.background != "none")
        if key not in found or request.sources > found[key].sources:
            found[key] = request
    return list(found.values())
