"""What is said of papers' abstracts from jobs whose truth is known: tools that do not differ, or by what is allowed."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labconsole.experiments.job.units.papers import UNITS
from labconsole.report.reference import load_reference
from support.job_records import taken


def words_of(seed: int, level: float, margin: float | None, blocks: int) -> list[str]:
    """Of two jobs on two tools, of 1, 2 and 5 guests, in blocks of which each is fast or slow, and of crews that are as
    well; one tool takes ``level`` times as long.
    """
    draw, trials = np.random.default_rng(seed), []
    for block in range(1, blocks + 1):
        moment = 1 + draw.normal(0, 0.05)
        for platform in ("lxc", "uml"):
            for guests in (1, 2, 5):
                crew = moment * (1 + draw.normal(0, 0.01)) * (level if platform == "uml" else 1) * (1 + 0.02 * guests)
                for name in ("cpu-sqrt2", "cpu-pi"):
                    seconds = 4 * crew * (1 + draw.normal(0, 0.003))
                    made = taken([seconds], platform=platform, guests=guests, working="one", cpu="same", block=block)
                    asked = made.requested.model_copy(update={"job": name, "size": 2000})
                    plan = made.plan.model_copy(update={"margin_ratio": margin})
                    more = {"requested": asked, "plan": plan, "job_id": made.job_id + name}
                    trials.append(made.model_copy(update=more))
    material: Any = SimpleNamespace(
        of=lambda kind: trials if kind == "job" else (),
        evaluation=SimpleNamespace(claims=SimpleNamespace(p_values=())),
        paper=load_reference("quetier"),
        paper_names={},
    )
    (unit,) = (each for each in UNITS if each.name == "quetier-abstract-jobs")
    table: Any = unit.make(material)
    return [str(row[3]) for row in table.rows if "overhead" in str(row[0])]


@pytest.mark.parametrize("blocks", [6, 10])
def test_tools_that_do_not_differ_are_seldom_said_to(blocks: int) -> None:
    found = [words_of(seed, 1.0, None, blocks) for seed in range(150)]
    assert sum("confirmed" in words for words in found) <= 15  # of 5 %, 7.5: more than 15 in 1 of 300
    assert not any("not confirmed" in words for words in found), "no margin is declared"


def test_tools_that_differ_by_the_whole_margin_are_seldom_said_not_to() -> None:
    found = [words_of(seed, 1.05, 0.05, 20) for seed in range(100)]
    levels = Counter(words[place] for words in found for place in (0, 2))
    assert levels["not confirmed"] <= 20  # of 200
    assert levels["confirmed"] >= 170
