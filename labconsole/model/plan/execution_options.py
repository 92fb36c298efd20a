"""How a plan is executed apart from its points: warm-up, retries, stop conditions, commands before and after.

None of this is in a plan's hash: it decides which trials run and when, not the meaning of a single one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from labconsole.model.strict_model import StrictModel

Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Few = Annotated[int, Field(strict=True, ge=1, le=100_000)]

CLOCK_FORMS = ("%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M")
INVALID_CODES = (
    "aborted",
    "link_lost",
    "lease_taken",
    "failed",
    "not_measured",
    "no_packets",
    "generator_failed",
    "counter_decreased",
    "interface_gone",
    "carrier_changed",
    "mtu_changed",
    "guest_changed",
    "background_missed",
    "negative_loss",
    "witnesses_disagree",
    "guests_missing",
    "no_memory",
    "no_space",
    "job_failed",
    "mark_lost",
    "mark_forged",
    "swapped",
    "not_cold",
    "limiter_missing",
    "limiter_unasked",
    "weights_missing",
    "reader_missing",
    "routes_missing",
)
"""The codes that make a run invalid (model/record/verdict_codes.py; a test compares the two)."""


class WarmUp(StrictModel):
    """A discarded trial after each new set-up of the unit under test."""

    target: Literal["max", "same"] = "max"
    """max: no delay between packets, so that every table and cache fills; same: the target of the next trial."""

    duration_s: Annotated[Positive, Field(le=3600)] | None = None
    """Duration, or None for that of the next trial."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Accept ``warm_up: true`` for all of the defaults."""
        return {} if value is True else value


def _code(value: str) -> str:
    if value not in INVALID_CODES:
        raise ValueError(f"is not a code that makes a run invalid | allowed: {', '.join(INVALID_CODES)}")
    return value


class Retry(StrictModel):
    """Which invalid trials are repeated (max_redo says how often), and after which pause."""

    codes: tuple[Annotated[str, AfterValidator(_code)], ...] | None = None
    """Codes of which a trial needs one to be repeated, or None for all."""

    pause_s: Annotated[float, Field(strict=True, ge=0, le=3600, allow_inf_nan=False)] = 0.0


class Raising(StrictModel):
    """Skip targets above one that loses more than this share in this number of repetitions."""

    loss_ratio: Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
    repetitions: Few = 1


class Lowering(StrictModel):
    """Skip targets below this number of loss-free targets in a row in this repetition (RFC 2544, 26.3)."""

    lossless: Few = 2


def _clock(value: str) -> str:
    for form in CLOCK_FORMS:
        try:
            datetime.strptime(value, form)
        except ValueError:
            continue
        return value
    raise ValueError(
        'is not a valid time | allowed: "06:30" for the next time it is 06:30, or "2026-11-22 06:30"; local time'
    )


class Stop(StrictModel):
    """Conditions for an early end. The next replay measures the missing trials."""

    invalid_in_a_row: Few | None = None
    at: Annotated[str, AfterValidator(_clock)] | None = None
    after_s: Positive | None = None
    raising: Raising | None = None
    lowering: Lowering | None = None

    def deadline(self, now: datetime) -> datetime | None:
        """The wall-clock time after which no trial begins, for a replay that begins ``now`` (local time)."""
        if self.at is None:
            return None
        for form in CLOCK_FORMS:
            try:
                then = datetime.strptime(self.at, form)
            except ValueError:
                continue
            if form != "%H:%M":
                return then.replace(tzinfo=now.tzinfo)
            then = now.replace(hour=then.hour, minute=then.minute, second=0, microsecond=0)
            return then if then > now else then + timedelta(days=1)
        raise AssertionError(self.at)


def _allow_bare_command(schema: dict[str, Any]) -> None:
    """Schema for editors: a command may be just its list of words."""
    whole = dict(schema)
    schema.clear()
    schema["anyOf"] = [whole, whole["properties"]["run"]]


class HookCommand(StrictModel):
    """One command on the operator's machine, as a list of words, without a shell."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_allow_bare_command)

    run: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1, max_length=1000)]
    timeout_s: Annotated[Positive, Field(le=86400)] = 60.0

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Accept ``[./tune.sh, --quiet]`` for ``{run: [./tune.sh, --quiet]}``."""
        return {"run": value} if isinstance(value, (list, tuple)) else value
