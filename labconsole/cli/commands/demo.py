"""``labconsole demo``: a local lab, and the console on it."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from labconsole.cli.commands import About
from labconsole.cli.console import open_console, require_terminal
from labconsole.cli.options import ONE_OR_MORE, add_common

about = About(20, "start a local lab, open the console on it, and remove the lab on leaving", draws=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--store")
    parser.add_argument(
        "--sources", type=ONE_OR_MORE, default=3, metavar="N", help="number of sources in the lab (default: 3)"
    )
    parser.add_argument(
        "--plain", action="store_true", help="one line per event, and typed commands, for a screen reader"
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo. Takes the lab down on exit only if this command brought it up."""
    from labconsole.lab import commands as lab
    from labconsole.lab.spec import LabSpec

    if not args.plain:
        require_terminal("demo", "`labconsole demo --plain`, or `labconsole lab up` and `labconsole run`")
    found = lab.status("local")
    was_up = found is not None and found.running
    if found is not None and was_up:
        sys.stderr.write("the local testbed is already up\n")
        try:
            return open_console(Path(found.hosts_file), args.store, plain=args.plain)
        finally:
            with contextlib.suppress(OSError):
                sys.stderr.write("the local testbed was up before, and stays; run `labconsole lab down` to remove it\n")
    sys.stderr.write(f"building the local testbed: {args.sources} sources\n")
    with _ended_by_signals() as signals:
        try:
            status = lab.up(LabSpec(sources=args.sources))
            if signals:
                raise SystemExit(128 + signals[0])
        except (SystemExit, KeyboardInterrupt):
            _take_down()  # it may be up already without having reported it
            raise
        try:
            return open_console(Path(status.hosts_file), args.store, plain=args.plain)
        finally:
            _take_down()


def _take_down() -> None:
    """Take down the demo's lab. A closed terminal signals twice, by its shell and by the kernel: nothing may
    stop this.
    """
    from labconsole.lab import commands as lab

    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        sys.stderr.write("removing the local testbed\n")
    lab.down("local")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[Sequence[int]]:
    """SIGHUP and SIGTERM raise SystemExit if the console does not handle them, so that the lab is taken down.

    Yields the received signals: their exceptions are lost where Python drops exceptions (in finalizers, say).
    """

    before: dict[int, Any] = {}
    received: list[int] = []

    def end(number: int, _frame: Any) -> None:
        received.append(number)
        for each in before:  # once only: the lab is being taken down
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for each in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(each) is not signal.SIG_IGN:  # as under nohup
            before[each] = signal.signal(each, end)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
