"""A stream of which no place is known, among more streams than there is room for."""

from __future__ import annotations

from labconsole.engine.live.telemetry import StreamLive, Telemetry
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.screens.bench.topology import StreamPathView, Topology
from support.fake_session import make_inventory


def test_a_way_without_places_is_one_line():
    topology = Topology(make_inventory(), Telemetry(), ConsoleState())
    assert "unknown" in topology._one_line(StreamPathView("unknown", (), None, None), 80)[0][0]


def test_the_ratio_is_of_what_was_offered():
    live = StreamLive("s", "a", "b", offered_packets=200, measured_packets=196, final=True)
    assert live.loss_ratio == 0.02
    assert StreamLive("s", "a", "b", offered_packets=0, measured_packets=0, final=True).loss_ratio is None
