"""Shared parts of the experiments with several guests at the command line: options, measuring, showing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from labconsole.cli.options import add_shared, hosts_path, whole_number
from labconsole.cli.output import answer, print_error, print_json_line, print_lines, print_progress
from labconsole.errors import Aborted, ConfigError, MeasurementError

if TYPE_CHECKING:
    from labconsole.cli.text.guest_kinds import GuestKindView
    from labconsole.engine.testbed import Testbed
    from labconsole.model.plan.plan import FactorsOfGuests
    from labconsole.model.strict_model import StrictModel
    from labconsole.store.writing import RunStore

Factors = TypeVar("Factors", bound="StrictModel")

OPTIONS = {
    "cpu_quota_ratio": "cpu-quota",
    "limit_s": "limit",
    "second_after_s": "second-after",
    "duration_s": "duration",
    "bin_s": "bin",
    "jobs.size": "size",
    "disk.from_s": "disk-from",
    "disk.to_s": "disk-to",
    "weights.every_s": "weights-every",
}
"""Options whose names differ from the plan's keys."""

_NAMES = {name.rpartition(".")[2]: option for name, option in OPTIONS.items() if name.endswith("_s")}
_NAME = re.compile(rf"\b({'|'.join(_NAMES)})\b")
_PLACE = re.compile(r"\[\d+\]")


def counts(text: str) -> list[int]:
    """Parse ``1,2,5``."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,2,5") from None


def add_execution_options(parser: argparse.ArgumentParser, *, set_ups: str, repetitions: str) -> None:
    """Add options for the number of trials and for taking over a lease."""
    parser.add_argument("--set-ups", type=whole_number, default=1, metavar="N", help=f"{set_ups} (default: 1)")
    parser.add_argument("--repetitions", type=whole_number, default=1, metavar="N", help=f"{repetitions} (default: 1)")
    parser.add_argument("--dry-run", action="store_true", help="list the trials and their duration, and change nothing")
    add_shared(parser, "--take-over")


def add_display_options(parser: argparse.ArgumentParser, *, summary: str) -> None:
    """Add options for showing stored trials."""
    parser.add_argument("--list", action="store_true", help="list the stored trials and exit")
    parser.add_argument(
        "--summary", action="store_true", help=f"print a summary of the stored trials ({summary}) and exit"
    )
    parser.add_argument("--plan", metavar="NAME", help="for --list and --summary: only trials of plans with this name")
    parser.add_argument("--show", metavar="ID", help="print one stored trial and exit")


def parse_factor_options(of: type[Factors], wanted: Mapping[str, Any]) -> Factors:
    """Build the factors from the options. Raises ConfigError with the option as its key."""
    from labconsole.model.plan.ad_hoc_guests import parse_factors

    with _errors_by_option():
        return parse_factors(of, dict(wanted))


@contextmanager
def _errors_by_option(kind: str = "") -> Iterator[None]:
    """Report errors about a plan's key with the option instead. Keys may be those within the ``kind``'s, and may also
    appear in the sentence.
    """
    try:
        yield
    except ConfigError as exc:
        name = _PLACE.sub("", exc.key or "").removeprefix(f"{kind}.")
        texts = [text and _NAME.sub(lambda found: f"--{_NAMES[found[1]]}", text) for text in (exc.message, exc.allowed)]
        if name.startswith("-") or (not name and (exc.file or texts == [exc.message, exc.allowed])):
            raise
        option = OPTIONS.get(name, name.partition(".")[0].replace("_", "-"))
        key = f"--{option}" if option else None
        raise ConfigError(texts[0] or exc.message, key=key, value=exc.value, allowed=texts[1]) from None


def require_options(args: argparse.Namespace, *options: str) -> None:
    """Raises ConfigError for an option that is missing or has no usable number."""
    for option in options:
        if not getattr(args, option):
            raise ConfigError("is required", key=f"--{option}")
    for option, number in (("--set-ups", args.set_ups), ("--repetitions", args.repetitions)):
        if not 1 <= number <= 100_000:
            raise ConfigError("is not a usable number", key=option, value=number, allowed="1 to 100000")


def run_trials(args: argparse.Namespace, kind: GuestKindView, factors: FactorsOfGuests) -> int:
    """Measure the trials, or print them for a dry run. Returns 0 if no trial is invalid, 1 if one is, or 3 if a node
    failed.
    """
    from labconsole.cli.dry_run_store import find_dry_run_store

    with ExitStack() as opened:
        place, write = find_dry_run_store(opened, args.store) if args.dry_run else (args.store, True)
        return _run_trials_into(args, kind, factors, place, write=write)


def _run_trials_into(
    args: argparse.Namespace, kind: GuestKindView, factors: FactorsOfGuests, place: str | None, *, write: bool
) -> int:
    from labconsole.api.testbed import load_testbed, open_session
    from labconsole.cli.guest_trials import dry_run_guest_trials
    from labconsole.cli.session_runner import build_narrator, run_session
    from labconsole.engine.execution.execution import PlanExecution
    from labconsole.engine.execution.progress import StepProgress
    from labconsole.engine.execution.runner import PlanRunner
    from labconsole.model.identity import utc_now
    from labconsole.model.plan.ad_hoc_guests import build_guest_plan

    inventory, store = load_testbed(hosts_path(args.hosts), place, write=write)
    plan = build_guest_plan(args.platforms, factors, inventory, set_ups=args.set_ups, repetitions=args.repetitions)
    session = open_session(inventory, store)
    with _errors_by_option(kind.name):
        for experiment in session.experiments:
            refusals = experiment.refuse(experiment.steps(plan), plan, inventory, session.stage)
            for problem in refusals.values() if len(args.platforms) == 1 else ():
                # A typed command is corrected sooner than a plan. With several platforms, the others are measured.
                raise problem

    if args.dry_run:
        dry_run_guest_trials(plan, None, session, as_json=args.json, salt=utc_now())
        return 0

    def on_step(progress: StepProgress) -> None:
        record: Any = progress.record
        if kind.has(record):
            answer({kind.name: record.to_json()}, kind.lines(record), as_json=args.json)
        elif progress.broke:
            print_progress(f"  the guests failed; all trials of this set-up will be repeated: {progress.broke}")
        elif progress.again:
            print_progress(f"  invalid, so it will be repeated: {progress.again}")
        else:
            print_progress(f"{progress.number} of {progress.total}: {progress.step.describe()}")

    async def work(session: Testbed[RunStore]) -> int:
        # Every call makes new trials that nothing resumes; only a plan can be resumed.
        execution = PlanExecution(plan, session, on_step=on_step, salt=utc_now())
        (outcome,) = await PlanRunner([execution], session, take_over=args.take_over, purpose=kind.purpose).run()
        if outcome.stopped:
            return Aborted.exit_code
        if outcome.steps.refused:
            print_error("; ".join(outcome.steps.refused))
            return max(outcome.steps.exit_code, MeasurementError.exit_code)
        return 1 if outcome.steps.failed else 0

    return run_session(session, session.nodes_of(plan.points[0].request), work, [build_narrator(args, quiet=True)])


def show_stored(args: argparse.Namespace, kind: GuestKindView) -> int:
    """``--list``, ``--show ID`` and ``--summary``: what was taken before, of every testbed in the store."""
    from labconsole.model.record.summary import RunFilter
    from labconsole.store.open import open_store

    with open_store(args.store, write=False) as store:
        where = RunFilter(plan_name=[args.plan]) if args.plan else RunFilter()
        records = [store.experiment(kind.of, args.show)] if args.show else store.experiments(kind.of, where)
        others = bool(args.plan and not records and store.experiment_texts(kind.of))
    if not records and not args.json:
        print_lines(f"none of plan {args.plan}" if others else f"no {kind.plural} are stored")
    elif args.summary:
        summary = kind.summarize(records)
        answer({f"{kind.plural}_summary": kind.summary_json(summary)}, kind.summary_lines(summary), as_json=args.json)
    elif args.json:
        for record in records:
            print_json_line({kind.name: record.to_json()})
    else:
        print_lines(*(kind.lines(records[0]) if args.show else kind.table(records)))
    return 0
