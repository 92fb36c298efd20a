"""Stores from Python: frames, reports and comparisons are those of the command line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import labconsole
from labconsole.api.stored import MORE
from labconsole.cli.main import main
from labconsole.errors import ConfigError, StoreError
from labconsole.store.exporting import COLUMNS

KEPT = Path(__file__).parents[2] / "golden" / "format-2" / "runs.sqlite"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: opening a store leaves files beside it."""
    return Path(shutil.copy(KEPT, tmp_path_factory.mktemp("golden")))


def test_a_frame_has_the_rows_and_values_of_an_export(golden, tmp_path):
    with labconsole.open_store(golden) as store:
        frame = store.runs("platform=raw").frame()
    out = tmp_path / "runs.csv"
    assert main(["runs", "export", "--store", str(golden), "--where", "platform=raw", "--out", str(out)]) == 0
    exported = pd.read_csv(out)
    assert [frame.index.name, *frame.columns] == [*COLUMNS, *MORE]
    assert list(frame.index) == list(exported["run_id"])
    for name in ("measured_bps", "loss_ratio"):
        assert frame[name].astype(float).tolist() == pytest.approx(exported[name].tolist(), nan_ok=True)
    assert set(map(str, frame.dtypes)) == {"string", "Int64", "Float64", "boolean", "datetime64[us, UTC]"}


def test_what_is_not_known_is_no_zero(golden):
    with labconsole.open_store(golden) as store:
        frame = store.runs().frame()
        assert len(frame) == len(store.runs())
        assert next(store.runs().records()).run_id == frame.index[-1]
    assert frame["target_bps"].isna().tolist() == frame["target_is_max"].tolist()


def test_no_run_is_a_frame_of_the_same_columns(golden):
    with labconsole.open_store(golden) as store:
        assert list(store.runs("platform=nothing").frame().columns) == list(store.runs().frame().columns)


def test_a_report_says_what_the_command_says(golden, capsys):
    made = labconsole.make_report(golden, "plan=golden-blocks")
    assert main(["report", "--store", str(golden), "--json", "plan=golden-blocks"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert list(made.conclusions) == lines[0]["conclusions"]
    assert made.tables == [line["table"] for line in lines if "table" in line]
    ranking = next(line for line in lines if line.get("table") == "ranking")
    assert len(made.frame("ranking")) == len(ranking["rows"])
    with pytest.raises(ConfigError, match="there is no such table"):
        made.frame("table-99")


def test_a_comparison_is_that_of_the_command(golden, capsys):
    found = labconsole.compare("platform=raw", "platform=container", store=golden, where="plan=golden-blocks")
    words = ["compare", "--store", str(golden), "--json", "platform=raw", "platform=container", "plan=golden-blocks"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each.change_ratio for each in found.changes] == [each["change_ratio"] for each in told["points"]]
    assert list(found.sentences) == told["sentences"]
    assert (found.factors, len(found.only_before)) == (("platform",), len(told["only_before"]))
    assert len(found.only_after) == len(told["only_after"]) > 0
    assert main([*words[:3], "--markdown", *words[4:]]) == 0
    assert str(found) == capsys.readouterr().out.rstrip("\n")


def test_what_is_looked_at_in_a_notebook_is_a_line_and_no_dump(golden):
    with labconsole.open_store(golden) as store:
        runs = store.runs("platform=raw")
        assert repr(store) == f"<run store {golden}>"
        assert repr(runs) == f"<{len(runs)} runs of {golden}>"
    found = labconsole.compare("platform=raw", "platform=container", store=golden, where="plan=golden-blocks")
    assert (
        repr(found)
        == f"<comparison of platform=raw with platform=container: {len(found.changes)} of runs, 0 of other trials>"
    )


def test_errors_are_those_of_the_program(golden, tmp_path):
    with pytest.raises(StoreError, match="nothing has been saved yet|no run store"):
        labconsole.open_store(tmp_path / "none.sqlite")
    with labconsole.open_store(golden) as store:
        with pytest.raises(ConfigError, match="did you mean platform"):
            store.runs("platfrm=raw")
        with pytest.raises(ConfigError, match="by outcome"):
            store.report("loss>1%")
    with pytest.raises(ConfigError, match="no such file|cannot be read"):
        labconsole.load_testbed(tmp_path / "hosts.yaml")
    with pytest.raises(AttributeError):
        getattr(labconsole, "nothing")  # noqa: B009


def test_importing_it_takes_nothing_along():
    """Neither SSH nor pandas nor a database: who asks for the version does not wait for them."""
    script = (
        "import sys, labconsole; labconsole.__version__\n"
        "print(sorted({'asyncssh', 'pandas', 'sqlalchemy', 'pydantic'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
