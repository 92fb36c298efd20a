"""The first start without a hosts.yaml: the console guides the user to a testbed, and continues with it."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.cli.console import load_trends, open_console_session

if TYPE_CHECKING:
    from labconsole.engine.protocol import SessionLike


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
