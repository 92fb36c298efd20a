"""The settings file: what is wrong in it is said with file, line and key; keys never mean two things."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.errors import ConfigError
from labconsole.tui.app import places
from labconsole.tui.console.settings import Settings, load_settings, settings_path
from labconsole.tui.keymap import check_settings


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "labconsole").mkdir()
    return tmp_path / "labconsole" / "settings.yaml"


def test_without_a_file_everything_is_at_its_default(path: Path) -> None:
    assert settings_path() == path
    assert load_settings() == Settings()
    check_settings(Settings(), places)


def test_a_relative_place_for_settings_is_passed_over_as_xdg_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert settings_path() == Path.home() / ".config" / "labconsole" / "settings.yaml"


@pytest.mark.parametrize(
    ("content", "line", "key"),
    [
        ("theme: nonsense\n", 1, "theme"),
        ("sort: rx\nframes_per_second: 100\n", 2, "frames_per_second"),
        ("\n\ncolour: red\n", 3, "colour"),
        ("sort: speed\n", 1, "sort"),
        ("keymap:\n  run: f9\n  jump: x\n", 3, "keymap.jump"),
        ("keymap:\n  run: f2\n", 2, "keymap.run"),
        ("keymap:\n  pause: r\n", 2, "keymap.pause"),
        ("keymap:\n  run: ctrl+m\n", 2, "keymap.run"),
        ("keymap:\n  run: alt+r\n", 2, "keymap.run"),
        ("keymap:\n  run: very odd\n", 2, "keymap.run"),
        ("keymap:\n  run: ''\n", 2, "keymap.run"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(path: Path, content: str, line: int, key: str) -> None:
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        check_settings(load_settings(), places)
    assert str(caught.value).startswith(f"{path}:{line}: {key}: ")


def test_two_keys_can_change_places(path: Path) -> None:
    path.write_text("keymap:\n  run: a\n  abort: r\n")
    check_settings(load_settings(), places)


def test_no_key_means_two_things_anywhere_by_default() -> None:
    check_settings(Settings(keymap={"run": "r"}), places)


def test_every_binding_of_every_screen_is_listed_with_its_name(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--keys", "--json"]) == 0
    listed = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    known = {action.id for actions in places().listed().values() for action in actions}
    assert {row["binding"] for row in listed} == known
    assert all(row["does"] and row["keys"] for row in listed)


def test_the_command_shows_where_the_file_is_and_what_it_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("theme: ansi-dark\n")
    assert main(["settings"]) == 0
    shown = capsys.readouterr().out
    assert str(path) in shown and 'theme: "ansi-dark"   (default: "labconsole-dark")' in shown
    path.write_text("theme: 3\n")
    assert main(["settings"]) == 2
    assert f"{path}:1: theme" in capsys.readouterr().err


def test_the_schema_is_there_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "settings"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["theme"]["description"]


def test_every_setting_is_in_the_document() -> None:
    document = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    for name in Settings.model_fields:
        assert f"`{name}`" in document, name


def test_an_unchanged_binding_keeps_its_keys() -> None:
    for actions in places().listed().values():
        for action in actions:
            assert action.keys_now({}) == action.keys.split(",")


def test_keys_are_listed_as_they_are_on_the_keyboard_and_as_a_keymap_can_have_them(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["settings", "--keys"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert not [row for row in rows if "_" in row[1]]
    keys = {row[0]: row[1].rstrip(",") for row in rows}
    assert keys["help"] == "?" and keys["runs-compare"] == "c"
    path.write_text("keymap:\n  runs-filter: '='\n  runs-compare: '/'\n")
    check_settings(load_settings(), places)
