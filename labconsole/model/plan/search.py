"""A plan's key ``search``: loss goals and RFC 2544's further tests, for every configuration of the plan.

A configuration is a design point without its load: that is what a search finds. Its hash is of its meaning alone, not
of the plan around it, so a finished search is not repeated because a platform was added to the plan.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from labconsole.model.design_point import MAX_DURATION_S, DesignPoint
from labconsole.model.strict_model import StrictModel

PRESET_TRIAL_S = {"ndr": 1.0, "rfc2544": 60.0, "tst009": 60.0}
PRESET_SUM_S = {"ndr": 21.0, "rfc2544": 60.0, "tst009": 120.0}
"""Of each goal, one trial (unless ``least_trial_s`` is more) and the trial time that decides on a load; those of a
partial drop goal are ndr's."""

QUEUED_S = 0.01
"""What comes so much after the time of sending was queued, and counts as lost; what comes before passes."""

LEAST_LOSS_RATIO = 0.001
"""A queue of ``QUEUED_S`` that passes unseen may be this much of a trial, where the goal does not allow more."""

PRESETS = tuple(PRESET_TRIAL_S)
FURTHER = ("frame-loss", "back-to-back", "latency")
"""Tests of RFC 2544 beside its throughput: sections 26.3, 26.4 and 26.2."""

GOAL_WORDS = f"{', '.join(PRESETS)}, pdr-X% such as pdr-0.5%"
HASH_PREFIX = "search-"
"""By which a run's plan hash says that the run is a search's trial, and no point of a grid."""

_PDR = re.compile(r"pdr-(\d{1,2}(?:\.\d{1,6})?)%")


def partial_drop_ratio(goal: str) -> float | None:
    """The loss ratio that ``pdr-X%`` allows; None for what is no such goal."""
    match = _PDR.fullmatch(goal)
    return float(match[1]) / 100 if match is not None and 0 < float(match[1]) < 100 else None


def least_trial_s(goal: str) -> float:
    """The shortest trial in which a queue that passes unseen is less than the goal's loss."""
    return QUEUED_S / max(partial_drop_ratio(goal) or 0.0, LEAST_LOSS_RATIO)


def preset_trial_s(goal: str) -> float:
    """One trial of a goal, where nothing else is asked for."""
    return max(PRESET_TRIAL_S.get(goal, PRESET_TRIAL_S["ndr"]), least_trial_s(goal))


def _goal(word: str) -> str:
    if word not in (*PRESETS, *FURTHER) and partial_drop_ratio(word) is None:
        raise ValueError(f"is not a goal | allowed: {GOAL_WORDS}, {', '.join(FURTHER)}")
    return word


GoalWord = Annotated[str, AfterValidator(_goal)]
Trial = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=MAX_DURATION_S)]
Share = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, lt=1)]
Count = Annotated[int, Field(strict=True, ge=1, le=100_000)]


class FrameLoss(StrictModel):
    """Section 26.3: from the line rate down in steps, until two trials running lose nothing."""

    trial_s: Trial = 60.0
    step_ratio: Annotated[float, Field(strict=True, gt=0, le=0.1)] = 0.1


class BackToBack(StrictModel):
    """Section 26.4: the longest burst at line rate of which nothing is lost, ``repetitions`` times over.

    ``trial_s`` is the longest burst tried; ``width_ratio`` how close a burst that passes and one that does not must be.
    """

    trial_s: Trial = 2.0
    repetitions: Count = 50
    width_ratio: Share = 0.01


class Latency(StrictModel):
    """Section 26.2: delay at the throughput that was found."""

    trial_s: Trial = 120.0
    repetitions: Count = 20


class Search(StrictModel):
    """What is searched at every configuration. None of ``trial_s``, ``duration_sum_s``, ``width_ratio``: the goal's."""

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
                f"goal: {GOAL_WORDS}"
            )
        for goal in self.load_goals:
            trial_s = self.trial_s or preset_trial_s(goal)
            if (self.duration_sum_s or PRESET_SUM_S.get(goal, PRESET_SUM_S["ndr"])) < trial_s:
                raise ValueError(f"duration_sum_s of {goal} is shorter than one trial | allowed: {trial_s:g} or more")
        return self

    @property
    def load_goals(self) -> tuple[str, ...]:
        """The goals that a load is searched for."""
        return tuple(goal for goal in self.goals if goal not in FURTHER)

    @property
    def longest_trial_s(self) -> float:
        """The longest traffic of one trial."""
        further = {
            "frame-loss": self.frame_loss.trial_s,
            "back-to-back": self.back_to_back.trial_s,
            "latency": self.latency.trial_s,
        }
        return max(further[goal] if goal in further else self.trial_s or preset_trial_s(goal) for goal in self.goals)

    def meaning(self) -> dict[str, Any]:
        """What is measured, without how often and what ends it early."""
        return self.model_dump(mode="json", exclude={"repetitions", "max_trials", "within_s"})


SEARCH_SECTIONS: dict[str, type[BaseModel]] = {"frame_loss": FrameLoss, "back_to_back": BackToBack, "latency": Latency}


@dataclass(frozen=True, slots=True)
class Configuration:
    """One search to make: ``index`` from 0 in the plan, ``repetition`` from 1. The request's load is not meant."""

    index: int
    repetition: int
    request: DesignPoint

    def describe(self) -> str:
        """One line for people."""
        return self.request.format_without_load() + (f", repetition {self.repetition}" if self.repetition > 1 else "")


def configurations(search: Search, points: Iterable[DesignPoint]) -> tuple[Configuration, ...]:
    """The points without their loads, each once, in the order of first occurrence; all of them, then all again."""
    loadless = dict.fromkeys(point.loadless() for point in points)
    return tuple(
        Configuration(index, repetition, request)
        for repetition in range(1, search.repetitions + 1)
        for index, request in enumerate(loadless)
    )


def search_hash(search: Search, configuration: Configuration, salt: str = "") -> str:
    """Hash of what one search measures, for resume; ``salt`` makes one that is resumed by nobody."""
    asked = configuration.request
    meaning = {
        "version": 1,
        "search": search.meaning(),
        "repetition": configuration.repetition,
        "configuration": [
            asked.platform,
            asked.background,
            asked.sources,
            asked.frame.bytes,
            asked.frame.includes_fcs,
            asked.generator,
            asked.observe,
        ],
        "salt": salt,
    }
    return HASH_PREFIX + hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]
