"""The command search: the highest load that meets a loss goal, RFC 2544's further tests, and what was found before."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from pydantic import ValidationError

from labconsole.engine.load_search import Wanted, check_search
from labconsole.engine.search_campaign import SearchOutcome, make_searches
from labconsole.engine.session import Session
from labconsole.engine.stamps import utc_now
from labconsole.errors import Aborted, ConfigError
from labconsole.headless import drive, request_from
from labconsole.model.plan_search import Configuration, Search, search_hash
from labconsole.model.record import RunRecord
from labconsole.search_text import search_lines, searches_table
from labconsole.store import RunStore, open_store
from labconsole.testbed import hosts_path, load_testbed, open_session
from labconsole.text_report import run_row

PLAN_NAME = "search"
"""What the trials of a search from the command line have as their plan's name."""

_OPTIONS = {
    "goals": "--goals",
    "trial_s": "--trial-duration",
    "duration_sum_s": "--duration-sum",
    "width_ratio": "--width",
    "repetitions": "--repetitions",
    "max_trials": "--max-trials",
}


def search(args: argparse.Namespace) -> int:
    """``labconsole search``: 0 when every goal has a lower bound and all ended well, 1 when not."""
    if args.list or args.show:
        return _stored(args)
    asked = _asked(args)
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    request = request_from(args, inventory)
    try:
        check_search(asked, request, inventory)
    except ConfigError as exc:
        raise exc if exc.key not in _OPTIONS else _of_option(exc) from None
    configuration = Configuration(0, 1, request)
    # A new search at every call, which nothing resumes: what is to be resumed stands in a plan.
    wanted = Wanted(
        search=asked,
        configuration=configuration,
        hash=search_hash(asked, configuration, salt=utc_now()),
        plan_name=PLAN_NAME,
    )
    session = open_session(inventory, store)

    def on_trial(record: RunRecord) -> None:
        sys.stderr.write(run_row(record) + "\n")
        if args.json:
            _line(record.to_json())

    async def work(session: Session[RunStore]) -> int:
        outcome = await make_searches(
            [wanted], session, SearchOutcome(), purpose=f"search: {configuration.describe()}", on_trial=on_trial,
            take_over=args.take_over,
        )  # fmt: skip
        if outcome.stopped:
            return Aborted.exit_code
        (record,) = outcome.made
        if args.json:
            _line({"search": record.to_json()})
        else:
            sys.stdout.write("\n".join(search_lines(record)) + "\n")
        return 1 if record.status == "failed" or any(found.lower_bound_pps is None for found in record.goals) else 0

    return drive(session, session.nodes_of(request), work, [])


def _of_option(exc: ConfigError) -> ConfigError:
    """The same complaint about the option by which the key was given."""
    return ConfigError(exc.message, key=_OPTIONS[exc.key or ""], value=exc.value, allowed=exc.allowed)


def _asked(args: argparse.Namespace) -> Search:
    """What the command line asks for, in a plan's words. Raises ConfigError naming the option."""
    every = {"trial_s": args.trial_duration} if args.trial_duration is not None else {}
    times = {"repetitions": args.times} if args.times is not None else {}
    given: dict[str, Any] = {
        **every,
        **({"duration_sum_s": args.duration_sum} if args.duration_sum is not None else {}),
        **({"width_ratio": args.width} if args.width is not None else {}),
        **({"max_trials": args.max_trials} if args.max_trials is not None else {}),
        "goals": tuple(dict.fromkeys(args.goals)),
        "frame_loss": every,
        "back_to_back": {**every, **times},
        "latency": {**every, **times},
    }
    try:
        return Search.model_validate(given)
    except ValidationError as exc:
        problem = exc.errors(include_url=False)[0]
        steps = [str(step) for step in problem["loc"] if isinstance(step, str)]
        message, _, allowed = problem["msg"].removeprefix("Value error, ").partition(" | allowed: ")
        key = _OPTIONS.get(steps[-1] if steps else "")
        if key is None and "duration_sum_s" in message:
            key = "--duration-sum"
        value = problem["input"] if isinstance(problem["input"], (str, int, float)) else None
        raise ConfigError(
            message.replace("duration_sum_s", "--duration-sum"), key=key or "--goals", value=value,
            allowed=allowed or None,
        ) from None  # fmt: skip


def _stored(args: argparse.Namespace) -> int:
    """``search --list`` and ``search --show ID``: what was found before, of every testbed in the store."""
    with open_store(args.store, write=False) as store:
        records = [store.search(args.show)] if args.show else store.searches()
    if args.json:
        for record in records:
            _line({"search": record.to_json()})
    else:
        lines = search_lines(records[0], trials=True) if args.show else searches_table(records)
        sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _line(data: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()
