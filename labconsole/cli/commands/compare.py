"""``labconsole compare``: changes between two sets of saved runs, their size, and other differences.
docs/compare.md.
"""

from __future__ import annotations

import argparse

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import print_error, print_json_line, print_lines
from labconsole.errors import ConfigError

about = About(
    112,
    "compare two sets of saved runs: what changed, by how much, and what else differs",
    description="Match the design points of two sets of saved runs and say of each how far its forwarding rate "
    "changed, with intervals, Holm's adjustment and equivalence as in a report; of searches the loads that they found, "
    "of jobs, starts, flows and routers their times, memory and rates. Each side is a filter such as "
    "'plan=nightly kernel=6.1.0', a plan file, a bundle, or another store.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--store", "--json")
    parser.add_argument("before", metavar="BEFORE", help="filter in one word, plan.yaml, bundle.tar.gz or store")
    parser.add_argument("after", metavar="AFTER", help="the other side, in the same form")
    parser.add_argument(
        "filter", nargs="*", default=[], metavar="FILTER", help="use only runs that match all of these words"
    )
    parser.add_argument(
        "--margin", metavar="RATIO", help="largest difference that does not matter, such as 2%% (default: the plans')"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown, such as for a pull request")


def run(args: argparse.Namespace) -> int:
    """Return 0 on success."""
    from labconsole.api.comparisons import compare_sides
    from labconsole.comparison import change_tables

    if args.json and args.markdown:
        raise ConfigError("use either --json or --markdown")
    found = compare_sides(args.before, args.after, args.store, args.filter, args.margin, on_unreadable=print_error)
    if args.json:
        print_json_line(change_tables.to_json(found))
    elif args.markdown:
        print_lines(*"\n".join(change_tables.to_markdown(found)).split("\n"))
    else:
        from labconsole.cli.text.tables import show_changes

        show_changes(found)
    return 0
