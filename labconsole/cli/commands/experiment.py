"""``labconsole experiment KIND``: trials of several guests, observed from outside; and stored trials."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, add_shared, comma_separated, hosts_path, number, whole_number
from labconsole.cli.output import answer, print_error, print_json_line, print_lines, print_progress
from labconsole.errors import Aborted, ConfigError, MeasurementError

if TYPE_CHECKING:
    from labconsole.engine.testbed import Testbed
    from labconsole.model.plan.guest_kind import GuestKind
    from labconsole.model.strict_model import StrictModel
    from labconsole.store.writing import RunStore

about = About(
    52,
    "run jobs in guests, start guests, or have them send or forward, measured from outside",
    description="Experiments with any number of guests side by side, whose times are measured and whose packets are "
    "counted outside the guests, at the sink of the first stream. Keys of a plan do the same for every combination of "
    "factors and can be resumed. Exit status: 0 no trial is invalid; 1 one is; 2 bad usage; 3 a node "
    "is out of reach, lost or cannot do its part; 130 interrupted.",
)
_END_OF_DESCRIPTION = (
    "The {kind} key of a plan does the same for every combination of factors and can be resumed. Exit status: 0 no "
    "trial is invalid; 1 one is; 2 bad usage; 3 a node is out of reach, lost or cannot do its part; 130 interrupted."
)
_PLACE = re.compile(r"\[\d+\]")


def _counts(text: str) -> list[int]:
    """Parse ``1,2,5``."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,2,5") from None


_TYPES: dict[str, Callable[[str], Any]] = {
    "names": comma_separated,
    "counts": _counts,
    "name": str,
    "whole number": whole_number,
    "number": number,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of experiment, each with the options that its folder declares."""
    from labconsole.model.plan.guest_kind import guest_kinds

    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for kind in guest_kinds().values():
        command, epilog = kind.command, kind.command.epilog()
        own = kinds.add_parser(
            kind.name,
            help=command.help,
            description=f"{command.description} {_END_OF_DESCRIPTION.format(kind=kind.name)}",
            epilog=epilog or None,
            formatter_class=argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter,
        )
        add_common(own, "--hosts", "--store", "--json")
        own.add_argument("--platforms", type=comma_separated, metavar="A,B", help=command.platforms)
        for option in command.options:
            own.add_argument(option.flag, type=_TYPES[option.takes], metavar=option.metavar, help=option.help)
        for flag, text in (("--set-ups", command.set_ups), ("--repetitions", command.repetitions)):
            own.add_argument(flag, type=whole_number, default=1, metavar="N", help=f"{text} (default: 1)")
        own.add_argument(
            "--dry-run", action="store_true", help="list the trials and their duration, and change nothing"
        )
        add_shared(own, "--take-over")
        own.add_argument("--list", action="store_true", help="list the stored trials and exit")
        own.add_argument(
            "--summary", action="store_true", help=f"print a summary of the stored trials ({command.summary}) and exit"
        )
        own.add_argument("--plan", metavar="NAME", help="for --list and --summary: only trials of plans with this name")
        own.add_argument("--show", metavar="ID", help="print one stored trial and exit")


def run(args: argparse.Namespace) -> int:
    """Return 0 if no trial is invalid, else 1."""
    from labconsole.cli.session_runner import find_dry_run_store
    from labconsole.model.plan.ad_hoc import parse_factors
    from labconsole.model.plan.guest_kind import guest_kinds

    kind = guest_kinds()[args.kind]
    if args.list or args.show or args.summary:
        return _show_stored(args, kind)
    _check_options(args, kind)
    given = {option.factor: getattr(args, _attribute(option.flag)) for option in kind.command.options}
    wanted = kind.command.factors(given)
    with _errors_by_option(kind):
        factors = parse_factors(kind.planned.Factors, wanted)
    with ExitStack() as opened:
        place, write = find_dry_run_store(opened, args.store) if args.dry_run else (args.store, True)
        return _run_trials(args, kind, factors, place, write=write)


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _check_options(args: argparse.Namespace, kind: GuestKind) -> None:
    """Raises ConfigError for an option that is missing or has no usable number."""
    required = [option.flag for option in kind.command.options if option.required]
    for flag in ("--platforms", *required):
        if not getattr(args, _attribute(flag)):
            raise ConfigError("is required", key=flag)
    for flag, given in (("--set-ups", args.set_ups), ("--repetitions", args.repetitions)):
        if not 1 <= given <= 100_000:
            raise ConfigError("is not a usable number", key=flag, value=given, allowed="1 to 100000")


@contextmanager
def _errors_by_option(kind: GuestKind) -> Iterator[None]:
    """Report errors about a plan's key with the option instead. Keys may be those within the kind's, and may also
    appear in the sentence.
    """
    flags = {option.factor: option.flag for option in kind.command.options}
    try:
        yield
    except ConfigError as exc:
        name = _PLACE.sub("", exc.key or "").removeprefix(f"{kind.name}.")
        texts = [text and _replace_keys(text, flags) for text in (exc.message, exc.allowed)]
        if name.startswith("-") or (not name and (exc.file or texts == [exc.message, exc.allowed])):
            raise
        flag = flags.get(name, f"--{name.partition('.')[0].replace('_', '-')}")
        key = flag if name else None
        raise ConfigError(texts[0] or exc.message, key=key, value=exc.value, allowed=texts[1]) from None


def _replace_keys(text: str, flags: Mapping[str, str]) -> str:
    """Write the option for each key of a time, such as ``limit_s``: other keys are words that mean more."""
    keys = {factor.rpartition(".")[2]: flag for factor, flag in flags.items() if factor.endswith("_s")}
    return re.sub(r"\b\w+_s\b", lambda found: keys.get(found[0], found[0]), text)


def _run_trials(
    args: argparse.Namespace, kind: GuestKind, factors: StrictModel, place: str | None, *, write: bool
) -> int:
    """Measure the trials, or print them for a dry run. Returns 0 if no trial is invalid, 1 if one is, or 3 if a node
    failed.
    """
    from labconsole.api.testbed import load_testbed, open_session
    from labconsole.cli.session_runner import build_narrator, run_session
    from labconsole.cli.steps import GuestTrialNarrator, describe_repetition
    from labconsole.engine.execution.execution import PlanExecution
    from labconsole.engine.execution.progress import StepProgress
    from labconsole.engine.execution.runner import PlanRunner
    from labconsole.model.identity import utc_now
    from labconsole.model.plan.ad_hoc import build_guest_plan
    from labconsole.report.trial_text import trial_lines

    inventory, store = load_testbed(hosts_path(args.hosts), place, write=write)
    plan = build_guest_plan(
        kind.planned, args.platforms, factors, inventory, set_ups=args.set_ups, repetitions=args.repetitions
    )
    session = open_session(inventory, store)
    with _errors_by_option(kind):
        for experiment in session.experiments:
            refusals = experiment.refuse(experiment.steps(plan), plan, inventory, session.stage)
            for problem in refusals.values() if len(args.platforms) == 1 else ():
                # A typed command is corrected sooner than a plan. With several platforms, the others are measured.
                raise problem

    if args.dry_run:
        GuestTrialNarrator(kind, as_json=args.json).dry_run(plan, None, session, salt=utc_now())
        return 0

    def on_step(progress: StepProgress) -> None:
        record: Any = progress.record
        if isinstance(record, kind.record.record):
            answer({kind.name: record.to_json()}, trial_lines(kind, record), as_json=args.json)
        else:
            begun = f"{progress.number} of {progress.total}: {progress.step.describe()}"
            print_progress(describe_repetition(progress) or begun)

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


def _show_stored(args: argparse.Namespace, kind: GuestKind) -> int:
    """``--list``, ``--show ID`` and ``--summary``: what was taken before, of every testbed in the store."""
    from labconsole.model.record.summary import RunFilter
    from labconsole.report.trial_text import trial_lines, trial_table
    from labconsole.store.open import open_store

    with open_store(args.store, write=False) as store:
        where = RunFilter(plan_name=[args.plan]) if args.plan else RunFilter()
        records = [store.experiment(kind.record, args.show)] if args.show else store.experiments(kind.record, where)
        others = bool(args.plan and not records and store.experiment_texts(kind.record))
    text = kind.text
    if not records and not args.json:
        print_lines(f"none of plan {args.plan}" if others else f"no {kind.plural} are stored")
    elif args.summary:
        summary = text.summarize(records)
        answer({f"{kind.plural}_summary": text.summary_json(summary)}, text.summary_lines(summary), as_json=args.json)
    elif args.json:
        for record in records:
            print_json_line({kind.name: record.to_json()})
    else:
        print_lines(*(trial_lines(kind, records[0]) if args.show else trial_table(kind, records)))
    return 0
