"""Time stamps of a capture's frames by the sink's NIC: an extension of a stream's record. Pure.

``extensions["capture_stamps"]`` of a stream whose sink has ``capture_stamps: nic``. Without it the kernel stamped them.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from labconsole.model.strict_model import StrictModel

EXTENSION = "capture_stamps"
VERSION: Final = 1


class CaptureStamps(StrictModel):
    """``seconds_ahead``: whole seconds that the NIC's clock is ahead of the node's wall clock (TAI is 37 ahead of UTC),
    which are subtracted from delays. ``clock_bound_ns``: maximum remaining difference between the two, at the worse end
    of the trial. ``reason``: why neither is known, so that there is no one-way delay.
    """

    version: Literal[1] = VERSION
    by: Literal["nic"] = "nic"
    seconds_ahead: Annotated[int, Field(strict=True, ge=-(2**34), le=2**34)] | None
    clock_bound_ns: Annotated[int, Field(strict=True, ge=0, lt=2**66)] | None
    reason: str | None = None
