"""``labconsole report``: figures, tables and one page for a reviewer, out of the store. docs/report.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, comma_separated
from labconsole.cli.output import complain, json_line, plain_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.report.assembly import Report
    from labconsole.report.request import ReportRequest

PLAN_FILES = (".yaml", ".yml")
"""What --plan names a file by."""

about = About(
    110,
    "figures, tables and a page for a reviewer, from the saved runs",
    description="Figures, tables and findings from the saved runs: in the terminal, or with --out in files. "
    "FILTER: words as in the console's list of runs, of the factors of the design and the conditions, such as "
    "size=64 background=none; what can choose by the outcome (loss, rates, verdict, block) needs "
    "--select-by-outcome.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    add_common(parser, "--store", "--json")
    parser.add_argument("filter", nargs="*", metavar="FILTER", help="only runs for which all of these words hold")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write files there (default: show in the terminal)")
    parser.add_argument(
        "--bundle", type=Path, metavar="FILE.tar.gz",
        help="pack the report with its runs, series, plans, inventory and versions, for `labconsole verify` elsewhere",
    )  # fmt: skip
    parser.add_argument(
        "--hosts", type=Path, metavar="FILE", help="of --bundle: the runs' inventory (default: ./hosts.yaml if it is)"
    )
    parser.add_argument("--terminal", action="store_true", help="show in the terminal as well as --out")
    parser.add_argument(
        "--formats", type=comma_separated, metavar="A,B",
        help="of --out: svg, pdf, png, csv, md, tex, html (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--plan", action="append", metavar="NAME|FILE",
        help="runs of the plan of this name, or of exactly the plan in this .yaml file; may be given again",
    )  # fmt: skip
    parser.add_argument("--platforms", type=comma_separated, metavar="A,B", help="these platforms only")
    parser.add_argument("--testbed", metavar="NAME", help="runs of this testbed only")
    parser.add_argument(
        "--select-by-outcome", action="store_true",
        help="let FILTER choose runs by how they came out; page, captions and manifest then say so",
    )  # fmt: skip
    parser.add_argument(
        "--pool", type=comma_separated, metavar="A,B",
        help="take runs together although these differ: duration, testbed, fingerprint, kernel, hypervisor, generator, "
        "method",
    )  # fmt: skip
    parser.add_argument(
        "--margin", metavar="RATIO", help="a difference that does not matter, such as 2%% (default: the plan's)"
    )
    parser.add_argument("--reference", metavar="PAPER", help="a paper's published tables beside these: schlosser")
    parser.add_argument(
        "--reference-map", type=comma_separated, metavar="OWN=PAPER'S",
        help="platforms that the paper calls otherwise, such as qemu-virtio=KVM,vmw=VM-E1000",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """0 when it is made. In the terminal, or into the files of --out, whose names it prints."""
    from labconsole.experiments.units import report_units
    from labconsole.report.files import require, write
    from labconsole.report.gathering import gather
    from labconsole.store.open import open_store

    formats = _formats(args)
    if args.hosts is not None and args.bundle is None:
        raise ConfigError("goes with --bundle", key="--hosts", value=str(args.hosts))
    if args.out is not None:
        require(formats)
    request = _request(args)
    with open_store(args.store, write=False) as store:
        made = gather(request, store, report_units(), place=str(args.store or "the user's own"), on_unreadable=complain)
    if args.json:
        for line in _objects(made):
            json_line(line)
    if args.out is not None:
        written = write(made, args.out, formats)
        if not args.json:
            plain_lines(*map(str, written))
    if args.bundle is not None:
        _bundle(args, request, made)
    if args.terminal or (args.out is None and args.bundle is None and not args.json):
        from labconsole.cli.text.report import show

        show(made)
    return 0


def _request(args: argparse.Namespace) -> ReportRequest:
    """What the options ask for. Raises ConfigError."""
    from labconsole.report.request import ReportRequest

    plans = args.plan or ()
    files = [Path(word) for word in plans if word.endswith(PLAN_FILES)]
    names = [word for word in plans if not word.endswith(PLAN_FILES)]
    if names and files:
        raise ConfigError("names and files cannot be mixed", key="--plan", value=", ".join(plans))
    return ReportRequest(
        filter=tuple(args.filter),
        plan_names=tuple(names),
        plan_files=tuple(files),
        platforms=None if args.platforms is None else tuple(args.platforms),
        testbed=args.testbed,
        select_by_outcome=args.select_by_outcome,
        pool=tuple(args.pool or ()),
        margin=args.margin,
        reference=args.reference,
        reference_map=tuple(args.reference_map or ()),
    )


def _bundle(args: argparse.Namespace, request: ReportRequest, made: Report) -> None:
    """``report --bundle FILE``: the report and all that it rests on, for `labconsole verify FILE` elsewhere."""
    from labconsole.bundle.pack import write_bundle
    from labconsole.store.open import open_store

    with open_store(args.store, write=False) as store:
        missing = write_bundle(args.bundle, request, made, store, hosts=args.hosts)
    for what in missing:
        complain(f"not found, and so not in the bundle: {what}")
    if not args.json:
        plain_lines(str(args.bundle))


def _formats(args: argparse.Namespace) -> tuple[str, ...]:
    from labconsole.report.files import FORMATS

    unknown = sorted(set(args.formats or ()) - set(FORMATS))
    if unknown:
        raise ConfigError("is no format", key="--formats", value=unknown[0], allowed=", ".join(FORMATS))
    if args.formats and args.out is None:
        raise ConfigError("is for files, and there is no --out DIR", key="--formats", value=",".join(args.formats))
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
                "finding": kind.kind, "claim": kind.claims, "sentence": finding.sentence, "run_ids": finding.run_ids,
            }  # fmt: skip
