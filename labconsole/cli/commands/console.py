"""``labconsole console``, or no command at all: the console on an inventory."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from labconsole.cli.commands import About
from labconsole.cli.console import open_console
from labconsole.cli.options import add_common, hosts_path

DEFAULT = Path("hosts.yaml")
"""As model/inventory.py has it, which takes its time to import."""

about = About(10, "open the console (default)", draws=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    add_common(parser, "--hosts", "--store")
    parser.add_argument(
        "--read-only", action="store_true", help="watch other people's measurements without starting any"
    )
    parser.add_argument(
        "--plain", action="store_true", help="one line an event and typed commands, for a screen reader"
    )


def run(args: argparse.Namespace) -> int:
    """Open it."""
    hosts = args.hosts
    if hosts is None and not args.plain and not DEFAULT.exists() and sys.stdin.isatty() and sys.stdout.isatty():
        from labconsole.cli.first_start import first_start

        hosts = first_start(args.store)
        if hosts is None:
            return 0
    return open_console(hosts_path(hosts), args.store, read_only=args.read_only, plain=args.plain)
