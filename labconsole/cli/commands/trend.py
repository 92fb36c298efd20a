"""``labconsole trend``: results over occasions, where they change, and what else changed then. docs/compare.md."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import complain, json_line, plain_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.report.trends import Trend

about = About(
    118,
    "show results over time, where they change and what else changed then",
    description="Show the forwarding rate of each design point over the occasions on which a plan was measured, find "
    "the changes (by minimum description length, as the CSIT project does), and say what else changed at each.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    add_common(parser, "--store", "--json")
    parser.add_argument("plan", help="name of the plan, without an occasion")
    parser.add_argument("filter", nargs="*", metavar="FILTER", help="use only runs that match all of these words")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")


def run(args: argparse.Namespace) -> int:
    """0 when it is made."""
    from labconsole.report.gathering import gather_occasions
    from labconsole.report.selection import parse_filter
    from labconsole.report.trends import find_trends
    from labconsole.store.open import open_store

    if args.json and args.markdown:
        raise ConfigError("use either --json or --markdown")
    query = parse_filter(args.filter)
    with open_store(args.store, write=False) as store:
        sides = gather_occasions(args.plan, query, store, on_unreadable=complain, tell=complain)
    trends = find_trends(sides)
    if args.json:
        for each in trends:
            json_line(_object(each))
    elif args.markdown:
        from labconsole.report.tables import to_markdown
        from labconsole.report.trends import steps_table, trends_table

        for table in (trends_table(trends), steps_table(trends)):
            plain_lines(*([to_markdown(table, foreign=True)] if table is not None else []))
    else:
        from labconsole.cli.text.trends import show

        show(trends)
    return 0


def _object(trend: Trend) -> dict[str, Any]:
    return {
        "point": trend.words,
        "results": [
            {
                "occasion": occasion, "rate_bps": point.rate_bps.mean, "ci_low_bps": point.rate_bps.ci_low,
                "ci_high_bps": point.rate_bps.ci_high, "set_ups": point.rate_bps.set_ups,
            }
            for occasion, point in zip(trend.occasions, trend.points, strict=True)
        ],
        "levels": [each._asdict() for each in trend.levels],
        "changes": [
            {
                "occasion": step.occasion, "started_at": step.started_at, "change_ratio": step.change_ratio,
                "also_changed": [
                    {"where": each.section, "what": each.label, "before": each.left, "after": each.right}
                    for each in step.differences
                ],
            }
            for step in trend.steps
        ],
        "smallest_step_ratio": trend.smallest_ratio,
        "why": trend.why,
    }  # fmt: skip
