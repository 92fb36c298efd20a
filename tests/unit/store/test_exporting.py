"""Runs as tables for other programs: a reader sees the types that the documentation promises."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from labconsole.cli.main import main
from labconsole.model.record.run import LedgerHop, Reason, Total, Verdict
from labconsole.store.exporting import COLUMNS
from labconsole.store.open import open_store
from support.store_samples import planned, sample_record, sample_series
from support.timed_packets import told_times

FORMAT = (Path(__file__).parents[3] / "docs" / "data-format.md").read_text()


@pytest.fixture
def url(tmp_path: Path) -> str:
    unknown = Total(**dict.fromkeys(Total.model_fields))
    reasons = (Reason(code="no_rate", detail="d"), Reason(code="aborted", detail="d"))
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        store.save(sample_record(0, target_bps="max", platform="=kvm"), sample_series())
        store.save(planned(1, 7, 2))
        store.save(sample_record(2, total=unknown, verdict=Verdict(status="invalid", reasons=reasons)))
        store.set_note(sample_record(1).run_id, 'a "quoted", Ä\nsecond line', author="op")
    return str(tmp_path / "runs.sqlite")


def test_a_csv_file_opens_in_pandas_with_the_types_that_it_promises(url, tmp_path):
    out = tmp_path / "runs.csv"
    assert main(["runs", "export", "--store", url, "--out", str(out)]) == 0
    table = pd.read_csv(out, dtype_backend="numpy_nullable", parse_dates=["started_at"])
    assert list(table.columns) == list(COLUMNS)
    kinds = {"text": "string", "integer": "Int64", "real": "Float64", "boolean": "boolean"}
    promised = {name: kinds.get(kind, "datetime64[us, UTC]") for name, kind in COLUMNS.items()}
    real = {name: str(kind) for name, kind in table.dtypes.items()}
    # Whole numbers that happen to be written without a fraction are numbers all the same.
    real |= {name: promised[name] for name in COLUMNS if table[name].isna().all()}  # of nothing no type can be guessed
    assert {k: v for k, v in real.items() if v != promised[k] and (v, promised[k]) != ("Int64", "Float64")} == {}
    assert table["target_is_max"].tolist() == [True, False, False]
    assert table["target_bps"].tolist() == [pd.NA, 100_000_000, 100_000_000]
    assert table["plan_point"].tolist() == [pd.NA, 7, pd.NA]
    assert table["loss_ratio"].isna().tolist() == [False, False, True]
    assert table["reason_codes"][2] == "no_rate;aborted"
    assert table["platform"][0] == "'=kvm"  # no spreadsheet runs it as a formula
    assert table["note"][1] == 'a "quoted", Ä\nsecond line'
    plain = pd.read_csv(out)
    assert plain["emulated"].dtype == bool
    assert plain["offered_pps"].dtype == float


def test_a_parquet_file_has_the_types_of_its_columns(url, tmp_path):
    out = tmp_path / "runs.parquet"
    assert main(["runs", "export", "--store", url, "--out", str(out)]) == 0
    import pyarrow.parquet as parquet

    table = parquet.read_table(out)
    assert table.column_names == list(COLUMNS)
    types = {"text": "string", "integer": "int64", "real": "double", "boolean": "bool", "time": "timestamp[us, tz=UTC]"}
    wanted = {name: types[kind] for name, kind in COLUMNS.items()} | {"reason_codes": "list<element: string>"}
    assert {name: str(table.schema.field(name).type) for name in table.column_names} == wanted
    frame = pd.read_parquet(out, dtype_backend="numpy_nullable")
    assert frame["target_bps"].tolist() == [pd.NA, 100_000_000, 100_000_000]
    assert list(frame["reason_codes"][2]) == ["no_rate", "aborted"]
    assert frame["platform"][0] == "=kvm"
    assert frame["started_at"][0] == pd.Timestamp("2026-11-21T02:45:01Z")


def test_the_filter_of_the_console_chooses_what_is_listed_and_exported(url, capsys):
    assert main(["runs", "export", "--store", url, "--where", "target=max"]) == 0
    assert [json.loads(line)["run_id"] for line in capsys.readouterr().out.splitlines()] == [sample_record(0).run_id]
    assert main(["runs", "export", "--store", url, "--format", "csv", "--where", "verdict=invalid"]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    assert main(["runs", "list", "--store", url, "--json", "--where", "note~quoted"]) == 0
    assert [json.loads(line)["run_id"] for line in capsys.readouterr().out.splitlines()] == [sample_record(1).run_id]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["export", "--where", "colour=red"], "--where: there is no field 'colour'"),
        (
            ["export", "--format", "parquet"],
            "--format: a Parquet file cannot be written to the terminal; use --out FILE",
        ),
        (["export", "--out", "/proc/x/y.csv"], "--out: cannot write /proc/x/y.csv: No such file or directory"),
        (["list", "--out", "x"], "--out: only valid with export"),
        (["show", "2026", "--where", "x"], "--where: only valid with list and export"),
        (["export", "2026"], "use --where"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(url, words, message, capsys):
    assert main(["runs", *words, "--store", url]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_file_is_written_whole_or_left_as_it_was(url, tmp_path, monkeypatch, capsys):
    out = tmp_path / "runs.jsonl"
    out.write_text("before")

    def broken(*_: object) -> object:
        yield "first line\n"
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("labconsole.store.exporters.jsonl.parts", broken)
        assert main(["runs", "export", "--store", url, "--out", str(out)]) == 2
    assert "No space left" in capsys.readouterr().err
    assert out.read_text() == "before"
    assert main(["runs", "export", "--store", url, "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 3
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_pipe_is_written_to_and_of_a_link_what_it_names(url, tmp_path):
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file.jsonl"
    os.mkfifo(pipe)
    link.symlink_to(file.name)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        assert main(["runs", "export", "--store", url, "--out", str(pipe)]) == 0
        assert len(read.result(timeout=10).splitlines()) == 3
    assert pipe.is_fifo()
    assert main(["runs", "export", "--store", url, "--out", str(link)]) == 0
    assert link.is_symlink() and len(file.read_text().splitlines()) == 3


def test_that_nothing_matches_is_said(url, tmp_path, capsys):
    assert main(["runs", "list", "--store", url, "--where", "platform=nowhere"]) == 0
    assert capsys.readouterr().out == "no saved run matches\n"
    out = ["--out", str(tmp_path / "none.jsonl")]
    assert main(["runs", "export", "--store", url, "--where", "platform=nowhere", *out]) == 0
    assert "no saved run matches, so none is exported" in capsys.readouterr().err


def test_without_pyarrow_the_extra_is_named(url, tmp_path):
    program = (
        "import sys\nsys.modules['pyarrow'] = None\nfrom labconsole.cli.main import main\n"
        "sys.exit(main(['runs', 'export', '--out', sys.argv[2], '--store', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, url, str(tmp_path / "x.parquet")], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert re.search(r"Parquet needs pyarrow, .* pip install 'labconsole\[parquet\]'", done.stderr)
    assert not (tmp_path / "x.parquet").exists()


def test_every_column_is_explained():
    part = FORMAT.partition("## Tables of runs")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([a-z_0-9]+)` \| (\w+)", part, re.MULTILINE))
    assert rows == COLUMNS


def test_a_log_of_histograms_is_read_by_hdrhistograms_own_reader(tmp_path):
    delays = {18_000: 9_000, 31_000: 42_000, 2_300_000: 31}
    made = sample_record(4)
    streams = tuple(
        stream.model_copy(update={"extensions": {"packet_times": told_times(delays)}}) for stream in made.streams
    )
    url = str(tmp_path / "runs.sqlite")
    with open_store(url) as store:
        store.save(sample_record(3))
        store.save(made.model_copy(update={"streams": streams}))
    out = tmp_path / "times.hlog"
    assert main(["runs", "export", "--store", url, "--out", str(out)]) == 0
    tags = re.findall(r"^Tag=([^,]+),", out.read_text(), re.M)
    names = [stream.name for stream in made.streams]
    kinds = ("delay", "spacing", "variation")
    assert tags == [f"{made.run_id}/{name}/{kind}" for name in names for kind in kinds]
    reader = HistogramLogReader(str(out), HdrHistogram(1, 2**36 - 1, 2))
    first = reader.get_next_interval_histogram()
    reader.close()
    assert first.get_total_count() == sum(delays.values())
    assert first.get_value_at_percentile(100) == pytest.approx(2_300_000, rel=1 / 128)


def test_times_of_every_packet_are_columns_over_all_streams_of_a_run(url, tmp_path):
    delays = ({18_000: 9_000, 31_000: 990}, {50_000: 9_000, 2_300_000: 10})
    stream = sample_record().streams[0]
    both = [
        stream.model_copy(update={"name": f"s{n}", "extensions": {"packet_times": told_times(each)}})
        for n, each in enumerate(delays)
    ]
    apart = stream.model_copy(update={"extensions": {"packet_times": told_times(delays[0], clocks_ns=None)}})
    with open_store(url) as store:
        store.save(sample_record(3, streams=tuple(both)))
        store.save(sample_record(4, streams=(both[0], stream)))
        store.save(sample_record(5, streams=(apart,)))
    out = tmp_path / "runs.csv"
    assert main(["runs", "export", "--store", url, "--out", str(out), "--where", "platform=raw"]) == 0
    table = pd.read_csv(out, dtype_backend="numpy_nullable")
    assert [*table.columns[-16:-3]] == [name for name in COLUMNS if name.endswith("_ns") or name == "timed_packets"]
    timed, partly, unsure = table.tail(3).to_dict("records")
    assert timed["timed_packets"] == 19_000
    assert timed["delay_p50_ns"] == pytest.approx(31_000, rel=1 / 128)
    assert timed["delay_p90_ns"] == pytest.approx(50_000, rel=1 / 128)
    assert (timed["delay_p9999_ns"], timed["delay_max_ns"]) == (2_300_000, 2_300_000)
    assert timed["spacing_p50_ns"] == pytest.approx(70_400, rel=1 / 128)
    assert pd.isna(partly["timed_packets"]) and pd.isna(partly["delay_p50_ns"])
    assert pd.isna(unsure["delay_p50_ns"]) and not pd.isna(unsure["spacing_max_ns"])
    parquet = pd.read_parquet(_parquet(url, tmp_path), dtype_backend="numpy_nullable")
    assert parquet["delay_max_ns"].dropna().tolist() == [2_300_000]


def test_what_kernels_said_of_drops_is_in_columns(url, tmp_path):
    told = {
        "version": 1,
        "asked": "auto",
        "budget_ns": 10**7,
        "mode": "tp_btf",
        "tells_reasons": True,
        "passed_packets": 0,
        "looked_packets": 9,
        "unreadable_packets": 0,
        "unlisted_packets": 0,
        "missed_packets": 0,
        "counted_ns": 10**9,
        "ended_early": False,
        "complete": True,
        "estimated_cost_ns": 0,
        "elsewhere": [],
    }
    off = {
        "namespace": "",
        "interface": "eth6",
        "stream": None,
        "reason": "NEIGH_QUEUEFULL",
        "function": "__neigh_event_send",
        "packets": 12,
    }
    stream = sample_record().streams[0]
    dropped = {"kernel.NETFILTER_DROP@nft_do_chain": 7806, "rx_dropped": 5}
    hop = LedgerHop(hop="uut_out", node="uut", interface="eth5", packets=9, lost_packets=7811, drops=dropped)
    lossy = stream.model_copy(update={"ledger": (hop,)})
    early = {**told, "complete": False, "ended_early": True, "elsewhere": [off]}
    refused = {"version": 1, "asked": "on", "budget_ns": None, "refused": {"code": "no_permission", "message": "no"}}
    with open_store(url) as store:
        store.save(sample_record(3, streams=(lossy,), extensions={"kernel_drops": early}))
        store.save(sample_record(4, extensions={"kernel_drops": told}))
        store.save(sample_record(5, extensions={"kernel_drops": refused}))
    out = tmp_path / "runs.csv"
    assert main(["runs", "export", "--store", url, "--out", str(out)]) == 0
    table = pd.read_csv(out, dtype_backend="numpy_nullable").tail(3)
    assert table["kernel_drops_packets"].tolist() == [7818, 0, pd.NA]
    assert table["kernel_drops_complete"].tolist() == [False, True, pd.NA]
    assert table["kernel_drops"].tolist() == [
        "uut/eth5 kernel.NETFILTER_DROP@nft_do_chain 7806; "
        "off the path, at eth6 kernel.NEIGH_QUEUEFULL@__neigh_event_send 12",
        pd.NA,
        pd.NA,
    ]
    assert pd.read_parquet(_parquet(url, tmp_path))["kernel_drops_packets"].dropna().tolist() == [7818, 0]


def _parquet(url: str, tmp_path: Path) -> Path:
    out = tmp_path / "runs.parquet"
    assert main(["runs", "export", "--store", url, "--out", str(out)]) == 0
    return out
