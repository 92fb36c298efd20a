"""A NIC's own clock: its lead over the system's."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import Tuple

from labconsole.agent.reading.clock_offset import closest
from labconsole.agent.reading.ethtool import Ethtool
from labconsole.wire.codec import WireError


def offset_ns(interface: str) -> Tuple[int, int]:
    """Return the NIC clock's lead over the wall clock, and its uncertainty. Raises WireError."""
    with closing(Ethtool()) as tool:
        stamps = tool.time_stamps(interface)
    if stamps is None or stamps["clock"] is None:
        raise WireError("not_told", "%s: this port's NIC has no clock of its own" % interface)
    path = "/dev/ptp%d" % stamps["clock"]
    try:
        device = os.open(path, os.O_RDONLY)
    except OSError as exc:
        raise WireError("not_told", "%s: %s" % (path, exc.strerror)) from None
    try:
        number = ~device << 3 | 3  # FD_TO_CLOCKID
        return closest(time.time_ns, lambda: time.clock_gettime_ns(number))
    except OSError as exc:
        raise WireError("not_told", "%s: %s" % (path, exc.strerror)) from None
    finally:
        os.close(device)
