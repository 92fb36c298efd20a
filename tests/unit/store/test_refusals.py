"""What a store does not take from elsewhere: absurd places and forged set-ups; honest doubles stay harmless."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.store import importing
from labconsole.store.open import open_store
from labconsole.store.records import parse_record
from support.consistent_runs import by_id, consistent

Record = dict[str, Any]
ONE, OTHER = "block-1-raw", "block-2-raw"


def exported(path: Path, runs: list[Record]) -> Path:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in runs))
    return path


def stored(path: Path, runs: list[Record]) -> Path:
    with open_store(str(path)) as store:
        for each in runs:
            store.save(parse_record(each, "made up"))
    return path


def held(path: Path) -> set[str]:
    with open_store(str(path), write=False) as store:
        return {run.run_id for run in store.list()}


def absurd(**changes: Any) -> Callable[[Record], None]:
    def change(record: Record) -> None:
        for name, value in changes.items():
            (record["set_up"] if name == "trial" else record["plan"])[name] = value

    return change


def forged(**changes: Any) -> Callable[[Record], None]:
    """Says that it was taken in the set-up of the other run, as a later trial."""

    def change(record: Record) -> None:
        record["set_up"] |= {"id": f"set-up-of-{ONE}", "trial": 2, **changes}

    return change


REFUSED = [
    (absurd(attempt=4), "plan.attempt is 4 of at most 3"),
    (absurd(attempts=102), "plan.attempts is 102; allowed: at most 101"),
    (absurd(attempt=0), "plan.attempt is 0; allowed: 1 or more"),
    (absurd(repetition=9), "plan.repetition is 9 of 1"),
    (absurd(block=3), "plan.block is 3 of 2"),
    (absurd(block=-1), "plan.block is -1; allowed: 0 or more"),
    (absurd(trial=0), "set_up.trial is 0; allowed: 1 or more"),
    (lambda record: record.update(set_up=None), "is in a block of its plan but in no set-up"),
    (forged(), f"but block is 2 here but 1 in run {ONE}"),
    (forged(trial=1), f"but block is 2 here but 1 in run {ONE}"),
    (
        lambda record: (forged(trial=1)(record), absurd(block=1)(record)),
        f"claims to be trial 1 of set-up set-up-of-{ONE}, which is run {ONE}",
    ),
    (
        lambda record: (forged()(record), record.update(plan=None), record["requested"].update(platform="kvm")),
        f"but platform is kvm here but raw in run {ONE}",
    ),
    (
        lambda record: (forged()(record), record.update(plan=None, testbed_fingerprint="f" * 16)),
        f"but testbed_fingerprint is {'f' * 16} here but 7d3f9a11c0de4b52 in run {ONE}",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSED, ids=[sentence[:40] for _, sentence in REFUSED])
@pytest.mark.parametrize("already", [False, True], ids=["in one file", "beside a store"])
def test_what_cannot_be_is_refused_and_nothing_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, sentence: str, already: bool
) -> None:
    runs = by_id(consistent())
    change(runs[OTHER])
    store = stored(tmp_path / "runs.sqlite", [runs[ONE]] if already else [])
    file = exported(tmp_path / "more.jsonl", [runs[OTHER]] if already else [runs[ONE], runs[OTHER]])
    assert main(["runs", "import", str(file), "--store", str(store)]) != 0
    assert sentence in capsys.readouterr().err
    assert held(store) == ({ONE} if already else set())


@pytest.mark.parametrize(("change", "sentence"), REFUSED[-4:], ids=[sentence[:40] for _, sentence in REFUSED[-4:]])
def test_of_another_store_they_are_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, sentence: str
) -> None:
    runs = by_id(consistent())
    change(runs[OTHER])
    store = stored(tmp_path / "runs.sqlite", [runs[ONE]])
    other = stored(tmp_path / "other.sqlite", [runs["two"], runs[OTHER]])
    assert main(["runs", "import", str(other), "--store", str(store)]) == 1
    assert sentence in capsys.readouterr().err
    assert held(store) == {ONE, "two"}


def test_the_same_runs_again_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = consistent()
    store = stored(tmp_path / "runs.sqlite", runs)
    file = exported(tmp_path / "again.jsonl", [*runs, *runs])
    assert main(["runs", "import", str(file), "--store", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["present"] == 2 * len(runs)
    other = stored(tmp_path / "other.sqlite", runs)
    assert main(["runs", "import", str(other), "--store", str(store)]) == 0
    assert main(["verify", "--store", str(store)]) == 0


def test_a_set_up_may_come_in_parts(tmp_path: Path) -> None:
    runs = by_id(consistent())
    later = runs[OTHER]
    forged()(later)
    later["plan"] = {**runs[ONE]["plan"], "point": 5}
    store = stored(tmp_path / "runs.sqlite", [runs[ONE]])
    assert main(["runs", "import", str(exported(tmp_path / "more.jsonl", [later])), "--store", str(store)]) == 0
    assert held(store) == {ONE, OTHER}


@pytest.mark.parametrize("from_store", [False, True])
def test_what_is_stored_of_a_set_up_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_store: bool
) -> None:
    """However many runs of it come in: else an import takes the square of their number."""
    runs = by_id(consistent())
    read: list[str] = []
    real = importing._add_stored_run

    def counted(set_ups: importing.SetUps, row: importing.Row) -> None:
        read.append(row["run_id"])
        real(set_ups, row)

    monkeypatch.setattr(importing, "_add_stored_run", counted)
    monkeypatch.setattr("labconsole.store.importing.CHUNK_RUNS", 2)
    monkeypatch.setattr("labconsole.store.merging.BATCH_RUNS", 2)
    store = stored(tmp_path / "runs.sqlite", [runs[ONE]])
    later = []
    for number in range(9):
        run = json.loads(json.dumps(runs[ONE]))
        run["run_id"], run["set_up"]["trial"], run["plan"]["point"] = f"later-{number}", 2 + number, 5 + number
        later.append(run)
    other = stored if from_store else exported
    more = other(tmp_path / ("more.sqlite" if from_store else "more.jsonl"), later)
    assert main(["runs", "import", str(more), "--store", str(store)]) == 0
    assert read == [ONE] and len(held(store)) == 10
    forged_run = {**later[0], "run_id": "forged"}
    assert (
        main(["runs", "import", str(exported(tmp_path / "f.jsonl", [*later, forged_run])), "--store", str(store)]) == 2
    )
