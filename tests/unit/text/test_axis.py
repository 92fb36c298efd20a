"""Which values an axis of a chart can have. Nothing is drawn here: the checks come before any chart library.

The limits are lowered where a test needs a value beyond them, so that no input here harms a library.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labconsole.contracts.picture import (
    Between,
    OverTime,
    PictureCurve,
    PicturePart,
    PictureTrial,
    StepPicture,
    drawable,
)
from labconsole.text import axis, charts
from labconsole.text.axis import Undrawable, check_count, check_number, check_numbers, check_span, check_text
from labconsole.text.charts import CurveAxes, CurvePointMark, check_chart, require_within_axis
from labconsole.text.rate_panel import RateSeries, draw_panels

WHOLE_DIGITS = 10**400
"""A whole number that no float can hold: libraries refuse it by an error."""


def untyped(value: Any) -> Any:
    """What a plug-in without types may put anywhere."""
    return value


@pytest.fixture
def to_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axis, "LARGEST", 100.0)
    monkeypatch.setattr(axis, "SMALLEST", 0.01)


@pytest.mark.parametrize("value", [3, 3.0, Fraction(6, 2), Decimal(3), np.float32(3), np.float64(3), np.int64(3)])
def test_every_type_of_number_is_one_plain_float(value: Any):
    assert check_number(value, "y") == 3.0
    assert type(check_number(value, "y")) is float
    check_numbers([value, 2], "y")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "y is None; allowed: a number"),
        (True, "y is True; allowed: a number"),
        (np.bool_(True), "y is 'True' of type"),
        ("3", "y is '3' of type str; allowed: a number"),
        (1 + 0j, "of type complex; allowed: a number"),
        ([3.0], "of type list; allowed: a number"),
        (np.array([3.0]), "of type ndarray; allowed: a number"),
        (WHOLE_DIGITS, "allowed: a finite number up to 1e+30"),
    ],
)
def test_what_is_no_number_is_named_with_its_type(value: object, words: str):
    for check in (lambda: check_number(value, "y"), lambda: check_numbers([1.0, value], "y")):
        with pytest.raises(Undrawable) as raised:
            check()
        assert words in str(raised.value).replace("y 2 is", "y is")


@pytest.mark.usefixtures("to_a_hundred")
@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: check_number(101, "y"), "y is 101; allowed: a finite number up to 100"),
        (lambda: check_number(-101.5, "y"), "y is -101.5; allowed: a finite number up to 100"),
        (lambda: check_numbers([1, 2, 101], "x of point"), "x of point 3 is 101; allowed: a finite number up to 100"),
        (lambda: check_number(0, "y", log=True), "y is 0; allowed on a logarithmic axis: 0.01 or more"),
        (lambda: check_number(-1, "y", log=True), "y is -1; allowed on a logarithmic axis: 0.01 or more"),
        (lambda: check_span([0.0, 0.001], "x"), "x reaches only to 0.001; allowed: 0, or 0.01 or more"),
        (lambda: axis.fit_axis(0.0, 0.001, 80), "an axis reaches only to 0.001"),
        (lambda: axis.fit_axis(0.0, 1000.0, 80), "an end of an axis is 1000; allowed"),
        (lambda: check_count("abc", "names", 3), "names is 'abc' of type str; allowed: a tuple"),
        (lambda: check_count(iter("abc"), "names", 3), "of type str_ascii_iterator; allowed: a tuple"),
        (lambda: check_count(["a", "cd"] * 2, "names", 3), "names has 4 items; allowed: up to 3"),
        (lambda: check_text(None, "title"), "title is None; allowed: text"),
        (lambda: check_text("abcd", "title", 3), "title has 4 characters; allowed: up to 3"),
    ],
)
def test_what_an_axis_cannot_have_is_named(check: Callable[[], object], words: str):
    with pytest.raises(Undrawable) as raised:
        check()
    assert words in str(raised.value)


@pytest.mark.usefixtures("to_a_hundred")
def test_what_an_axis_can_have_passes():
    assert check_number(100, "y") == 100
    assert check_number(0.01, "y", log=True) == 0.01
    check_span([0.0, 0.0], "x")
    check_span([], "x")
    check_numbers([], "x")
    check_numbers([0, -100, 100.0], "x")


def test_an_axis_at_one_large_value_has_a_span():
    assert axis.fit_axis(1e20, 1e20, 40).high > 1e20


def points(*ys: Any) -> list[CurvePointMark]:
    return [CurvePointMark(float(place), y) for place, y in enumerate(ys)]


@pytest.mark.parametrize(
    ("curves", "axes", "words"),
    [
        ([points(1, 2), points(1, None)], CurveAxes(), "curve 2: y of point 2 is None; allowed: a number"),
        ([points(1, "2")], CurveAxes(), "curve 1: y of point 2 is '2' of type str"),
        ([[CurvePointMark(True, 1)]], CurveAxes(), "curve 1: x of point 1 is True"),
        ([[CurvePointMark(1, 1, untyped("0"), 2)]], CurveAxes(), "curve 1: interval's end 1 is '0'"),
        ([[CurvePointMark(-1, 1)]], CurveAxes(), "an x is below 0; allowed: 0 or more, where the axis begins"),
        ([points(1)], CurveAxes(levels=[untyped(None)]), "a level 1 is None"),
        ([points(1)], CurveAxes(moments=[(untyped(None), "step")]), "a moment 1 is None"),
        ([points(1)], CurveAxes(x_ticks=[untyped(None)]), "a tick 1 is None"),
        ([points(1)], CurveAxes(y_top=untyped(None)), "y_top 1 is None"),
    ],
)
def test_a_chart_is_checked_and_its_first_wrong_value_named(curves: Any, axes: CurveAxes, words: str):
    with pytest.raises(Undrawable) as raised:
        check_chart(curves, axes)
    assert words in str(raised.value)
    assert words[:20] in "".join(text for row in charts.draw_curves(curves, axes, 120, 8) for text, _ in row)


def test_a_chart_has_a_bounded_number_of_points_and_curves(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(charts, "MOST_POINTS", 3)
    monkeypatch.setattr(charts, "MOST_CURVES", 2)
    with pytest.raises(Undrawable, match="4 points; allowed: up to 3"):
        check_chart([points(1, 2), points(1, 2)], CurveAxes())
    with pytest.raises(Undrawable, match="curves has 3 items; allowed: up to 2"):
        check_chart([[], [], []], CurveAxes())


def test_bars_beside_the_names_are_a_sentence_and_none_of_the_bars_is_below_zero():
    def drawn(*marks: CurvePointMark) -> str:
        return "".join(t for row in charts.draw_bars([marks], ["a", "b"], CurveAxes(), 100, 12) for t, _ in row)

    assert "not drawn: a value is beyond its axis, which goes from -0.5 to 1.5" in drawn(CurvePointMark(2, 1))
    assert "not drawn" not in drawn(CurvePointMark(0, -1, -2, -0.5), CurvePointMark(1, 1))


def test_the_last_guard_before_the_library_knows_the_ends_of_the_axis():
    require_within_axis([0, 1, 1.05], 0, 1)
    for beyond in (1.2, -0.2):
        with pytest.raises(Undrawable, match="beyond its axis"):
            require_within_axis([beyond], 0, 1)


def rates(seconds: tuple[Any, ...], offered: tuple[Any, ...]) -> str:
    series = RateSeries(seconds, offered, (1.0,) * len(offered))
    (panel,) = draw_panels([series], range(1), 100, 9, across=1, span_s=None)
    assert len(panel) == 9
    return "".join(text for row in panel for text, _ in row)


def test_rates_over_time_are_checked_and_one_that_is_not_known_is_no_fault():
    # These charts are labconsole's own, without any library.
    nan, infinite = float("nan"), float("inf")
    assert "not drawn" not in rates((1.0, 2.0, 3.0), (1.0, nan, 3.0))
    assert "series 1: second 2 is inf; allowed: a finite number" in rates((1.0, infinite), (1.0, 2.0))
    assert "series 1: second 2 is nan; allowed: a finite number" in rates((1.0, nan), (1.0, 2.0))
    assert "series 1: offered rate 1 is inf" in rates((1.0, 2.0), (infinite, 2.0))
    assert "allowed: as many of each" in rates((1.0, 2.0, 3.0), (1.0, 2.0))


LOAD = PicturePart(name="load", unit="kbit/s", low=0, high=10)


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (None, "it is of type NoneType; allowed: StepPicture"),
        (
            StepPicture(parts=(PicturePart(name="load", unit="", low=0, high=untyped(None)),)),
            "high of part 'load' is None",
        ),
        (
            StepPicture(parts=(LOAD,), trials=(PictureTrial(part=0, at=untyped("5"), duration_s=1),)),
            "of trial 1 is '5'",
        ),
        (StepPicture(parts=(LOAD,), trials=(PictureTrial(part=1, at=5, duration_s=1),)), "trial 1 belongs to part 1"),
        (
            StepPicture(parts=(LOAD,), trials=(PictureTrial(part=0, at=5, duration_s=1, bounds=(Between(True),)),)),
            "of trial 1 is True",
        ),
        (
            StepPicture(
                over_time=OverTime(title="", unit="", curves=(PictureCurve(name="a", seconds=(1, 2), values=(1,)),))
            ),
            "curve 'a' has 2 seconds and 1 values; allowed: as many of both",
        ),
        (
            StepPicture(over_time=OverTime(title="", unit="", curves=(), levels=((untyped(None), "limit"),))),
            "moment or level 'limit' is None",
        ),
    ],
)
def test_a_steps_picture_that_cannot_be_drawn_says_why_instead(picture: Any, words: str):
    (found,) = drawable(picture).found
    assert found.startswith("its picture cannot be drawn: ")
    assert words in found


def test_a_steps_picture_that_can_be_drawn_is_left_as_it_is():
    curve = PictureCurve(name="a", seconds=(1, 2), values=(1, 2))
    picture = StepPicture(parts=(LOAD,), over_time=OverTime(title="", unit="", curves=(curve,), moments=((1, "x"),)))
    assert drawable(picture) is picture
