"""How a plan is carried out beside its points: warm-up, retries, when to stop, commands before and after.

None of this is in a plan's hash: it decides which trials are taken and when, not what a single one measures.
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
"""The codes that make a run invalid (model/record/verdict_codes.py, which a test holds this to)."""


class WarmUp(StrictModel):
    """A trial that is taken and thrown away whenever the unit under test was set up anew."""

    target: Literal["max", "same"] = "max"
    """max: no delay between packets, so that every table and cache fills; same: as the trial that follows."""

    duration_s: Annotated[Positive, Field(le=3600)] | None = None
    """None: as long as the trial that follows."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """``warm_up: true`` for all of the defaults."""
        return {} if value is True else value


def _code(value: str) -> str:
    if value not in INVALID_CODES:
        raise ValueError(f"is not a code that makes a run invalid | allowed: {', '.join(INVALID_CODES)}")
    return value


class Retry(StrictModel):
    """Which invalid trials are taken again (max_redo says how often), and after which pause."""

    codes: tuple[Annotated[str, AfterValidator(_code)], ...] | None = None
    """Only those with one of these reasons; None: all."""

    pause_s: Annotated[float, Field(strict=True, ge=0, le=3600, allow_inf_nan=False)] = 0.0


class Raising(StrictModel):
    """Leave out what is above a target that loses more than this share in so many repetitions."""

    loss_ratio: Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
    repetitions: Few = 1


class Lowering(StrictModel):
    """Leave out what is below so many targets in a row that lost nothing in this repetition (RFC 2544, 26.3)."""

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
    """When to end before everything is measured. What is missing then is measured by the next replay."""

    invalid_in_a_row: Few | None = None
    at: Annotated[str, AfterValidator(_clock)] | None = None
    after_s: Positive | None = None
    raising: Raising | None = None
    lowering: Lowering | None = None

    def deadline(self, now: datetime) -> datetime | None:
        """The wall-clock time at which to begin no further trial, for a replay that begins ``now`` (local time)."""
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
    """For editors: a command may be its words alone."""
    whole = dict(schema)
    schema.clear()
    schema["anyOf"] = [whole, whole["properties"]["run"]]


class HookCommand(StrictModel):
    """One command on the operator's machine: its words, no shell."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_allow_bare_command)

    run: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1, max_length=1000)]
    timeout_s: Annotated[Positive, Field(le=86400)] = 60.0

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """``[./tune.sh, --quiet]`` for ``{run: [./tune.sh, --quiet]}``."""
        return {"run": value} if isinstance(value, (list, tuple)) else value
