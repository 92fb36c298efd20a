"""Bounds on the clock difference of a stream's source and sink, and their origin: an extension of its record. Pure.

``extensions["clocks"]`` of a stream, if hosts.yaml states something about the clock of its source or its sink. The
statement of each node is in the record's ``environment.nodes`` as ``clock_stated``.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from labconsole.model.strict_model import StrictModel

EXTENSION = "clocks"
VERSION: Final = 1
STATED = "clock_stated"
"""The key of a node's statement in ``environment.nodes``."""

Span = Annotated[int, Field(strict=True, ge=0, lt=2**66)]
"""The sum of two nodes' bounds, whose clocks may be arbitrarily wrong."""


class ClockStatement(StrictModel):
    """A stated bound between a node's wall clock and its reference, at the worse end of the trial.

    ``by``: declared in hosts.yaml, or the program that keeps the clock. ``reference``: the program's reference; two
    reports are comparable only with the same one. ``is_reference``: the clock itself is the reference (None: not
    known), which counts only with a report that follows it. ``refused``: why nothing is stated; ``error_ns`` is None
    then.
    """

    by: Literal["declared", "chrony", "ptp4l"]
    error_ns: Span | None = None
    reference: str | None = None
    is_reference: Annotated[bool, Field(strict=True)] | None = None
    refused: str | None = None


class ClockAgreement(StrictModel):
    """``bound_ns``: maximum difference of the two wall clocks, or None if unknown. ``bound_by``: its origin.

    ``measured_ns``: by labconsole's own comparison; ``stated_ns``: the sum of both statements. The smaller one is used.
    ``unused``: why the statements do not count; ``contradicted``: because the measurement disproves them.
    """

    version: Literal[1] = VERSION
    bound_ns: Span | None
    bound_by: Literal["one kernel", "measured", "stated"] | None
    measured_ns: Span | None
    stated_ns: Span | None
    unused: str | None = None
    contradicted: bool = False
