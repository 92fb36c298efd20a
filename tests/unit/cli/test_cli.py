"""The command line itself: what --help promises, what a schema accepts, how fast the parser is to load."""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.cli.main import build_parser, main
from labconsole.store.open import open_store
from support.store_samples import sample_record

ROOT = Path(__file__).parents[3]


def commands() -> set[str]:
    """The commands that the parser knows."""
    (actions,) = [a for a in build_parser()._actions if a.dest == "command"]
    return set(actions.choices or ())


def parsers(
    parser: argparse.ArgumentParser | None = None, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command's parser by its words: ``run``, ``lab up``."""
    parser = parser or build_parser()
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from parsers(inner, f"{name} {word}".strip())


def test_every_option_has_a_help():
    silent = [
        f"{name} {action.option_strings or action.dest}"
        for name, parser in parsers()
        for action in parser._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert silent == []


def test_the_docs_name_only_options_that_their_command_has():
    known = {name: {word for action in parser._actions for word in action.option_strings} for name, parser in parsers()}
    wrong = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for line in re.findall(
            r"^(?:    |\$ )labconsole ([^#\n]*)|`labconsole ([^`]*)`", path.read_text(), re.MULTILINE
        ):
            words = "".join(line).split("   ")[0].replace("[", " ").replace("]", " ").split()
            command = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0] if words else ""
            if command not in known:
                continue
            wrong += [
                f"{path.name}: {command} {word}" for word in words if word[:2] == "--" and word not in known[command]
            ]
    assert wrong == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--platform", "raw"], "--platform: needs --observer-effect"),
        (["--duration", "1"], "--duration: needs --observer-effect"),
        (["--observer-effect", "--brief"], "--brief: cannot be combined with --observer-effect"),
    ],
)
def test_an_option_of_check_that_would_do_nothing_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["check", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_readme_the_docs_and_the_inventory_name_only_commands_that_exist():
    known = commands()
    docs = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.md"))]
    for name in ("README.md", "hosts.yaml", "plans/sanity.yaml", *docs):
        text = (ROOT / name).read_text()
        named = re.findall(r"`labconsole ([a-z]+)", text) + re.findall(r"^ {4}labconsole ([a-z]+)", text, re.MULTILINE)
        assert set(named) <= known, name


def test_the_change_log_has_a_line_for_every_command():
    text = (ROOT / "CHANGELOG.md").read_text()
    for command in commands() - {"console"}:
        assert f"labconsole {command}" in text


@pytest.mark.parametrize("name", ["hosts", "plan"])
def test_a_schema_is_printed_and_describes_text_as_text(name: str, capsys: pytest.CaptureFixture[str]):
    assert main(["schema", name]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["additionalProperties"] is False
    if name == "hosts":
        stream = schema["$defs"]["Stream"]["properties"]
        assert stream["source"]["type"] == "string"
        assert {"type": "string"} in stream["link_speed"]["anyOf"]


def test_help_loads_none_of_the_heavy_libraries():
    code = (
        "import sys\nfrom labconsole.cli.main import build_parser\nbuild_parser().format_help()\n"
        "heavy = {'asyncio', 'asyncssh', 'numpy', 'pandas', 'pydantic', 'pyroute2', 'sqlalchemy', 'textual'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_first_picture_of_the_console_waits_for_neither_database_nor_ssh(tmp_path: Path):
    code = (
        "import sys\nfrom pathlib import Path\n"
        "import labconsole.tui.app, labconsole.tui.screens.bench.screen\n"
        "from labconsole.api.testbed import open_session\n"
        "from labconsole.model.inventory import load_inventory\n"
        "from labconsole.store.open import LazyStore\n"
        f"open_session(load_inventory(Path({str(ROOT / 'hosts.yaml')!r})), LazyStore({str(tmp_path / 'runs.sqlite')!r}))\n"
        "heavy = {'asyncssh', 'numpy', 'pandas', 'plotext', 'pyroute2', 'sqlalchemy', 'sqlite3'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_command_that_is_named_is_loaded_without_the_others():
    code = (
        "import sys\nfrom labconsole.cli.main import build_parser\nbuild_parser('verify').parse_args(['verify'])\n"
        "print([name for name in sys.modules if name.startswith('labconsole.cli.commands.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['labconsole.cli.commands.verify']"


def test_an_internal_error_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken(args: object) -> int:
        raise RuntimeError("the cat")

    monkeypatch.setattr("labconsole.cli.commands.runs.run", broken)
    assert main(["runs"]) == 1
    told = capsys.readouterr().err
    assert "internal error: RuntimeError: the cat" in told
    assert "Traceback" not in told


def test_runs_move_between_stores_without_doubles(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with open_store(str(tmp_path / "one.sqlite")) as store:
        for number in range(3):
            store.save(sample_record(number), None)
    assert main(["runs", "export", "--store", str(tmp_path / "one.sqlite")]) == 0
    exported = tmp_path / "runs.jsonl"
    exported.write_text(capsys.readouterr().out)
    for expected in (
        {"added": 3, "present": 0, "notes": 0, "boots": 0, "flows": 0, "jobs": 0, "routes": 0, "searches": 0},
        {"added": 0, "present": 3, "notes": 0, "boots": 0, "flows": 0, "jobs": 0, "routes": 0, "searches": 0},
    ):
        assert main(["runs", "import", str(exported), "--store", str(tmp_path / "two.sqlite"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == expected
    assert main(["runs", "export", "--store", str(tmp_path / "two.sqlite")]) == 0
    assert capsys.readouterr().out == exported.read_text()


def test_a_damaged_record_does_not_hide_the_others_from_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "runs.sqlite"
    with open_store(str(path)) as store:
        store.save(sample_record())
        store.save(sample_record().model_copy(update={"run_id": "20261121T024501Z-ffffff"}))
    damaged = sqlite3.connect(path)
    damaged.execute("UPDATE runs SET record = '{' WHERE run_id = '20261121T024501Z-ffffff'")
    damaged.commit()
    damaged.close()
    assert main(["runs", "--json", "--store", str(path)]) == 0
    said = capsys.readouterr()
    assert [json.loads(line)["run_id"] for line in said.out.splitlines()] == [sample_record().run_id]
    assert "left out" in said.err


def test_a_note_is_written_shown_listed_exported_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    one = ["--store", str(tmp_path / "one.sqlite")]
    with open_store(one[1]) as store:
        store.save(sample_record(), None)
    run_id = sample_record().run_id
    assert main(["runs", "note", run_id, "fan was loud \x1b[31m", *one]) == 0
    capsys.readouterr()
    for words in (["note", run_id], ["show", run_id], ["list"]):
        assert main(["runs", *words, *one]) == 0
        told = capsys.readouterr().out
        assert "fan was loud" in told
        assert "\x1b" not in told
    assert main(["runs", "export", *one]) == 0
    exported = tmp_path / "runs.jsonl"
    exported.write_text(capsys.readouterr().out)
    two = ["--store", str(tmp_path / "two.sqlite")]
    assert main(["runs", "import", str(exported), *two]) == 0
    assert "1 note imported" in capsys.readouterr().out
    assert main(["runs", "note", run_id, "", *two]) == 0
    assert "no note" in capsys.readouterr().out
    assert main(["runs", "import", str(exported), "--json", *two]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "added": 0,
        "present": 1,
        "notes": 0,
        "boots": 0,
        "flows": 0,
        "jobs": 0,
        "routes": 0,
        "searches": 0,
    }
    with open_store(two[1], write=False) as store:
        assert store.note(run_id) is None


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["import"],
        ["import", "none.jsonl"],
        ["show", "none"],
        ["note"],
        ["note", "none", "x"],
        ["list", "a", "b"],
    ],
)
def test_what_runs_cannot_do_is_one_sentence(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with open_store(str(tmp_path / "s.sqlite")):
        pass
    assert main(["runs", *words, "--store", str(tmp_path / "s.sqlite")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("labconsole: ")
    assert told.count("\n") == 1
