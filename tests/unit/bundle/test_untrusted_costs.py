"""Files from somebody else that would cost much more than they are long: refused, or read in bounded memory.

Every one is harmless by itself: some megabytes at most when unpacked, and refused by bounds that are lowered here.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from labconsole.bundle.archive import MAX_DIFFERENCES, Differences
from labconsole.bundle.reproduction import _count_hashes
from labconsole.bundle.verify import read_rows
from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.experiments.flow.rates import bin_rates
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.yaml_file import MAX_FILE_BYTES
from labconsole.store.records import MAX_VALUES, parse_json
from labconsole.store.series import MAX_SERIES_VALUES, check_series
from labconsole.wire.codec import count_parts
from support.boot_records import boot_data, boot_record
from support.bundle_samples import make_lab, members, pack, repack
from support.flow_records import flow_record
from support.foreign_databases import altered
from support.golden_sets import GOLDEN_SETS, texts
from support.job_records import job_data, job_record
from support.route_records import route_record

MAY_GROW_BYTES = 96 << 20
"""By all files of the corpus together, each of which would take more by itself."""

UNPACKED = 4 << 20


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a bundle without pictures, packed once."""
    directory = make_lab(tmp_path_factory.mktemp("honest"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv", "md", "tex"))
        return members(pack(directory))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of runs, notes, series and a calibration: to be copied."""
    return make_lab(tmp_path_factory.mktemp("lab")) / "runs.sqlite"


def column_file(content_bytes: int, dtype: str = "<i8", size: int = 8) -> bytes:
    """A .npy file with a column of zeros."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({content_bytes // size},), }}".encode()
    text += b" " * (117 - len(text)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(content_bytes)


def series_file(member: bytes, method: int = zipfile.ZIP_DEFLATED, *, stated_bytes: int | None = None) -> bytes:
    """A zip file of one member; ``stated_bytes``: the size that it states, with the check sum of so much."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as file:
        file.writestr("uut/t_ns.npy", member)
    content = packed.getvalue()
    if stated_bytes is not None:
        for real, stated in (
            (zlib.crc32(member), zlib.crc32(member[:stated_bytes])),
            (len(member), stated_bytes),
        ):
            content = content.replace(real.to_bytes(4, "little"), stated.to_bytes(4, "little"))
    return content


LISTS = b'{"a":[' + b"[]," * (UNPACKED // 12) + b"[]]}\n"
ONE = "series/20261121T024502Z-000001.npz"
CHANGED: dict[str, tuple[str, bytes, str]] = {
    "deflated": (ONE, series_file(column_file(UNPACKED), stated_bytes=160), "cannot be read"),
    "bzip2": (ONE, series_file(column_file(UNPACKED), zipfile.ZIP_BZIP2, stated_bytes=160), "no time series uses"),
    "lzma": (ONE, series_file(column_file(UNPACKED), zipfile.ZIP_LZMA, stated_bytes=160), "no time series uses"),
    "float16": (ONE, series_file(column_file(1 << 18, "<f2", 2)), "not a column of numbers of 8 bytes"),
    "int8": (ONE, series_file(column_file(1 << 18, "|i1", 1)), "not a column of numbers of 8 bytes"),
    "values": (ONE, series_file(column_file(UNPACKED)), "it holds more than 65536 values"),
    "line": ("runs.jsonl", LISTS, "runs.jsonl:1: holds"),
    "long line": ("runs.jsonl", b" " * UNPACKED + b"{}\n", "runs.jsonl:1: the line has more than"),
    "search": ("searches.jsonl", LISTS, "searches.jsonl:1: holds"),
    "jobs": ("jobs.jsonl", LISTS, "jobs.jsonl:1: holds"),
    "versions": ("versions.json", LISTS, "versions.json: has"),
    "table": ("report/results.csv", b"a,b\n" + b",\n" * (UNPACKED // 2), "report: its tables cannot be read"),
    "row": ("report/results.csv", b"a," * (UNPACKED // 2), "report: its tables cannot be read"),
    "runs table": ("report/runs.csv", b'"\n",' * (UNPACKED // 4), "report: its tables cannot be read"),
}
LOWERED = """
import labconsole.bundle.archive, labconsole.bundle.reproduction, labconsole.bundle.verify, labconsole.bundle.pack
import labconsole.store.importing, labconsole.store.series, labconsole.store.records
labconsole.store.importing.MAX_RECORD_BYTES = 2 << 20
labconsole.store.records.MAX_VALUES = 1 << 16
labconsole.store.series.MAX_SERIES_VALUES = 1 << 16
labconsole.bundle.verify.MAX_CELLS = 1 << 16
labconsole.bundle.verify.MAX_ROW_CHARACTERS = 1 << 18
labconsole.bundle.pack.report_formats = lambda: ("csv", "md", "tex")
"""
CHILD = """
import contextlib, io, json, resource, sys
from labconsole.cli.main import main

def run(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    return [status, out.getvalue() + err.getvalue()]

first, *rest = json.loads(sys.argv[1])
run(first)  # everything is imported now
with open("/proc/self/statm") as stream:
    bytes_now = int(stream.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (bytes_now + int(sys.argv[2]),) * 2)
print(json.dumps([run(words) for words in rest]))
"""


def run_bounded(commands: list[list[str]], may_grow_bytes: int) -> list[tuple[int, str]]:
    """Status and output of every command but the first, in one process that may grow by so much after the first."""
    done = subprocess.run(
        [sys.executable, "-c", LOWERED + CHILD, json.dumps(commands), str(may_grow_bytes)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [(status, text) for status, text in json.loads(done.stdout.splitlines()[-1])]


def test_files_that_cost_more_than_they_are_long_are_refused_in_bounded_memory(
    honest: dict[str, bytes], tmp_path: Path
) -> None:
    commands = [["verify", str(repack(tmp_path / "honest.tar.gz", honest, honest=True))]]
    expected: list[tuple[str, str]] = []
    for name, (member, content, words) in CHANGED.items():
        path = repack(tmp_path / f"{name}.tar.gz", {**honest, member: content}, honest=True)
        assert path.stat().st_size < 2 << 20
        commands.append(["verify", str(path)])
        expected.append((name, words))
        if member.endswith((".npz", ".jsonl")):
            commands.append(["runs", "import", str(path), "--store", str(tmp_path / f"{name}.sqlite")])
            expected.append((name, words))
    for name, write, words in (
        ("manifest", write_long_manifest, "manifest.json: holds"),
        ("header", write_long_header, "a header has more than"),
    ):
        write(tmp_path / f"{name}.tar.gz", honest)
        commands.append(["verify", str(tmp_path / f"{name}.tar.gz")])
        expected.append((name, words))
    said = run_bounded(commands, MAY_GROW_BYTES)
    for (name, words), (status, text) in zip(expected, said, strict=True):
        assert status in (1, 2), name
        assert words in text, name
        assert "MemoryError" not in text and "internal error" not in text, name


def write_long_manifest(path: Path, files: dict[str, bytes]) -> None:
    repack(path, {**files, "manifest.json": b'{"format":1,"files":{},"x":' + LISTS + b"}"}, honest=False)


def write_long_header(path: Path, files: dict[str, bytes]) -> None:
    """A tar archive one header of which has many words."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"labconsole-bundle/{name}")
            member.size = len(content)
            if name == "runs.jsonl":
                member.pax_headers = {f"k{number}": "" for number in range(UNPACKED // 16)}
            tar.addfile(member, io.BytesIO(content))
    path.write_bytes(gzip.compress(packed.getvalue()))


def test_a_header_about_all_files_of_an_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of many would be kept, and copied to every file that follows."""
    packed = io.BytesIO()
    with tarfile.open(
        fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, pax_headers={f"k{number}": "" for number in range(9)}
    ) as tar:
        for name, content in (("manifest.json", b'{"format":1,"files":{}}'), ("runs.jsonl", b"")):
            member = tarfile.TarInfo(f"labconsole-bundle/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    path = tmp_path / "b.tar.gz"
    path.write_bytes(gzip.compress(packed.getvalue()))
    assert main(["verify", str(path)]) == 2
    assert "b.tar.gz: has a header about all its files; a bundle has none" in capsys.readouterr().err


def test_the_bounds_hold_what_an_evening_measures() -> None:
    """All interface counters of 500 000 rows with their gaps; the manifest of as many files as are allowed; five thousand
    trials of a hundred guests.
    """
    from labconsole.bundle.archive import MAX_FILES, MAX_MANIFEST_BYTES
    from labconsole.bundle.verify import MAX_VALUES_TOGETHER
    from labconsole.engine.live.samples import MAX_SERIES_ROWS
    from labconsole.wire.codec import STAT_NAMES

    assert MAX_SERIES_ROWS * 2 * (len(STAT_NAMES) + 3) <= MAX_SERIES_VALUES
    name = "series/20261121T024501Z-0f4240.npz"
    entry = json.dumps({"files": {name: {"bytes": 123456, "sha256": "a" * 64}}}, indent=1)
    assert MAX_FILES * len(entry) <= MAX_MANIFEST_BYTES
    assert MAX_FILES * count_parts(entry) <= MAX_VALUES
    guests = job_data()
    of_a_guest = count_parts(json.dumps(guests["copies"][0]))
    around = 6000  # what is known of three nodes and a crew
    assert 5000 * (count_parts(json.dumps(guests)) + 98 * of_a_guest + around) <= MAX_VALUES_TOGETHER


# -- names that are words


@pytest.mark.parametrize("listed_as_redo", [False, True])
def test_a_manifest_opens_no_file_outside_its_archive(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], listed_as_redo: bool
) -> None:
    """Neither a file, nor one that would keep the reader waiting, nor one that is longer than any plan."""
    (tmp_path / "canary.yaml").write_text("plan: p\ncanary: [1\n")
    os.mkfifo(tmp_path / "fifo.yaml")
    with (tmp_path / "sparse.yaml").open("wb") as stream:
        stream.truncate(8 << 20)
    manifest = json.loads(honest["manifest.json"])
    for name in ("canary", "fifo", "sparse"):
        outside = f"plans/{'../' * 20}{str(tmp_path)[1:]}/{name}.yaml"
        manifest["files"][outside] = {"bytes": 1, "sha256": ""}
        manifest["plans"][outside] = name
        if listed_as_redo:
            manifest["redo"]["plans"][f"{name}.yaml"] = name
    path = repack(tmp_path / "b.tar.gz", {**honest, "manifest.json": json.dumps(manifest).encode()}, honest=False)
    assert main(["verify", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out.count(".yaml: is missing") == 3
    assert said.out.count("canary") == 1 and "not valid YAML" not in said.out + said.err, "its content was parsed"
    assert "cannot be read" not in said.out


@pytest.mark.parametrize("name", ["a" * 300 + ".yaml", "a\0.yaml", "\ud800.yaml", "../p.yaml", "a/p.yaml", "p.txt"])
def test_a_plan_is_shown_under_the_name_of_a_file_or_not_at_all(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    manifest = json.loads(honest["manifest.json"])
    manifest["redo"]["plans"] = {name: next(iter(manifest["plans"].values()))}
    path = repack(tmp_path / "b.tar.gz", {**honest, "manifest.json": json.dumps(manifest).encode()}, honest=False)
    assert main(["verify", str(path)]) in (0, 1)
    assert capsys.readouterr().err == ""


def test_a_bundles_commands_are_told_and_not_run(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv", "md", "tex"))
    ran = tmp_path / "ran"
    hooks = f"pre:\n  - {{run: [touch, {ran}]}}\npost:\n  - {{run: [sh, -c, 'echo a; echo TAIL']}}\n".encode()
    files = {**honest, "plans/small-plan.yaml": honest["plans/small-plan.yaml"] + hooks}
    path = repack(tmp_path / "b.tar.gz", files, honest=True)
    assert main(["verify", str(path)]) == 0
    said = capsys.readouterr().out
    assert (
        f"plans/small-plan.yaml: pre command, run on the operator's machine when the plan is run: touch {ran}" in said
    )
    assert "post command, run on the operator's machine when the plan is run: sh -c 'echo a; echo TAIL'" in said
    assert main(["verify", str(path), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[0] == {"plan": "plans/small-plan.yaml", "when": "pre", "command": f"touch {ran}"}
    assert told[-1]["commands"] == 2
    assert not ran.exists()


def test_a_directory_in_the_place_of_a_table_is_a_missing_table(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv", "md", "tex"))
    files = {**honest, "report/results.csv/x": b"", "report/results.md/x": b""}
    del files["report/results.csv"], files["report/results.md"]
    assert main(["verify", str(repack(tmp_path / "b.tar.gz", files, honest=True))]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    assert "report/results.csv: is missing" in said.out and "report/results.md: is missing" in said.out


def test_a_series_belongs_to_the_run_of_its_whole_name(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**honest, "series/20261121T024502Z-0.npz": honest[ONE]}
    del files[ONE]
    path = repack(tmp_path / "b.tar.gz", files, honest=True)
    assert main(["runs", "import", str(path), "--store", str(tmp_path / "own.sqlite")]) == 2
    assert "series/20261121T024502Z-0.npz: does not belong to any run" in capsys.readouterr().err


# -- records that a report holds all at once


def jobs(number: int) -> list[dict[str, object]]:
    return [job_data() | {"job_id": f"20261123T090905Z-{each:06x}"} for each in range(number)]


def test_the_records_of_all_kinds_together_are_bounded(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by itself is within its own bound; a report has all of them in memory."""
    lines = "".join(json.dumps(each) + "\n" for each in jobs(4)).encode()
    path = repack(tmp_path / "b.tar.gz", {**honest, "jobs.jsonl": lines}, honest=True)
    own = tmp_path / "own.sqlite"
    monkeypatch.setattr("labconsole.bundle.verify.MAX_VALUES_TOGETHER", count_parts(lines) - 1)
    words = "jobs.jsonl:4: the bundle's searches and trials of guests hold more than"
    assert main(["verify", str(path)]) == 1
    assert words in capsys.readouterr().out
    assert main(["runs", "import", str(path), "--store", str(own)]) == 2
    assert words in capsys.readouterr().err
    monkeypatch.setattr("labconsole.bundle.verify.MAX_VALUES_TOGETHER", count_parts(lines))
    assert main(["runs", "import", str(path), "--store", str(own)]) == 0
    assert "4 jobs imported" in capsys.readouterr().out


def test_a_bundle_has_no_record_of_another_kind_among_its_runs(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps({"job": jobs(1)[0]}).encode() + b"\n"
    path = repack(tmp_path / "b.tar.gz", {**honest, "runs.jsonl": honest["runs.jsonl"] + line}, honest=True)
    words = "runs.jsonl: contains a job; a bundle has it in jobs.jsonl"
    assert main(["verify", str(path)]) == 1
    assert words in capsys.readouterr().out
    assert main(["runs", "import", str(path), "--store", str(tmp_path / "own.sqlite")]) == 2
    assert words in capsys.readouterr().err


def test_exported_records_of_other_kinds_come_in_with_the_runs(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = b"".join(json.dumps({"job": each}).encode() + b"\n" for each in jobs(3))
    (tmp_path / "runs.jsonl").write_bytes(lines + honest["runs.jsonl"])
    own = str(tmp_path / "own.sqlite")
    for words in (
        "4 runs added, 0 already stored, 2 notes imported, 3 jobs imported",
        "0 runs added, 4 already stored",
    ):
        assert main(["runs", "import", str(tmp_path / "runs.jsonl"), "--store", own]) == 0
        assert capsys.readouterr().out.strip() == words


# -- what is told of it


def test_of_many_differences_the_first_are_told_and_all_are_counted() -> None:
    told: list[str] = []
    differences = Differences(told.append)
    for number in range(MAX_DIFFERENCES + 7):
        differences(f"{number}: " + "x" * 5000)
    differences.end()
    assert (differences.count, len(told), told[-1]) == (
        MAX_DIFFERENCES + 7,
        MAX_DIFFERENCES + 1,
        "7 more differences are not listed",
    )
    assert max(map(len, told)) <= 2000


def test_files_that_are_missing_are_told_in_bounded_number(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads(honest["manifest.json"])
    manifest["files"] |= {f"report/{number}.csv": {} for number in range(2000)}
    path = repack(tmp_path / "b.tar.gz", {**honest, "manifest.json": json.dumps(manifest).encode()}, honest=False)
    assert main(["verify", str(path)]) == 1
    assert capsys.readouterr().out.count("\n") < MAX_DIFFERENCES + 10


@pytest.mark.parametrize("content", ["a,b\n1\n", "a,b\n1,2,3\n", "a,b\n\n", ",".join(map(str, range(1001)))])
def test_a_table_is_as_wide_as_its_head_and_no_wider_than_a_report_makes_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ValueError, match=r"t\.csv"):
        list(read_rows(tmp_path / "t.csv"))


def test_a_platform_with_many_brackets_costs_no_name_for_each(honest: dict[str, bytes], tmp_path: Path) -> None:
    """Of 100 kB, of which a hundred thousand names would have 2 GB."""
    rows = list(csv.DictReader(io.StringIO(honest["report/results.csv"].decode())))
    rows[0]["platform"] = "raw" + " (" * 50_000
    changed = io.StringIO()
    table = csv.DictWriter(changed, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    first = repack(tmp_path / "honest.tar.gz", honest, honest=True)
    path = repack(tmp_path / "b.tar.gz", {**honest, "report/results.csv": changed.getvalue().encode()}, honest=True)
    ((status, text),) = run_bounded([["verify", str(first)], ["verify", str(path)]], MAY_GROW_BYTES)
    assert status == 1 and "report/results.csv: line 2" in text
    assert "internal error" not in text


def test_plans_on_the_occasions_of_all_runs_are_bounded(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each plan file has a hash on each occasion, and a bundle may have a thousand plan files."""
    runs = [json.loads(line) for line in honest["runs.jsonl"].decode().splitlines()]
    for number, run in enumerate(run for run in runs if run.get("plan")):
        run["plan"]["name"] = f"small@night-{number}"
    lines = "".join(json.dumps(run) + "\n" for run in runs).encode()
    path = repack(tmp_path / "b.tar.gz", {**honest, "runs.jsonl": lines}, honest=True)
    monkeypatch.setattr("labconsole.bundle.reproduction.MAX_PLAN_HASHES", 2)
    assert main(["verify", str(path)]) == 2
    assert "on all occasions that its records name, are more than 2" in capsys.readouterr().err
    monkeypatch.setattr("labconsole.bundle.reproduction.MAX_PLAN_HASHES", 1000)
    assert main(["verify", str(path)]) == 1
    assert "internal error" not in capsys.readouterr().err


POINTS = "plan: p\nplatforms: [a, b]\nframe_sizes: [64, 65, 66, 67, 68]\ntargets: [1Mbit, 2Mbit]\nduration_s: 1\n"
GUESTS = "plan: p\nplatforms: [lxc]\nset_ups: 3\njob: {jobs: [cpu-pi], guests: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}\n"


@pytest.mark.parametrize(("text", "occasions", "hashes"), [(POINTS, 1, 3), (POINTS, 4, 12), (GUESTS, 4, 11)])
def test_the_hash_of_a_plan_costs_more_the_more_points_it_has(
    tmp_path: Path, text: str, occasions: int, hashes: int
) -> None:
    """A plan of 1 KiB may have a million points, or trials of guests."""
    (path := tmp_path / "p.yaml").write_text(text)
    assert _count_hashes(load_plan(path), occasions) == hashes


def test_plan_files_of_the_same_meaning_are_checked_once(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There may be a thousand of them, and runs without number."""
    lines = honest["runs.jsonl"].replace(b'"point": 0', b'"point": 9')
    manifest = json.loads(honest["manifest.json"])
    ((name, key),) = manifest["plans"].items()
    manifest["plans"] |= {f"plans/again-{number}.yaml": key for number in range(3)}
    copies = dict.fromkeys(manifest["plans"], honest[name])
    files = {**honest, **copies, "runs.jsonl": lines, "manifest.json": json.dumps(manifest).encode()}
    assert main(["verify", str(repack(tmp_path / "b.tar.gz", files, honest=True))]) == 1
    assert capsys.readouterr().out.count("plan.point: is 9, and plans/") == 4, "of four runs"


@pytest.mark.parametrize(
    ("bound", "most", "words"),
    [
        ("archive.MAX_UNPACKED_BYTES", 10_000, "it decompresses to more than 10000 bytes"),
        ("reproduction.MAX_PLANS", 0, "manifest.json: names 1 plans; allowed: 0"),
    ],
)
def test_a_bundle_is_bounded_as_a_whole(
    honest: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    most: int,
    words: str,
) -> None:
    path = repack(tmp_path / "b.tar.gz", {**honest, "report/more.csv": bytes(1 << 16)}, honest=True)
    monkeypatch.setattr(f"labconsole.bundle.{bound}", most)
    assert main(["verify", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_the_plan_files_of_a_bundle_are_bounded_together(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = repack(tmp_path / "b.tar.gz", honest, honest=True)
    size = sum(len(content) for name, content in honest.items() if name.startswith("plans/"))
    monkeypatch.setattr("labconsole.bundle.reproduction.MAX_PLAN_BYTES", size)
    monkeypatch.setattr("labconsole.bundle.pack.report_formats", lambda: ("csv", "md", "tex"))
    assert main(["verify", str(path)]) == 0
    monkeypatch.setattr("labconsole.bundle.reproduction.MAX_PLAN_BYTES", size - 1)
    assert main(["verify", str(path)]) == 2
    assert f"manifest.json: its plans have {size} bytes together; allowed: {size - 1}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("redo", "words"),
    [
        ({"filter": ["size!=1 " * 50, "size!=1 " * 51]}, "a filter has 101 words; allowed: 100"),
        ({"filter": ["platform=" + "a," * 40_000]}, "a filter has 80009 characters; allowed: 65536"),
        ({"arguments": ["--plan=" + "x" * 93] * 700}, "the report's arguments have 70000 characters"),
    ],
)
def test_what_a_bundle_s_report_is_asked_for_is_as_short_as_a_command(
    honest: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], redo: dict[str, list[str]], words: str
) -> None:
    """Each word is tested on each run; a manifest of 40 MB would have five million."""
    manifest = json.loads(honest["manifest.json"])
    manifest["redo"] |= redo
    path = repack(tmp_path / "b.tar.gz", {**honest, "manifest.json": json.dumps(manifest).encode()}, honest=False)
    assert main(["verify", str(path)]) == 1
    assert f"report: cannot be reproduced: {words}" in capsys.readouterr().out.replace("FILTER: ", "")


def test_a_search_whose_numbers_stop_the_arithmetic_is_a_finding_and_the_rest_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = json.loads(next(iter(texts(GOLDEN_SETS / "format-2" / "runs.sqlite", "searches", "search_id").values())))
    search["goals"][0]["exceed_ratio"] = 1.0
    (tmp_path / "search.jsonl").write_text(json.dumps({"search": search}) + "\n")
    own = str(tmp_path / "own.sqlite")
    assert main(["runs", "import", str(tmp_path / "search.jsonl"), "--store", own]) == 0
    capsys.readouterr()
    assert main(["verify", "--store", own]) == 1
    said = capsys.readouterr()
    assert f"{search['search_id']}  record: its numbers cannot be computed with: " in said.out
    assert "internal error" not in said.err and "1 search" in said.out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"guests": 10**12}, "guests: "),
        ({"payload_bytes": 0}, "payload_bytes: "),
        ({"bin_s": 0}, "bin_s: "),
        ({"duration_s": 1e12}, "duration_s: "),
        ({"duration_s": 80_000.0, "bin_s": 1e-6}, "make more than 20000 bins"),
    ],
)
def test_a_record_asks_for_no_more_than_a_plan_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, float], words: str
) -> None:
    """Reports and verify count up to such numbers, or divide by them."""
    line = flow_record([[100, 100, 100]]).to_json()
    line["requested"] |= change
    (tmp_path / "flow.jsonl").write_text(json.dumps({"flow": line}) + "\n")
    assert main(["runs", "import", str(tmp_path / "flow.jsonl"), "--store", str(tmp_path / "own.sqlite")]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["flow", "route"])
@pytest.mark.parametrize(("change", "words"), [({"shared_to": 40_001}, "less than"), ({"shared_from": -1}, "greater")])
def test_no_record_names_a_bin_that_is_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, change: dict[str, int], words: str
) -> None:
    """A report has a value for each bin up to the last, and verify looks at each from the first on."""
    line = (flow_record([[100, 100, 100]]) if kind == "flow" else route_record()).to_json() | change
    (tmp_path / "one.jsonl").write_text(json.dumps({kind: line}) + "\n")
    assert main(["runs", "import", str(tmp_path / "one.jsonl"), "--store", str(tmp_path / "own.sqlite")]) == 2
    assert f"{next(iter(change))}: Input should be {words}" in capsys.readouterr().err


def test_bins_of_times_far_apart_have_no_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    record = flow_record([[100, 100, 100]])
    monkeypatch.setattr("labconsole.experiments.flow.rates.MAX_BINS", 2)
    assert bin_rates(record.flows, record.senders[0].guest, 10**12, 1000, 0.1)[3:] == [0.0]


@pytest.mark.parametrize("kind", ["job", "boot", "route"])
def test_no_record_is_of_more_guests_than_a_plan_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    record = {"job": lambda: job_record(job_data()), "boot": lambda: boot_record(boot_data()), "route": route_record}
    line = record[kind]().to_json()
    line["requested"]["guests"] = 251
    (tmp_path / "one.jsonl").write_text(json.dumps({kind: line}) + "\n")
    assert main(["runs", "import", str(tmp_path / "one.jsonl"), "--store", str(tmp_path / "own.sqlite")]) == 2
    assert "requested.guests: Input should be less than or equal to 250" in capsys.readouterr().err


@pytest.mark.parametrize("bound", ["MAX_PLATFORMS", "MAX_PLATFORM_VERSIONS"])
def test_a_report_compares_a_bounded_number_of_platforms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """Every two of them are compared, and imported records may name a platform each."""
    lines = jobs(3)
    for number, line in enumerate(lines):
        line["requested"] = {**line["requested"], "platform": f"p{number}"}  # type: ignore[dict-item]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps({"job": line}) + "\n" for line in lines))
    own = str(tmp_path / "own.sqlite")
    assert main(["runs", "import", str(tmp_path / "jobs.jsonl"), "--store", own]) == 0
    assert main(["report", "--store", own]) == 0
    capsys.readouterr()
    monkeypatch.setattr(f"labconsole.report.loading.{bound}", 2)
    assert main(["report", "--store", own]) == 2
    assert "the trials are of 3 platforms" in capsys.readouterr().err
    assert main(["report", "--store", own, "--platforms", "p0,p2"]) == 0


def test_values_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labconsole.store.records.MAX_VALUES", 100)
    assert parse_json("[" + "1," * 98 + "1]", "x") == [1] * 99
    for text in ("[" + "1," * 200 + "1]", b'{"a":' * 60 + b"1" + b"}" * 60, "[" + "[]," * 60 + "[]]"):
        with pytest.raises(StoreError, match=r"x: holds \d+ values; allowed: 100"):
            parse_json(text, "x")
    with pytest.raises(StoreError, match="x: has 12 bytes; allowed: 10"):
        parse_json('"0123456789"', "x", max_bytes=10)


def test_a_series_of_many_columns_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labconsole.store.series.MAX_COLUMNS", 3)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for number in range(4):
            file.writestr(f"a/{number}.npy", column_file(8))
    with pytest.raises(StoreError, match="more than 3 columns"):
        check_series(packed.getvalue(), "r", "x")


# -- one run does not stop every report


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: e.update(nodes=7), "nodes must be an object or null, not int"),
        (lambda e: e.update(nodes={"uut": [1]}), "nodes.uut must be an object or null, not list"),
        (lambda e: e.update(nodes={"uut": {"facts": 7}}), "nodes.uut.facts must be an object or null, not int"),
        (lambda e: e.update(nodes={"uut": {"settings": "x"}}), "nodes.uut.settings must be an object or null, not str"),
        (lambda e: e.update(platform="x"), "platform must be an object or null, not str"),
    ],
)
def test_a_run_whose_environment_is_of_another_shape_is_refused_on_import_and_stops_no_report(
    honest: dict[str, bytes],
    store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, object]], None],
    words: str,
) -> None:
    run = json.loads(honest["runs.jsonl"].splitlines()[0])
    change(run["environment"])
    (tmp_path / "runs.jsonl").write_text(json.dumps(run) + "\n")
    assert main(["runs", "import", str(tmp_path / "runs.jsonl"), "--store", str(tmp_path / "own.sqlite")]) == 2
    assert f"environment: {words}" in capsys.readouterr().err
    run.pop("note", None)
    other = altered(tmp_path / "other.sqlite", store)
    connection = sqlite3.connect(other)
    connection.execute("UPDATE runs SET record = ? WHERE run_id = ?", (json.dumps(run), run["run_id"]))
    connection.commit()
    connection.close()
    assert main(["report", "--store", str(other)]) in (0, 1)
    said = capsys.readouterr().err
    assert words in said or not said


def test_a_plan_that_grew_since_it_was_checked_is_not_read_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report takes the text of a plan beside what it means."""
    lab = make_lab(tmp_path)
    plan = lab / "plans" / "small plan.yaml"

    def load(path: Path) -> Plan:
        loaded = load_plan(path)
        path.write_bytes(path.read_bytes() + b"#" * (MAX_FILE_BYTES + 1))
        return loaded

    monkeypatch.setattr("labconsole.report.loading.load_plan", load)
    assert main(["report", "--plan", str(plan), "--store", str(lab / "runs.sqlite")]) == 2
    assert f"{plan}: is larger than {MAX_FILE_BYTES} bytes" in capsys.readouterr().err
