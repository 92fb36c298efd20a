"""Nothing that a node or somebody's export says reaches a terminal as anything but text, whichever command shows it."""

from __future__ import annotations

import html
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.cli.main import main
from labconsole.cli.steps import GuestTrialNarrator
from labconsole.contracts.ports import Series
from labconsole.engine.live.events import NodeChanged, NodeState, Notice
from labconsole.errors import LabError
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.annotations import RunNote
from labconsole.model.record.run import Failure, LedgerHop, PlanRef, Reason, RunRecord, Verdict
from labconsole.text.cells import safe
from labconsole.text.sanitize import sanitize
from labconsole.tui.screens import SCREENS
from labconsole.wire.clean import clean, clean_lines
from support.driven_console import console, picture, settle
from support.fake_lab_session import LabSession, result
from support.fake_session import link, make_record
from support.fuzzing import HOSTILE, LONG, harmful, places, put, tries
from support.store_samples import sample_record, sample_stream

WORDS = HOSTILE.replace("\ud800", "")  # a record with half a character is no JSON and is not taken at all
KEPT = {"run_id", "started_at", "finished_at", "status", "measured_from", "target_bps", "direction", "role"}


def hostile_record(number: int = 0) -> RunRecord:
    """A run all of whose words are an attacker's."""
    record = sample_record(
        number,
        plan=PlanRef(name="p", hash="0" * 16, point=0, repetition=1, seed=1),
        streams=(
            sample_stream().model_copy(
                update={
                    "ledger": (
                        LedgerHop(hop="h", node="n", interface="i", packets=3, lost_packets=None, drops={WORDS: 3}),
                    ),
                    "counters": {WORDS: 3},
                }
            ),
        ),
        failure=Failure(failure="f", operation="o", node="n", message="m"),
        verdict=Verdict(status=("valid", "suspect", "invalid")[number % 3], reasons=(Reason(code="c", detail="d"),)),
    )
    data = json.loads(json.dumps(record.to_json()))
    data["background"] = {"kind": "x", "guest": "y", "cpus": "z", "requested": {WORDS: 1}, "reference": {WORDS: WORDS}}
    for path in list(places(data)):
        value = data
        for key in path:
            value = value[key]
        if isinstance(value, str) and path[-1] not in KEPT:
            put(data, path, WORDS)
    return RunRecord.model_validate_json(json.dumps(data), strict=True)


@pytest.fixture
def imported(tmp_path: Path) -> list[str]:
    path = tmp_path / "theirs.jsonl"
    lines = [
        json.dumps(
            {
                **hostile_record(number).to_json(),
                "note": {"text": WORDS, "author": WORDS, "written_at": "2026-01-01T00:00:00Z"},
            }
        )
        for number in range(6)
    ]
    path.write_text("\n".join(lines))
    store = ["--store", str(tmp_path / "runs.sqlite")]
    assert main(["runs", "import", str(path), *store]) == 0
    return store


RUN_ID = hostile_record().run_id


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "list"],
        ["runs", "show", RUN_ID],
        ["runs", "note", RUN_ID],
        ["runs", "show", WORDS],
        ["verify"],
        ["runs", "list", "--json"],
        ["runs", "export"],
        ["report", "--json"],
        ["report", "--plan", WORDS],
        ["report", "--platforms", WORDS],
        ["report", "--testbed", WORDS],
        ["verify", "--json"],
    ],
    ids=lambda words: " ".join(words)[:25].encode("ascii", "replace").decode(),
)
def test_a_command_shows_foreign_words_as_words(
    imported: list[str], words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    out = ["--out", str(tmp_path / "report")] if words[0] == "report" and "--json" not in words else []
    main([*words, *imported, *out])
    said = capfd.readouterr()
    assert not harmful(said.out) and not harmful(said.err)
    assert "internal error" not in said.err
    if "--json" in words:
        assert all(isinstance(json.loads(line), dict) for line in said.out.splitlines())


def test_a_report_holds_foreign_words_as_words_and_names_no_file_after_them(
    imported: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report"
    assert main(["report", "--out", str(out), *imported]) in (0, 1)
    assert [path for path in tmp_path.rglob("*") if harmful(path.name) or "<" in path.name] == []
    assert {path.parent for path in out.rglob("*") if path.is_file()} <= {out, *out.rglob("*/")}
    for path in out.rglob("*"):
        if path.suffix in (".html", ".svg"):
            assert "<script>" not in path.read_text(encoding="utf-8").replace(html.escape("<script>"), "")


def test_a_file_with_a_hostile_name_is_named_harmlessly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / WORDS.replace("/", "")
    path.write_text("a: [")
    assert main(["analyze", str(path)]) == 2
    assert main(["replay", str(path), "--hosts", str(path)]) == 2
    said = capfd.readouterr()
    assert said.err and not harmful(said.out) and not harmful(said.err)


def test_what_goes_wrong_is_said_harmlessly_even_if_nobody_foresaw_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for error in (LabError(HOSTILE), RuntimeError(HOSTILE)):

        def fail(args: Any, error: Exception = error) -> int:
            print(HOSTILE)
            raise error

        for command in ("verify", "console"):
            monkeypatch.setattr(f"labconsole.cli.commands.{command}.run", fail)
        assert main(["verify"]) == 1
        assert main(["console"]) == 1 if isinstance(error, RuntimeError) else True
    said = capfd.readouterr()
    assert said.err and not harmful(said.err.replace("\r", "")) and not harmful(said.out.replace("\r", ""))


@tries(300)
@given(st.text(max_size=200))
def test_every_way_to_clean_text_leaves_nothing_to_obey(text: str) -> None:
    assert not harmful(sanitize(text)) and len(sanitize(text)) == len(text)
    assert not harmful(clean(text)) and "\n" not in clean(text)
    assert not harmful(clean_lines(text))
    assert not harmful(safe(text, 50)) and "\n" not in safe(text, 50)


def test_what_is_harmless_stays_as_it_is() -> None:
    text = "µs ≈ 1\u202f000\u2009pps\n\tÄ – „x“ ▁▂▃ 名\u0301"
    assert sanitize(text) == text
    stream = io.StringIO()
    stream.write(sanitize("a\rb"))
    assert stream.getvalue() == "a·b"


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)] if LONG else [(200, 60)])
async def test_no_screen_of_the_console_shows_foreign_words_as_anything_else(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / f"{WORDS.replace('/', '')}.yaml").write_text("plan: [")

    def session() -> LabSession:
        fake = LabSession()
        fake.results = [result("agent", "src1", "warn", HOSTILE, hint=HOSTILE), result("mtu", None, "fail", HOSTILE)]
        request = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**8, duration_s=1.0)
        for number in range(3):
            record = hostile_record(number)
            fake.store.records.append(record)
            fake.store.notes[record.run_id] = RunNote(WORDS, WORDS, "2026-01-01T00:00:00Z")
        fake.store.kept_series[hostile_record().run_id] = Series({WORDS: {WORDS: [1, 2, None], "t_ns": [1, 2, 3]}})
        fake.store.records.append(make_record(request, "20260101T000000Z-aaaaaa"))
        return fake

    async with console(session, size) as (app, fake, pilot):
        fake.telemetry.set_links("src1", [link(WORDS, 2)])
        fake.say(NodeChanged(node="snk1", state=NodeState.FAILED, message=HOSTILE))
        fake.say(Notice(severity="error", message=HOSTILE, node="uut"))
        as_written = set()
        for screen in SCREENS:
            await pilot.press(screen.function_key)
            await settle(app, pilot)
            for key in ("r", "down", "enter", "t") if screen.mode == "check" else ("down", "enter", "t"):
                await pilot.press(key)
                await settle(app, pilot)
                shown = picture(app)
                assert not harmful("\n".join(shown)), (screen.mode, key)
                if "[red]x[/]<script>" in "\n".join(shown):
                    as_written.add(screen.mode)
                assert len(app.screen_stack) < 10
            await pilot.press("escape", "escape")
        assert {"bench", "runs", "check", "log"} <= as_written


def test_what_a_node_says_adds_no_line_to_the_progress(capsys: pytest.CaptureFixture[str]) -> None:
    kind: Any = SimpleNamespace(name="boot", plural="boots", record=SimpleNamespace(record=int))
    plan: Any = SimpleNamespace(name="p")
    told = "no answer\nlabconsole: 5 of 5: valid"
    for what in ("broke", "again"):
        progress: Any = SimpleNamespace(plan=plan, number=1, total=2, record=None, broke="", again="")
        setattr(progress, what, told)
        GuestTrialNarrator(kind, as_json=False).narrate(progress)
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_node_adds_no_line_to_what_minus_v_prints() -> None:
    program = (
        "import logging; from labconsole.cli.main import _set_up_logging; _set_up_logging(1)\n"
        "logging.getLogger('labconsole.nodes').info('says %s', 'a\\nlabconsole: b')\n"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert printed == "  labconsole.nodes: says a labconsole: b\n"
