"""What a client outside is told, and what its answer is read as."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.errors import MeasurementError
from labconsole.experiments.job.http_requests import NOTHING, HttpRequests, build_answer, parse_responses, request_line
from labconsole.model.jobs import JOBS
from labconsole.wire.execution import Executed
from support.requirements import require

NS = "17000000000000000"


def said(line: str) -> str:
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout


def test_a_request_says_when_it_began_and_ended_and_how_much_came(tmp_path: Path):
    require("curl")
    (tmp_path / "file").write_bytes(bytes(3_000_000))
    (got,) = parse_responses(said(request_line(f"file://{tmp_path}/file", 10)))
    assert got.ended_ns > got.begun_ns > 1_700_000_000_000_000_000
    assert (got.status, got.got_bytes, got.said) == (0, 3_000_000, "")
    (nothing,) = parse_responses(said(request_line(NOTHING, 10)))
    assert (nothing.status, nothing.got_bytes) == (0, 0)


def test_one_that_fails_says_why():
    require("curl")
    (got,) = parse_responses(said(request_line("http://127.0.0.1:1/file", 10)))
    answer = build_answer(got, 1)
    assert answer.exit_status == 7
    assert re.match(r"HTTP status 000, 0 of 1048576 byte: curl: \(7\) ", answer.output)


@pytest.mark.parametrize(
    ("http", "count", "status", "found"),
    [
        (200, 2**21, 0, 0),
        (200, 2**21 - 1, 0, 1),
        (200, 2**21 + 1, 0, 1),
        (404, 2**21, 0, 1),
        (200, 2**21, 18, 18),
    ],
)
def test_only_the_whole_file_is_a_job_that_was_done(http: int, count: int, status: int, found: int):
    (got,) = parse_responses(f"LCGET {NS}01 {NS}02  GOT {http} {count} | ST {status}|")
    assert build_answer(got, 2).exit_status == found


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "LCGET",
        f"LCGET {NS}01 {NS}02  GOT 200 5 |",
        f"LCGET %N {NS}02  GOT 200 5 | ST 0|",
        f"LCGET {NS}01 {NS}02  GOT 200 {10**20} | ST 0|",
        "x" * 70_000,
    ],
)
def test_what_is_not_whole_is_no_answer(printed: str):
    assert parse_responses(printed) == []
    assert build_answer(None, 1).exit_status is None


@pytest.mark.asyncio
async def test_a_client_that_is_not_there_is_named():
    async def ask(request: Any, **_: Any) -> Executed:
        return Executed(exit_status=127, stdout="", stderr="", truncated=False)

    crew: Any = SimpleNamespace(timekeeper=SimpleNamespace(name="snk1", ask=ask))
    wanted = JOBS["serve-http"].requests
    assert wanted is not None
    disks: Any = object()
    with pytest.raises(MeasurementError, match="curl, which makes the requests, is not installed at snk1"):
        await HttpRequests(wanted, 1, 5, crew, disks, []).take({"g1": 1}, {"g1": "198.18.64.1"}, "marks")


def test_guests_without_disks_serve_nothing():
    wanted = JOBS["serve-http"].requests
    assert wanted is not None
    crew: Any = None
    with pytest.raises(MeasurementError, match="have no disks"):
        HttpRequests(wanted, 1, 5, crew, None, [])
