"""``labconsole report``: figures, tables and one page for a reviewer, from the store. docs/report.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.api.comparisons import is_plan
from labconsole.cli.commands import About
from labconsole.cli.options import add_common, comma_separated
from labconsole.cli.output import print_error, print_json_line, print_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.report.assembly import Report
    from labconsole.report.material import Unit
    from labconsole.report.request import ReportRequest

about = About(
    110,
    "make figures, tables and a page for reviewers from the saved runs",
    description="Show figures, tables and findings from the saved runs in the terminal, or write them to files with "
    "--out. FILTER takes the words of the console's list of runs, on design factors and conditions, such as size=64 "
    "background=none; words that select by outcome (loss, rates, verdict, block) need --select-by-outcome.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--store", "--json")
    parser.add_argument("filter", nargs="*", metavar="FILTER", help="use only runs that match all of these words")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="directory to write files to (default: show in the terminal)"
    )
    parser.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE.tar.gz",
        help="pack the report with its runs, series, plans, inventory and versions, so that `labconsole verify` can "
        "check it anywhere",
    )
    parser.add_argument(
        "--hosts",
        type=Path,
        metavar="FILE",
        help="with --bundle: the testbed file of the runs (default: ./hosts.yaml if it matches)",
    )
    parser.add_argument(
        "--terminal", action="store_true", help="also show the report in the terminal when --out is given"
    )
    parser.add_argument(
        "--formats",
        type=comma_separated,
        metavar="A,B",
        help="with --out: svg, pdf, png, csv, md, tex, html (default: all)",
    )
    parser.add_argument(
        "--plan",
        action="append",
        metavar="NAME|FILE",
        help="use runs of plans with this name, or of exactly the plan in this .yaml file; may be repeated",
    )
    parser.add_argument("--platforms", type=comma_separated, metavar="A,B", help="use only these platforms")
    parser.add_argument("--testbed", metavar="NAME", help="use only runs of this testbed")
    parser.add_argument(
        "--select-by-outcome",
        action="store_true",
        help="allow FILTER to select runs by outcome; page, captions and manifest then say so",
    )
    parser.add_argument(
        "--pool",
        type=comma_separated,
        metavar="A,B",
        help="average runs even if these differ: duration, testbed, fingerprint, kernel, hypervisor, generator, method",
    )
    parser.add_argument(
        "--margin", metavar="RATIO", help="largest difference that does not matter, such as 2%% (default: the plan's)"
    )
    parser.add_argument(
        "--reference",
        metavar="PAPER",
        help="show a paper's published tables next to these: schlosser, mattos, quetier or adamczyk",
    )
    parser.add_argument(
        "--reference-map",
        type=comma_separated,
        metavar="OWN=THEIRS",
        help="platforms that have other names in the paper, such as qemu-virtio=KVM,vmw=VM-E1000",
    )


def run(args: argparse.Namespace) -> int:
    """Make the report and return 0. Prints to the terminal, or writes the files of --out and prints their names."""
    from labconsole.experiments.kinds import find_plugin_hashes
    from labconsole.report.files import require, write_report
    from labconsole.report.loading import load_report
    from labconsole.store.open import open_store

    formats = _formats(args)
    if args.hosts is not None and args.bundle is None:
        raise ConfigError("only valid with --bundle", key="--hosts", value=str(args.hosts))
    if args.out is not None:
        require(formats)
    request = _request(args)
    with open_store(args.store, write=False) as store:
        made = load_report(
            request,
            store,
            _units(args),
            place=str(args.store or "the default store"),
            on_unreadable=print_error,
            **({} if args.bundle is not None else {"outside": find_plugin_hashes}),
        )
    for failure in made.failures:
        print_error(failure)
    if args.json:
        for line in _objects(made):
            print_json_line(line)
    if args.out is not None:
        written = write_report(made, args.out, formats)
        if not args.json:
            print_lines(*map(str, written))
    if args.bundle is not None:
        _bundle(args, request, made)
    if args.terminal or (args.out is None and args.bundle is None and not args.json):
        from labconsole.cli.text.report import show

        show(made)
    return 0


def _units(args: argparse.Namespace) -> list[Unit]:
    """The report's units. A bundle gets none of other packages, which its verifier may not have."""
    from labconsole import plugins
    from labconsole.experiments.units import ENTRY_POINT_GROUP, report_units

    left_out = plugins.find_external_names(ENTRY_POINT_GROUP) if args.bundle is not None else []
    if left_out:
        print_error(f"left out, because others could not make it again: plug-in {', '.join(left_out)}")
    return report_units(outside=args.bundle is None)


def _request(args: argparse.Namespace) -> ReportRequest:
    """Build the request from the options. Raises ConfigError."""
    from labconsole.api.plan_files import refuse_twice
    from labconsole.model.plan.loader import load_plan
    from labconsole.report.request import ReportRequest

    plans = args.plan or ()
    files = [Path(word) for word in plans if is_plan(word)]
    names = [word for word in plans if not is_plan(word)]
    if names and files:
        raise ConfigError("use either names or files, not both", key="--plan", value=", ".join(plans))
    if len(set(names)) < len(names):
        raise ConfigError("names a plan twice", key="--plan", value=", ".join(names))
    if len(files) > 1:
        refuse_twice(files, [load_plan(path) for path in files])
    return ReportRequest(
        filter=tuple(args.filter),
        plan_names=tuple(names),
        plan_files=tuple(sorted(files, key=lambda path: path.name)),  # the order in a bundle
        platforms=None if args.platforms is None else tuple(args.platforms),
        testbed=args.testbed,
        select_by_outcome=args.select_by_outcome,
        pool=tuple(args.pool or ()),
        margin=args.margin,
        reference=args.reference,
        reference_map=tuple(args.reference_map or ()),
    )


def _bundle(args: argparse.Namespace, request: ReportRequest, made: Report) -> None:
    """``report --bundle FILE``: save the report and everything it rests on, for `labconsole verify FILE` elsewhere."""
    from labconsole.bundle.pack import PLANS_SOUGHT, write_bundle
    from labconsole.store.open import open_store

    with open_store(args.store, write=False) as store:
        missing = write_bundle(args.bundle, request, made, store, hosts=args.hosts)
    for what in missing:
        hint = f" ({PLANS_SOUGHT})" if what.startswith("plan ") else ""
        print_error(f"not found, so the bundle does not contain it: {what}{hint}")
    if not args.json:
        print_lines(str(args.bundle))


def _formats(args: argparse.Namespace) -> tuple[str, ...]:
    from labconsole.report.files import FORMATS

    unknown = sorted(set(args.formats or ()) - set(FORMATS))
    if unknown:
        raise ConfigError("unknown format", key="--formats", value=unknown[0], allowed=", ".join(FORMATS))
    if args.formats and args.out is None:
        raise ConfigError("needs --out DIR", key="--formats", value=",".join(args.formats))
    return tuple(name for name in FORMATS if not args.formats or name in args.formats)


def _objects(made: Report) -> Iterable[dict[str, Any]]:
    from labconsole.report.assembly import counts
    from labconsole.report.tables import to_json

    yield {"selection": made.selection.to_json(), "conclusions": list(made.conclusions), **counts(made)}
    for table in (*made.tables, *made.references):
        yield to_json(table)
    for kind in made.findings:
        for finding in kind.found:
            yield {
                "finding": kind.kind,
                "claim": kind.claims,
                "sentence": finding.sentence,
                "run_ids": finding.run_ids,
            }
