"""Assembles a session: the engine with real SSH, real platform drivers and a real store.

SSH and the database are imported when they are first needed, so that a console paints earlier, in half the time.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from labconsole.contracts.ports import AgentLink, Connect, OnAgentEvent
from labconsole.engine.calibration import CalibrationMeans
from labconsole.engine.testbed import Testbed
from labconsole.errors import ConfigError, LabSetupError, StoreError
from labconsole.experiments.kinds import kinds
from labconsole.model.inventory import DropReasons, Inventory, PacketTiming, load_inventory
from labconsole.model.record.envelope import Envelope, parse_envelope
from labconsole.platforms.loading import build_driver, guest_processes
from labconsole.store.open import LazyStore, open_store

if TYPE_CHECKING:
    from labconsole.store.writing import RunStore

log = logging.getLogger("labconsole.api.testbed")


async def connect(name: str, inventory: Inventory, on_event: OnAgentEvent) -> AgentLink:
    """Connect as labconsole.nodes.link.connect does."""
    dial = await asyncio.to_thread(_imported_connect)
    return await dial(name, inventory, on_event)


async def connect_unless_rebuilt(name: str, inventory: Inventory, on_event: OnAgentEvent) -> AgentLink:
    """Connect likewise. Raises ConfigError at the UUT of a local lab that was rebuilt differently since the file was
    read.
    """
    if name == inventory.uut:
        await asyncio.to_thread(refuse_former_lab, inventory)
    return await connect(name, inventory, on_event)


def _imported_connect() -> Connect:
    from labconsole.nodes.link import connect

    guest_processes()  # imports every driver here, so that the first trial does not wait for it
    return connect


def shell_argv(name: str, inventory: Inventory) -> list[str]:
    """The command line as in labconsole.nodes.ssh_route.shell_argv."""
    from labconsole.nodes import ssh_route

    return ssh_route.shell_argv(name, inventory)


def open_session(
    inventory: Inventory, store: RunStore | LazyStore, *, read_only: bool = False, calibrated: bool = True
) -> Testbed[RunStore]:
    """A session on this inventory, not connected yet. ``read_only``: it watches and takes no run. ``calibrated``: its
    runs are compared with the newest calibration.

    The session's ``open`` opens a store that is opened later. Raises ConfigError for an inventory that describes a lab
    as it was built before.
    """
    refuse_former_lab(inventory)
    for platform in inventory.platforms:
        build_driver(platform, inventory)  # reports an unknown driver or option now, not in the middle of a plan
    if read_only:
        store.writable = False  # notes
    later = store if isinstance(store, LazyStore) else None
    store = cast("RunStore", store)
    session = Testbed(
        inventory,
        connect=connect_unless_rebuilt,
        driver_for=build_driver,
        guest_processes=guest_processes,
        store=store,
        shell_argv=shell_argv,
        read_only=read_only,
        envelope=latest_envelope(inventory, store) if calibrated and later is None else None,
    )
    if later is not None:
        session.opening = lambda: latest_envelope(inventory, later.open())
    session.experiments = kinds(store)
    session.calibration = CalibrationMeans(rewiring, lambda envelope: store.save_calibration(envelope.to_json()))
    return session


def refuse_former_lab(inventory: Inventory) -> None:
    """Raise ConfigError if these are the nodes of a local lab that is up, with other losses than in the file.

    Its runs would have the fingerprint of the former lab: those with and without loss would be averaged. Other
    differences in a file, such as the speed of links, may be intended. Unreadable files of labs refuse nothing: they
    may be of a lab that is unrelated to these nodes.
    """
    from labconsole.lab.state import lab_directory, labs_directory

    try:
        if not labs_directory().is_dir():  # the code below takes a tenth of a second to import
            return
        from labconsole.lab import commands as lab

        name = lab.find_lab({node: each.address for node, each in inventory.nodes.items()})
        if name is None:
            return
        own_file = lab_directory(name) / "hosts.yaml"
        own = load_inventory(own_file)
    except (ConfigError, LabSetupError, OSError) as exc:
        log.info("not compared with the labs that are up: %s", exc)
        return
    if inventory.injected != own.injected:
        loss = "loses packets on purpose" if own.injected is not None else "loses no packets on purpose"
        other = ", as another lab did" if inventory.injected and own.injected else ""
        raise inventory.complaint(
            ("injected",),
            f"the lab {name} that is up now {loss}{other}, so this file does not describe it; use or copy {own_file}",
        )


def rewiring(inventory: Inventory) -> AbstractContextManager[None] | None:
    """A context manager that rewires a local lab around its UUT, or None if the nodes belong to no lab."""
    from labconsole.lab import commands as lab

    name = lab.find_lab({node: each.address for node, each in inventory.nodes.items()})
    return lab.bypassed(name) if name is not None else None


def latest_envelope(inventory: Inventory, store: RunStore) -> Envelope | None:
    """The newest calibration of this testbed, or None if there is none; an unreadable one is reported in the log."""
    try:
        record = store.latest_calibration(inventory.fingerprint())
        return parse_envelope(record) if record is not None else None
    except StoreError as exc:
        log.warning("runs are not compared with a calibration: %s", exc)
        return None


def load_testbed(
    hosts: Path,
    store_url: str | None,
    *,
    drop_reasons: DropReasons | None = None,
    packet_times: PacketTiming | None = None,
    write: bool = True,
) -> tuple[Inventory, RunStore]:
    """Load inventory, with other defaults if given, and store, both checked. Raises ConfigError or StoreError.

    ``write``: if False, an older store is not migrated.
    """
    inventory = load_inventory(hosts)
    given = {"drop_reasons": drop_reasons, "packet_times": packet_times}
    changed = {name: value for name, value in given.items() if value is not None}
    if changed:
        defaults = inventory.defaults.model_copy(update=changed)
        inventory = inventory.model_copy(update={"defaults": defaults})
    return inventory, open_store(store_url, write=write)
