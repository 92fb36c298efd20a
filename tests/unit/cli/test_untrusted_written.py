"""What a command writes of somebody else's runs is read as words by whoever opens the file, whatever its format."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labconsole.api.metrics import StoreMetrics, exposition
from labconsole.api.stored import open_store as open_for_reading
from labconsole.cli.commands.calibrate import _progress
from labconsole.cli.commands.replay.execution import notify
from labconsole.cli.main import main
from labconsole.cli.output import print_lines
from labconsole.cli.text.replay import ReplayScreen
from labconsole.engine.calibration import CalibrationProgress
from labconsole.engine.execution.hooks import Hooks
from labconsole.engine.execution.progress import Progress
from labconsole.errors import ConfigError, LabError
from labconsole.model.plan.execution_options import HookCommand
from labconsole.model.plan.writer import plan_from_requests
from labconsole.report.files import FORMATS
from labconsole.store import exporters
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from labconsole.store.records import parse_record
from labconsole.text.sanitize import sanitized_output
from support.fake_session import make_inventory
from support.foreign_words import PIECES, check_spreadsheet, html_elements, markdown_tokens
from support.fuzzing import harmful, places, put
from support.report_runs import evaluation
from support.search_script import searching

NAMED = {
    "testbed",
    "operator",
    "platform",
    "detail",
    "os",
    "kernel",
    "cpu_model",
    "hostname",
    "generator_version",
    "interface",
    "hypervisor",
    "uut_kernel",
    "driver",
    "code",
}
"""Keys of a record whose words are free."""

ATTACKS = ["".join(PIECES[first::2]).replace("\ud800", "") for first in range(2)]
"""Half a character is refused on import."""


def runs_named(words: str) -> list[dict[str, Any]]:
    """An evaluation in whose names these words are, at their beginning."""
    made = list(evaluation(3, platforms=("raw", "lxc"), sizes=(1000,), targets=(100_000_000, "max")))
    for number, run in enumerate(made):
        for path in list(places(run)):
            value: Any = run
            for key in path:
                value = value[key]
            if path[-1] in NAMED and isinstance(value, str):
                put(run, path, words + value)
        if words:
            run["note"] = {"text": words, "author": words, "written_at": "2026-01-01T00:00:00Z"}
        if number % 10 == 9:
            run["verdict"] = {
                "status": "invalid",
                "reasons": [{"code": f"{words}c", "detail": words, "evidence": None, "follows": None}],
            }
    return made


def store_of(words: str, directory: Path) -> list[str]:
    """Import them; returns the options by which a command reads them."""
    path = directory / "runs.sqlite"
    with open_store(str(path)) as store:
        import_records(store, runs_named(words))
    return ["--store", str(path)]


@pytest.fixture(scope="module")
def plain_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("plain")
    assert (
        main(["report", "--out", str(directory / "report"), "--formats", ",".join(CHECKS), *store_of("", directory)])
        == 0
    )
    return directory / "report"


@pytest.fixture(scope="module", params=range(len(ATTACKS)))
def hostile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return store_of(ATTACKS[request.param], tmp_path_factory.mktemp("hostile"))


def _svg(text: str, plain: str) -> None:
    assert not harmful(text)
    tags, known = ({each.tag for each in ET.fromstring(each.encode()).iter()} for each in (text, plain))
    assert tags <= known


def _html(text: str, plain: str) -> None:
    assert html_elements(text) <= html_elements(plain)


def _markdown(text: str, plain: str) -> None:
    del plain
    kinds = {token.type.removesuffix("_open").removesuffix("_close") for token in markdown_tokens(text)}
    assert kinds <= {
        "paragraph",
        "inline",
        "text",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code_inline",
    }


def _csv(text: str, plain: str) -> None:
    check_spreadsheet(text, len(plain.splitlines()[0].split(",")))


def _latex(text: str, plain: str) -> None:
    assert not harmful(text) and r"\input" not in text
    assert text.count(r"\begin") == plain.count(r"\begin")


CHECKS: dict[str, Callable[[str, str], None]] = {
    "svg": _svg,
    "html": _html,
    "md": _markdown,
    "csv": _csv,
    "tex": _latex,
}
DRAWN_AS_DOTS = {"pdf", "png"}
"""Their words are those of the SVG: one function makes them plain for all three."""


@pytest.mark.filterwarnings("ignore:Glyph")
def test_no_file_of_a_report_has_more_than_words_of_others(
    hostile: list[str], plain_report: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert {*CHECKS, *DRAWN_AS_DOTS} == set(FORMATS), "a new format needs a check here"
    assert main(["report", "--out", str(tmp_path / "report"), "--formats", ",".join(CHECKS), *hostile]) == 0
    said = capfd.readouterr()
    assert not harmful(said.out + said.err) and "internal error" not in said.err
    written = sorted(path for path in (tmp_path / "report").iterdir())
    assert {path.suffix[1:] for path in written} == set(CHECKS)
    for path in written:
        CHECKS[path.suffix[1:]](
            path.read_text(encoding="utf-8"), (plain_report / path.name).read_text(encoding="utf-8")
        )


def _exported_csv(path: Path) -> None:
    check_spreadsheet(path.read_text(encoding="utf-8"))


def _exported_parquet(path: Path) -> None:
    from pyarrow import parquet

    table = parquet.read_table(path)
    assert not harmful(json.dumps(table.to_pylist(), default=str, ensure_ascii=False))


def _exported_lines(path: Path) -> None:
    assert path.read_bytes().isascii() and not harmful(path.read_text())


EXPORTED: dict[str, Callable[[Path], None]] = {
    "csv": _exported_csv,
    "parquet": _exported_parquet,
    "jsonl": _exported_lines,
    "hlog": _exported_lines,
}


def test_no_exported_file_has_more_than_words_of_others(hostile: list[str], tmp_path: Path) -> None:
    assert set(EXPORTED) == set(exporters.names()), "a new format needs a check here"
    for name, check in EXPORTED.items():
        path = tmp_path / f"runs.{name}"
        assert main(["runs", "export", "--out", str(path), *hostile]) == 0
        check(path)


def test_metrics_and_representations_are_words(hostile: list[str]) -> None:
    with open_store(hostile[1], write=False) as store:
        text = exposition(StoreMetrics(store))
    assert "labconsole_forwarding_bps" in text and not harmful(text)
    with open_for_reading(hostile[1]) as opened:
        assert not harmful(repr(opened))


@pytest.mark.parametrize("out", ["--markdown", "--json", ""])
def test_a_comparison_and_a_trend_are_words(hostile: list[str], out: str, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    options = [*([out] if out else []), *hostile]
    assert main(["compare", "target=max sources=1", "target=max sources=2", *options]) == 0
    compared = capfd.readouterr()
    if out == "--markdown":
        markdown_tokens(compared.out)
    main(["trend", "made-up", *options])
    said = capfd.readouterr()
    for text in (compared.out, compared.err, said.out, said.err):
        assert "internal error" not in text and not harmful(text)


def test_a_traceback_is_words(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for error, status in ((LabError(ATTACKS[0]), 1), (RuntimeError(ATTACKS[0]), 1)):

        def fail(args: Any, error: Exception = error) -> int:
            raise error

        for command in ("verify", "calibrate"):
            monkeypatch.setattr(f"labconsole.cli.commands.{command}.run", fail)
            words = [command, "-vv", *(["x"] if command == "verify" else [])]
            assert main(words) == status
            said = capfd.readouterr().err
            assert "Traceback" in said and type(error).__name__ in said and not harmful(said)


FORGED = "FORGED every derived number follows"


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return store_of(f"\n{FORGED}\n", tmp_path_factory.mktemp("forged"))


FIRST = str(runs_named("")[0]["run_id"])
SHOWN = [
    ["runs", "list"],
    ["runs", "show", FIRST],
    ["runs", "note", FIRST],
    ["report"],
    ["verify"],
    ["trend", "made-up"],
    ["trend", "made-up", "--markdown"],
    ["compare", "target=max sources=1", "target=max sources=2"],
    ["compare", "target=max sources=1", "target=max sources=2", "--markdown"],
]


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_nobodys_words_are_a_line_of_their_own(
    forged: list[str], words: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the verdict of ``verify``, or another row of a table. A terminal of any width breaks long lines."""
    monkeypatch.setenv("COLUMNS", "10000")
    capfd.readouterr()
    main([*words, *forged])
    said = capfd.readouterr()
    assert not [line for line in (said.out + said.err).splitlines() if line.startswith(FORGED)]


def test_a_sentence_on_stderr_is_one_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def fail(args: Any) -> int:
        raise LabError(f"x\n{FORGED}")

    monkeypatch.setattr("labconsole.cli.commands.verify.run", fail)
    assert main(["verify"]) == 1
    assert capfd.readouterr().err == f"labconsole: x {FORGED}\n"


def test_a_command_of_a_plan_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    print_lines(f"plans/a.yaml: pre command: sh -c 'true\n{FORGED}'", "next")
    assert capfd.readouterr().out.splitlines() == [f"plans/a.yaml: pre command: sh -c 'true {FORGED}'", "next"]


def test_log_lines_are_words(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def tell(args: Any) -> int:
        logging.getLogger("labconsole.nodes").info("%s", ATTACKS[0])
        return 0

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr("labconsole.cli.commands.verify.run", tell)
    assert main(["verify", "-v"]) == 0
    said = capfd.readouterr().err
    assert "labconsole.nodes" in said and "<img" in said and not harmful(said)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_drawn_over_a_line_is_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress of a calibration and of a replay, which write to the terminal itself."""
    told = _Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    plan = searching(grid=True)
    with sanitized_output():
        _progress(argparse.Namespace(verbose=0))(
            CalibrationProgress(trial=1, expected=2, elapsed_s=0.0, left_s=1.0, doing=ATTACKS[0])
        )
        calibrating = told.getvalue()
        record = {key: value for key, value in runs_named(ATTACKS[0])[0].items() if key != "note"}
        progress = Progress(
            plan=plan,
            done=0,
            skipped=0,
            left_out=0,
            total=1,
            point=plan.points[0],
            repetition=1,
            left_s=None,
            last=None,
        )
        screen = ReplayScreen([plan], as_json=False)
        screen.update(replace(progress, broke=ATTACKS[0]))
        screen.update(replace(progress, last=parse_record(record, "x")))
        screen.leave_grid(plan)
    replaying = _SEQUENCES.sub("", told.getvalue()[len(calibrating) :])
    assert calibrating.startswith("\r\x1b[K") and not harmful(calibrating.removeprefix("\r\x1b[K"))
    assert "the set-up was interrupted" in replaying and not harmful(replaying.replace("\r", ""))


_SEQUENCES = re.compile(r"\x1b\[(?:[\d;]*[mAK]|\?25[lh]|2K)")
"""Of rich's progress bar: colours, where it stands, and whether the cursor is seen."""


def test_the_commands_of_a_plan_are_told_names_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    async def run(command: HookCommand, environment: Mapping[str, str], key: str) -> None:
        told.extend(environment.values())

    monkeypatch.setattr("labconsole.engine.execution.hooks.run_command", run)
    command = (HookCommand(run=("true",)),)
    plan = searching(pre=command, post=command)
    hooks = Hooks(plan, "lab")

    async def both() -> None:
        await hooks.before(3)
        await hooks.after("finished")

    asyncio.run(both())
    assert plan.name in told and "lab" in told and "finished" in told
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]*", value) for value in told)
    with pytest.raises(ConfigError):
        plan_from_requests("x\n", [(plan.points[0].request, 1)], make_inventory())


def test_a_notified_program_gets_one_line_of_ascii(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    notify(["sh", "-c", 'cat > "$0"', str(kept)], {"reason": ATTACKS[0]})
    assert kept.read_bytes().isascii() and kept.read_text().count("\n") == 1
    assert json.loads(kept.read_text()) == {"reason": ATTACKS[0]} and not harmful(kept.read_text())
