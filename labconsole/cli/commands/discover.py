"""``labconsole discover``: create a hosts.yaml from machines. docs/discover.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, add_shared

about = About(
    25,
    "discover how machines are wired, and write hosts.yaml",
    description="Log in to machines, send five marked frames from each of their free ports, see where they come out, "
    "and write the hosts.yaml of a testbed. Ports with an address, a route or SSH on them are left alone; nothing is "
    "installed, and everything is undone. Asks before it sends and before it writes.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--json")
    parser.add_argument(
        "machine",
        nargs="+",
        help="an SSH destination, or [user@]host[:port]; exactly one as uut=HOST; roles of the others as "
        "source=HOST, sink=HOST or source+sink=HOST, else by name and cables; NAME=HOST names a machine",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("hosts.yaml"), metavar="FILE", help="file to write (default: hosts.yaml)"
    )
    parser.add_argument("--testbed", default="testbed", metavar="NAME", help="name of the testbed (default: testbed)")
    parser.add_argument("--ssh-config", metavar="FILE", help="SSH configuration (default: ~/.ssh/config)")
    parser.add_argument("--become", action="store_true", help="log in as a user who may use sudo without a password")
    parser.add_argument("--yes", action="store_true", help="send and write without asking")
    add_shared(parser, "--take-over")


def run(args: argparse.Namespace) -> int:
    """Return 0 if the file is written, 1 if there is nothing to write."""
    from labconsole.cli.discovery import discover

    return discover(args)
