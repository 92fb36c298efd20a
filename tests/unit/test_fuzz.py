"""tools/fuzz: every target takes its seeds, and what goes wrong in a reader is found, kept and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuzz.campaign import describe_error, quote_word
from fuzz.run import describe, read_again, run_target
from fuzz.target import Target
from fuzz.targets import TARGETS

WRONG = """
import sys
sys.path[:0] = {paths}
from pathlib import Path
from fuzz import campaign
from fuzz.target import Target

def read(content):
    if content.startswith(b"seed"):
        return
    {statement}

campaign.limit_memory = lambda more_bytes: None
target = Target(name="t", summary="", load_seeds=lambda: [b"seed"], open_reader=lambda directory: read, input_s=0.2)
campaign.Campaign(target, Path({directory!r}), 1.0).run(1, use_atheris=False)
"""


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_reads_its_seeds(name: str, tmp_path: Path) -> None:
    target: Target = TARGETS[name]
    read, refused = target.open_reader(tmp_path), 0
    seeds = target.load_seeds()[: 2 if name == "bundles" else None]
    for seed in seeds:
        try:
            read(seed)
        except target.refusals:
            refused += 1
    assert seeds and (name in ("hypervisors", "programs") or refused < len(seeds) / 4)


def run_wrong(statement: str, directory: Path) -> dict[str, Any]:
    """The outcome of a target whose reader does this."""
    import subprocess
    import sys

    program = WRONG.format(paths=sys.path, statement=statement, directory=str(directory))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    outcome = json.loads((directory / "outcome.json").read_text())
    assert done.returncode == (1 if outcome["findings"] else 0), done.stderr
    found: dict[str, Any] = outcome
    return found


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("raise KeyError(7)", "KeyError"),
        ("assert not content", "AssertionError"),
        ("raise MemoryError", "MemoryError"),
        ("while True: pass", "OutOfTime"),
    ],
)
def test_what_goes_wrong_is_kept_once_with_its_input(statement: str, kind: str, tmp_path: Path) -> None:
    outcome = run_wrong(statement, tmp_path)
    ((what, path),) = outcome["findings"].items()
    assert what.startswith(f"{kind} at ")
    assert not Path(path).read_bytes().startswith(b"seed")
    assert kind in Path(path).with_suffix(".txt").read_text()
    assert outcome["inputs"] > 1 and what in describe(outcome)


def test_a_refusal_is_no_finding(tmp_path: Path) -> None:
    outcome = run_wrong("from labconsole.errors import StoreError; raise StoreError('no')", tmp_path)
    assert not outcome["findings"] and 0 < outcome["refused"] < outcome["inputs"]


def test_a_process_that_dies_is_a_finding_with_its_last_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.run.sys.executable", "/bin/false")
    outcome = run_target("series", 1.0, tmp_path)
    assert outcome["findings"] == {"the process ended with status 1: ": str(tmp_path / "series" / "current")}


def test_one_input_is_read_again_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzz.run.KEPT", tmp_path)
    (tmp_path / "input").write_bytes(b"no series")
    assert read_again("series", tmp_path / "input") == 0
    assert "refused: StoreError" in capsys.readouterr().out


def test_a_finding_is_named_by_what_and_where() -> None:
    try:
        raise KeyError("\x1b")
    except KeyError as error:
        assert describe_error(error) == "KeyError at unknown place"
    assert quote_word('a"\\\n') == "a\\x22\\x5c\\x0a"
