"""``labconsole search``: the highest load that meets a loss goal, RFC 2544's further tests, and earlier searches."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from labconsole.cli.commands import About
from labconsole.cli.options import (
    add_common,
    add_configuration,
    add_shared,
    comma_separated,
    hosts_path,
    naming_options,
    number,
    parse_request,
    whole_number,
)
from labconsole.cli.output import answer, print_json_line, print_lines, print_progress
from labconsole.errors import Aborted, ConfigError, MeasurementError

if TYPE_CHECKING:
    from labconsole.engine.testbed import Testbed
    from labconsole.model.plan.search import Search
    from labconsole.store.writing import RunStore

_OPTIONS = {
    "goals": "--goals",
    "trial_s": "--trial-duration",
    "duration_sum_s": "--duration-sum",
    "width_ratio": "--width",
    "repetitions": "--repetitions",
    "max_trials": "--max-trials",
}

about = About(
    50,
    "find the highest load that meets a loss goal",
    description="Find the highest load per source that meets each goal, with its bounds and what limits it; "
    "optionally run RFC 2544's frame loss, back-to-back and latency tests as well. Every trial is saved as an "
    "ordinary run, and the result is saved with them. The search key of a plan does the same for every configuration "
    "and can be resumed. Exit status: 0 found; 1 a goal has no lower bound, or the search did not complete; 2 bad "
    "usage; 3 a node is out of reach, lost or cannot do its part; "
    "130 interrupted.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--hosts", "--store", "--json")
    add_configuration(parser)
    parser.add_argument("--background", default="none", help="load on a second guest, as in run (default: none)")
    parser.add_argument(
        "--goals",
        type=comma_separated,
        default=["ndr"],
        metavar="A,B",
        help="goals: ndr, pdr-X%% such as pdr-0.5%%, rfc2544, tst009; further tests: frame-loss, back-to-back, "
        "latency (default: ndr)",
    )
    parser.add_argument(
        "--trial-duration",
        type=number,
        metavar="S",
        help="duration of one trial and of the longest burst (default: the goal's; frame loss 60 s, a burst 2 s, "
        "latency 120 s)",
    )
    parser.add_argument(
        "--duration-sum",
        type=number,
        metavar="S",
        help="total trial time that decides about one load (default: the goal's)",
    )
    parser.add_argument(
        "--width", type=number, metavar="RATIO", help="relative width of the final bounds (default: the goal's)"
    )
    parser.add_argument(
        "--repetitions",
        type=whole_number,
        dest="times",
        metavar="N",
        help="repetitions of back-to-back and latency (default: RFC 2544's 50 and 20)",
    )
    parser.add_argument("--max-trials", type=whole_number, metavar="N", help="maximum number of trials (default: 2000)")
    add_shared(parser, "--generator", "--observe", "--take-over")
    parser.add_argument("--list", action="store_true", help="list the stored searches and exit")
    parser.add_argument("--show", metavar="ID", help="print one stored search with its trials and exit")
    parser.set_defaults(target="max", duration=1.0, repetitions=1)


def run(args: argparse.Namespace) -> int:
    """Return 0 if every goal has a lower bound and all ended well, else 1."""
    if args.list or args.show:
        return _stored(args)
    from labconsole.api.testbed import load_testbed, open_session
    from labconsole.cli.session_runner import run_session
    from labconsole.cli.text.runs import run_row
    from labconsole.cli.text.searches import search_lines
    from labconsole.engine.execution.execution import PlanExecution
    from labconsole.engine.execution.progress import StepProgress
    from labconsole.engine.execution.runner import PlanRunner
    from labconsole.experiments.search.procedure import check_search
    from labconsole.model.identity import utc_now
    from labconsole.model.plan.ad_hoc import one_search, search_purpose
    from labconsole.model.record.search import SearchRecord

    search = _parse_search(args)
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    request = parse_request(args, inventory)
    try:
        check_search(search, request, inventory)
    except ConfigError as exc:
        raise exc if exc.key not in _OPTIONS else _name_option(exc) from None
    plan = one_search(request, search, inventory)
    session = open_session(inventory, store)

    def on_step(progress: StepProgress) -> None:
        if progress.last is not None:
            print_progress(run_row(progress.last))
            if args.json:
                print_json_line(progress.last.to_json())

    async def work(session: Testbed[RunStore]) -> int:
        session.check_now(request)
        # Every call makes a new search that nothing resumes; only a plan can be resumed.
        execution = PlanExecution(plan, session, on_step=on_step, salt=utc_now())
        (outcome,) = await PlanRunner(
            [execution], session, take_over=args.take_over, purpose=search_purpose(plan)
        ).run()
        if outcome.stopped:
            return Aborted.exit_code
        record = next(iter(outcome.steps.made), None)
        if not isinstance(record, SearchRecord):
            raise MeasurementError("; ".join(outcome.steps.refused))
        answer({"search": record.to_json()}, search_lines(record), as_json=args.json)
        return 1 if record.status == "failed" or any(found.lower_bound_pps is None for found in record.goals) else 0

    with naming_options():
        return run_session(session, session.nodes_of(request), work, [])


def _name_option(exc: ConfigError) -> ConfigError:
    """The same error, naming the option that set the key."""
    return ConfigError(exc.message, key=_OPTIONS[exc.key or ""], value=exc.value, allowed=exc.allowed)


def _parse_search(args: argparse.Namespace) -> Search:
    """Build the search from the command line, in the form of a plan. Raises ConfigError naming the option."""
    from labconsole.model.plan.ad_hoc import build_search

    try:
        return build_search(
            args.goals,
            trial_s=args.trial_duration,
            duration_sum_s=args.duration_sum,
            width_ratio=args.width,
            repetitions=args.times,
            max_trials=args.max_trials,
        )
    except ConfigError as exc:
        raise ConfigError(
            exc.message.replace("duration_sum_s", "--duration-sum"),
            key=_OPTIONS.get(exc.key or "", "--goals"),
            value=exc.value,
            allowed=exc.allowed,
        ) from None


def _stored(args: argparse.Namespace) -> int:
    """``search --list`` and ``search --show ID``: earlier searches of every testbed in the store."""
    from labconsole.cli.text.searches import search_lines, searches_table
    from labconsole.model.record.search import SEARCH
    from labconsole.store.open import open_store

    with open_store(args.store, write=False) as store:
        records = [store.experiment(SEARCH, args.show)] if args.show else store.experiments(SEARCH)
    if args.json:
        for record in records:
            print_json_line({"search": record.to_json()})
    else:
        print_lines(*(search_lines(records[0], trials=True) if args.show else searches_table(records)))
    return 0
