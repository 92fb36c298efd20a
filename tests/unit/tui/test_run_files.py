"""Runs in files for spreadsheets: nothing in them is run as a formula."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import StoreError
from labconsole.store.open import open_store
from labconsole.text.sanitize import sanitize_cell
from labconsole.tui.screens.runs import list_actions
from support.store_samples import sample_record


@pytest.mark.parametrize("text", ['=HYPERLINK("http://x","y")', "+1", "-1+2", "@SUM(1)"])
def test_text_that_a_spreadsheet_would_run_is_told_apart(text: str):
    assert sanitize_cell(text) == f"'{text}"
    assert sanitize_cell(f"\t{text}") == f"'\t'{text}", "also where a tab parts two cells"


@pytest.mark.parametrize("cell", ["raw", "", "–", None, -1.5, 7])
def test_everything_else_is_left_as_it_is(cell: Any):
    assert sanitize_cell(cell) == cell


def test_a_note_that_is_a_formula_is_exported_as_words(tmp_path: Path):
    store: Any
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        store.save(sample_record())
        run_id = store.list()[0].run_id
        store.set_note(run_id, "=1+1", author="anna@a")
        path, stream = list_actions.create_run_file(str(tmp_path / "out.csv"))
        assert list_actions.write_run_files(path, stream, store.list(), store) == (1, [])
    (row,) = csv.DictReader(path.read_text().splitlines())
    assert row["note"] == "'=1+1"
    assert row["run_id"] == run_id


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_list_that_breaks_off_leaves_no_half_a_file(tmp_path: Path, suffix: str):
    class Breaking(list[Any]):
        def __iter__(self) -> Any:
            yield from list.__iter__(self)
            raise StoreError("database is locked")

    store: Any
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        store.save(sample_record())
        path, stream = list_actions.create_run_file(str(tmp_path / f"out{suffix}"))
        assert list_actions.write_run_files(path, stream, Breaking(store.list()), store) == (0, ["database is locked"])
    assert not path.exists()
