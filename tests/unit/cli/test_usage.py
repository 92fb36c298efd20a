"""Bad usage is one sentence and status 2, and a value may begin with a minus sign (operator's list 3: B5, B9, F5)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.errors import ConfigError

HOSTS = str(Path(__file__).parents[3] / "hosts.yaml")


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr."""
    try:
        status = main(words)
    except SystemExit as exc:
        status = exc.code  # type: ignore[assignment]
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1), err
    return err.removeprefix("labconsole: ").removesuffix("\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("run --frame-size 64.5", "--frame-size: must be a whole number without a unit, got '64.5'"),
        ("run --frame-size 64b", "--frame-size: must be a whole number without a unit, got '64b'"),
        ("run --frame-size 1e3", "--frame-size: must be a whole number without a unit, got '1e3'"),
        ("run --frame-size 6_4", "--frame-size: must be a whole number without a unit, got '6_4'"),
        ("run --duration 2s", "--duration: must be a number without a unit, got '2s'"),
        ("run --duration nan", "--duration: must be a number without a unit, got 'nan'"),
        ("run --duration -inf", "--duration: must be a number without a unit, got '-inf'"),
        ("run --duration 1e999", "--duration: is too large, got '1e999'"),
        ("run --frame 64", "unknown option '--frame' (did you mean --frame-size?)"),
        ("run --target", "--target: expected one argument"),
        ("run --observe loud", "--observe: invalid choice: 'loud'; allowed: quiet, live"),
        ("run x", "unknown argument 'x'"),
        ("runs --limit abc", "--limit: must be a whole number without a unit, got 'abc'; allowed: 1 or more"),
        ("runs --limit 0", "--limit: must be 1 or more, got 0"),
        ("runs list --limit -1", "--limit: must be 1 or more, got -1"),
        ("runs lst", "action: invalid choice: 'lst' (did you mean list?); allowed: list, show, note, export, import"),
        ("lab up --sources 0", "--sources: must be 1 or more, got 0"),
        ("demo --sources -2", "--sources: must be 1 or more, got -2"),
        ("calibrate --frame-size 0", "--frame-size: must be 1 or more, got 0"),
        ("lab", "the following arguments are required: ACTION"),
    ],
)
def test_bad_usage_is_one_sentence_that_names_the_help(capsys: pytest.CaptureFixture[str], words: str, sentence: str):
    sentence_said, _, help_named = said(words.split(), capsys).partition("; see ")
    assert sentence_said == sentence
    command = " ".join(word for word in words.split()[:2] if word in ("run", "runs", "lab", "up", "demo", "calibrate"))
    assert help_named == f"`labconsole {command} --help`"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("run --target -5Mbit", "--target"),
        ("run --duration -2", "--duration"),
        ("run -v --frame-size -64", "--frame-size"),
        ("run --sources -1", "--sources"),
        ("run --repetitions -3", "--repetitions"),
        ("run --background -x", "--background"),
        ("search --width -0.1", "--width"),
        ("search --max-trials -1", "--max-trials"),
        ("calibrate --time-limit -3", "--time-limit"),
        ("calibrate --duration -.5", "--duration"),
        ("experiment flow --platforms raw --offered -1Mbit", "--offered"),
        ("experiment flow --platforms raw --guests -1", "--guests"),
        ("experiment route --platforms raw --routes -1", "--routes"),
    ],
)
def test_a_negative_value_is_refused_by_its_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, option: str
):
    store = ["--hosts", HOSTS, "--store", str(tmp_path / "runs.sqlite")]
    assert said([*words.split(), *store], capsys).startswith(f"{option}: ")


def test_a_value_after_two_dashes_and_an_option_in_a_value_s_place_stay_what_they_are(
    capsys: pytest.CaptureFixture[str],
):
    assert said(["run", "--target", "-v"], capsys).startswith("--target: expected one argument")
    assert said(["runs", "show", "--", "-5", "x", "y"], capsys).startswith("unknown argument 'y'")


def test_an_export_whose_name_ends_in_no_format_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    store = ["--store", str(tmp_path / "runs.sqlite")]
    assert main(["runs", "import", str(Path(HOSTS).parent / "tests/golden/format-2/bundle.tar.gz"), *store]) == 0
    capsys.readouterr()
    out = tmp_path / "x.foo"
    assert said(["runs", "export", "--out", str(out), *store], capsys) == (
        f"--out: does not end in the name of a format, got {str(out)!r}; allowed: .jsonl, .csv, .hlog, .parquet, or "
        "--format"
    )
    assert not out.exists()
    assert main(["runs", "export", "--out", str(out), "--format", "csv", *store]) == 0
    assert main(["runs", "export", "--out", str(tmp_path / "x.CSV"), *store]) == 0
    assert out.read_bytes() == (tmp_path / "x.CSV").read_bytes()


@pytest.mark.parametrize("words", ["run", "search", "calibrate --wired", "check --observer-effect"])
def test_a_frame_that_an_interface_does_not_carry_is_refused_by_its_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str
):
    """The interfaces are known once the nodes are connected. A search asks before it takes the testbed."""

    def refuse(request: Any) -> None:
        raise ConfigError("is above what src1/eth1 carries (MTU 1500)", key="frame_size", value=9001)

    def connected(session: Any, nodes: Any, work: Any, *more: Any, **how: Any) -> int:
        if words != "search":
            refuse(None)
        session.check_now = refuse
        return asyncio.run(work(session))

    for module in ("session_runner", "commands.check.checks"):
        monkeypatch.setattr(f"labconsole.cli.{module}.run_session", connected)
    options = ["--hosts", HOSTS, "--store", str(tmp_path / "runs.sqlite"), "--frame-size", "9001"]
    assert said([*words.split(), *options], capsys).startswith("--frame-size: is above what src1/eth1 carries")
