"""The packets that the UUT's kernel reports as dropped, besides the ledger's rows: an extension of a run.

``extensions["kernel_drops"]`` of a run whose ``drop_reasons`` are not off, and ``extensions["host_kernel_drops"]`` of
the machine that runs the unit under test as a virtual one. Pure.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from labconsole.model.strict_model import StrictModel

EXTENSION, HOST_EXTENSION = "kernel_drops", "host_kernel_drops"
VERSION: Final = 1

Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Word = Annotated[str, Field(max_length=400)]


class DroppedElsewhere(StrictModel):
    """Test packets that were dropped at no hop of a stream. ``namespace``: "" for the node's own. None of
    ``interface``: it no longer exists; of ``stream``: they belong to none; of ``reason`` and ``function``: this kernel
    does not report it.
    """

    namespace: Word
    interface: Word | None
    stream: Word | None
    reason: Word | None
    function: Word | None
    packets: Count


class DropsRefusal(StrictModel):
    """Why there are no drops: a code and a sentence."""

    code: Word
    message: Word


class DropsRequest(StrictModel):
    """A request to the kernel for its drops. It gave no answer, and ``refused`` says why unless the node was lost.
    ``node``: the queried host, if it is not the unit under test.
    """

    version: Literal[1] = VERSION
    asked: Word
    budget_ns: Count | None
    mode: Word | None = None
    tells_reasons: bool | None = None
    refused: DropsRefusal | None = None
    node: Word | None = None


class DropsRecord(DropsRequest):
    """A request with its answer. ``complete``: from begin to end; otherwise counts are lower bounds."""

    passed_packets: Count
    looked_packets: Count
    unreadable_packets: Count
    unlisted_packets: Count
    missed_packets: Count
    counted_ns: Count
    ended_early: bool
    complete: bool
    estimated_cost_ns: Count
    elsewhere: tuple[DroppedElsewhere, ...]
