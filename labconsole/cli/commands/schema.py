"""``labconsole schema``: the JSON Schema of a user-written file, for editors."""

from __future__ import annotations

import argparse

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import print_lines

about = About(130, "print the JSON Schema of a file, for editors")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser)
    parser.add_argument(
        "file", choices=("hosts", "plan", "settings"), help="which file: hosts.yaml, a plan or settings.yaml"
    )


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    import json

    from labconsole.model.plan.file import PLAN_FILE
    from labconsole.platforms.loading import hosts_schema
    from labconsole.tui.console.settings import Settings

    schemas = {"hosts": hosts_schema, "plan": PLAN_FILE.model_json_schema, "settings": Settings.model_json_schema}
    print_lines(*json.dumps(schemas[args.file](), indent=2).split("\n"))
    return 0
