"""The names of all traffic generators, those of other packages too, without importing any."""

from __future__ import annotations

from typing import Final

from labconsole import plugins

PACKAGE: Final = "generators"
BUILT_IN: Final = ("auto", "pktgen", "afpacket")


def generator_names() -> tuple[str, ...]:
    """All generators that a plan may request: the built-in ones first."""
    return (*BUILT_IN, *(name for name in plugins.find_external_names(PACKAGE) if name not in BUILT_IN))
