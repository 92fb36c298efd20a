"""What the options of a replay leave of plans of work in guests."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from labconsole.cli.commands.replay.choice import chosen_points, first_blocks
from labconsole.cli.main import main
from labconsole.errors import ConfigError
from labconsole.experiments.job.steps import Jobs
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from support.fake_session import make_inventory

HOSTS = Path(__file__).parents[2] / "golden" / "format-1" / "hosts.yaml"
HEAD = "plan: guests\nplatforms: [raw]\nset_ups: 3\n"
KINDS = {
    "jobs": "job: {jobs: [{job: wait, size: 7}], guests: [3], working: [all], cpu: [same]}\n",
    "starts": "boot: {guests: [1, 2]}\n",
}


def plan_of(tmp_path: Path, kind: str) -> Plan:
    path = tmp_path / "plan.yaml"
    path.write_text(HEAD + KINDS[kind])
    return load_plan(path, make_inventory())


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_first_blocks_are_taken(tmp_path: Path, kind: str):
    plan = plan_of(tmp_path, kind)
    assert plan.of_guests is not None
    left = first_blocks(plan, Namespace(set_ups=1)).of_guests
    assert left is not None
    assert {trial.block for trial in left.trials} == {1}
    assert len(left.trials) * 3 == len(plan.of_guests.trials)
    assert set(left.hashes) < set(plan.of_guests.hashes)


@pytest.mark.parametrize("kind", KINDS)
def test_more_blocks_than_there_are_and_points_are_refused(tmp_path: Path, kind: str):
    plan = plan_of(tmp_path, kind)
    with pytest.raises(ConfigError, match="has no such number of blocks"):
        first_blocks(plan, Namespace(set_ups=4))
    with pytest.raises(ConfigError, match="--platforms"):
        chosen_points(plan, Namespace(points="0", platforms=None, plan=[Path("plan.yaml")]))


@pytest.mark.parametrize("kind", KINDS)
def test_platforms_that_are_chosen_are_measured_where_the_others_are_not(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A plan of platforms that no one testbed has is measured in parts."""

    def told(*words: str) -> tuple[int, str, str]:
        (path := tmp_path / "plan.yaml").write_text(HEAD.replace("[raw]", "[xen, container, esxi]") + KINDS[kind])
        where = ("--hosts", str(HOSTS), "--store", str(tmp_path / "none.sqlite"), "--dry-run")
        return (main(["replay", str(path), *where, *words]), *capsys.readouterr())

    status, out, _ = told("--platforms", "container")
    assert status == 0 and "container" in out and "xen" not in out and "esxi" not in out
    for words, complaint in (
        ((), "is for another testbed: it needs platforms xen, esxi"),
        (("--platforms", "container,xen"), "is for another testbed: it needs platform xen"),
        (
            ("--platforms", "conatiner"),
            "is not a platform of this plan, got 'conatiner'; allowed: xen, container, esxi",
        ),
    ):
        status, _, err = told(*words)
        assert status == 2 and complaint in err, err


def test_how_long_a_job_that_waits_takes_is_known(tmp_path: Path):
    steps = Jobs(None).steps(plan_of(tmp_path, "jobs"))  # type: ignore[arg-type]
    assert [list(step.durations_s(make_inventory())) for step in steps] == [[7.0]] * 3


def test_a_dry_run_says_that_set_ups_are_reckoned_and_makes_no_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, store = tmp_path / "plan.yaml", tmp_path / "none.sqlite"
    path.write_text(HEAD + KINDS["jobs"])
    status = main(["replay", str(path), "--hosts", str(HOSTS), "--store", str(store), "--dry-run"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert status == 0 and "3 of 3 jobs to take (0 stored already)" in last and "with the set-ups, if each" in last
    assert list(tmp_path.iterdir()) == [path]
