"""Wires a session together: the engine with real SSH, real platform drivers and a real store.

SSH and the database are imported when they are needed first: a console paints before that, in half the time.
"""

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.engine.ports import AgentEvent, AgentLink
from labconsole.engine.session import Session
from labconsole.errors import ConfigError, StoreError
from labconsole.model.envelope import Envelope, parse_envelope
from labconsole.model.inventory import DEFAULT_INVENTORY, Inventory, load_inventory
from labconsole.platforms import driver_for
from labconsole.store import open_store

if TYPE_CHECKING:
    from labconsole.store import RunStore

log = logging.getLogger("labconsole.testbed")


async def connect(name: str, inventory: Inventory, on_event: AgentEvent) -> AgentLink:
    """As labconsole.nodes.connect."""
    nodes = await asyncio.to_thread(import_module, "labconsole.nodes")
    link: AgentLink = await nodes.connect(name, inventory, on_event)
    return link


def shell_argv(name: str, inventory: Inventory) -> list[str]:
    """As labconsole.nodes.shell_argv."""
    argv: list[str] = import_module("labconsole.nodes").shell_argv(name, inventory)
    return argv


def hosts_path(given: Path | None) -> Path:
    """The inventory a command uses: what was given, else ./hosts.yaml. Raises ConfigError with what to do."""
    path = given or DEFAULT_INVENTORY
    if not path.exists():
        hint = "; give --hosts FILE, or `labconsole demo` for a testbed on this machine" if given is None else ""
        raise ConfigError(f"no such file{hint}", file=str(path))
    return path


def open_session(inventory: Inventory, store: RunStore, *, read_only: bool = False) -> Session[RunStore]:
    """A session on this inventory; nothing is connected yet. ``read_only``: it watches and takes no run."""
    for platform in inventory.platforms:
        driver_for(platform, inventory)  # an unknown driver or option is said now, not in the middle of a plan
    session = Session(
        inventory, connect=connect, driver_for=driver_for, store=store, shell_argv=shell_argv, read_only=read_only
    )
    session.envelope = latest_envelope(inventory, store)
    return session


def latest_envelope(inventory: Inventory, store: RunStore) -> Envelope | None:
    """The newest calibration of this testbed, None when there is none; one that cannot be read is told in the log."""
    try:
        record = store.latest_calibration(inventory.fingerprint())
        return parse_envelope(record) if record is not None else None
    except StoreError as exc:
        log.warning("runs are held against no calibration: %s", exc)
        return None


def load_testbed(hosts: Path, store_url: str | None) -> tuple[Inventory, RunStore]:
    """Inventory and store, both checked. Raises ConfigError or StoreError."""
    return load_inventory(hosts), open_store(store_url)
