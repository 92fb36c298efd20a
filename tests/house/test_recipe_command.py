"""A command and an export format are one new file each: nothing else is told of them.

The files lie in a directory of their own, which is put on the path of the package that they would lie in.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from labconsole.cli import commands
from labconsole.cli.main import main
from labconsole.store import exporters
from labconsole.store.open import open_store
from support.store_samples import sample_record

COMMAND = '''
"""``labconsole toy``: says something."""

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import answer
from labconsole.errors import ConfigError

about = About(25, "say something", description="Say it once.")


def add_arguments(parser):
    add_common(parser, "--json")
    parser.add_argument("word", help="what to say")


def run(args):
    if not args.word:
        raise ConfigError("is empty", key="word")
    answer({"word": args.word}, [f"toy: {args.word}"], as_json=args.json)
    return 1
'''

FORMAT = '''
"""Run ids, one a line."""

BINARY = False


def parts(runs):
    for row in runs.rows():
        yield f"{row.run_id}\\n"
'''


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command ``toy`` and a format ``toy``."""
    for package, text in ((commands, COMMAND), (exporters, FORMAT)):
        place = tmp_path / package.__name__
        place.mkdir()
        (place / "toy.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(place)])
        monkeypatch.setattr(package, "toy", None, raising=False)  # and away with what an import puts there
        monkeypatch.setitem(sys.modules, f"{package.__name__}.toy", None)
        monkeypatch.delitem(sys.modules, f"{package.__name__}.toy")


def helped(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The help of these words."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("toys")
def test_a_file_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    listed = helped([], capsys)
    places = [listed.index(words) for words in ("demo start a local lab", "toy say something", "lab create and manage")]
    assert places == sorted(places)
    assert "Say it once. positional arguments: word what to say" in helped(["toy"], capsys)
    assert main(["toy", "hello"]) == 1
    assert capsys.readouterr().out == "toy: hello\n"
    assert main(["toy", "hello", "--json"]) == 1
    assert capsys.readouterr().out == '{"word": "hello"}\n'
    assert main(["toy", ""]) == 2
    assert capsys.readouterr().err == "labconsole: word: is empty\n"


@pytest.mark.usefixtures("toys")
def test_a_file_is_a_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "runs.sqlite")]
    with open_store(store[1]) as opened:
        for number in range(2):
            opened.save(sample_record(number))
    wanted = "".join(f"{sample_record(number).run_id}\n" for number in range(2))
    assert re.search(r"\{jsonl,[a-z,]*\btoy\b", helped(["runs"], capsys))
    assert main(["runs", "export", "--format", "toy", *store]) == 0
    assert capsys.readouterr().out == wanted
    assert main(["runs", "export", "--out", str(tmp_path / "runs.toy"), *store]) == 0
    assert (tmp_path / "runs.toy").read_text() == wanted
