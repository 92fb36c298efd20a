"""How far a step has come, trial by trial, as whoever watches can draw it: the same shape for every kind of experiment.

A trial is put at a place on an axis (a load, a burst's length, a guest's number), and passes or fails criteria; what is
sought lies between two bounds that narrow. A kind that varies nothing gives no parts, and says in words what it found;
one that has a crew says how far each of its guests is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from labconsole.text.axis import MOST_CURVES, MOST_POINTS, Undrawable, check_count, check_number, check_text


class Between(NamedTuple):
    """Where what is sought lies: above the highest place that passes, below the lowest that fails; None: none yet.

    Not ``settled``: by how it looks so far, and more trials at one of them may say otherwise. ``high_by``: what set the
    upper bound, in a word, where that says nothing about the unit under test.
    """

    low: float | None = None
    high: float | None = None
    settled: bool = True
    high_by: str = ""

    @property
    def known(self) -> bool:
        """Whether there is one of them."""
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
    """One trial, in the order taken: of which part, ``at`` what place. ``missing_ratio``: by which it is
    judged, of what was to be sent what did not arrive, lost or never sent.

    Of each criterion of its part ``passed`` by this trial alone, and the ``bounds`` that all so far support. Of one
    that is under way nothing of that is known.
    """

    part: int
    at: float
    duration_s: float
    run_id: str = ""
    missing_ratio: float | None = None
    passed: tuple[bool, ...] = ()
    bounds: tuple[Between, ...] = ()


class CopyState(StrEnum):
    """What a guest does. STANDS: it is there, and has nothing to do."""

    STARTS = "starts"
    STANDS = "stands"
    WAITS = "waits"
    WORKS = "works"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureGuest:
    """A guest, or one of several things that it does at once, as it is now.

    ``begun_s`` and ``ended_s``: its marks, counted from the first mark of all, by the clock that the step believes.
    ``seconds``: what it took. ``heard_s``: when this program heard of its beginning, by its own monotonic clock.
    ``found``: what it came to, by the headings of a table's columns, of a trial in which no guest takes a time: in the
    place of what it does, its marks and ``seconds``. The first tell most.
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
    """One guest over time: ``values[i]`` is the mean over what ends at ``seconds[i]``."""

    name: str
    seconds: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """Guests over the same time, on one scale. ``moments``: seconds, and what happened then in a few words.
    ``levels``: values that are in force all the time, and what they are.
    """

    title: str
    unit: str
    curves: tuple[PictureCurve, ...]
    moments: tuple[tuple[float, str], ...] = ()
    levels: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPicture:
    """A step as it stands. ``found``: what is known, in words, a part each; ``brief``: the same where there is little
    room, empty: ``found``. ``coming``: what follows the trial that is under way, in words. ``left_trials``: how many
    that takes about, on a unit that behaves; ``most_left_trials``: at most.
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
        """What the trials of a part support so far, of each of its criteria."""
        known = next((trial.bounds for trial in reversed(self.trials) if trial.part == part and trial.bounds), None)
        return known if known is not None else (Between(),) * len(self.parts[part].criteria)


def drawable(picture: StepPicture) -> StepPicture:
    """The picture, or one that says in words which of its values no chart can show."""
    try:
        _check(picture)
    except (Undrawable, AttributeError, TypeError, ValueError) as exc:  # the shape is a plug-in's, too
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
            raise Undrawable(f"trial {number} is of part {trial.part}; allowed: 0 to {len(picture.parts) - 1}")
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
