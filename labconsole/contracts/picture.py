"""The progress of a step, trial by trial, in one shape that can be drawn for every kind of experiment.

A trial is at a place on an axis (a load, a burst's length, a guest's number), and passes or fails criteria. The result
lies between two bounds that narrow. A kind that varies nothing gives no parts and describes its findings as text. A
kind with a crew gives the state of each guest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from labconsole.text.axis import MOST_CURVES, MOST_POINTS, Undrawable, check_count, check_number, check_text


class Between(NamedTuple):
    """The range of the result: above the highest place that passes, below the lowest that fails. An unknown bound is
    None.

    Not ``settled``: the bounds are provisional, and more trials at one of them may change them. ``high_by``: a word for
    what set the upper bound, where that does not characterize the unit under test.
    """

    low: float | None = None
    high: float | None = None
    settled: bool = True
    high_by: str = ""

    @property
    def known(self) -> bool:
        """Whether at least one bound is known."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturePart:
    """Trials that share an axis from ``low`` to ``high``, in ``unit``. ``criteria``: what each passes or fails."""

    name: str
    unit: str
    low: float
    high: float
    criteria: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureTrial:
    """One trial, in the order taken: its part, and its place ``at`` on the axis.

    ``missing_ratio``: the share of intended packets that did not arrive, lost or never sent, by which the trial is
    judged. ``passed``: the result of this trial alone for each criterion of its part. ``bounds``: those supported by
    all trials so far, for each criterion. Both are empty for a trial that is under way.
    """

    part: int
    at: float
    duration_s: float
    run_id: str = ""
    missing_ratio: float | None = None
    passed: tuple[bool, ...] = ()
    bounds: tuple[Between, ...] = ()


class CopyState(StrEnum):
    """What a guest does. ``STANDS``: it is up and has nothing to do."""

    STARTS = "starts"
    STANDS = "stands"
    WAITS = "waits"
    WORKS = "works"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureGuest:
    """The current state of a guest, or of one of several things that it does at once.

    ``begun_s`` and ``ended_s``: its marks, relative to the first of all marks, by the clock that the step trusts.
    ``seconds``: its duration. ``heard_s``: when this program received its first mark, by its own monotonic clock.
    ``found``: its results by column heading, the most important first, for a trial in which no guest takes a time. It
    replaces the guest's state, marks and ``seconds``.
    """

    name: str
    state: CopyState
    begun_s: float | None = None
    ended_s: float | None = None
    seconds: float | None = None
    heard_s: float | None = None
    found: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureCurve:
    """One guest over time: ``values[i]`` is the mean over the interval that ends at ``seconds[i]``."""

    name: str
    seconds: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """Guests over the same time, on one scale.

    ``moments``: events, each as its time in seconds and a short text. ``levels``: values that apply all the time, each
    with its text.
    """

    title: str
    unit: str
    curves: tuple[PictureCurve, ...]
    moments: tuple[tuple[float, str], ...] = ()
    levels: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPicture:
    """The progress of a step.

    ``found``: what is known, as one text per part. ``brief``: a short form of it, or empty to use ``found``.
    ``coming``: text on what follows the trial under way. ``left_trials``: about how many trials are left on a
    well-behaved unit; ``most_left_trials``: the most that can be left.
    """

    parts: tuple[PicturePart, ...] = ()
    trials: tuple[PictureTrial, ...] = ()
    under_way: PictureTrial | None = None
    found: tuple[str, ...] = ()
    brief: str = ""
    coming: tuple[str, ...] = ()
    left_trials: int | None = None
    most_left_trials: int | None = None
    guests: tuple[PictureGuest, ...] = ()
    over_time: OverTime | None = None

    def bounds_of(self, part: int) -> tuple[Between, ...]:
        """Return the bounds of each criterion that the trials of a part support so far."""
        known = next((trial.bounds for trial in reversed(self.trials) if trial.part == part and trial.bounds), None)
        return known if known is not None else (Between(),) * len(self.parts[part].criteria)


def drawable(picture: StepPicture) -> StepPicture:
    """Return the picture, or one whose text says which value no chart can show."""
    try:
        _check(picture)
    except (Undrawable, AttributeError, TypeError, ValueError) as exc:  # a plug-in may return any shape
        return StepPicture(found=(f"its picture cannot be drawn: {exc}",))
    return picture


def _check(picture: StepPicture) -> None:
    if not isinstance(picture, StepPicture):
        raise Undrawable(f"it is of type {type(picture).__name__}; allowed: StepPicture")
    for part in picture.parts:
        for name, value in (("low", part.low), ("high", part.high)):
            check_number(value, f"{name} of part {part.name!r}")
    for number, trial in enumerate((*picture.trials, *filter(None, [picture.under_way])), 1):
        ends = (end for bounds in trial.bounds for end in (bounds.low, bounds.high) if end is not None)
        for value in (trial.at, trial.duration_s, *ends):
            check_number(value, f"a place, bound or duration of trial {number}")
        if trial.part not in range(len(picture.parts)):
            raise Undrawable(f"trial {number} belongs to part {trial.part}; allowed: 0 to {len(picture.parts) - 1}")
    for curve in picture.over_time.curves if picture.over_time is not None else ():
        check_text(curve.name, "a curve's name")
        check_count(curve.seconds, f"seconds of {curve.name!r}", MOST_POINTS)
        check_count(curve.values, f"values of {curve.name!r}", MOST_POINTS)
        if len(curve.seconds) != len(curve.values):
            counts = f"{len(curve.seconds)} seconds and {len(curve.values)} values"
            raise Undrawable(f"curve {curve.name!r} has {counts}; allowed: as many of both")
    for what in (picture.over_time.moments, picture.over_time.levels) if picture.over_time is not None else ():
        check_count(what, "moments or levels", MOST_CURVES)
        for value, words in what:
            check_number(value, f"moment or level {words!r}")
            check_text(words, "the words of a moment or level")
