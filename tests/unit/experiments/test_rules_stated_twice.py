"""The rules of verdicts on trials of guests are stated twice, apart from each other: both say the same of any record."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from labconsole.experiments.boot import verdict as boot_verdict
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.verify import RULES as BOOT_RULES
from labconsole.experiments.boot.verify import recompute_boot
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.rules import IN_RULES, OUT_RULES, RING_RULES
from labconsole.experiments.flow.verdict import is_link_limited
from labconsole.experiments.job import verdict as job_verdict
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.verify import RULES as JOB_RULES
from labconsole.experiments.job.verify import recompute_job
from labconsole.experiments.route import verdict as route_verdict
from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.verify import RULES as ROUTE_RULES
from labconsole.experiments.route.verify import recompute_route
from labconsole.measure.recompute.guest_trial import VerdictRules
from labconsole.model.record.kind import record_kinds
from labconsole.model.record.run import Reason
from labconsole.model.tolerances import Tolerances
from support.consistent_guests import consistent_guests, judged_flow

LIMITS = Tolerances()
UNTOLD = {"boot": {"guests_missing"}}
"""What whoever judges is told, and does not conclude."""

CHANGES = 400


def judged_route(record: RouteRecord) -> Sequence[Reason]:
    return route_verdict.derive_reasons(
        record.requested,
        record.routers,
        record.sink,
        start_skew_s=record.start_skew_s,
        swapped_pages=record.swapped_pages,
        limits=LIMITS,
    )


def judged_job(record: JobRecord) -> Sequence[Reason]:
    return job_verdict.derive_reasons(
        record.copies,
        empty=record.empty,
        timekeeper=record.timekeeper,
        start_skew_s=record.start_skew_s,
        swapped_pages=record.swapped_pages,
        disk=record.disk,
        program=record.program,
        limits=LIMITS,
    )


def judged_boot(record: BootRecord) -> Sequence[Reason]:
    return boot_verdict.derive_reasons(
        record.guests,
        start=record.requested.start,
        clock_error_s=record.clock_error_s,
        clock_error_allowed_s=record.clock_error_allowed_s,
        files=record.files,
        timekeeper=record.timekeeper,
        swapped_pages=record.swapped_pages,
        limits=LIMITS,
    )


OF: dict[str, tuple[VerdictRules[Any], Callable[[Any], Sequence[Reason]]]] = {
    "out": (OUT_RULES, judged_flow),
    "weights": (OUT_RULES, judged_flow),
    "beside": (OUT_RULES, judged_flow),
    "ring": (RING_RULES, judged_flow),
    "in": (IN_RULES, judged_flow),
    "route": (ROUTE_RULES, judged_route),
    "job": (JOB_RULES, judged_job),
    "disk": (JOB_RULES, judged_job),
    "boot": (BOOT_RULES, judged_boot),
    "hot": (BOOT_RULES, judged_boot),
}


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """What a trial saw and asked for, by its place."""
    if isinstance(value, dict):
        for key, each in value.items():
            if path or key not in ("verdict", "plan", "environment", "influences", "in_force", "set_up", "attestation"):
                yield from leaves(each, (*path, key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from leaves(each, (*path, place))
    else:
        yield path, value


def changed(value: Any, source: random.Random) -> Any:
    """Something else of the kind that it is."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        scaled = [value * factor for factor in (0, 0.5, 0.98, 0.9949, 1.004, 1.03, 2)]
        return source.choice([type(value)(each) for each in (*scaled, value + 1, value - 1, value + 60)] + [None])
    if value is None:
        return source.choice([0, 1, 70, 10**9, 0.5])
    return source.choice(["", "error", None, value])


def put(data: Any, path: tuple[str | int, ...], value: Any) -> None:
    for step in path[:-1]:
        data = data[step]
    data[path[-1]] = value


@pytest.mark.parametrize("name", OF)
def test_both_statements_of_the_rules_agree_on_whatever_a_record_holds(name: str) -> None:
    rules, judge = OF[name]
    kind, base = consistent_guests()[name]
    source, seen = random.Random(name), set[str]()
    for _ in range(CHANGES):
        data = json.loads(json.dumps(base))
        for path, value in source.sample(list(leaves(data)), source.choice((1, 2))):
            put(data, path, changed(value, source))
        try:
            record = record_kinds()[kind].record.model_validate_json(json.dumps(data), strict=True)
        except ValidationError:
            continue
        if getattr(record, "weights", None) is not None and not _is_whole(record):  # said of its steps
            continue
        try:
            codes = {each.code for each in judge(record)}
        except (ArithmeticError, ValueError):  # weights of other guests, or of no link, which no trial has
            continue
        only = {code for code, holds in rules.only.items() if holds(record, LIMITS)}
        also = {code for code, holds in rules.also.items() if holds(record, LIMITS)}
        assert only == codes & set(rules.only), data
        assert also - UNTOLD.get(kind, set()) == codes - set(rules.only), data
        seen |= codes
    assert len(seen) > 4, seen


def _is_whole(record: FlowRecord) -> bool:
    """Whether its steps are those that were asked for, without which nothing is judged."""
    asked, told = record.requested.weights, record.weights
    return asked is not None and told is not None and tuple(each.weights for each in told.steps) == asked.steps


def test_every_rule_of_a_kind_is_seen_to_hold_or_is_of_another_pattern() -> None:
    assert set(OUT_RULES.only) >= set(RING_RULES.only) - {"no_packets"}
    assert set(IN_RULES.only) - set(OUT_RULES.only) == {
        "generator_errors",
        "not_measured",
        "reader_missing",
        "foreign_frames",
        "lost_at_source",
    }


def parsed(name: str, **changes: Any) -> Any:
    kind, data = consistent_guests()[name]
    for path, value in changes.items():
        put(data, tuple(int(step) if step.isdigit() else step for step in path.split("__")), value)
    return record_kinds()[kind].record.model_validate_json(json.dumps(data), strict=True)


def test_a_judge_that_forgot_a_rule_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What judged a trial may be wrong: verify does not ask it."""
    monkeypatch.setattr(route_verdict, "_routes", lambda requested, router: iter(()))
    record = parsed("route", routers__0__routes=0, routers__1__routes_after=1)
    assert judged_route(record) == []
    assert [each.where for each in recompute_route(record)] == ["verdict.reasons"]
    monkeypatch.setattr(job_verdict, "_copy", lambda copy: iter(()))
    record = parsed("job", copies__0__exit_status=1)
    assert "verdict.reasons" in [each.where for each in recompute_job(record)]
    monkeypatch.setattr(boot_verdict, "_cached", lambda start, files: iter(()))
    record = parsed("boot", files__0__cached_pages=9)
    assert [each.where for each in recompute_boot(record)] == ["verdict.reasons"]


def test_what_is_called_short_on_a_full_link_is_excused() -> None:
    """An earlier version said so of guests that want more than fits."""
    record = parsed("out")
    assert not is_link_limited(record.requested, record.senders, record.line_bps)
    assert not OUT_RULES.excused["offered_short"](record, LIMITS)
    full = record.model_copy(update={"line_bps": record.sum_bps * 1.001})
    full = full.model_copy(update={"requested": full.requested.model_copy(update={"limits_bps": ()})})
    assert is_link_limited(full.requested, full.senders, full.line_bps)
    assert OUT_RULES.excused["offered_short"](full, LIMITS)
