"""Charts of rates: axes with round and evenly spaced labels, two series in one resolution, the loss beneath them."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from labconsole.text.axis import Axis, fit_axis, fit_upright, format_ticks
from labconsole.text.charts import clear_figure
from labconsole.text.rate_panel import (
    DOTS_ACROSS,
    LEGEND,
    OFFERED_EVERY,
    Cells,
    RateSeries,
    _losses,
    draw_grid,
    draw_history,
    draw_panels,
    fit_grid,
    join_short_intervals,
)

NAN = math.nan


def traffic(pps: float = 50_000, loss: float = 0.0, samples: int = 100, noise: float = 0.0) -> RateSeries:
    what = random.Random(7)
    offered = [pps * (1 + what.gauss(0, noise)) for _ in range(samples)]
    return RateSeries([0.1 * (i + 1) for i in range(samples)], offered, [rate * (1 - loss) for rate in offered])


def panel(series: RateSeries, width: int, height: int, span_s: float | None = 10.0) -> list[Cells]:
    return draw_panels([series], range(1), width, height, across=1, span_s=span_s)[0]


def plain(rows: list[Cells]) -> list[str]:
    return ["".join(text for text, _ in row) for row in rows]


# -- axes -------------------------------------------------------------------------------------------------------------

FINITE = st.floats(-1e9, 1e9).map(lambda value: round(value, 6))


@given(low=FINITE, span=st.floats(1e-3, 1e9), cells=st.integers(3, 200), least=st.integers(1, 12))
def test_an_axis_holds_all_values_on_round_ticks_in_the_room_there_is(low: float, span: float, cells: int, least: int):
    high = low + span
    axis = fit_axis(low, high, cells, least_cells=least)
    assert axis.low <= low + 1e-6 * span + 1e-9 * abs(low)
    assert axis.high >= high - 0.021 * axis.step - 1e-9 * abs(high)
    assert axis.cells <= cells
    assert axis.step / 10 ** math.floor(math.log10(axis.step) + 1e-9) == pytest.approx(
        round(axis.step / 10 ** math.floor(math.log10(axis.step) + 1e-9), 1)
    )
    at = [cell for cell, _ in axis.ticks()]
    assert {b - a for a, b in zip(at, at[1:], strict=False)} == {axis.cells_per_part}, "evenly spaced"
    assert axis.parts == 1 or axis.cells_per_part >= least or cells <= 2 * least
    assert all(axis.dot(value, 4) == 4 * cell for cell, value in axis.ticks()), "each in the same place of its cell"


def test_an_axis_below_zero_has_zero_and_both_of_its_ends():
    axis = fit_upright(-0.005, 0.053, 11)
    values = [round(value, 4) for _, value in axis.ticks()]
    assert values == [-0.015, 0, 0.015, 0.03, 0.045, 0.06]


def test_labels_have_as_many_decimals_as_the_step_needs():
    assert format_ticks(Axis(0, 2.5, 2, 1), " %") == ["0 %", "2.5 %", "5.0 %"]
    assert format_ticks(Axis(0, 20_000, 2, 1)) == ["0", "20\u2009000", "40\u2009000"]


def test_an_axis_of_nothing_is_still_one():
    for low, high in ((0, 0), (5, 5), (NAN, NAN), (0, NAN)):
        assert fit_axis(low, high, 10).parts >= 1


# -- a panel ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(24, 5), (60, 9), (78, 12), (114, 20), (200, 55)])
def test_a_panel_has_exactly_the_lines_and_cells_asked_for(size: tuple[int, int]):
    width, height = size
    for series in (traffic(loss=0.02, noise=0.01), traffic(0), RateSeries([], [], []), RateSeries([1], [NAN], [NAN])):
        rows = plain(panel(series, width, height))
        assert len(rows) == height
        assert {cell_len(row) for row in rows} == {width}


@pytest.mark.parametrize("size", [(78, 12), (60, 12), (114, 17)])
def test_every_label_of_rates_and_loss_is_there_and_evenly_spaced(size: tuple[int, int]):
    rows = plain(panel(traffic(loss=0.02), *size))
    labels = [row.partition("┤")[0].strip() if "┤" in row else "" for row in rows]
    rates = [i for i, label in enumerate(labels) if label and "%" not in label]
    loss = [i for i, label in enumerate(labels) if "%" in label]
    for found in (rates, loss):
        assert len(found) >= 2
        assert len({b - a for a, b in zip(found, found[1:], strict=False)}) == 1
    assert labels[rates[-1]] == "0"
    assert labels[loss[-1]] == "0 %"
    assert loss[0] == rates[-1] + 1 or labels[rates[-1] + 1] == "", "the strip is beneath the rates"


def dots_of(rows: list[Cells], column: int) -> list[int]:
    """Heights of the dots in a column of dots, from the lowest row."""
    bits = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))[column % 2]
    found = []
    for up, row in enumerate(reversed(plain(rows))):
        char = ord(row.partition("┤")[2][column // 2] if "┤" in row else row.partition("│")[2][column // 2])
        found += [4 * up + y for y in range(4) if char >= 0x2800 and (char - 0x2800) & bits[y]]
    return found


@pytest.mark.parametrize("loss", [0.02, 0.05, 0.2])
def test_a_gap_on_a_large_screen_is_as_high_as_the_loss_is(loss: float):
    """Both series in dots of a quarter of a line: what is drawn is true to half a dot on either side."""
    rows = panel(traffic(49_800, loss), 114, 17)
    rates = [row for row in rows if "%" not in plain([row])[0]][:13]
    first, last = (next(i for i, row in enumerate(plain(rates)) if label in row) for label in ("50\u2009000┤", " 0┤"))
    dots = [dots_of(rates[: last + 1], column) for column in range(4, 196, OFFERED_EVERY * DOTS_ACROSS)]
    pps_per_dot = 50_000 / (4 * (last - first))
    for heights in dots:
        assert len(heights) == 2
        assert abs((max(heights) - min(heights)) * pps_per_dot - 49_800 * loss) <= pps_per_dot
        assert max(heights) * pps_per_dot == pytest.approx(49_800, abs=pps_per_dot / 2)


def test_offered_and_measured_are_told_apart_without_colour_and_the_legend_names_all():
    rows = panel(traffic(loss=0.3), 70, 14)
    measured = "".join(text for row in rows for text, kind in row if kind == "measured").strip()
    offered = "".join(text for row in rows for text, kind in row if kind == "offered")
    assert len(set(measured[1:-1])) == 1, "a line"
    assert set(offered) <= set("⠁⠂⠄⡀⠈⠐⠠⢀ "), "single dots"
    assert [words.split()[-1] for words, _ in LEGEND] == ["measured", "offered", "lost"]


def test_no_loss_is_the_lowest_bar_some_is_more_and_what_is_not_known_is_blank():
    none, some, unknown = (
        [text for row in panel(series, 70, 14)[-4:-2] for text, kind in row if kind in ("loss", "axis")]
        for series in (traffic(), traffic(loss=0.0001), RateSeries([1, 2], [NAN, NAN], [5, 5]))
    )
    assert "▁▁▁" in "".join(none)
    assert "▂▂▂" in "".join(some)
    assert not set("".join(unknown)) & set("▁▂▃▄▅▆▇█")


@pytest.mark.parametrize(("noise", "most"), [(0.0, 60 + 10), (0.05, 60 + 120 + 30)])
def test_plotext_gets_few_points_however_long_a_stream_is(monkeypatch: pytest.MonkeyPatch, noise: float, most: int):
    """plotext spends its time in Python on each point (decision 20)."""
    points: list[int] = []
    figure = type(clear_figure(10, 10))
    signal = figure.signal

    def counted(self: Any, xs: list[float], ys: list[float], **how: Any) -> Any:
        points.append(len(xs))
        return signal(self, xs, ys, **how)

    monkeypatch.setattr(figure, "signal", counted)
    panel(traffic(loss=0.02, samples=3000, noise=noise), 127, 17, span_s=300)
    assert 60 - 10 < sum(points) <= most


def test_what_is_not_known_is_a_gap_in_the_line_and_no_line_leads_across_it():
    measured = [40_000.0] * 30 + [NAN] * 40 + [40_000.0] * 30
    rows = panel(RateSeries([0.1 * (i + 1) for i in range(100)], [NAN] * 100, measured), 107, 14)
    line = next(row for row in rows if any(kind == "measured" for _, kind in row))
    (gap,) = [len(text) for text, kind in line[1:-1] if kind == "axis" and not text.strip()]
    assert gap / sum(len(text) for text, _ in line[1:-1]) == pytest.approx(0.4, abs=0.03)


def test_a_rate_below_zero_is_no_dot_in_the_strip_of_losses():
    rows = panel(RateSeries([0.1 * (i + 1) for i in range(50)], [1000.0] * 50, [-900.0] * 25 + [1000.0] * 25), 107, 14)
    cells = "".join(text for row in rows for text, kind in row if kind == "measured")
    assert 20 <= sum(char != " " for char in cells) <= 30


@pytest.mark.parametrize("size", [(24, 5), (63, 14), (114, 17)])
def test_an_interface_has_a_cell_for_each_of_its_newest_samples(size: tuple[int, int]):
    width, height = size
    received = [1000.0] * 10
    rows = draw_history(received, [500.0] * 300, width, height)
    assert len(rows) == height
    assert {cell_len(row) for row in plain(rows)} == {width}
    drawn = {
        kind: max(sum(char != " " for text, each in row if each == kind for char in text) for row in rows)
        for kind in ("received", "sent")
    }
    label_cells = plain(rows)[0].index("│") if "│" in plain(rows)[0] else plain(rows)[0].index("┤")
    assert drawn["sent"] == width - label_cells - 1, "as many as there is room for"
    assert drawn["received"] == 10
    line = next(row for row in rows if any(kind == "received" for _, kind in row))
    assert line[-1][1] == "received", "the newest is at the right end"


def test_an_interface_without_samples_has_an_axis_and_one_that_claims_too_much_a_sentence():
    assert any("┤" in row for row in plain(draw_history([], [], 60, 8)))
    assert "not drawn: sent rate 2" in plain(draw_history([1.0], [1.0, math.inf], 60, 8))[0]


def test_where_sending_begins_or_ends_no_loss_is_claimed():
    series = RateSeries([0.1 * i for i in range(1, 9)], [400, *[1000.0] * 6, 300], [0, *[1000.0] * 6, 0])
    rows = panel(series, 70, 14, span_s=None)
    assert not [text for row in rows for text, kind in row if kind == "loss" and text.strip()]


def test_a_counter_that_is_read_late_now_and_then_is_no_loss_in_the_strip():
    """True loss 2 %; each sample of a tenth of a second is off by up to 3 ms, which the next one makes up for."""
    what = random.Random(1)
    late = [0.0, *(what.uniform(-0.003, 0.003) for _ in range(100))]
    measured = [49_000 * (0.1 + late[i + 1] - late[i]) / 0.1 for i in range(100)]
    series = RateSeries([0.1 * (i + 1) for i in range(100)], [50_000.0] * 100, measured)
    known = [loss for loss in _losses(series) if math.isfinite(loss)]
    assert len(known) > 90
    assert all(loss == pytest.approx(2.0, abs=1.0) for loss in known)


def test_what_arrives_later_was_not_lost():
    """A queue fills up for half a second and empties in the next: nothing is lost, and nothing is drawn so."""
    measured = [50_000.0] * 20 + [30_000.0] * 5 + [70_000.0] * 5 + [50_000.0] * 20
    series = RateSeries([0.1 * (i + 1) for i in range(50)], [50_000.0] * 50, measured)
    known = [loss for loss in _losses(series) if math.isfinite(loss)]
    assert len(known) > 40
    assert all(loss == pytest.approx(0.0, abs=1e-9) for loss in known)
    half = RateSeries(series.seconds[:25], series.offered_pps[:25], measured[:25])
    assert _losses(half)[-1] == pytest.approx(20.0), "so far it has not arrived"


def test_losses_are_those_that_were_counted_and_not_added_up_from_rates():
    """Half a second in which nobody reads either counter, packets in a queue then; nothing is lost in the end."""
    seconds = [0.1, 0.6, *(0.7 + 0.1 * i for i in range(40))]
    missing = [0.0, 2000.0, NAN, *[900.0] * 39, 0.0]
    rates = [50_000.0] * 42
    series = RateSeries(seconds, [rates[0], NAN, *rates[2:]], [30_000.0, *rates[1:]], missing)
    assert all(loss == 0 for loss in _losses(series) if math.isfinite(loss))
    lossy = RateSeries(seconds, series.offered_pps, series.measured_pps, [*missing[:-1], 900.0])
    assert [loss for loss in _losses(lossy) if math.isfinite(loss)][-1] == 0, "all of it was missing from the beginning"
    known = RateSeries(seconds, series.offered_pps, series.measured_pps, [*missing[:-1], 900.0], lost_packets=0)
    assert all(loss == 0 for loss in _losses(known) if math.isfinite(loss)), (
        "the last sample came before the last packet"
    )
    assert join_short_intervals(
        RateSeries([0.1, 0.2, 0.25, 0.35, 0.45], [1] * 5, [1] * 5, [0, 1, 2, 3, 4, 5], 7)
    ).missing_packets == (0, 1, 3, 4, 5)


def test_several_samples_at_one_instant_are_drawn():
    """As at the beginning of a trial, while no clock of the stream has moved yet."""
    at = [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]
    drawn = join_short_intervals(RateSeries(at, [0.0, 0.0, 0.0, 14.0, 84.0, 0.0], [0.0, 0.0, 0.0, 0.0, 98.0, 0.0]))
    assert list(drawn.seconds) == at


def test_a_steady_loss_is_the_same_from_the_first_interval_on():
    seconds = [0.1 * (i + 1) for i in range(50)]
    series = RateSeries(seconds, [1000.0] * 50, [900.0] * 50, [10.0 * i for i in range(51)])
    assert [loss for loss in _losses(series) if math.isfinite(loss)] == pytest.approx([10.0] * 46, rel=1e-9)
    unknown = RateSeries(seconds, [1000.0] * 50, [900.0] * 50, [NAN] * 51, lost_packets=500)
    assert all(math.isnan(loss) for loss in _losses(unknown))


def test_a_count_that_is_behind_for_a_while_makes_no_loss_when_it_has_caught_up():
    seconds, rates = [0.1 * (i + 1) for i in range(50)], [1000.0] * 50
    series = RateSeries(seconds, rates, rates, [0.0, *[-3.0] * 30, *[0.0] * 20], lost_packets=0)
    assert all(loss == 0 for loss in _losses(series) if math.isfinite(loss))


def test_a_clock_that_is_read_late_makes_no_peak():
    """14 000 packets a second; every seventh stamp is up to 60 ms late, as on a node whose processors are all taken."""
    what = random.Random(5)
    read = [0.1 * i for i in range(101)]
    stamped = [at + (what.uniform(0.02, 0.06) if i % 7 == 3 else 0.0) for i, at in enumerate(read)]
    rates = [1400 / (b - a) for a, b in zip(stamped, stamped[1:], strict=False)]
    assert max(rates) > 20_000
    drawn = join_short_intervals(RateSeries(stamped[1:], [14_000.0] * 100, rates))
    assert len(drawn.seconds) > 80
    assert list(drawn.measured_pps) == pytest.approx([14_000] * len(drawn.seconds), rel=0.001)
    assert list(drawn.offered_pps) == pytest.approx([14_000] * len(drawn.seconds))
    unknown = join_short_intervals(RateSeries([0.1, 0.2, 0.25, 0.35, 0.45], [NAN, 1, NAN, 1, 1], [1, 1, 1, 1, 1]))
    assert [math.isnan(rate) for rate in unknown.offered_pps] == [True, True, False, False]


# -- all streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height", "count", "shown"),
    [(78, 12, 3, 3), (60, 12, 3, 3), (114, 17, 8, 8), (78, 12, 8, 4), (60, 12, 8, 3), (114, 17, 40, 12)],
)
def test_streams_that_find_no_room_are_counted_and_the_page_follows_the_chosen_one(width, height, count, shown):
    streams = [(f"s{i + 1}", traffic(40_000 + 1000 * i, 0.01)) for i in range(count)]
    for chosen in (0, count - 1):
        rows, more = draw_grid(streams, chosen, width, height, span_s=10.0)
        text = "\n".join(plain(rows))
        assert len(rows) <= height
        assert {cell_len(row) for row in plain(rows)} <= {*range(width + 1)}
        assert f"▸ s{chosen + 1} " in text
        seen = {word for word in text.split() if word.startswith("s") and word[1:].isdigit()}
        assert len(seen) == count - more
        if chosen == 0:
            assert len(seen) == shown


def test_all_panels_have_the_scale_of_the_largest():
    rows, _ = draw_grid([("a", traffic(10_000)), ("b", traffic(40_000))], 0, 78, 12, span_s=10.0)
    assert any("40\u2009000┤" in row for row in plain(rows))
    assert sum("┤" in row for row in plain(rows)) == len([row for row in plain(rows) if "┤" in row])
    assert fit_grid(78, 12, 2) == (2, 1)


def test_where_more_arrives_than_was_sent_the_losses_are_not_known():
    series = RateSeries([0.1 * (i + 1) for i in range(50)], [50_000.0] * 50, [51_500.0] * 50)
    assert all(math.isnan(loss) for loss in _losses(series))
