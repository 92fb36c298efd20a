"""The commands that open the console: ``console`` and ``demo``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def console(args: argparse.Namespace) -> int:
    """``labconsole``: the console on an inventory."""
    from labconsole.testbed import hosts_path

    return _open(hosts_path(args.hosts), args.store, read_only=args.read_only)


def demo(args: argparse.Namespace) -> int:
    """``labconsole demo``: local lab up, console on it, lab down on leaving (only if this command brought it up)."""
    from labconsole import lab
    from labconsole.errors import ConfigError

    if not sys.stdout.isatty():
        raise ConfigError("demo needs a terminal; without one use `labconsole lab up` and `labconsole run`")
    found = lab.status("local")
    was_up = found is not None and found.running
    sys.stderr.write("building the local testbed: " + ("it is up already\n" if was_up else f"{args.sources} sources\n"))
    status = found if found is not None and was_up else lab.up(lab.LabSpec(sources=args.sources))
    try:
        return _open(Path(status.hosts_file), args.store)
    finally:
        if not was_up:
            sys.stderr.write("removing the local testbed\n")
            lab.down("local")


def _open(hosts: Path, store_url: str | None, *, read_only: bool = False) -> int:
    from labconsole.model.inventory import load_inventory
    from labconsole.tui.app import run_console
    from labconsole.tui.session import SessionLike

    inventory = load_inventory(hosts)

    def session() -> SessionLike:
        # Called once the first frame is on screen: the engine and the database take longer to import than to use.
        from labconsole.store import open_store
        from labconsole.testbed import open_session

        return open_session(inventory, open_store(store_url), read_only=read_only)

    return run_console(session)
