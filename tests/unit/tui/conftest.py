"""Clocks that stand still, for pictures."""

from __future__ import annotations

import pytest

from labconsole.tui.console import clock
from labconsole.tui.parts import charts


@pytest.fixture
def still_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "monotonic_s", lambda: 100.0)
    monkeypatch.setattr(clock, "wall_s", lambda: 1_772_442_900.0)
    monkeypatch.setattr(charts, "MIN_INTERVAL_S", 0.0)
    monkeypatch.delenv("NO_COLOR", raising=False)
