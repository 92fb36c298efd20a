"""``labconsole console``, also the default command: the console on an inventory."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from labconsole.cli.commands import About
from labconsole.cli.console import open_console
from labconsole.cli.options import add_common, hosts_path

DEFAULT = Path("hosts.yaml")
"""As in model/inventory.py, which is slow to import."""

about = About(10, "open the console (default)", draws=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--hosts", "--store")
    parser.add_argument("--read-only", action="store_true", help="watch others' measurements without starting any")
    parser.add_argument(
        "--plain", action="store_true", help="one line per event, and typed commands, for a screen reader"
    )


def run(args: argparse.Namespace) -> int:
    """Open the console."""
    seen = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    if args.hosts is None and not DEFAULT.exists() and seen and not (args.plain or args.read_only):
        from labconsole.cli.console import run_first_start

        return run_first_start(DEFAULT, args.store)
    return open_console(hosts_path(args.hosts), args.store, read_only=args.read_only, plain=args.plain)
