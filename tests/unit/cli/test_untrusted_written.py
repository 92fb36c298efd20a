"""What a command writes of somebody else's runs is read as words by whoever opens the file, whatever its format."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labconsole.api.metrics import StoreMetrics
from labconsole.api.metrics_server import exposition
from labconsole.api.stored import open_store as open_for_reading
from labconsole.cli.main import main
from labconsole.errors import LabError
from labconsole.report.files import FORMATS
from labconsole.store import exporters
from labconsole.store.exchange.importing import import_records
from labconsole.store.open import open_store
from support.foreign_words import PIECES, check_spreadsheet, html_elements, markdown_tokens
from support.fuzzing import harmful, places, put
from support.report_runs import evaluation

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
