"""The commands that open the console: ``console`` and ``demo``."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


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
    if found is not None and was_up:
        sys.stderr.write("building the local testbed: it is up already\n")
        return _open(Path(found.hosts_file), args.store)
    sys.stderr.write(f"building the local testbed: {args.sources} sources\n")
    with _ended_by_signals():
        try:
            status = lab.up(lab.LabSpec(sources=args.sources))
        except (SystemExit, KeyboardInterrupt):
            _take_down()  # it may be up already, and have had no time to say so
            raise
        try:
            return _open(Path(status.hosts_file), args.store)
        finally:
            _take_down()


def _take_down() -> None:
    """The demo's lab. A closed terminal says so twice, by its shell and by the kernel: nothing may stop this."""
    from labconsole import lab

    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        sys.stderr.write("removing the local testbed\n")
    lab.down("local")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGHUP and SIGTERM raise SystemExit where the console does not take them, so that the lab is taken down."""

    before: dict[int, Any] = {}

    def end(number: int, _frame: Any) -> None:
        for each in before:  # once: what follows is the taking down
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for each in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(each) is not signal.SIG_IGN:  # as under nohup
            before[each] = signal.signal(each, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
