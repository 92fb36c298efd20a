"""Kinds of experiment of other packages: what a plan asks of them, and what becomes of one that fails."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import ConfigError
from labconsole.experiments.kinds import PluginExperiment, find_recompute, kinds
from labconsole.model.generator import of_elsewhere
from labconsole.model.plan.loader import load_plan
from support.plugged_in import plugged_in

GROUP = "labconsole.experiments"
TOY = """\
from pydantic import BaseModel, ConfigDict


class Factors(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    often: int = 1


class Step:
    def __init__(self, often, request):
        self.request = request
        self.hash = f"toy-{often}"

    def describe(self):
        raise KeyError("no words")

    def durations_s(self, inventory):
        return None

    def picture(self, record):
        return record.nothing

    async def take(self, bench):
        raise ValueError("nothing came")


class Toy:
    def __init__(self, store):
        pass

    def steps(self, plan, only=None, salt=""):
        return [Step(dict(plan.experiments)["toy"].often, plan.points[0].request)]

    def earlier(self, testbed_fingerprint):
        raise RuntimeError("nothing is remembered")


EXPERIMENT, FACTORS = Toy, Factors


def RECOMPUTE(record):
    return []
"""
PLAN = """\
plan: toys
platforms: [raw]
frame_sizes: [64]
targets: [10Mbit]
duration_s: 1
experiments:
  toy: {often: 3}
"""


def outside_of(found: tuple[Any, ...]) -> list[Any]:
    return [each for each in found if isinstance(each, PluginExperiment)]


def test_a_plan_asks_it_by_its_own_factors_and_means_the_same_points(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "other.yaml").write_text(PLAN.partition("experiments")[0])
    other = load_plan(tmp_path / "other.yaml")
    with plugged_in(tmp_path / "site", GROUP, {"toy": TOY}):
        plan = load_plan(tmp_path / "plan.yaml")
        (made,) = outside_of(kinds(None))
        assert [each.hash for each in made.steps(plan)] == ["toy-3"]
        assert list(made.steps(other)) == []
        assert find_recompute("toy") is not None
        assert plan.grid and plan.step_count == 1
        (tmp_path / "only.yaml").write_text(PLAN.replace("targets: [10Mbit]\n", ""))
        assert not load_plan(tmp_path / "only.yaml").grid
    assert plan.hash() == other.hash()
    assert find_recompute("toy") is None
    with of_elsewhere():
        assert load_plan(tmp_path / "plan.yaml").experiments == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAN.replace("often: 3", "often: no"), r"plan.yaml:7: experiments.toy.often: "),
        (PLAN.replace("often: 3", "never: 3"), r"plan.yaml:7: experiments.toy.never: "),
        (
            PLAN.replace("toy:", "doll:"),
            r"plan.yaml:7: experiments.doll: is a kind of experiment that no .*allowed: toy",
        ),
        (PLAN + "search: {goals: [ndr]}\n", "experiments: cannot be combined with search"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    with plugged_in(tmp_path / "site", GROUP, {"toy": TOY}), pytest.raises(ConfigError, match=words):
        load_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('no')\n", "plug-in bad of package toys cannot be loaded: RuntimeError: no"),
        ("EXPERIMENT = 1\n", "plug-in bad cannot be used: it has no EXPERIMENT that can be called"),
        ("EXPERIMENT = print\n", "plug-in bad cannot be used: its FACTORS is not a pydantic model"),
        (
            "from pydantic import BaseModel\nclass FACTORS(BaseModel): pass\nEXPERIMENT = print\n",
            "plug-in bad cannot be used: its FACTORS takes unknown keys, or can be changed",
        ),
        (
            TOY + "def EXPERIMENT(store):\n    raise RuntimeError('no store')\n",
            "plug-in bad failed: RuntimeError: no store",
        ),
    ],
)
def test_a_broken_one_is_named_and_takes_no_other_along(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, source: str, words: str
) -> None:
    with plugged_in(tmp_path / "site", GROUP, {"bad": source, "toy": TOY}), caplog.at_level(logging.WARNING):
        found = kinds(None)
        assert len(outside_of(found)) == 1
        assert [record.message for record in caplog.records] == [words]
        caplog.clear()
        assert outside_of(found)[0].earlier("f") == ()
        assert "plug-in toy failed: RuntimeError: nothing is remembered" in caplog.text
        (tmp_path / "plan.yaml").write_text(PLAN)
        assert [each.hash for each in outside_of(found)[0].steps(load_plan(tmp_path / "plan.yaml"))] == ["toy-3"]


def test_what_a_step_raises_is_said_as_its_own_and_ends_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    nothing: Any = None
    with plugged_in(tmp_path / "site", GROUP, {"toy": TOY}):
        (step,) = outside_of(kinds(None))[0].steps(load_plan(tmp_path / "plan.yaml"))
        assert step.describe() == "plug-in toy failed: KeyError: 'no words'"
        (found,) = step.picture(nothing).found
        assert found.startswith("plug-in toy failed: AttributeError: ")
        with pytest.raises(ConfigError, match="plug-in toy failed: TypeError: "):
            step.durations_s(nothing)
        with pytest.raises(ConfigError, match="plug-in toy failed: ValueError: nothing came"):
            asyncio.run(step.take(nothing))


def test_nobody_stands_in_for_one_of_ours(tmp_path: Path) -> None:
    with plugged_in(tmp_path / "site", GROUP, {"forwarding": TOY}):
        assert outside_of(kinds(None)) == []
