"""What the options of an experiment in guests say of a value that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.cli.main import main

HOSTS = Path(__file__).parents[3] / "hosts.yaml"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("job --jobs wait --size 0", "--size"),
        ("job --jobs nothing", "--jobs"),
        ("job --jobs wait --cpu-quota 0", "--cpu-quota"),
        ("job --jobs wait --size 999999999", "--size"),
        ("job --jobs disk-zero --disk-mib 1", "--disk-mib"),
        ("boot --start cold", "--platforms"),
        ("flow --weights 1000:1,1:1000 --guests 2 --bin 0.1", "--weights"),
        ("flow --disk nothing", "--disk"),
        ("flow --disk disk-read --disk-from -1", "--disk-from"),
        ("flow --weights 1:x", "--weights"),
        ("flow --weights 1:2 --weights-every 0", "--weights-every"),
        ("flow --second-after 3", "--second-after"),
        ("flow --limits abc", "--limits"),
    ],
)
def test_a_value_that_cannot_be_is_told_by_its_option(capsys: pytest.CaptureFixture[str], words: str, option: str):
    """Also of what a plan holds within something else, such as the size of a job."""
    kind, *rest = words.split()
    assert main(["experiment", kind, "--hosts", str(HOSTS), "--platforms", "raw", *rest]) == 2
    assert capsys.readouterr().err.startswith(f"labconsole: {option}: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--limits abc", "--limits: is not a rate, got 'abc'; allowed: a number with a unit"),
        ("--limits 30Mbit,abc --guests 2", "--limits: is not a rate, got '30Mbit,abc'; allowed: a number with a unit"),
        ("--second-after 3", "got 3.0; allowed: 0, or two guests or more"),
        ("--bin 6", "--bin leaves fewer than two bins in --duration;"),
        ("--disk disk-zero --disk-from 1 --guests 2", "allowed: --disk-from at least three bins after the beginning"),
        (
            "--disk disk-zero --disk-from 3 --disk-to 5 --duration 8 --guests 2",
            "--bin: leaves too few bins in the work on the disk, which is from 3 to 5 s, got 1.0; "
            "allowed: a shorter --bin, or --disk-to 3 s after --disk-from and more",
        ),
        (
            "--disk disk-zero --disk-from 3 --disk-to 4 --duration 8 --guests 2 --bin 0.1",
            "got 0.1; allowed: --disk-to 2 s after --disk-from and more",
        ),
        ("--guests 2 --weights 1:2,2:1 --bin 0.5", "--bin leaves fewer than three bins in a step of weights of 1 s"),
        ("--pattern ring --guests 2 --greedy 2", "--greedy: applies to UDP flows to the sink"),
        ("--pattern ring --guests 2 --offered 20Mbit", "TCP at full speed, got '20Mbit'; allowed: line"),
        ("--pattern ring --guests 2 --second-after 2", "--second-after: applies to UDP flows to the sink"),
        ("--pattern ring --guests 2 --payload-bytes 100", "got '100'; allowed: 1472"),
    ],
)
def test_what_was_typed_is_in_the_sentence(capsys: pytest.CaptureFixture[str], words: str, said: str):
    asked = ("--hosts", str(HOSTS), "--platforms", "container", "--dry-run")
    assert main(["experiment", "flow", *asked, *words.split()]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "most"),
    [("--targets 13000kpps", "1488095pps of 64 B"), ("--targets 130kpps --frame-sizes 1518", "81274pps of 1518 B")],
)
def test_routers_are_sent_no_more_than_the_sources_link_carries(
    capsys: pytest.CaptureFixture[str], words: str, most: str
):
    asked = ("--hosts", str(HOSTS), "--platforms", "container", "--dry-run", "--guests", "4")
    assert main(["experiment", "route", *asked, *words.split()]) == 2
    assert f"allowed: max, or at most {most} in all on a link of 1 Gbit/s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        ("job --jobs wait --guests 1,2 --repetitions 2", "4 of 4 jobs to measure (0 already stored)"),
        ("boot --platforms container --guests 2 --set-ups 3", "3 of 3 boots to measure (0 already stored)"),
        ("flow --guests 2 --offered 10Mbit", "1 of 1 flows to measure (0 already stored)"),
        ("flow --guests 2 --pattern out,ring --greedy 2", "2 of 2 flows to measure (0 already stored)"),
        ("flow --guests 2 --disk disk-zero", "1 of 1 flows to measure (0 already stored)"),
        ("route --routes 0,1000", "2 of 2 routes to measure (0 already stored)"),
        ("route --targets 1488kpps", "1 of 1 routes to measure (0 already stored)"),
    ],
)
def test_a_dry_run_lists_the_trials_and_makes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, listed: str
):
    kind, *rest = words.split()
    store = tmp_path / "runs.sqlite"
    platforms = [] if "--platforms" in rest else ["--platforms", "container"]
    assert main(["experiment", kind, "--hosts", str(HOSTS), "--store", str(store), *platforms, *rest, "--dry-run"]) == 0
    assert listed in capsys.readouterr().out
    assert not store.exists()
