"""``labconsole trend``: results over occasions, their changes, and what else changed then. docs/compare.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from labconsole.api.comparisons import is_plan
from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import print_error, print_json_line, print_lines
from labconsole.errors import ConfigError

about = About(
    118,
    "show results over time, where they change and what else changed then",
    description="Show the forwarding rate of each design point, and the results of searches, jobs, starts, flows and "
    "routers, over the occasions on which a plan was measured, find the changes (by minimum description length, as the "
    "CSIT project does), and say what else changed at each.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--store", "--json")
    parser.add_argument("plan", help="name of the plan, without an occasion, or its file")
    parser.add_argument(
        "filter", nargs="*", default=[], metavar="FILTER", help="use only runs that match all of these words"
    )
    parser.add_argument(
        "--margin", metavar="RATIO", help="largest change that does not matter, such as 2%% (default: the plan's)"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown")


def run(args: argparse.Namespace) -> int:
    """Return 0 on success."""
    from labconsole.api.comparisons import load_plan_trends
    from labconsole.comparison.trend_tables import build_json_object, build_tables
    from labconsole.report.request import parse_filter, parse_margin
    from labconsole.store.open import open_store

    if args.json and args.markdown:
        raise ConfigError("use either --json or --markdown")
    query, plan, margin_ratio = parse_filter(args.filter), args.plan, parse_margin(args.margin)
    if is_plan(plan):
        from labconsole.model.plan.loader import load_plan

        loaded = load_plan(Path(plan))
        plan, margin_ratio = loaded.name, margin_ratio or loaded.margin_ratio
    with open_store(args.store, write=False) as store:
        trends = load_plan_trends(
            plan, query, store, on_unreadable=print_error, tell=print_error, margin_ratio=margin_ratio
        )
    if not trends:
        print_error(f"no occasion of {plan} is complete")
    if args.json:
        for each in trends:
            print_json_line(build_json_object(each))
    elif args.markdown:
        from labconsole.cli.text.report import occasion_lines
        from labconsole.report.tables import to_markdown
        from labconsole.text.sanitize import escape_markdown

        for table in build_tables(trends):
            print_lines(*to_markdown(table).split("\n"))
        for line in occasion_lines(trends):
            print_lines(escape_markdown(line), "")
    else:
        from labconsole.cli.text.report import show_trends

        show_trends(trends)
    return 0
