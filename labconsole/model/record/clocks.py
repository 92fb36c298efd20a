"""How far the clocks of a stream's source and sink may be apart, and by whose word: an extension of its record. Pure.

``extensions["clocks"]`` of a stream: where hosts.yaml has something stated of the clock of its source or its sink. What
was stated of each node is in the record's ``environment.nodes`` as ``clock_stated``.
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
"""The sum of what two nodes say, whose clocks may show anything."""


class ClockStatement(StrictModel):
    """How far a node's wall clock may be from its reference by somebody's word, at the worse end of the trial.

    ``by``: declared in hosts.yaml, or the program that keeps the clock. ``reference``: what that program follows; two
    reports hold for each other only under one. ``is_reference``: it is that itself (None: not known), which counts only
    beside a report that follows it. ``refused``: why nothing is stated, and ``error_ns`` is None then.
    """

    by: Literal["declared", "chrony", "ptp4l"]
    error_ns: Span | None = None
    reference: str | None = None
    is_reference: Annotated[bool, Field(strict=True)] | None = None
    refused: str | None = None


class ClockAgreement(StrictModel):
    """``bound_ns``: how far the two wall clocks may be apart; None: not known. ``bound_by``: whose that is.

    ``measured_ns``: by labconsole's own comparison; ``stated_ns``: the sum of both statements. The smaller one holds.
    ``unused``: why the statements do not count; ``contradicted``: because the measurement shows them to be false.
    """

    version: Literal[1] = VERSION
    bound_ns: Span | None
    bound_by: Literal["one kernel", "measured", "stated"] | None
    measured_ns: Span | None
    stated_ns: Span | None
    unused: str | None = None
    contradicted: bool = False
