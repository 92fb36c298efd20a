"""A plan's key ``search``: loss goals and RFC 2544's further tests, for every configuration of the plan.

A configuration is a design point without its load, which the search finds. The hash covers only the search's meaning,
not the plan around it, so adding a platform to the plan repeats no finished search.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from labconsole.model.design_point import MAX_DURATION_S, DesignPoint
from labconsole.model.identity import content_hash
from labconsole.model.strict_model import StrictModel

PRESET_TRIAL_S = {"ndr": 1.0, "rfc2544": 60.0, "tst009": 60.0}
PRESET_SUM_S = {"ndr": 21.0, "rfc2544": 60.0, "tst009": 120.0}
"""Seconds for each goal: one trial (unless ``least_trial_s`` is longer), and the trial time that decides on a load.
Partial drop goals use ndr's.
"""

QUEUED_S = 0.01
"""Packets that arrive later than this after the sending time were queued and count as lost; earlier ones pass."""

LEAST_LOSS_RATIO = 0.001
"""A queue of ``QUEUED_S`` that goes unnoticed may be this share of a trial, unless the goal allows more."""

PRESETS = tuple(PRESET_TRIAL_S)
FURTHER = ("frame-loss", "back-to-back", "latency")
"""Tests of RFC 2544 besides its throughput: sections 26.3, 26.4 and 26.2."""

ALLOWED_GOALS = f"{', '.join(PRESETS)}, pdr-X% such as pdr-0.5%"
HASH_PREFIX = "search-"
"""Prefix of a plan hash in runs of search trials, which are no points of a grid."""

_PDR = re.compile(r"pdr-(\d{1,2}(?:\.\d{1,6})?)%")


def partial_drop_ratio(goal: str) -> float | None:
    """The loss ratio that ``pdr-X%`` allows, or None for other goals."""
    match = _PDR.fullmatch(goal)
    return float(match[1]) / 100 if match is not None and 0 < float(match[1]) < 100 else None


def least_trial_s(goal: str) -> float:
    """The shortest trial in which an unnoticed queue is smaller than the goal's loss."""
    return QUEUED_S / max(partial_drop_ratio(goal) or 0.0, LEAST_LOSS_RATIO)


def preset_trial_s(goal: str) -> float:
    """Default duration of a goal's trial."""
    return max(PRESET_TRIAL_S.get(goal, PRESET_TRIAL_S["ndr"]), least_trial_s(goal))


def _goal(word: str) -> str:
    if word not in (*PRESETS, *FURTHER) and partial_drop_ratio(word) is None:
        raise ValueError(f"is not a goal | allowed: {ALLOWED_GOALS}, {', '.join(FURTHER)}")
    return word


GoalWord = Annotated[str, AfterValidator(_goal)]
Trial = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=MAX_DURATION_S)]
Share = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, lt=1)]
Count = Annotated[int, Field(strict=True, ge=1, le=100_000)]


class FrameLoss(StrictModel):
    """Section 26.3: from the line rate down in steps, until two consecutive trials are loss-free."""

    trial_s: Trial = 60.0
    step_ratio: Annotated[float, Field(strict=True, gt=0, le=0.1)] = 0.1


class BackToBack(StrictModel):
    """Section 26.4: the longest burst at line rate without loss, measured ``repetitions`` times.

    ``trial_s`` is the longest burst tried; ``width_ratio`` the maximum distance between a passing burst and a failing
    one.
    """

    trial_s: Trial = 2.0
    repetitions: Count = 50
    width_ratio: Share = 0.01


class Latency(StrictModel):
    """Section 26.2: delay at the measured throughput."""

    trial_s: Trial = 120.0
    repetitions: Count = 20


class Search(StrictModel):
    """Searches at every configuration. ``trial_s``, ``duration_sum_s`` and ``width_ratio`` of None are the goal's."""

    goals: Annotated[tuple[GoalWord, ...], Field(min_length=1, max_length=20)]
    trial_s: Trial | None = None
    duration_sum_s: Trial | None = None
    width_ratio: Share | None = None
    lowest_ratio: Share = 0.001
    repetitions: Count = 1
    max_trials: Count = 2000
    within_s: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=30 * 86400)] = 86400.0
    frame_loss: FrameLoss = FrameLoss()
    back_to_back: BackToBack = BackToBack()
    latency: Latency = Latency()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.goals)) < len(self.goals):
            raise ValueError("goals lists a goal twice | allowed: each goal once; use repetitions to repeat a search")
        if "latency" in self.goals and not self.load_goals:
            raise ValueError(
                f"latency is measured at the load that a goal finds | allowed: latency together with a "
                f"goal: {ALLOWED_GOALS}"
            )
        for goal in self.load_goals:
            trial_s = self.trial_s or preset_trial_s(goal)
            if (self.duration_sum_s or PRESET_SUM_S.get(goal, PRESET_SUM_S["ndr"])) < trial_s:
                raise ValueError(f"duration_sum_s of {goal} is shorter than one trial | allowed: {trial_s:g} or more")
        return self

    @property
    def load_goals(self) -> tuple[str, ...]:
        """The goals of load searches."""
        return tuple(goal for goal in self.goals if goal not in FURTHER)

    @property
    def longest_trial_s(self) -> float:
        """The longest sending time of one trial."""
        further = {
            "frame-loss": self.frame_loss.trial_s,
            "back-to-back": self.back_to_back.trial_s,
            "latency": self.latency.trial_s,
        }
        return max(further[goal] if goal in further else self.trial_s or preset_trial_s(goal) for goal in self.goals)

    def meaning(self) -> dict[str, Any]:
        """The factors that a search's hash covers, without repetitions and time limits."""
        return self.model_dump(mode="json", exclude={"repetitions", "max_trials", "within_s"})


SEARCH_SECTIONS: dict[str, type[BaseModel]] = {"frame_loss": FrameLoss, "back_to_back": BackToBack, "latency": Latency}


@dataclass(frozen=True, slots=True)
class Configuration:
    """One search: ``index`` from 0 in the plan, ``repetition`` from 1. The request's load is ignored."""

    index: int
    repetition: int
    request: DesignPoint

    def describe(self) -> str:
        """One line for people."""
        return self.request.format_without_load() + (f", repetition {self.repetition}" if self.repetition > 1 else "")


def configurations(search: Search, points: Iterable[DesignPoint]) -> tuple[Configuration, ...]:
    """The points without their loads, each once, in the order of first occurrence; a repetition repeats the list."""
    loadless = dict.fromkeys(point.loadless() for point in points)
    return tuple(
        Configuration(index, repetition, request)
        for repetition in range(1, search.repetitions + 1)
        for index, request in enumerate(loadless)
    )


def search_hash(search: Search, configuration: Configuration, salt: str = "") -> str:
    """Hash of one search's meaning, for resume; ``salt`` makes a hash that no other plan resumes."""
    request = configuration.request
    meaning = {
        "version": 1,
        "search": search.meaning(),
        "repetition": configuration.repetition,
        "configuration": [
            request.platform,
            request.background,
            request.sources,
            request.frame.bytes,
            request.frame.includes_fcs,
            request.generator,
            request.observe,
        ],
        "salt": salt,
    }
    return HASH_PREFIX + content_hash(meaning)
