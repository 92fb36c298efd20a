"""Saved runs: found, sorted, read in full, compared, noted, copied and exported by keys, at the three sizes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input, Static

from labconsole.engine.live.events import TrialFinished
from labconsole.model.record.annotations import NotedRecord, RunNote
from labconsole.model.record.run import RunRecord
from labconsole.model.record.summary import SORTS, Sorting
from labconsole.store.importing import read_jsonl
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console import clock, saved_runs
from labconsole.tui.console.memory import SavedViews, View
from labconsole.tui.console.saved_runs import SavedRuns
from labconsole.tui.parts.dialogs import AskText
from labconsole.tui.parts.filter_line import FilterInput
from labconsole.tui.parts.runs_table import SavedRunsTable
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.runs import list_actions, run_list
from labconsole.tui.screens.runs.details import DetailsPane, PageTabs
from labconsole.tui.screens.runs.screen import RunsScreen
from support.driven_console import console, picture, still, text, until
from support.fake_session import FakeSession
from support.saved_runs import matrix, saved_record, session_with_runs

pytestmark = pytest.mark.asyncio
SIZES = [(80, 24), (120, 40), (200, 60)]
LOSSY = "platform=container loss>10% size=64"
KEYS = {
    " ": "space",
    "=": "equals_sign",
    ">": "greater_than_sign",
    "%": "percent_sign",
    "~": "tilde",
    "!": "exclamation_mark",
}


async def open_runs(app: ConsoleApp, pilot: Pilot[int]) -> SavedRunsTable:
    """Go to the screen and wait until everything is read."""
    await pilot.press("2")
    await until(pilot, lambda: isinstance(app.screen, RunsScreen) and bool(app.screen.query(SavedRunsTable)))
    await still(app, pilot)
    return app.screen.query_one(SavedRunsTable)


async def type_filter(app: ConsoleApp, pilot: Pilot[int], words: str) -> None:
    """Put words into the filter, but for the last letter, which is typed."""
    await pilot.press("slash")
    app.screen.query_one(FilterInput).value = words[:-1]
    await pilot.press("end", KEYS.get(words[-1], words[-1]), "enter")
    await still(app, pilot)


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_is_found_by_typing_and_read_in_full(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, session, pilot):
        table = await open_runs(app, pilot)
        assert len(table.order) == len(session.store.records)
        await type_filter(app, pilot, LOSSY)
        assert len(table.order) == 3
        assert f"3 of {len(session.store.records)} runs" in text(app)
        assert "? suspect" in text(app)
        await pilot.press("enter")
        await still(app, pilot)
        assert "other_processes" in text(app)
        assert "below_target" in text(app)
        await pilot.press("t")
        assert "lost before uut out" in text(app)
        await pilot.press("t")
        await still(app, pilot)
        assert "the packets of this run were not timed" in text(app)
        await pilot.press("t")
        await still(app, pilot)
        await pilot.press("t")
        await still(app, pilot)
        assert "On all nodes" in text(app)
        assert "6.6.0" in text(app)
        assert all(cell_len(line) <= size[0] for line in picture(app))
        await pilot.press("escape")
        assert app.focused is table
        await pilot.press("escape")
        await still(app, pilot)
        assert len(table.order) == len(session.store.records)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))


async def test_the_time_series_of_a_run_is_drawn_and_its_absence_said() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        await open_runs(app, pilot)
        await pilot.press("t", "t", "t")
        await still(app, pilot)
        assert "⠒ measured" in text(app)
        assert "┤" in text(app)
        await pilot.press("end")
        await still(app, pilot)
        assert "this run has no time series" in text(app)


async def test_what_is_wrong_with_a_filter_is_said_beside_it_and_the_rest_of_it_counts() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        table = await open_runs(app, pilot)
        await type_filter(app, pilot, "size=500 platfrom=raw")
        assert "there is no field 'platfrom'; did you mean platform?" in text(app)
        assert {run.frame_size_bytes for run in table.list_displayed_runs()} == {500}
        await pilot.press("escape")
        await still(app, pilot)
        assert "platfrom" not in text(app)
        stood = table.chosen
        await type_filter(app, pilot, "kvm")
        assert "No runs match this filter" in text(app)
        await pilot.press("escape")
        await still(app, pilot)
        assert table.chosen == stood
        assert "No runs match" not in text(app)
        assert app.screen.query_one(DetailsPane).view.record is not None, "the run under the cursor is shown again"


async def test_runs_are_sorted_by_columns_with_what_is_not_known_last() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        unknown = session.store.records[5]
        session.store.records[5] = unknown.model_copy(
            update={"total": unknown.total.model_copy(update={"loss_ratio": None})}
        )
        table = await open_runs(app, pilot)
        await pilot.press("s", *"loss", "enter")
        await still(app, pilot)
        assert table.sorting == Sorting("loss", True)
        *ratios, last = (run.loss_ratio for run in table.list_displayed_runs())
        assert last is None
        assert ratios == sorted((ratio for ratio in ratios if ratio is not None), reverse=True)
        assert "loss %▼" in text(app)
        await pilot.press("S")
        await still(app, pilot)
        *ratios, last = (run.loss_ratio for run in table.list_displayed_runs())
        assert last is None
        assert ratios == sorted(ratio for ratio in ratios if ratio is not None)
        header = next(i for i, line in enumerate(picture(app)) if "measured pps" in line)
        await pilot.click(offset=(picture(app)[header].index("measured pps") + 3, header))
        await still(app, pilot)
        assert table.sorting == Sorting("measured", True)


@pytest.mark.parametrize("size", SIZES)
async def test_no_title_is_cut_whatever_the_runs_are_sorted_by(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, _, pilot):
        table = await open_runs(app, pilot)
        for name in SORTS:
            assert isinstance(app.screen, RunsScreen)
            app.screen.action_sort_by(name)
            await still(app, pilot)
            assert "…" not in "".join(words for words, _ in table._header()), name


async def test_the_palette_sorts_by_each_column_at_once() -> None:
    async with console(session_with_runs) as (app, _, pilot):
        table = await open_runs(app, pilot)
        commands = {each.title: each.callback for each in app.get_system_commands(app.screen)}
        assert {"Sort by loss", "Sort by measured rate", "Sort by start"} <= set(commands)
        await commands["Sort by loss"]()
        await still(app, pilot)
        ratios = [run.loss_ratio or 0 for run in table.list_displayed_runs()]
        assert ratios == sorted(ratios, reverse=True) and max(ratios) > 0


@pytest.mark.parametrize("size", SIZES)
async def test_an_empty_filter_says_that_it_is_empty_and_what_could_stand_there(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, _, pilot):
        await open_runs(app, pilot)
        assert "no filter: all runs" in picture(app)[2 if size[1] < 32 else 3]
        await type_filter(app, pilot, LOSSY)
        assert "no filter" not in text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_of_another_year_says_so_and_one_of_this_year_its_seconds(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def session() -> FakeSession:
        made = session_with_runs()
        old = made.store.records[0]
        made.store.records.append(old.model_copy(update={"run_id": "old", "started_at": "2019-05-06T07:08:09.123Z"}))
        return made

    monkeypatch.setattr(clock, "wall_s", lambda: 1_772_442_880.0)  # March 2026, as the runs
    async with console(session, size) as (app, _, pilot):
        table = await open_runs(app, pilot)
        newest = table.list_displayed_runs()[0].started_at
        assert newest.startswith("2026-")
        shown = newest[5:16] if size[0] < 100 else newest[5:19]
        assert shown.replace("T", " ") + " " in text(app)
        await pilot.press("end")
        await still(app, pilot)
        assert "2019-05-06" in next(line for line in picture(app) if "▌" in line)
        assert table.read_row_texts("old")[1] == ("start UTC", "2019-05-06 07:08:09")
        await pilot.press("enter")
        await still(app, pilot)
        assert "2019-05-06 07:08:09" in text(app).replace("T07", " 07")


async def test_a_view_is_saved_by_name_left_and_come_back_to_and_removed(tmp_path: Path) -> None:
    async with console(session_with_runs) as (app, _, pilot):
        app.memory.views = SavedViews(tmp_path / "views.json")
        table = await open_runs(app, pilot)
        all_runs = len(table.order)
        await type_filter(app, pilot, LOSSY)
        few = list(table.order)
        await pilot.press("s", *"frame", "enter", "o", *"note", "enter")
        await pilot.pause()
        assert "– hidden" in text(app)
        await pilot.press("escape", "V", *"save", "enter")
        await pilot.press(*"lossy", "enter")
        await until(pilot, lambda: "lossy" in SavedViews(tmp_path / "views.json").all())
        assert SavedViews(tmp_path / "views.json").all()["lossy"] == View(LOSSY, "size", False, ("note",))
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("escape", "s", *"start", "enter")
        await still(app, pilot)
        assert len(table.order) == all_runs
        await pilot.press("V", *"loss", "enter")
        await still(app, pilot)
        assert sorted(table.order) == sorted(few) and table.sorting == Sorting("size", False)
        assert "note" not in [column.name for column in table.columns()]
        assert "View: lossy" in [each.title for each in app.get_system_commands(app.screen)]
        await pilot.press("V", *"remove", "enter")
        await pilot.press("enter")
        await until(pilot, lambda: SavedViews(tmp_path / "views.json").all() == {})


async def test_two_consoles_keep_each_others_views(tmp_path: Path) -> None:
    one, other = SavedViews(tmp_path / "views.json"), SavedViews(tmp_path / "views.json")
    assert one.keep("a", View("size=64")) == other.keep("b", View("size=500")) == ""
    assert set(one.all()) == set(other.all()) == {"a", "b"}
    (tmp_path / "file").write_text("")
    assert "cannot be written" in SavedViews(tmp_path / "file" / "views.json").keep("a", View(""))


async def test_views_that_nobody_wrote_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "views.json"
    for words in ("", "[]", '{"a": 1, "b": {"filter": 3}, "\\u0007": {}}', "{" * 100_000):
        file.write_text(words)
        assert SavedViews(file).all() == {}
    file.write_text('{"good": {"filter": "size=64", "sort": "loss", "descending": true, "hidden": []}}')
    assert SavedViews(file).all() == {"good": View("size=64", "loss")}


async def test_a_pinned_run_is_the_baseline_that_a_column_tells_differences_to() -> None:
    async with console(session_with_runs, (200, 60)) as (app, _, pilot):
        table = await open_runs(app, pilot)
        assert "Δ baseline" not in text(app)
        await pilot.press("B")
        await pilot.pause()
        base = table.baseline
        assert base is not None and base.run_id == table.chosen and base.measured_pps
        assert "Δ baseline" in text(app)
        other = next(
            run for run in table.list_displayed_runs() if run.measured_pps and run.measured_pps != base.measured_pps
        )
        assert other.measured_pps is not None
        words, _ = table.cell_difference(other.run_id, 20)
        assert words == f"{100 * (other.measured_pps / base.measured_pps - 1):+.2f} %"
        await pilot.press("B")
        await pilot.pause()
        assert table.baseline is None and "Δ baseline" not in text(app)


async def test_the_differences_of_two_runs_are_copied_and_exported_as_text(tmp_path: Path) -> None:
    async with console(session_with_runs) as (app, _, pilot):
        table = await open_runs(app, pilot)
        await pilot.press("m", "end", "m", "c")
        await still(app, pilot)
        await pilot.press("D")
        head, *rows = (line.split("\t") for line in app.clipboard.splitlines())
        assert head == ["section", "field", *table.marked, "change"]
        assert rows and all(len(row) == 5 and row[2] != row[3] for row in rows)
        copied = app.clipboard
        commands = {each.title: each.callback for each in app.get_system_commands(app.screen)}
        await commands["Export the differences of two runs"]()
        await until(pilot, lambda: isinstance(app.screen, AskText) and bool(app.screen.query(Input)))
        app.screen.query_one(Input).value = str(tmp_path / "both.tsv")
        await pilot.press("enter")
        await until(pilot, lambda: any("exported the differences to" in note.text for note in app.state.notes))
        assert (tmp_path / "both.tsv").read_text() == copied


async def test_the_cursor_stays_on_its_run_when_new_ones_come() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        table = await open_runs(app, pilot)
        await pilot.press("down", "down")
        there = table.chosen
        fresh = saved_record(99)
        session.store.records.insert(0, fresh)
        session.say(TrialFinished(record=fresh, saved=True))
        await until(pilot, lambda: len(table.order) == len(session.store.records))
        assert table.order[0] == fresh.run_id
        assert table.chosen == there


@pytest.mark.parametrize("size", SIZES)
async def test_two_marked_runs_are_compared_and_differences_marked(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, session, pilot):
        await open_runs(app, pilot)
        await pilot.press("c")
        assert any("Comparing needs two runs" in note.text for note in app.state.notes)
        await type_filter(app, pilot, "size=64 target=400Mbit")
        await pilot.press("m", "end", "c")
        await still(app, pilot)
        assert app.screen.query_one(PageTabs).page == "compare"
        marked = [line for line in picture(app) if "≠" in line]
        assert any("platform" in line and "container" in line and "raw" in line for line in marked)
        assert not any("duration" in line for line in marked)
        assert all(cell_len(line) <= size[0] for line in picture(app))
        await pilot.press("escape", "u", "up")
        await still(app, pilot)
        assert app.screen.query_one(PageTabs).page == "verdict"
        assert "1 marked" not in text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_note_is_written_shown_filtered_by_and_removed(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, session, pilot):
        table = await open_runs(app, pilot)
        run_id = table.chosen
        assert run_id is not None
        await pilot.press("n", *"warm room".replace(" ", "_"), "enter")
        await until(pilot, lambda: not isinstance(app.screen, AskText))
        await still(app, pilot)
        assert session.store.notes[run_id] == RunNote("warm_room", "op@console", "2026-03-02T09:20:00.000000Z")
        await type_filter(app, pilot, "note~warm")
        assert table.order == [run_id]
        await pilot.press("enter")
        await still(app, pilot)
        assert "warm_room" in text(app)
        assert "op@console" in text(app)
        await pilot.press("escape", "n")
        app.screen.query_one(Input).value = "  "
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, AskText))
        assert run_id not in session.store.notes


async def test_a_note_that_a_locked_store_refuses_is_not_lost() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        await open_runs(app, pilot)
        session.store.locked = True
        await pilot.press("n", *"warm", "enter")
        await until(pilot, lambda: "kept it locked" in text(app))
        assert isinstance(app.screen, AskText)
        session.store.locked = False
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert "warm" in {note.text for note in session.store.notes.values()}


async def test_ids_records_and_rows_are_copied() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        table = await open_runs(app, pilot)
        await pilot.press("y")
        assert app.clipboard == table.chosen
        await pilot.press("J")
        assert RunRecord.model_validate_json(app.clipboard).run_id == table.chosen
        await pilot.press("R")
        titles, row = (line.split("\t") for line in app.clipboard.splitlines())
        assert row[titles.index("run")] == table.chosen
        assert row[titles.index("B")] == "64"
        await pilot.press("m", "m", "R", "y")
        assert app.clipboard.split("\n") == list(table.order[:2])


async def test_marked_runs_are_exported_to_a_new_file_and_never_over_one(tmp_path: Path) -> None:
    async with console(session_with_runs) as (app, session, pilot):
        table = await open_runs(app, pilot)
        await type_filter(app, pilot, LOSSY)
        await pilot.press("m", "m", "x")
        await pilot.pause()
        assert "Export 2 runs marked" in text(app)
        words = str(app.screen.query_one("#ask-words", Static).content)
        assert "To export all runs of the list instead: cancel, then u (unmark all) and x." in words
        assert "(unmark all)" in text(app)
        file = tmp_path / "out.jsonl"
        file.write_text("precious")
        app.screen.query_one(Input).value = str(file)
        await pilot.press("enter")
        await until(pilot, lambda: "will not be overwritten" in text(app).replace("\n", " "))
        assert file.read_text() == "precious"
        app.screen.query_one(Input).value = str(tmp_path / "mine.jsonl")
        await pilot.press("enter")
        await until(pilot, lambda: any("exported 2 runs" in note.text for note in app.state.notes))
        exported = [item for item in read_jsonl(tmp_path / "mine.jsonl") if isinstance(item, NotedRecord)]
        assert [item.record.run_id for item in exported] == list(table.marked)
        assert {item.note.text for item in exported if item.note} <= {"the fan was loud"}
        await pilot.press("u", "x")
        await pilot.pause()
        assert "Export 3 runs in the list" in text(app) and "instead" not in text(app)
        app.screen.query_one(Input).value = str(tmp_path / "all.csv")
        await pilot.press("enter")
        await until(pilot, lambda: any("exported 3 runs" in note.text for note in app.state.notes))
        rows = list(csv.DictReader((tmp_path / "all.csv").read_text().splitlines()))
        assert [row["run_id"] for row in rows] == list(table.order)
        assert rows[0]["reason_codes"] == "below_target"
        await until(pilot, lambda: str(tmp_path / "all.csv") in text(app))


@pytest.mark.parametrize(
    ("name", "words"),
    [("", "enter a file name"), ("x.txt", "must end in .jsonl or .csv"), ("/nowhere/at/all.csv", "cannot be written")],
)
async def test_a_file_that_cannot_be_made_is_said(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list_actions.create_run_file(name)


async def test_a_damaged_record_is_left_out_of_an_export_and_told(tmp_path: Path) -> None:
    session = session_with_runs()
    runs = session.store.list()[:3]
    session.store.damaged.add(runs[1].run_id)
    path, stream = list_actions.create_run_file(str(tmp_path / "x.jsonl"))
    assert list_actions.write_run_files(path, stream, runs, session.store) == (
        2,
        [f"run {runs[1].run_id}: not valid JSON: Expecting value: line 1 column 1 (char 0)"],
    )
    assert len(path.read_text().splitlines()) == 2


async def test_a_damaged_record_is_said_in_its_place_and_the_others_can_be_read() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        table = await open_runs(app, pilot)
        session.store.damaged.add(table.order[1])
        await pilot.press("down")
        await still(app, pilot)
        await until(pilot, lambda: "not valid JSON" in text(app))
        await pilot.press("t", "down")
        await still(app, pilot)
        assert "Stream s1" in text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_store_that_cannot_be_read_is_said_and_read_again_on_demand(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, session, pilot):
        session.store.broken = True
        table = await open_runs(app, pilot)
        assert "✗ the run store cannot be read" in text(app)
        session.store.broken = False
        await pilot.press("l")
        await until(pilot, lambda: len(table.order) == len(session.store.records))
        session.store.broken = True
        await pilot.press("l")
        await until(pilot, lambda: "cannot be read" in text(app))
        assert len(table.order) == len(session.store.records)
        session.store.broken = False
        assert isinstance(app.screen, RunsScreen)
        app.screen.follow_if_visible()
        await until(pilot, lambda: "cannot be read" not in text(app))
        assert len(table.order) == len(session.store.records)


async def test_without_runs_the_screen_says_how_to_get_some() -> None:
    async with console() as (app, _, pilot):
        await open_runs(app, pilot)
        assert "No runs saved yet. Press 1 for the Bench" in text(app)
        for key in ("m", "n", "x", "J", "R", "c", "enter", "t", "escape"):
            await pilot.press(key)
            await pilot.pause()
            assert app.is_running


async def test_hostile_words_in_records_and_notes_are_shown_harmlessly() -> None:
    def hostile() -> FakeSession:
        session = FakeSession()
        record = saved_record(0)
        bad = "\x1b[31m[bold]x[/bold]" + "y" * 10_000
        changes = {
            "environment": {"nodes": {bad: {bad: bad}}},
            "influences": ({"kind": bad, "detail": bad},),
            "testbed": bad,
        }
        session.store.records = [record.model_copy(update=changes)]
        session.store.notes[record.run_id] = RunNote(bad, bad, "2026-01-01T00:00:00Z")
        return session

    async with console(hostile) as (app, _, pilot):
        await open_runs(app, pilot)
        for _ in range(5):
            await pilot.press("t")
            await still(app, pilot)
            assert "\x1b" not in text(app)
            assert all(cell_len(line) <= 120 for line in picture(app))
        assert "[bold]x" in text(app)


async def test_the_list_is_read_in_pages_then_only_what_came_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_runs, "FIRST_RUNS", 4)  # little, to be on the screen at once
    monkeypatch.setattr(saved_runs, "PAGE_RUNS", 10)
    session = FakeSession()
    session.store.records = list(reversed(matrix()))
    asked: list[tuple[int | None, int | None]] = []
    page = session.store.page

    def counted(*, before: int | None = None, after: int | None = None, limit: int) -> object:
        asked.append((before, after))
        return page(before=before, after=after, limit=limit)

    session.store.page = counted  # type: ignore[method-assign, assignment]
    saved, told = SavedRuns(session.store), []
    await saved.refresh(lambda: told.append(len(saved.runs)))
    total = len(session.store.records)
    assert told == [4, 14, 24, 34, total]
    assert [run.run_id for run in saved.runs] == [record.run_id for record in session.store.records]
    asked.clear()
    session.store.records[:0] = [saved_record(1000 + n) for n in range(15, 0, -1)]
    await saved.refresh(lambda: None)
    assert len(saved.runs) == total + 15
    assert all(after is not None for _, after in asked)
    assert json.dumps(saved.describe_count()) == json.dumps(f"{total + 15} runs")


async def test_of_very_many_runs_the_newest_are_kept_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_runs, "FIRST_RUNS", 10)
    monkeypatch.setattr(saved_runs, "PAGE_RUNS", 10)
    monkeypatch.setattr(saved_runs, "MOST", 20)
    session = session_with_runs()
    saved = SavedRuns(session.store)
    await saved.refresh(lambda: None)
    assert [run.run_id for run in saved.runs] == [record.run_id for record in session.store.records[:20]]
    assert saved.describe_count() == f"newest 20 of {len(session.store.records)} runs"


async def test_runs_that_somebody_else_saved_appear_by_themselves_and_nothing_is_painted_for_none() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        table = await open_runs(app, pilot)
        assert isinstance(app.screen, RunsScreen)
        before = app.screen._done
        app.screen.follow_if_visible()
        await still(app, pilot)
        assert app.screen._done == before
        fresh = saved_record(700)
        session.store.records.insert(0, fresh)
        app.screen.follow_if_visible()
        await until(pilot, lambda: fresh.run_id in table.order)


async def test_the_list_goes_on_as_one_goes_down_and_counts_what_it_has_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_list, "ROWS_AT_ONCE", 60)
    monkeypatch.setattr(SavedRunsTable, "ROWS_AHEAD", 10)

    def many() -> FakeSession:
        session = FakeSession()
        session.store.records = [saved_record(number, size=(64, 500)[number % 2]) for number in range(399, -1, -1)]
        return session

    async with console(many, (80, 24)) as (app, session, pilot):
        table = await open_runs(app, pilot)
        assert len(table.order) == 60
        assert "400 runs" in text(app)
        await pilot.press("slash", *"size", "equals_sign", *"64", "enter")
        await until(pilot, lambda: "200 of 400 runs" in text(app))
        assert len(table.order) == 60
        for _ in range(8):
            await pilot.press("pagedown")
        await until(pilot, lambda: len(table.order) > 60)
        stood = table.chosen
        session.store.records.insert(0, saved_record(1000))
        await pilot.press("l")
        await until(pilot, lambda: "201 of 401 runs" in text(app))
        assert table.chosen == stood
        await pilot.press("G")
        await until(pilot, lambda: table.chosen == session.store.records[-1].run_id)
        assert len(table.order) == 201


async def test_what_one_sorts_for_stands_in_sight_and_the_cursor_on_it() -> None:
    async with console(session_with_runs, (80, 24)) as (app, _, pilot):
        table = await open_runs(app, pilot)
        await pilot.press("end")
        await still(app, pilot)
        await pilot.press("s", *"loss", "enter")
        await still(app, pilot)
        assert table.sorting == Sorting("loss", True)
        assert (table.chosen, table.scroll_offset.y) == (table.order[0], 0)


async def test_after_a_filter_that_matched_nothing_the_cursor_is_in_sight() -> None:
    async with console(session_with_runs, (80, 24)) as (app, _, pilot):
        table = await open_runs(app, pilot)
        await pilot.press("end")
        await still(app, pilot)
        stood = table.chosen
        await type_filter(app, pilot, "kvm")
        await pilot.press("escape")
        await still(app, pilot)
        assert table.chosen == stood
        assert table.scroll_offset.y <= table.cursor_index < table.scroll_offset.y + table.size.height - 1
