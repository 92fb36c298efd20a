"""``labconsole init``: write a hosts.yaml template."""

from __future__ import annotations

import argparse
from pathlib import Path

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import print_lines

about = About(
    23,
    "write a blank hosts.yaml to fill in",
    description="Write a hosts.yaml with every section, commented, with the machines, interfaces and cables of the "
    "testbed left blank. A file that exists is never overwritten. `labconsole discover` fills it in by itself, from "
    "machines that can be reached over SSH.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser)
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        default=Path("hosts.yaml"),
        metavar="PATH",
        help="file to write (default: hosts.yaml)",
    )


def run(args: argparse.Namespace) -> int:
    """Return 0 if the file is written. Raises ConfigError."""
    from labconsole.engine.discovery.hosts_file import blank_hosts, describe_next_steps, write_new

    write_new(args.path, blank_hosts())
    print_lines(*describe_next_steps(args.path))
    return 0
