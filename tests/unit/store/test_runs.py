"""Saving, finding and reading runs, from one thread and from several."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from labconsole.contracts.ports import RunSink, Series
from labconsole.errors import StoreError
from labconsole.model.identity import new_run_id
from labconsole.model.record.run import Fixed, PlanRef, Reason, Verdict
from labconsole.model.record.summary import RunFilter
from labconsole.store.importing import import_records, read_jsonl
from labconsole.store.open import open_store
from support.store_samples import START, planned, sample_record, sample_series

ROOT = Path(__file__).parents[3]


@pytest.fixture
def store(place):
    with open_store(place.url) as opened:
        yield opened


def test_a_run_comes_back_as_it_was_saved(store):
    sink: RunSink = store
    record = sample_record()
    sink.save(record, None)
    assert store.get(record.run_id) == record
    assert store.get(record.run_id).to_json() == record.to_json()
    assert store.count() == 1
    assert store.series(record.run_id) is None


def test_a_run_is_there_after_reopening(place):
    with open_store(place.url) as store:
        store.save(sample_record(), sample_series())
    with open_store(place.url, write=False) as store:
        assert store.get(sample_record().run_id) == sample_record()
        assert store.series(sample_record().run_id) == sample_series()


def test_series_keep_integers_beyond_a_floats_precision_and_gaps(store, place):
    record = sample_record()
    store.save(record, sample_series())
    assert store.series(record.run_id) == sample_series()
    values = store.series(record.run_id).tables["counters"]["wall_ns"]
    assert values == [1_795_229_101_123_456_789, None]
    assert place.series_names() == [record.run_id]
    assert store.list()[0].has_series


def test_empty_columns_and_floats_that_are_not_numbers_are_kept_as_unknown(store):
    store.save(sample_record(), Series({"t": {"none": [], "file": []}, "u": {"x": [float("nan"), 1.5]}}))
    assert store.series(sample_record().run_id).tables == {"t": {"none": [], "file": []}, "u": {"x": [None, 1.5]}}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"t": {"a": [1], "b": [1, 2]}}, "differ in length"),
        ({"t": {"../a": [1]}}, "cannot name a time series"),
        ({"t": {"a": ["x"]}}, "does not hold numbers"),
        ({"t": {"a": [2**70]}}, "does not hold numbers"),
    ],
)
def test_series_that_cannot_be_kept_are_refused_and_nothing_is_stored(store, place, tables, message):
    with pytest.raises(StoreError, match=message):
        store.save(sample_record(), Series(tables))
    assert store.count() == 0
    assert place.series_names() == []


def test_a_missing_or_damaged_series_file_is_named(tmp_path):
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        record = sample_record()
        store.save(record, sample_series())
        file = tmp_path / "runs.sqlite.series" / f"{record.run_id}.npz"
        file.write_bytes(file.read_bytes()[:-40])
        with pytest.raises(StoreError, match=f"{record.run_id}.*cannot be read"):
            store.series(record.run_id)
        file.unlink()
        with pytest.raises(StoreError, match=f"{re.escape(str(file))} is missing"):
            store.series(record.run_id)
        assert store.get(record.run_id) == record


def test_saving_the_same_run_again_changes_nothing(store, place):
    store.save(sample_record(), sample_series())
    store.save(sample_record(), None)
    store.save(sample_record(), sample_series())
    assert store.count() == 1
    assert store.series(sample_record().run_id) == sample_series()
    assert place.series_names() == [sample_record().run_id]


def test_series_can_follow_a_run_that_was_saved_without(store):
    store.save(sample_record(), None)
    store.save(sample_record(), sample_series())
    assert store.series(sample_record().run_id) == sample_series()


def test_a_run_is_never_overwritten(store):
    store.save(sample_record(), sample_series())
    with pytest.raises(StoreError, match=f"run {sample_record().run_id} is already stored with different content"):
        store.save(sample_record(operator="somebody else"), None)
    with pytest.raises(StoreError, match="already stored with different time series"):
        store.save(sample_record(), Series({"streams": {"seconds": [9.0]}}))
    assert store.get(sample_record().run_id).operator == "op"
    assert store.series(sample_record().run_id) == sample_series()


@pytest.mark.parametrize("run_id", ["", "../../etc/passwd", ".hidden", "a/b", "a b", "x" * 129, "a\n"])
def test_an_id_that_could_leave_the_directory_is_refused(store, run_id):
    with pytest.raises(StoreError, match="is not valid"):
        store.save(sample_record(run_id=run_id), sample_series())
    with pytest.raises(StoreError, match="is not a run id"):
        store.get(run_id)


@pytest.mark.parametrize(
    ("environment", "message"),
    [({"x": float("nan")}, "Out of range float"), ({"x": object()}, "not JSON serializable"), ({"x": {1, 2}}, "set")],
)
def test_what_json_cannot_hold_is_refused_rather_than_changed(store, environment, message):
    with pytest.raises(StoreError, match=message):
        store.save(sample_record(environment=environment), None)
    assert store.count() == 0


def test_a_start_without_a_time_zone_is_refused(store):
    with pytest.raises(StoreError, match="not an RFC 3339 time"):
        store.save(sample_record(started_at="2026-11-21T02:45:01"), None)


def test_a_number_too_large_for_the_database_is_refused(store):
    with pytest.raises(StoreError, match="does not fit"):
        store.save(sample_record(target_bps=2**80), None)


def test_a_run_is_found_by_the_beginning_of_its_id(store):
    for run_id in ("20261121T024501Z-7f3a9c", "20261121T024501Z-7f0000", "20261121T024501Z-7F3a9c", "20261121T02"):
        store.save(sample_record(run_id=run_id), None)
    assert store.get("20261121T024501Z-7f3").run_id == "20261121T024501Z-7f3a9c"
    assert store.get("20261121T02").run_id == "20261121T02"
    with pytest.raises(StoreError, match="several runs: 20261121T024501Z-7f0000, 20261121T024501Z-7f3a9c$"):
        store.get("20261121T024501Z-7f")
    with pytest.raises(StoreError, match="there is no run 2027"):
        store.get("2027")


def test_many_runs_with_one_beginning_are_not_all_listed(store):
    for number in range(8):
        store.save(sample_record(number), None)
    with pytest.raises(StoreError, match=", …$"):
        store.get("2026")


def test_the_list_shows_the_newest_first_whatever_the_time_zone(store):
    store.save(sample_record(1, started_at="2026-11-21T04:00:00+02:00"), None)
    store.save(sample_record(2, started_at="2026-11-21T02:30:00Z"), None)
    store.save(sample_record(3, started_at="2026-11-21T02:30:00.5Z"), None)
    assert [s.started_at for s in store.list()] == [
        "2026-11-21T02:30:00.500000Z",
        "2026-11-21T02:30:00.000000Z",
        "2026-11-21T02:00:00.000000Z",
    ]
    assert len(store.list(limit=2)) == 2


def test_a_summary_repeats_the_record(store):
    store.save(
        sample_record(
            target_bps="max",
            plan=PlanRef(name="p", hash="f" * 16, point=3, repetition=2, seed=1),
            verdict=Verdict(
                status="suspect",
                reasons=tuple(
                    Reason(code=c, detail="d") for c in ("offered_short", "capture_missing", "offered_short")
                ),
            ),
        ),
        None,
    )
    summary = store.list()[0]
    assert (summary.target_bps, summary.generator, summary.verdict) == ("max", "afpacket", "suspect")
    assert summary.reason_codes == ("offered_short", "capture_missing")
    assert (summary.plan_name, summary.plan_point, summary.repetition) == ("p", 3, 2)
    assert (summary.offered_pps, summary.loss_ratio, summary.loss_packets) == (142_045.0, 0.0, 0)
    assert summary.emulated is True


def test_filters_combine(store):
    number = 0
    for platform in ("raw", "container"):
        for target_bps in (10**7, 10**8, "max"):
            store.save(sample_record(number, platform=platform, target_bps=target_bps), None)
            number += 1
    assert store.count(RunFilter(platform="raw")) == 3
    assert store.count(RunFilter(platform=["raw", "container"], target_bps="max")) == 2
    assert store.count(RunFilter(target_bps=["max", 10**7])) == 4
    assert store.count(RunFilter(target_bps=10**7, platform="container")) == 1
    assert store.count(RunFilter(verdict="invalid")) == 0
    assert store.count(RunFilter(emulated=False)) == 0
    assert store.count(RunFilter(platform=[])) == 0
    moment = (START + timedelta(seconds=2)).isoformat()
    assert store.count(RunFilter(since=moment)) == 4
    assert store.count(RunFilter(until=moment)) == 2
    assert [r.requested.target_bps for r in store.iterate(RunFilter(platform="raw"))] == [10**7, 10**8, "max"]
    with pytest.raises(StoreError, match="since: 'yesterday' is not"):
        store.list(RunFilter(since="yesterday"))


def test_streaming_goes_through_all_pages_in_order_and_sees_equal_times(store):
    records = [sample_record(n, started_at="2026-11-21T00:00:00Z") for n in range(450)]
    assert import_records(store, records).added == 450
    assert [r.run_id for r in store.iterate()] == sorted(r.run_id for r in records)


def test_a_damaged_record_is_named_and_hides_no_other(store, place):
    for number in range(3):
        store.save(sample_record(number), None)
    bad = sample_record(1).run_id
    place.execute("UPDATE runs SET record = '{\"format\": 1}' WHERE run_id = ?", bad)
    assert len(store.list()) == 3
    with pytest.raises(StoreError, match=f"run {bad}: run_id: Field required"):
        store.get(bad)
    with pytest.raises(StoreError, match=bad):
        list(store.iterate())
    complaints: list[StoreError] = []
    assert len(list(store.iterate(unreadable=complaints.append))) == 2
    assert bad in str(complaints[0])


def test_a_record_under_the_wrong_id_is_named(store, place):
    store.save(sample_record(), None)
    place.execute("UPDATE runs SET run_id = 'other'")
    with pytest.raises(StoreError, match=f"run other: its record has the id {sample_record().run_id}"):
        store.get("other")


def test_the_done_trials_of_a_plan_are_those_with_a_run_that_stands(store):
    runs = [
        planned(0, 0, 1),
        planned(1, 1, 1, "invalid"),
        planned(2, 2, 1, "suspect"),
        planned(3, 1, 2, "invalid"),
        planned(4, 1, 2),
        planned(5, 0, 1),
        planned(6, 5, 1, plan_hash="b" * 16),
        sample_record(7),
    ]
    for run in runs:
        store.save(run, None)
    done = store.plan_runs("a" * 16, "7d3f9a11c0de4b52")
    assert [(trial.point, trial.repetition) for trial in done] == [(0, 1), (1, 2), (2, 1)]
    assert [(trial.run_id, trial.status) for trial in done] == [
        (runs[number].run_id, runs[number].verdict.status) for number in (5, 4, 2)
    ]
    assert store.plan_runs("a" * 16, "another testbed") == []


def test_a_plans_runs_tell_what_the_unit_under_test_lost_and_what_speaks_against_them(store):
    run = planned(1, 0, 1)
    reasons = tuple(Reason(code=code, detail="d") for code in ("lost_at_sink", "other_cpu", "lost_at_sink"))
    run = run.model_copy(
        update={
            "total": run.total.model_copy(update={"loss_ratio": 0.25, "offered_packets": 1000, "uut_lost_packets": 50}),
            "verdict": Verdict(status="suspect", reasons=reasons),
        }
    )
    store.save(run, None)
    store.save(planned(2, 1, 1), None)
    told, other = store.plan_runs("a" * 16, "7d3f9a11c0de4b52")
    assert (told.loss_ratio, told.uut_loss_ratio, told.lost_ratio) == (0.25, 0.05, 0.05)
    assert told.offered_packets == 1000
    assert (told.reason_codes, told.says_nothing) == (("lost_at_sink", "other_cpu"), "lost_at_sink")
    assert (other.uut_loss_ratio, other.lost_ratio, other.reason_codes, other.says_nothing) == (None, 0.0, (), None)


def test_exported_lines_can_be_imported_and_imported_again(store, tmp_path):
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(sample_record(n).to_json()) + "\n" for n in range(3)) + "\n")
    store.save(sample_record(1), None)
    result = import_records(store, read_jsonl(file))
    assert (result.added, result.present) == (2, 1)
    assert import_records(store, read_jsonl(file)).added == 0
    assert list(store.iterate()) == [sample_record(n) for n in range(3)]


def test_another_console_saves_a_run_while_an_import_is_being_read(store, place):
    def read():
        yield sample_record(0)
        with open_store(place.url) as other:
            other.save(sample_record(9))
        yield sample_record(1)
        yield sample_record(1)

    result = import_records(store, read())
    assert (result.added, result.present) == (2, 1)
    assert store.count() == 3


BAD_LINES = [
    ("{", "not valid JSON"),
    ("[1]", "not a run record but a JSON list"),
    ('{"format": 3}', "has format 3; this version of labconsole reads up to 2"),
    ('{"format": "1"}', "format must be a positive integer, got '1'"),
    ("{}", "format must be a positive integer, got None"),
    ('{"format": NaN}', "NaN is not JSON"),
    ("[" * 100_000, "not valid JSON"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_an_import_takes_all_or_nothing_and_names_the_line(store, tmp_path, line, message):
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps(sample_record().to_json()) + "\n" + line + "\n")
    with pytest.raises(StoreError, match=f"runs.jsonl:2: .*{re.escape(message)}"):
        import_records(store, read_jsonl(file))
    assert store.count() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "colour: Extra inputs"),
        ({"emulated": "yes"}, "emulated: Input should be a valid boolean"),
        ({"run_id": "../x"}, "run_id '../x' is not valid"),
        ({"verdict": {"status": "fine"}}, "verdict.status"),
        ({"started_at": "noon"}, "'noon' is not an RFC 3339 time"),
        ({"testbed": None}, "testbed: Input should be a valid string"),
    ],
)
def test_an_import_is_strict_about_every_field(store, change, message):
    with pytest.raises(StoreError, match=re.escape(message)):
        import_records(store, [{**sample_record().to_json(), **change}])
    assert store.count() == 0


def test_the_files_to_import_must_exist(store, tmp_path):
    with pytest.raises(StoreError, match="absent.jsonl: cannot be read: No such file"):
        import_records(store, read_jsonl(tmp_path / "absent.jsonl"))


def test_several_threads_save_and_read_at_once(store):
    def work(number: int) -> int:
        store.save(sample_record(number), sample_series() if number % 2 else None)
        store.get(sample_record(number).run_id)
        return len(store.list(limit=5))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(60)))
    assert store.count() == 60


def test_threads_that_save_the_same_run_agree(store):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: store.save(sample_record(), sample_series()), range(16)))
    assert store.count() == 1
    assert store.series(sample_record().run_id) == sample_series()


def test_a_reader_in_the_middle_of_a_transaction_does_not_block_the_writer(tmp_path):
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        store.save(sample_record(0), None)
        reader = sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None, timeout=0)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        store.save(sample_record(1), None)
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        reader.close()
        streaming = store.iterate()
        next(streaming)
        store.save(sample_record(2), None)
        assert len(list(streaming)) >= 1


def test_run_ids_sort_by_time_and_differ():
    earlier = datetime(2026, 11, 21, 2, 45, 1, tzinfo=UTC)
    assert re.fullmatch(r"20261121T024501Z-[0-9a-f]{6}", new_run_id(earlier))
    assert new_run_id(earlier) < new_run_id(earlier + timedelta(seconds=1))
    assert new_run_id(earlier.astimezone(timezone(timedelta(hours=5))))[:16] == "20261121T024501Z"
    assert len({new_run_id(earlier) for _ in range(50)}) == 50
    with pytest.raises(ValueError, match="time zone"):
        new_run_id(datetime(2026, 11, 21))  # noqa: DTZ001


def test_importing_what_opens_a_store_loads_nothing_heavy():
    program = (
        "import sys, labconsole.store.open as s; s.parse_location(None);"
        "print([m for m in ('sqlalchemy', 'numpy', 'pydantic', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_was_fixed_is_read_from_the_records_of_blocks(store):
    fixed = Fixed(maximum_target_bps="max", reference_pps=1234.5, run_ids=("a", "b"))
    said, silent = (
        planned(number, 0, 1).model_copy(
            update={"plan": PlanRef(name="p", hash="a" * 16, point=0, repetition=1, seed=1, block=1, fixed=held)}
        )
        for number, held in enumerate((fixed, None))
    )
    store.save(said, None)
    store.save(silent, None)
    assert store.fixed([said.run_id, silent.run_id]) == {said.run_id: fixed}
