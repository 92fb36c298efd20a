"""Converts records to and from text, strict in what it reads, and bounds JSON that is not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from labconsole.errors import StoreError
from labconsole.model.identity import RUN_ID
from labconsole.model.record.format import misplaced_key
from labconsole.model.record.run import FORMAT, RunRecord, derive_conditions, format_hypervisor
from labconsole.wire.codec import count_parts

# -- JSON that is not trusted ------------------------------------------------------------------------------------------
# Parses untrusted JSON: its bytes and the values it creates are bounded before it is parsed.
#
# An empty list takes three bytes in a file and sixty-four in memory. The possible cost of a text is therefore counted
# first, by the rule that the wire has for lines (wire/codec.py).

MAX_RECORD_BYTES = 16 << 20
"""For one record. The record of a hundred nodes has a few hundred kilobytes."""

MAX_VALUES = 2 << 20
"""For one text; a manifest of 250 000 files uses three quarters of it."""


def parse_json(source: str | bytes, where: str, *, max_bytes: int = MAX_RECORD_BYTES) -> Any:
    """Parse a JSON text.

    Raises StoreError beginning with ``where`` if it is too long, contains more than ``MAX_VALUES`` values, or is not
    strict JSON.
    """
    if len(source) > max_bytes:
        raise StoreError(f"{where}: has {len(source)} bytes; allowed: {max_bytes}")
    # A shorter text has no room for that many values.
    if len(source) > MAX_VALUES and count_parts(source) > MAX_VALUES:
        raise StoreError(f"{where}: holds {count_parts(source)} values; allowed: {MAX_VALUES}")
    try:
        return json.loads(source, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        raise StoreError(f"{where}: not valid JSON: {exc}") from exc


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# -- records -----------------------------------------------------------------------------------------------------------
# Converts records to and from text, strict in what it reads.

MAX_NAME_CHARACTERS = 1000
"""For names, versions, hashes and authors of notes. hosts.yaml and plans allow names of 64 characters."""


def record_text(record: RunRecord) -> str:
    """The record as one line of ASCII JSON, equal for equal records. Raises StoreError if JSON cannot represent it."""
    try:
        # to_json() alone would turn a NaN inside `environment` into a null on the way to the disk: refuse it instead.
        return json.dumps(record.plain(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise StoreError(f"run {record.run_id}: the record cannot be written as JSON: {exc}") from exc


def json_object(source: str | bytes | Mapping[str, Any], where: str) -> dict[str, Any]:
    """Parse a JSON object from text, strictly. Raises StoreError beginning with ``where``."""
    data = parse_json(source, where) if isinstance(source, (str, bytes)) else source
    if not isinstance(data, Mapping):
        raise StoreError(f"{where}: is not a run record but a JSON {type(data).__name__}")
    return dict(data)


def parse_record(source: str | bytes | Mapping[str, Any], where: str) -> RunRecord:
    """Parse a record from JSON, exactly as docs/data-format.md describes it.

    Raises StoreError beginning with ``where``.
    """
    data = json_object(source, where)
    version = data.get("format")
    if type(version) is not int or version < 1:
        raise StoreError(f"{where}: format must be a positive integer, got {version!r}")
    if version > FORMAT:
        raise StoreError(f"{where}: has format {version}; this version of labconsole reads up to {FORMAT}")
    misplaced = misplaced_key(data)
    if misplaced is not None:
        raise StoreError(f"{where}: {misplaced}")
    try:
        record = RunRecord.model_validate_json(json.dumps(data if version > 1 else {**data, "method": 1}), strict=True)
    except (ValidationError, ValueError, TypeError, RecursionError) as exc:
        raise StoreError(f"{where}: {describe_validation_error(exc, 'record')}") from exc
    if not RUN_ID.fullmatch(record.run_id):
        raise StoreError(f"{where}: run_id {record.run_id!r} is not valid; allowed: letters, digits, '.', '_', '-'")
    utc_text(record.started_at, where)
    refuse_long_names(_names(record), where)
    return record


def checked_text(record: RunRecord) -> str:
    """The text of a record for storage. Raises StoreError if it could not be read back, which would go unnoticed."""
    if not RUN_ID.fullmatch(record.run_id):
        raise StoreError(f"run_id {record.run_id!r} is not valid; allowed: letters, digits, '.', '_', '-'")
    text = record_text(record)
    parse_record(text, f"run {record.run_id}")
    return text


def same_record(one: str, other: str, where: str) -> bool:
    """Whether two texts are the same record: an older program wrote fewer keys."""
    return one == other or parse_record(one, where) == parse_record(other, where)


def utc_text(timestamp: str, where: str) -> str:
    """An RFC 3339 time stamp in UTC with microseconds, so that sorting the text sorts the time."""
    try:
        moment = datetime.fromisoformat(timestamp)
        if moment.tzinfo is None:
            raise ValueError("it has no time zone")
        return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    except (ValueError, OverflowError) as exc:
        raise StoreError(f"{where}: {timestamp!r} is not an RFC 3339 time: {exc}") from exc


def refuse_long_names(names: Iterable[tuple[str, object]], where: str) -> None:
    """Raise StoreError beginning with ``where`` if a text is too long for a name.

    ``names``: pairs of a description and the text.
    """
    for what, value in names:
        if isinstance(value, str) and len(value) > MAX_NAME_CHARACTERS:
            raise StoreError(f"{where}: {what} has {len(value)} characters; allowed: {MAX_NAME_CHARACTERS}")


def _names(record: RunRecord) -> Iterator[tuple[str, object]]:
    """The texts of a record that lists and tables display."""
    conditions, plan, background = derive_conditions(record), record.plan, record.background
    for key in ("testbed", "testbed_fingerprint", "operator", "labconsole_version"):
        yield key, getattr(record, key)
    if plan is not None:
        yield from (("plan.name", plan.name), ("plan.hash", plan.hash), ("plan.order", plan.order))
    yield from ((f"requested.{key}", value) for key, value in record.requested)
    yield "set_up.id", record.set_up.id if record.set_up else None
    yield from ((f"conditions.{key}", value) for key, value in conditions)
    yield "the hypervisor with its version", format_hypervisor(conditions)
    if background is not None:
        yield from (("background.kind", background.kind), ("background.guest", background.guest))
    for stream in (*record.streams, *(background.streams if background else ())):
        for key in ("name", "generator", "generator_version"):
            yield f"a stream's {key}", getattr(stream, key)
        yield from ((f"a stream's {key}", value) for hop in stream.ledger for key, value in hop)
    yield from (("the code of a reason", reason.code) for reason in record.verdict.reasons)


def describe_validation_error(exc: Exception, whole: str) -> str:
    """Describe the problem with a record's data, with its place.

    ``whole``: the place's name if it is the record itself.
    """
    if not isinstance(exc, ValidationError):
        return str(exc)
    problem = exc.errors(include_url=False, include_input=False)[0]
    message = problem["msg"].removeprefix("Value error, ")
    return f"{'.'.join(str(step) for step in problem['loc']) or whole}: {message}"
