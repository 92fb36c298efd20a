"""Opens the console on an inventory, or without one for the first start. Importing this takes no time."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.comparison.trends import PlanTrends
    from labconsole.engine.protocol import SessionLike
    from labconsole.model.inventory import Inventory
    from labconsole.model.query import Query
    from labconsole.store.writing import RunStore


# -- console -----------------------------------------------------------------------------------------------------------
# Opens the console on an inventory, for the commands that need it. Importing this takes no time.


def require_terminal(command: str, instead: str) -> None:
    """Raises ConfigError without a terminal to draw on or a keyboard: escapes in a file are of no use."""
    streams = {"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr}
    for name, stream in streams.items():
        if stream is None or not stream.isatty():
            raise ConfigError(f"{command} needs a terminal, and its {name} is not one; elsewhere, use {instead}")


def open_console(hosts: Path, store_url: str | None, *, read_only: bool = False, plain: bool = False) -> int:
    """Run the console on this inventory and store until the user leaves it; returns the exit status. Raises
    LabError.

    ``plain``: as lines of text, which need no terminal.
    """
    if not plain:
        require_terminal("console", "`labconsole --plain`, `labconsole run`, `labconsole replay` and `labconsole runs`")
    from labconsole.model.inventory import load_inventory

    inventory = load_inventory(hosts)
    session = partial(open_console_session, inventory, store_url, read_only=read_only)
    if plain:
        from labconsole.cli.plain_console import run_plain

        return run_plain(session)
    from labconsole.tui.app import run_console

    return run_console(session, load_trends)


def open_console_session(inventory: Inventory, store_url: str | None, *, read_only: bool = False) -> SessionLike:
    """Called once the first frame is on screen: importing the engine and the database takes longer than using them."""
    from labconsole.api.testbed import open_session
    from labconsole.store.open import LazyStore

    return open_session(inventory, LazyStore(store_url), read_only=read_only)


def load_trends(plan: str | None, query: Query, store: RunStore) -> PlanTrends:
    """Trends of a plan over its occasions, as `labconsole trend` computes them."""
    from labconsole.api.comparisons import read_trends

    return read_trends(plan, query, store)


# -- first start -------------------------------------------------------------------------------------------------------
# The first start without a hosts.yaml: the console guides the user to a testbed, and continues with it.


def run_first_start(hosts: Path, store: str | None) -> int:
    """Run the console without a testbed; it writes ``hosts``. Returns the exit status, unless a demo takes over."""
    from labconsole.api.discovery import leased_nodes
    from labconsole.tui.app import run_console
    from labconsole.tui.console.first_start import FirstStart

    def session(written: Path) -> SessionLike:
        from labconsole.model.inventory import load_inventory

        return open_console_session(load_inventory(written), store)

    return run_console(None, load_trends, first=FirstStart(hosts, leased_nodes, session, partial(_demo, store)))


def _demo(store: str | None) -> int:
    """Run the demo in place of this process."""
    sys.stdout.flush()
    where = [] if store is None else ["--store", store]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "labconsole", "demo", *where])
